"""
More than memory holds, with dask
=================================

Views that are arrays of dask stay where they are: a fit reads them chunk by chunk, a few times, and
predictions are arrays of dask again. Here dask works with the threads of one computer; with a
``distributed.Client`` the same lines run on a cluster. The extra ``scale`` is needed.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import kernelquilt as kq

# %%
# 60 000 samples in six chunks. Nothing has been drawn yet but which views samples have.
X, y = kq.datasets.make_multiview(
    60_000, 3, n_features=10, relevance=[0.8, 0.6, 0.4], chunks=10_000, random_state=0
)
observed = np.random.default_rng(0).random(X.shape) < 0.6
observed[~observed.any(axis=1), 0] = True
X = X.with_observed(observed)
print(X)

# %%
# A slice stays lazy. What the model learns are sums over samples, to which every chunk adds its
# own.
model = kq.LateFusionClassifier(n_landmarks=100, random_state=0)
model.fit(X[:40_000], y[:40_000])
chances = model.predict_proba(X[40_000:])
print(chances)
print(f"accuracy: {model.score(X[40_000:], y[40_000:]):.3f}")

# %%
# What is made of predictions is lazy, too; ``compute`` goes through the chunks once for all three
# lines. The more views a sample has, the surer the model is.
n_views = da.from_array(observed[40_000:].sum(axis=1), chunks=chances.chunks[0])
edges = np.linspace(0.5, 1, 21)
surest = chances.max(axis=1)
counts = [da.histogram(surest, edges, weights=1.0 * (n_views == k))[0] for k in (1, 2, 3)]
figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for k, count in enumerate(da.compute(*counts), start=1):
    ax.stairs(count / count.sum(), edges, linewidth=1.5, label=f"{k} of 3 views")
ax.set(xlabel="probability of the likelier class", ylabel="share of the samples")
ax.legend(frameon=False)
plt.show()
