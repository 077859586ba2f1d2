"""
Predict a number: a survey that one town in six has answered
============================================================

What crime rates do the towns of a country have? The census knows all of them; a survey among the
police knows more, but only 16 % of the towns have answered it, the larger ones rather than the
smaller. ``QuiltRegressor`` learns from both. The data are made up after the set "communities and
crime"; with ``--data-dir DIRECTORY``, where ``communities_crime.npz`` is, they are the real ones.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import kernelquilt as kq


def made_up(n=700, seed=0):
    """Return a census of 20 columns, a survey of 8 that few have answered, and rates."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((n, 4))
    rate = np.exp(0.5 * hidden[:, 0] - 0.4 * hidden[:, 1] + 0.3 * hidden[:, 0] * hidden[:, 2])
    rate += 0.5 * hidden[:, 3] + 0.2 * rng.standard_normal(n)
    census = hidden[:, :3] @ rng.standard_normal((3, 20)) + 0.7 * rng.standard_normal((n, 20))
    survey = hidden[:, [0, 3]] @ rng.standard_normal((2, 8)) + 0.5 * rng.standard_normal((n, 8))
    chance = 0.32 / (1.0 + np.exp(-2.0 * hidden[:, 2]))
    observed = np.column_stack([np.ones(n, dtype=bool), rng.random(n) < chance])
    return kq.MultiView({"census": census, "survey": survey}, observed), rate


def real(directory):
    """Return the views and rates of ``communities_crime.npz``."""
    with np.load(Path(directory) / "communities_crime.npz") as stored:
        views = {"census": stored["view_0"], "survey": stored["view_1"]}
        rate = stored["target"]
    observed = np.column_stack([~np.isnan(view).all(axis=1) for view in views.values()])
    return kq.MultiView(views, observed), rate


parser = argparse.ArgumentParser()
parser.add_argument("--data-dir")
directory = parser.parse_known_args()[0].data_dir
X, rate = made_up() if directory is None else real(directory)
print(X)

# %%
# Four models learn from 60 % of the towns. Trees see gaps as NaN; the quilt predicts what the
# survey would say from the census, where that can be done, and joins both with a forest.
order = np.random.default_rng(1).permutation(len(X))
train, test = np.split(order, [int(0.6 * len(X))])
table = np.column_stack(
    [np.where(X.observed[:, [v]], X[name], np.nan) for v, name in enumerate(X.names)]
)
census = kq.MultiView({"census": X["census"]})
models = {
    "quilt, census alone": (kq.QuiltRegressor(random_state=0), census),
    "random forest": (RandomForestRegressor(200, random_state=0), table),
    "boosted trees": (HistGradientBoostingRegressor(random_state=0), table),
    "quilt": (kq.QuiltRegressor(random_state=0), X),
}
answered = X.observed[test, 1]
scores = {}
for name, (model, data) in models.items():
    model.fit(data[train], rate[train])
    error = np.square(model.predict(data[test]) - rate[test])
    spread = np.var(rate[train])
    scores[name] = [1 - error[answered].mean() / spread, 1 - error[~answered].mean() / spread]
    print(f"{name}: R2 {model.score(data[test], rate[test]):.3f}")

# %%
# Towns that have answered gain most, and the others lose nothing.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for k, (name, values) in enumerate(scores.items()):
    axes.bar(np.arange(2) + 0.2 * (k - 1.5), values, width=0.18, label=name)
axes.set_xticks([0, 1], ["towns that have\nanswered the survey", "towns that have not"])
axes.set(ylabel="share of the variance explained", ylim=(0, 1))
axes.legend(frameon=False, fontsize=8)
plt.show()
