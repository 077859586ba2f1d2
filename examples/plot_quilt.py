"""
What the default classifier knows about the views
=================================================

``QuiltClassifier`` needs no tuning. What it learned can be looked at: which view predicts which,
how far each view is trusted, and how good its probabilities are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import kernelquilt as kq

# %%
# Five views of handwritten digits, half of them absent, in training and in test samples.
X, y = kq.datasets.load_example("digits")
X = kq.datasets.make_absent(X, 0.5, random_state=0)
train, test, y_train, y_test = train_test_split(
    X, y, train_size=300, test_size=500, random_state=0, stratify=y
)
model = kq.QuiltClassifier().fit(train, y_train)
print(f"leave-one-out accuracy {model.loo_score_:.3f}, test {model.score(test, y_test):.3f}")
uniform = kq.mkl.UniformMKLClassifier(10).fit(train, y_train)
print(f"SVM on the mean kernel, absent kernels zero: {uniform.score(test, y_test):.3f}")

# %%
# Three things that it learned. On the left, in row p and column l: how much of view p is explained
# by view l alone. In the middle the reliability, the weight of what a view says on its own. On the
# right how often predictions of a given probability are right.
proba = model.predict_proba(test)
top = proba.max(axis=1)
is_right = model.classes_[proba.argmax(axis=1)] == y_test
edges = np.array([0.0, 0.6, 0.75, 0.9, 0.97, 0.99, 1.0])
group = np.clip(np.searchsorted(edges, top) - 1, 0, 5)

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
transfer = np.ma.masked_array(model.view_transfer_, np.eye(len(X.names), dtype=bool))
image = left.imshow(transfer, cmap="viridis", vmin=0)
left.set_xticks(range(len(X.names)), X.names, rotation=45, ha="right")
left.set_yticks(range(len(X.names)), X.names)
left.set(title="view explained (row) by view (column)")
figure.colorbar(image, ax=left, label="leave-one-out R²")
middle.barh(X.names, model.reliability_)
middle.invert_yaxis()
middle.set(xlabel="reliability", title="views on their own")
right.plot([0.3, 1], [0.3, 1], color="grey", linewidth=1)
right.plot(
    [top[group == g].mean() for g in range(6)],
    [is_right[group == g].mean() for g in range(6)],
    marker="o",
)
right.set(xlabel="probability", ylabel="share right", title="calibration on test samples")
plt.show()
