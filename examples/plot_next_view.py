"""
Which view to take next
=======================

A view costs time and money. For samples that lack some, ``next_view`` tells the gain in log loss to
be expected of each, learned from labelled samples that have it; here views are held back, so that
what was expected can be compared with what came.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelquilt as kq

# %%
# Handwritten digits in five views; new samples come with one view alone.
X, y = kq.datasets.load_example("digits")
train = kq.datasets.make_absent(X[:300], 0.3, random_state=0)
model = kq.LateFusionClassifier().fit(train, y[:300])
new, labels = X[300:900], y[300:900]
V = len(X.names)


def mean_loss(kept):
    proba = model.predict_proba(new.with_observed(np.tile(kept, (len(new), 1))))
    return -np.log(proba[np.arange(len(new)), labels]).mean()


# %%
# Gains of the other four, for each view that a sample may come with.
first = np.eye(V, dtype=bool)
expected = kq.inspection.next_view(model, new[:V].with_observed(first), train, y[:300])
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.2, 4), layout="constrained")
for p, name in enumerate(X.names):
    others = np.flatnonzero(~first[p])
    obtained = [mean_loss(first[p]) - mean_loss(first[p] | first[q]) for q in others]
    ax.plot(expected.gains[p, others], obtained, "osD^v"[p], label=f"{name} first")
    print(f"with {name} alone, take {expected.best[p]} ({np.nanmax(expected.gains[p]):.2f})")
ends = ax.get_xlim()
ax.plot(ends, ends, color="#444444", linewidth=1, zorder=0)
ax.set(xlabel="gain in log loss expected", ylabel="gain obtained")
ax.legend(frameon=False)
plt.show()
