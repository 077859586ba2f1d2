"""
Text beside numbers
===================

A letter of the doctor and some laboratory values: one view is text, the other a small table, and
many patients have only one of the two. Words are counted into a sparse matrix, which stays sparse.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import kernelquilt as kq

# %%
# Letters have words that are more common in one of the two diseases, and hundreds of others.
rng = np.random.default_rng(0)
disease = np.repeat([0, 1], 120)
own = np.array(
    [["wheeze", "asthma", "inhaler", "pollen"], ["angina", "pressure", "stent", "statin"]]
)
others = [f"word{k}" for k in range(400)]
share = 1 / np.arange(1, 401)
letters = [
    " ".join(
        [
            *rng.choice(others, 30, p=share / share.sum()),
            *rng.choice(own[d], 2),
            *rng.choice(own.ravel(), 3),
        ]
    )
    for d in disease
]
laboratory = rng.standard_normal((240, 6)) + 0.4 * disease[:, None]

# %%
# The cosine is the usual similarity of texts.
words = TfidfVectorizer().fit_transform(letters)
X = kq.MultiView({"letter": words, "laboratory": laboratory})
X = kq.datasets.make_absent(X, 0.3, random_state=0)
print(X)
kernels = {"letter": "cosine", "laboratory": "median_gaussian"}
model = kq.QuiltClassifier(kernels=kernels, random_state=0)
folds = StratifiedKFold(5, shuffle=True, random_state=0)
is_right = cross_val_predict(model, X, disease, cv=folds) == disease

# %%
# One model serves all patients. Those with both views are told best.
letter, values = X.observed.T
groups = {
    "letter only": letter & ~values,
    "laboratory only": values & ~letter,
    "both": letter & values,
}
figure, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
accuracy = [is_right[chosen].mean() for chosen in groups.values()]
ax.bar(range(3), accuracy, width=0.55, color=["#56B4E9", "#56B4E9", "#0072B2"])
ax.bar_label(ax.containers[0], fmt="%.2f")
ax.set_xticks(range(3), [f"{name}\n{chosen.sum()} patients" for name, chosen in groups.items()])
ax.set(ylabel="accuracy of five folds", ylim=(0.5, 1))
plt.show()
