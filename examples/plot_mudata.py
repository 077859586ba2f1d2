"""
Multi-omics in a MuData
=======================

A ``MuData`` holds modalities of overlapping sets of cells. It goes into a model as it is: a
modality is a view, absent for the cells that it does not hold. The extra ``omics`` is needed.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from anndata import AnnData
from mudata import MuData, set_options
from sklearn.model_selection import train_test_split

import kernelquilt as kq

set_options(pull_on_update=False)

# %%
# Made-up cells of three types; RNA was sequenced for most, proteins were counted for some.
views, cell_type = kq.datasets.make_multiview(
    300, 2, n_features=[30, 12], relevance=[1.0, 1.0], n_classes=3, random_state=0
)
cells = np.array([f"cell{i:03}" for i in range(300)])
rng = np.random.default_rng(0)
modalities = {}
for name, view, share in zip(("rna", "protein"), views.names, (0.8, 0.6), strict=True):
    chosen = np.sort(rng.choice(300, int(share * 300), replace=False))
    table = pd.DataFrame(views[view][chosen], index=cells[chosen]).add_prefix(f"{name}_")
    modalities[name] = AnnData(table)
mdata = MuData(modalities)
mdata.obs["type"] = pd.Series(cell_type, index=cells).reindex(mdata.obs_names).map("type {}".format)

# %%
# Views and labels, in the order of the cells of the MuData.
X, y = kq.MultiView.from_mudata(mdata, label="type")
print(X)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = kq.QuiltClassifier(random_state=0).fit(X_train, y_train)
print(f"accuracy on {len(y_test)} other cells: {model.score(X_test, y_test):.3f}")

# %%
# How sure it is of cells with one modality and with both.
proba = model.predict_proba(X_test).max(axis=1)
rna, protein = X_test.observed.T
groups = {"rna only": rna & ~protein, "protein only": protein & ~rna, "both": rna & protein}
figure, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
ax.boxplot([proba[chosen] for chosen in groups.values()], widths=0.5)
ax.set_xticks(range(1, 4), [f"{name}\n{chosen.sum()} cells" for name, chosen in groups.items()])
ax.set(ylabel="largest class probability")
plt.show()
