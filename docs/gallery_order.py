"""The order of the examples in the gallery."""


class Order:
    """What a reader meets first comes first; the others follow by name."""

    first = (
        "plot_quilt.py",
        "plot_patterns.py",
        "plot_contributions.py",
        "plot_next_view.py",
    )

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        """Return what the examples are sorted by."""
        place = self.first.index(name) if name in self.first else len(self.first)
        return place, name
