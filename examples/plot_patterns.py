"""
How good a model is on samples that lack views
==============================================

One accuracy hides that samples with all views are easier than those with one. Here it is taken
apart by what samples have, with probabilities beside it.
"""

import matplotlib.pyplot as plt

import kernelquilt as kq
from kernelquilt.inspection import (
    AbsenceCurveDisplay,
    CalibrationByPatternDisplay,
    ObservedPatternDisplay,
    score_by_pattern,
)

# %%
# Handwritten digits in five views, of which samples lack two on average.
X, y = kq.datasets.load_example("digits")
X = kq.datasets.make_absent(X, 0.4, mechanism="mcar", random_state=0)
model = kq.LateFusionClassifier().fit(X[:400], y[:400])
test, y_test = X[400:1000], y[400:1000]
scores = score_by_pattern(model, test, y_test)
for number, count, score in zip(
    scores.n_views, scores.n_views_counts, scores.n_views_scores, strict=True
):
    print(f"{count} samples with {number} views: accuracy {score:.3f}")

# %%
# What there is, how far probabilities can be trusted, and what further absence would cost.
figure, axes = plt.subplots(1, 3, figsize=(16, 4.2), layout="constrained")
ObservedPatternDisplay.from_views(test, max_patterns=12).plot(axes[0])
CalibrationByPatternDisplay.from_estimator(model, test, y_test).plot(axes[1])
AbsenceCurveDisplay.from_estimator(model, test, y_test, ratios=(0, 0.2, 0.4)).plot(axes[2])
plt.show()
