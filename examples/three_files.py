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
from sklearn.model_selection import GridSearchCV, cross_val_score

import kernelquilt as kq
from write_patients import write_folder

folder = Path(mkdtemp())
write_folder(folder / "known", 120)
write_folder(folder / "new", 8, views=("rna", "clinic"), labels=False, random_state=1)

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
# None of the new patients has a table of proteins: that view is absent for all of them.
program = """
import joblib, kernelquilt as kq
X = kq.read_views("new")
for patient, p in zip(X.index, joblib.load("model.joblib").predict_proba(X)[:, 0]):
    print(f"{patient}: ill with probability {p:.2f}")
"""
subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)
