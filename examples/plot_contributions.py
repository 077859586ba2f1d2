"""
What each view said about a sample
==================================

A model that takes any views can be asked about a sample again and again with some of them left out.
The contributions that come of it are Shapley values: they lead from what the model says without any
view to what it says of the sample, and nothing has to be put in the place of views.
"""

import matplotlib.pyplot as plt

import kernelquilt as kq
from kernelquilt.inspection import ViewContributionsDisplay, view_contributions

# %%
# Nuclei of cells described by means, errors and worst values; a third of these is absent.
X, y = kq.datasets.load_example("wdbc")
X = kq.datasets.make_absent(X, 0.3, random_state=0)
model = kq.QuiltClassifier(random_state=0).fit(X[:250], y[:250])
found = view_contributions(model, X[250:350])
away = abs(found.values.sum(axis=1) + found.base - found.output).max()
print(f"contributions to the {found.what}, which they add up to within {away:.0e}")

# %%
# All samples, and the one that the views disagree most about.
disagreement = abs(found.values).sum(axis=1) - abs(found.values.sum(axis=1))
sample = int(disagreement.argmax())
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 2.8), layout="constrained")
ViewContributionsDisplay(found).plot(left)
ViewContributionsDisplay(found, sample=sample).plot(right)
plt.show()
