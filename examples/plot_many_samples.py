"""
100 000 samples
===============

Kernels of 100 000 samples would fill 75 GiB each. The quilt family learns in the span of some
samples of each view instead, its landmarks, and never compares all samples with all others.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import kernelquilt as kq

# %%
# Four noisy images of the same six hidden numbers, which make the class; 40 % of them are absent.
rng = np.random.default_rng(0)
n = 105_000
hidden = rng.standard_normal((n, 6))
y = hidden[:, 0] * hidden[:, 1] + hidden[:, 2] > 0.3 * rng.standard_normal(n)
views = {
    name: hidden @ rng.standard_normal((6, 12)) + 2 * rng.standard_normal((n, 12))
    for name in ("blood", "urine", "scan", "history")
}
X = kq.datasets.make_absent(kq.MultiView(views), 0.4, random_state=0)
print(X)

# %%
# Boosted trees are the usual choice at this size. They see the columns side by side, with NaN where
# a view is absent.
table = np.hstack([X[name] for name in X.names])
models = {
    "quilt": (kq.QuiltClassifier(n_landmarks=100, experts=None, random_state=0), X),
    "late fusion": (kq.LateFusionClassifier(n_landmarks=100, random_state=0), X),
    "boosted trees": (HistGradientBoostingClassifier(random_state=0), table),
}
sizes = [1000, 10_000, 100_000]
accuracy = {name: [] for name in models}
seconds = {name: [] for name in models}
for size in sizes:
    for name, (model, data) in models.items():
        start = process_time()
        model.fit(data[:size], y[:size])
        seconds[name].append(process_time() - start)
        accuracy[name].append(model.score(data[100_000:], y[100_000:]))
        print(f"{name}, {size} samples: {accuracy[name][-1]:.3f}, {seconds[name][-1]:.1f} s")

# %%
# Views that are images of something in common are what the quilt is for. Trees take less time, and
# late fusion takes least.
plt.style.use("tableau-colorblind10")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name in models:
    left.plot(sizes, accuracy[name], "o-", label=name)
    right.plot(sizes, seconds[name], "o-", label=name)
left.set(xscale="log", xlabel="training samples", ylabel="accuracy on 5000 others")
right.set(xscale="log", yscale="log", xlabel="training samples", ylabel="processor seconds to fit")
left.legend(frameon=False)
plt.show()
