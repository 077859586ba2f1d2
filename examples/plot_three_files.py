"""
From three CSV files to predictions
===================================

Three tables hold different patients; one has a column of text and some empty cells. They are read
as they are, a model is tuned and scored by nested cross-validation, saved, and loaded by another
process, which predicts for new patients who have other views.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score

import kernelquilt as kq

# %%
# Made-up patients, 120 that are known and eight that are new. A file for each view has those who
# have it; nobody has measured proteins of the new ones.
made, ill = kq.datasets.make_multiview(128, 3, relevance=[1.0, 0.7, 0.3], random_state=0)
made = kq.datasets.make_absent(made, 0.3, random_state=0)
patients = pd.Index([f"patient{number:03}" for number in range(128)], name="patient")
known = np.arange(128) < 120
folder = Path(mkdtemp())
for part, rows in {"known": known, "new": ~known}.items():
    (folder / part).mkdir()
    for name, view in zip(("clinic", "rna", "protein"), made.names, strict=True):
        table = pd.DataFrame(made[view], patients).add_prefix(f"{name}_").round(3)
        if name == "clinic":
            stage = pd.cut(table["clinic_0"], [-np.inf, -1, 1, np.inf], labels=["I", "II", "III"])
            table.insert(0, "stage", stage.astype(object))
            table.iloc[::9, 2] = np.nan
        if (part, name) != ("new", "protein"):
            table[rows & made.present(view)].to_csv(folder / part / f"{name}.csv")
diagnosis = pd.Series(np.where(ill, "ill", "well"), patients, name="diagnosis")
diagnosis[known].to_csv(folder / "known" / "diagnosis.csv")
print((folder / "known" / "clinic.csv").read_text()[:150])

# %%
# The name of a file is that of its view; the labels are in a fourth one.
X, y = kq.read_views(folder / "known", label="diagnosis")
print(X)
search = GridSearchCV(kq.QuiltClassifier(), {"kernels": ["linear", "median_gaussian"]}, cv=3)
scores = cross_val_score(search, X, y, cv=3)
print("accuracy by fold:", *(f"{score:.2f}" for score in scores))
print("chosen:", search.fit(X, y).best_params_)
joblib.dump(search.best_estimator_, folder / "model.joblib")

# %%
# Another process needs the file of the model and the tables of the new patients.
program = """
import joblib, pandas as pd, kernelquilt as kq
X = kq.read_views("new")
model = joblib.load("model.joblib")
pd.DataFrame(model.predict_proba(X), X.index, model.classes_).to_csv("predictions.csv")
"""
subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)
predictions = pd.read_csv(folder / "predictions.csv", index_col=0)
print(predictions.join(diagnosis).round(2))

# %%
# A bar for each of the new patients; those who turned out to be ill are orange.
figure, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
colours = np.where(diagnosis[predictions.index] == "ill", "#D55E00", "#56B4E9")
ax.barh(predictions.index, predictions["ill"], color=colours)
ax.invert_yaxis()
ax.axvline(0.5, color="grey", linewidth=1)
ax.set(xlabel="probability of being ill", xlim=(0, 1))
plt.show()
