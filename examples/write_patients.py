"""Made-up patients in a CSV file
=================================

160 patients in three views, many of them without one or two of these, to try the commands on::

    python examples/write_patients.py patients.csv
    kq describe patients.csv --label diagnosis
"""

import sys

import numpy as np
import pandas as pd

import kernelquilt as kq

X, y = kq.datasets.make_multiview(160, 3, relevance=[1.0, 0.7, 0.3], random_state=0)
X = kq.datasets.make_absent(X, 0.3, mechanism="mcar", random_state=0)
columns = {
    f"{view}__{number}": np.where(present, values, np.nan)
    for view, name, present in zip(("clinic", "rna", "protein"), X.names, X.observed.T, strict=True)
    for number, values in enumerate(X[name].T)
}
frame = pd.DataFrame(columns).round(3)
frame["diagnosis"] = np.where(y == y.max(), "ill", "well")
path = sys.argv[1] if len(sys.argv) > 1 else "patients.csv"
frame.to_csv(path, index=False)
print(f"{path}: {len(frame)} patients, {frame.shape[1] - 1} columns in three views")
