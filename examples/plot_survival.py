"""
How long, for patients in a trial and outside it
================================================

Some patients are in a trial and have examinations that the others lack; many are still alive when
the study ends, so that only a lower bound of their time is known. The data are made up after the
trial of the Mayo Clinic on primary biliary cholangitis; with ``--data-dir DIRECTORY``, where
``pbc_mayo.npz`` is, they are the real ones.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kernelquilt as kq


def made_up(n=420, seed=0):
    """Return views of patients, and events and times in days."""
    rng = np.random.default_rng(seed)
    illness = rng.standard_normal((n, 2))
    clinic = illness @ rng.standard_normal((2, 3)) + rng.standard_normal((n, 3))
    labs = illness @ rng.standard_normal((2, 4)) + 0.8 * rng.standard_normal((n, 4))
    trial = illness @ rng.standard_normal((2, 8)) + 0.8 * rng.standard_normal((n, 8))
    until = 3000 * rng.exponential(np.exp(-1.2 * illness[:, 0] - 0.5 * illness[:, 1]))
    end = rng.uniform(500, 4500, n)
    in_trial = np.arange(n) < 0.75 * n
    everyone = np.ones(n, dtype=bool)
    views = {"clinic": clinic, "labs": labs, "trial": trial}
    X = kq.MultiView(views, np.column_stack([everyone, everyone, in_trial]))
    return X, until <= end, np.minimum(until, end)


def real(directory):
    """Return the views, events and times of ``pbc_mayo.npz``."""
    with np.load(Path(directory) / "pbc_mayo.npz") as stored:
        names = stored["view_names"].astype(str)
        views = {name: stored[f"view_{k}"] for k, name in enumerate(names)}
        event, time = stored["event"] == 1, stored["time"]
    observed = np.column_stack([~np.isnan(view).all(axis=1) for view in views.values()])
    return kq.MultiView(views, observed), event, time


parser = argparse.ArgumentParser()
parser.add_argument("--data-dir")
directory = parser.parse_known_args()[0].data_dir
X, event, time = made_up() if directory is None else real(directory)
print(X)
print(f"{event.sum()} deaths, {len(event) - event.sum()} times are censored")

# %%
# Concordance is the share of pairs of patients whose order is predicted; 0.5 by chance.
order = np.random.default_rng(1).permutation(len(X))
train, test = np.split(order, [int(0.6 * len(X))])
model = kq.QuiltSurvival(random_state=0).fit(X[train], (event[train], time[train]))
print(f"concordance: {model.score(X[test], (event[test], time[test])):.3f}")
for name, weight in zip(model.member_names_, model.member_weights_, strict=True):
    print(f"  {name}: {weight:.2f}")

# %%
# The other patients in thirds by their risk: what is predicted (lines), and what happened (steps,
# by the estimator of Kaplan and Meier).
risk = model.predict(X[test])
at = np.linspace(0, np.quantile(time, 0.95), 200)
at = at[at <= min(time[test].max(), model.unique_times_[-1])]
thirds = np.searchsorted(np.quantile(risk, [1 / 3, 2 / 3]), risk)


def kaplan_meier(event, time, at):
    """Return the share of patients without an event at some times."""
    deaths = np.unique(time[event])
    factors = [1 - (event & (time == t)).sum() / (time >= t).sum() for t in deaths]
    return np.r_[1.0, np.cumprod(factors)][np.searchsorted(deaths, at, side="right")]


figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for third, (label, colour) in enumerate(
    [("lowest risk", "C0"), ("middle", "C1"), ("highest risk", "C3")]
):
    rows = test[thirds == third]
    predicted = np.mean([each(at) for each in model.predict_survival_function(X[rows])], axis=0)
    axes.plot(at / 365.25, predicted, color=colour, label=f"{label}, predicted")
    seen = kaplan_meier(event[rows], time[rows], at)
    axes.step(at / 365.25, seen, color=colour, alpha=0.5, where="post")
axes.set(xlabel="years", ylabel="share alive", ylim=(0, 1.02))
axes.legend(frameon=False, fontsize=8)
plt.show()
