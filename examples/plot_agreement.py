"""
How much views should agree
===========================

Each view has a classifier of its own, and a penalty makes the classifiers of all views agree. Half
of the views are absent: a sample is learned from, and told by, those that it has. Whether agreement
pays depends on the views.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq

# %%
# The views of a digit are made of the same image, so that what one of them shows others can learn.
# The views of the second data set have little in common beside the class.
data = {
    "digits": kq.datasets.load_example("digits"),
    "independent views": kq.datasets.make_multiview(1000, 4, relevance=[0.7] * 4, random_state=0),
}


# %%
# A sample with one view only is scored by the classifier of that view.
def outputs_by_view(model, X):
    outputs = []
    for v in range(len(X.names)):
        only = X.observed & (np.arange(len(X.names)) == v)
        scores = model.decision_function(kq.MultiView({n: X[n] for n in X.names}, only))
        outputs.append(np.where(only[:, v], scores.reshape(len(X), -1).T, np.nan))
    return np.array(outputs)


def distance_of_views(model, X):
    outputs = outputs_by_view(model, X[X.observed.sum(axis=1) > 1])
    return np.sqrt(np.nanmean((outputs - np.nanmean(outputs, axis=0)) ** 2))


# %%
# One decomposition of each kernel serves the whole path over lambda. Views that must agree can
# learn only what all of them can see.
lams = 2.0 ** np.arange(-6, 11, 2)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for color, (name, (X, y)) in zip(("#0072B2", "#D55E00"), data.items(), strict=True):
    X = kq.datasets.make_absent(X, 0.5, random_state=0)
    accuracy, distance = [], []
    splits = StratifiedShuffleSplit(3, train_size=120, test_size=500, random_state=0)
    for train, test in splits.split(y, y):
        scaler = kq.ViewTransformer(StandardScaler()).fit(X[train])
        X_train, X_test = scaler.transform(X[train]), scaler.transform(X[test])
        model = kq.mkl.MultiKernelMHKSClassifier(multi_class="ovr")
        path = kq.mkl_path(model, X_train, y[train], Cs=[1.0], lams=lams)
        accuracy.append([each.score(X_test, y[test]) for each in path])
        distance.append([distance_of_views(each, X_test) for each in path])
    accuracy, distance = np.mean(accuracy, axis=0), np.mean(distance, axis=0)
    print(
        f"{name}: test accuracy {accuracy[0]:.3f} with next to no penalty, {accuracy.max():.3f} "
        f"with lambda = {lams[accuracy.argmax()]:g}, {accuracy[-1]:.3f} with {lams[-1]:g}"
    )
    left.plot(lams, accuracy, "o-", color=color, label=name)
    right.plot(lams, distance, "o-", color=color, label=name)
left.set_ylabel("test accuracy")
right.set_ylabel("distance of a view from the mean")
for ax in (left, right):
    ax.set_xscale("log", base=2)
    ax.set_xlabel("lambda")
left.legend()
plt.show()
