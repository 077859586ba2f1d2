"""
A kernel with holes, completed
==============================

Five views of handwritten digits give five kernels, each of which lacks rows and columns.
``WishartCompletion`` explains every kernel by the others and fills in what is absent.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelquilt as kq

# %%
# Nothing is absent by nature here, so that the result can be compared with the truth.
X, y = kq.datasets.load_example("digits")
chosen = np.flatnonzero(y < 5)[:120]
chosen = chosen[np.argsort(y[chosen], kind="stable")]
truth = kq.ViewKernels("median_gaussian").fit_transform(X[chosen])
stack = kq.datasets.make_absent(truth, 0.4, random_state=0)
completed = kq.WishartCompletion(random_state=0).fit_transform(stack)
error = kq.metrics.average_relative_error(truth, completed, stack.observed)
print(f"relative error of the absent rows: {error:.1f} %")

# %%
# Whatever was observed is kept bit by bit, and every completed kernel is positive semi-definite.
m = truth.names.index(next(name for name in truth.names if name.startswith("gradients")))
K_true, K_completed = truth.gram()[m], completed.gram()[m]
known = np.ix_(stack.observed[:, m], stack.observed[:, m])
assert (K_completed[known] == K_true[known]).all()
print(f"smallest eigenvalue: {np.linalg.eigvalsh(K_completed)[0]:.1e}")

# %%
# Digits are sorted by class: 0 to 4.
hidden = np.where(np.outer(stack.observed[:, m], stack.observed[:, m]), K_true, np.nan)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
for ax, (title, K) in zip(
    axes, {"true": K_true, "observed": hidden, "completed": K_completed}.items(), strict=True
):
    image = ax.imshow(K, cmap="viridis", vmin=K_true.min(), vmax=1)
    ax.set(title=title, xticks=[], yticks=[])
figure.colorbar(image, ax=axes, label="similarity")
plt.show()
