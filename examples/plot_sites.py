"""
The second hospital lacks some of the examinations
==================================================

Two hospitals pool their patients, but the second one never makes two of the four examinations. One
may drop these examinations, or hand the gaps to trees. A model that takes any views keeps all
patients and all examinations, and serves both hospitals.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import kernelquilt as kq

# %%
# Four examinations of 1200 patients, half of them in each hospital.
X, y = kq.datasets.make_multiview(
    1200, 4, relevance=[0.4, 0.4, 0.6, 0.5], redundancy=0.3, random_state=0
)
names = ["history", "blood", "scan", "biopsy"]
X = kq.MultiView({name: X[view] for name, view in zip(names, X.names, strict=True)})
second = np.arange(len(X)) % 2 == 1
X = X.with_observed(X.observed & ~(second[:, None] & np.isin(X.names, ["scan", "biopsy"])))
print(X)
train, test = np.arange(300), np.arange(300, len(X))

# %%
# The same training samples for all three.
table = np.column_stack(
    [np.where(X.observed[:, [v]], X[name], np.nan) for v, name in enumerate(X.names)]
)
compared = {
    "quilt, common examinations": (X.select(["history", "blood"]), kq.QuiltClassifier()),
    "boosted trees, gaps as NaN": (table, HistGradientBoostingClassifier()),
    "quilt, all examinations": (X, kq.QuiltClassifier()),
}
scores = {}
for name, (data, model) in compared.items():
    model.set_params(random_state=0).fit(data[train], y[train])
    right = model.predict(data[test]) == y[test]
    scores[name] = [right[~second[test]].mean(), right[second[test]].mean()]
    print(
        f"{name}: {scores[name][0]:.3f} in the first hospital, {scores[name][1]:.3f} in the second"
    )

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for k, (name, values) in enumerate(scores.items()):
    axes.bar(np.arange(2) + 0.27 * (k - 1), values, width=0.25, label=name)
axes.set_xticks([0, 1], ["first hospital:\nfour examinations", "second hospital:\ntwo of them"])
axes.set(ylabel="accuracy on 450 other patients", ylim=(0.5, 1.0))
axes.legend(frameon=False)
plt.show()
