"""
Will it work in a hospital that we have not seen?
=================================================

Patients of four hospitals are pooled. Hospitals differ in what they measure. Random folds put
patients of the same hospital on both sides; leaving one hospital out at a time asks the harder and
more honest question.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold, LeaveOneGroupOut, cross_val_predict

import kernelquilt as kq

# %%
# Each hospital lacks one of four examinations, and its instruments have an offset of their own.
X, y = kq.datasets.make_multiview(
    240, 4, relevance=[0.5, 0.5, 0.5, 0.4], redundancy=0.4, random_state=0
)
hospital = np.arange(len(y)) % 4
offset = np.random.default_rng(0).normal(scale=1.2, size=(4, len(X.names), 5))
X = kq.MultiView({name: X[name] + offset[hospital, v] for v, name in enumerate(X.names)})
X = X.with_observed(X.observed & (hospital[:, None] != np.arange(4)))
print(X)

# %%
# A `MultiView` is sliced like an array, so that scikit-learn's splitters and
# `cross_val_predict` take it as it is.
model = kq.QuiltClassifier(random_state=0)
splits = {
    "random folds": KFold(4, shuffle=True, random_state=0),
    "leave one hospital out": LeaveOneGroupOut().split(y, groups=hospital),
}
right = {name: cross_val_predict(model, X, y, cv=cv) == y for name, cv in splits.items()}

# %%
# Random folds promise more than a new hospital will get.
figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for k, (name, is_right) in enumerate(right.items()):
    accuracy = [is_right[hospital == site].mean() for site in range(4)]
    print(f"{name}: {is_right.mean():.3f}")
    ax.bar(np.arange(4) + 0.38 * (k - 0.5), accuracy, width=0.36, label=name)
ax.axhline(0.5, color="grey", linewidth=1)
ax.set_xticks(range(4), [f"hospital {site + 1}" for site in range(4)])
ax.set(ylabel="accuracy", ylim=(0.4, 1))
ax.legend(frameon=False, ncols=2)
plt.show()
