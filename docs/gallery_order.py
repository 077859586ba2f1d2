"""The order of the examples in the gallery."""


class Order:
    """What a reader meets first comes first; what is not listed follows by name."""

    first = (
        "plot_quilt.py",
        "plot_three_files.py",
        "plot_patterns.py",
        "plot_contributions.py",
        "plot_next_view.py",
        "plot_view_weights.py",
        "plot_learning_curve.py",
        "plot_leave_one_site_out.py",
        "plot_towns.py",
        "plot_survival.py",
        "plot_sparse_text.py",
        "plot_mudata.py",
        "plot_many_samples.py",
        "plot_dask.py",
        "plot_own_kernels.py",
        "plot_kernel_completion.py",
        "plot_completers.py",
        "plot_certificate.py",
        "plot_label_noise.py",
    )

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        """Return what the examples are sorted by."""
        place = self.first.index(name) if name in self.first else len(self.first)
        return place, name
