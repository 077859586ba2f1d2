"""Made-up patients in a CSV file
=================================

160 patients in three views, many of them without one or two of these, to try the commands on::

    python examples/write_patients.py patients.csv
    kq describe patients.csv --label diagnosis
"""

import sys

import numpy as np

import kernelquilt as kq

VIEWS = ("clinic", "rna", "protein")

if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "patients.csv"
    made, ill = kq.datasets.make_multiview(160, 3, relevance=[1.0, 0.7, 0.3], random_state=0)
    X = kq.MultiView({name: made[view] for name, view in zip(VIEWS, made.names, strict=True)})
    X = kq.datasets.make_absent(X, 0.3, mechanism="mcar", random_state=0)
    table = X.to_frame().round(3)
    # the name of a column begins with that of its view
    table.columns = [f"{view}__{column}" for view, column in table.columns]
    table.insert(0, "diagnosis", np.where(ill, "ill", "well"))
    table.to_csv(path, index=False)
    print(f"{path}: {len(table)} patients in {len(VIEWS)} views")
