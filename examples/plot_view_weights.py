"""
Weights of kernels, and what views are worth
============================================

Three data frames hold measurements of overlapping sets of samples. They are joined on their index
and classified by a weighted sum of kernels. The weights say what the classifier does, not what the
views are worth: that is how far the score on other samples falls without them.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from kernelquilt.inspection import KernelWeightsDisplay, ViewImportanceDisplay

# %%
# Each clinic measured one group of features, for some of the patients.
complete, diagnosis = kq.datasets.load_example("wdbc")
labels = pd.Series(diagnosis)
frames = {
    name: pd.DataFrame(complete[name]).sample(frac=share, random_state=seed)
    for seed, (name, share) in enumerate(zip(complete.names, (0.9, 0.6, 0.7), strict=True))
}
X = kq.MultiView.from_frames(frames)
y = labels[X.index].to_numpy()
print(X)

# %%
# Preprocessing and classifier are one estimator, tuned with scikit-learn's own grid search.
train, test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
pipeline = make_pipeline(kq.ViewTransformer(StandardScaler()), kq.SimpleMKLClassifier())
search = GridSearchCV(pipeline, {"simplemklclassifier__C": [0.1, 1, 10, 100]}, cv=5)
search.fit(train, y_train)
print(f"C = {search.best_params_['simplemklclassifier__C']:g}")
print(f"test accuracy {search.score(test, y_test):.3f}")

# %%
# The weights of five folds, a dot for each, and the worth of the views on the test samples.
best = search.best_estimator_
folds = cross_validate(best, train, y_train, return_estimator=True)["estimator"]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 2.8), layout="constrained", width_ratios=(1, 2)
)
weights = KernelWeightsDisplay.from_estimator(folds).plot(left)
worth = ViewImportanceDisplay.from_estimator(search, test, y_test, scoring="roc_auc").plot(right)
for name, weight, drop in zip(
    X.names, weights.weights.mean(axis=0), worth.importance.drop, strict=True
):
    print(f"{name}: weight {weight:.2f}, AUC falls by {drop:.3f} without it")
plt.show()
