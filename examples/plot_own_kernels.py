"""
Kernels of my own
=================

A kernel is a function of two blocks of samples. Names, objects of scikit-learn, your own functions
and ready Gram matrices can be mixed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RationalQuadratic

import kernelquilt as kq

# %%
# Genes as counts of short words, mutations as a set, and two numbers from the clinic.
rng = np.random.default_rng(0)
y = np.arange(160) % 2
words = rng.poisson(1.0 + 0.6 * np.outer(y, rng.random(64)))
mutations = (rng.random((160, 30)) < 0.15 + 0.12 * y[:, None]).astype(float)
clinic = rng.standard_normal((160, 2)) + 0.7 * y[:, None]
X = kq.MultiView({"words": words, "mutations": mutations, "clinic": clinic})
X = kq.datasets.make_absent(X, 0.25, random_state=0)


# %%
# A function of two blocks, which returns their similarities.
def spectrum(A, B):
    """Return the share of words that two sequences have in common."""
    common = np.minimum(A[:, None], B[None]).sum(axis=2)
    return common / np.sqrt(np.outer(A.sum(axis=1), B.sum(axis=1)))


kernels = {
    "words": spectrum,
    "mutations": "jaccard",
    "clinic": [RationalQuadratic(), "linear"],
}
stack = kq.ViewKernels(kernels).fit_transform(X)
stack.check_psd()
print(stack)

# %%
# The same `kernels` go into any classifier. What the views have in common with the class and with
# each other can be seen beforehand.
model = kq.QuiltClassifier(kernels=kernels, random_state=0).fit(X, y)
print(f"leave-one-out accuracy {model.loo_score_:.3f}")
order = np.argsort(y, kind="stable")
figure, axes = plt.subplots(1, 4, figsize=(10, 2.9), layout="constrained")
for ax, name, K, observed in zip(axes, stack.names, stack.gram(), stack.observed.T, strict=True):
    K = np.where(np.outer(observed, observed), K, np.nan)[np.ix_(order, order)]
    ax.imshow(K, cmap="viridis", vmax=np.nanquantile(K, 0.99))
    ax.set(title=name.replace("__", "\n"), xticks=[], yticks=[])
plt.show()
