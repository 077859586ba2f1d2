"""
Which completer is nearest to the truth?
========================================

The more is absent, the more it matters how it is filled in. Nearest neighbours are the baseline of
the literature, the mean is what one gets without thinking.
"""

import matplotlib.pyplot as plt

import kernelquilt as kq

# %%
# Errors of the absent rows, with the same masks for all completers.
X, y = kq.datasets.load_example("digits")
truth = kq.ViewKernels("median_gaussian").fit_transform(X[:80])
completers = {
    "mean": kq.completion.MeanFill(),
    "nearest neighbours": kq.completion.KNNFill(),
    "transfer": kq.TransferFill(),
    "Wishart": kq.WishartCompletion(random_state=0),
}
ratios = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
errors = {name: [] for name in completers}
for ratio in ratios:
    stack = kq.datasets.make_absent(truth, ratio, random_state=1)
    for name, completer in completers.items():
        completed = completer.fit_transform(stack)
        errors[name].append(kq.metrics.average_relative_error(truth, completed, stack.observed))

# %%
# All views are made of the same images, so that each tells much about the others.
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.5, 3.5), layout="constrained")
for name, values in errors.items():
    ax.plot(ratios, values, "o-", label=name)
    print(f"{name}: {values[0]:.0f} % to {values[-1]:.0f} %")
ax.set(xlabel="share of absent kernels", ylabel="relative error (%)", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
