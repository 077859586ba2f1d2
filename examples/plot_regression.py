"""
Predict a number
================

``QuiltRegressor`` is the regressor to start with. Here it foretells the progression of diabetes
from three groups of measurements, each of which some patients lack.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import kernelquilt as kq

# %%
# A wide table with names is enough: `views` says which columns belong together. A view is absent
# for a patient if all its cells are empty.
data = load_diabetes(as_frame=True)
views = {
    "person": ["age", "sex", "bmi", "bp"],
    "lipids": ["s1", "s2", "s3", "s4"],
    "blood": ["s5", "s6"],
}
table = kq.datasets.make_absent(data.data, 0.3, views=views, random_state=0)
train, test, y_train, y_test = train_test_split(table, data.target, random_state=0)
model = kq.QuiltRegressor(views=views, random_state=0).fit(train, y_train)
print(f"R² {model.score(test, y_test):.2f} on {len(test)} other patients")

# %%
# Every patient gets a prediction, whatever the views. What the views are worth on their own is in
# ``reliability_``.
predicted = model.predict(test)
n_views = kq.as_views(test, views, partial_nan="allow").observed.sum(axis=1)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
limits = np.array([25, 340])
left.plot(limits, limits, color="grey", linewidth=1)
for count, color in zip((3, 2, 1), ("#0072B2", "#E69F00", "#D55E00"), strict=True):
    chosen = n_views == count
    if chosen.any():
        left.scatter(predicted[chosen], y_test[chosen], s=14, color=color, label=f"{count} views")
left.set(xlabel="predicted progression", ylabel="true progression")
left.legend(frameon=False)
right.barh(list(views), model.reliability_, color="#0072B2")
right.invert_yaxis()
right.set(xlabel="reliability", title="views on their own")
plt.show()
