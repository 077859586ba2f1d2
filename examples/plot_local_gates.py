"""
Views that matter in different regions
======================================

Two instruments measure the same samples. Which of them tells the class depends on the site where a
sample was taken, so that no weights for all samples do. Gates learn where to listen to which.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelquilt as kq

# %%
# North of the equator the first instrument tells the class, south of it the second.
rng = np.random.default_rng(0)
latitude = rng.uniform(-60, 60, (600, 1))
first, second = rng.standard_normal((2, 600, 3))
y = np.where(latitude[:, 0] > 0, first[:, 0], second[:, 0]) > 0
X = kq.MultiView({"latitude": latitude, "first": first, "second": second})
train, test = np.arange(300), np.arange(300, 600)

# %%
# The latitude decides about the gates and is no kernel itself.
models = {
    "uniform": kq.mkl.UniformMKLClassifier(kernels="linear"),
    "simple": kq.SimpleMKLClassifier(kernels="linear"),
    "localized": kq.mkl.LocalizedMKLClassifier(kernels="linear", gating_view="latitude"),
}
for name, model in models.items():
    print(f"{name}: test accuracy {model.fit(X[train], y[train]).score(X[test], y[test]):.3f}")

# %%
# The gates of new samples show what was learned.
localized = models["localized"]
gates = localized.gates(X[test])
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for kernel, column in zip(localized.kernel_names_, gates.T, strict=True):
    ax.scatter(latitude[test, 0], column, s=6, label=kernel)
ax.set_xlabel("latitude")
ax.set_ylabel("gate")
ax.legend()
plt.show()
