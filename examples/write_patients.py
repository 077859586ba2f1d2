"""Made-up patients in CSV files
================================

160 patients in three views, many of them without one or two of these, to try the commands on::

    python examples/write_patients.py patients.csv
    kq describe patients.csv --label diagnosis

A name without ``.csv`` is that of a folder, with a file for each view and one for the labels.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import kernelquilt as kq

VIEWS = ("clinic", "rna", "protein")


def make_patients(n, *, ratio=0.3, random_state=0):
    """Return a frame for each view, with the patients that have it, and labels (n,)."""
    X, y = kq.datasets.make_multiview(n, 3, relevance=[1.0, 0.7, 0.3], random_state=random_state)
    X = kq.datasets.make_absent(X, ratio, mechanism="mcar", random_state=random_state)
    index = pd.Index([f"patient{number:03}" for number in range(n)], name="patient")
    frames = {}
    for view, name in zip(VIEWS, X.names, strict=True):
        frames[view] = pd.DataFrame(X[name], index).round(3)[X.present(name)]
    return frames, pd.Series(np.where(y == y.max(), "ill", "well"), index, name="diagnosis")


def write_folder(folder, n, *, views=VIEWS, labels=True, random_state=0):
    """Write a file for each view; in ``clinic`` a column is text, and cells are missing."""
    frames, diagnosis = make_patients(n, random_state=random_state)
    frames = {view: frames[view].add_prefix(f"{view}_") for view in views}
    if "clinic" in frames:
        clinic, rng = frames["clinic"], np.random.default_rng(random_state)
        stages = pd.cut(clinic.iloc[:, 0], [-np.inf, -1, 1, np.inf], labels=["I", "II", "III"])
        clinic.insert(0, "stage", stages.astype(object))
        frames["clinic"] = clinic.mask(rng.random(clinic.shape) < 0.05)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for view, frame in frames.items():
        frame.to_csv(folder / f"{view}.csv")
    if labels:
        diagnosis.to_csv(folder / "diagnosis.csv")


def write_table(path, n):
    """Write one table; the name of a column begins with that of its view."""
    frames, diagnosis = make_patients(n)
    columns = [frame.add_prefix(f"{view}__") for view, frame in frames.items()]
    diagnosis.to_frame().join(columns).to_csv(path, index=False)


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "patients.csv")
    (write_table if path.suffix == ".csv" else write_folder)(path, 160)
    print(f"{path}: 160 patients in three views")
