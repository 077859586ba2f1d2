"""
Noisy labels: learn the weights and the SVM at different penalties
==================================================================

Where many labels are wrong, the penalty at which the weights of the kernels are right is far too
small for the SVM on them. ``C_weights`` sets the two apart.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelquilt as kq

# %%
# Three of twelve views tell the class, and 15 % of the training labels are wrong.
rng = np.random.default_rng(0)
views = rng.standard_normal((12, 1400, 5))
signal = sum(
    size * np.sin(1.5 * view[:, 0]) * (1 + 0.5 * view[:, 1])
    for size, view in zip((1.5, 1.2, 1.0), views[:3], strict=True)
)
y = (signal > np.median(signal)).astype(int)
noisy = np.where(rng.random(1400) < 0.15, 1 - y, y)
X = kq.MultiView({f"view {k}": view for k, view in enumerate(views)})

# %%
# The same penalties twice: for both, and for the SVM only. Kernels are made once. A large penalty
# makes the weights fit the noise; a small one makes the SVM too smooth.
maker = kq.ViewKernels()
train, test = maker.fit_transform(X[:400]), maker.transform(X[400:])
penalties = 4.0 ** np.arange(-2, 4)
figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
for label, C_weights in {"C_weights = C": None, "C_weights = 1/16": 1 / 16}.items():
    accuracy, useful = [], []
    for C in penalties:
        model = kq.SimpleMKLClassifier(C, C_weights=C_weights).fit(train, noisy[:400])
        accuracy.append((model.predict(test) == y[400:]).mean())
        useful.append(model.weights_[:3].sum())
    print(f"{label}: best test accuracy {max(accuracy):.3f}")
    left.plot(penalties, accuracy, "o-", label=label)
    right.plot(penalties, useful, "o-", label=label)
left.set(ylabel="accuracy for the true labels")
right.set(ylabel="weight of the three views that tell", ylim=(0, 1.05))
for ax in (left, right):
    ax.set_xscale("log", base=2)
    ax.set_xlabel("C")
left.legend(frameon=False)
plt.show()
