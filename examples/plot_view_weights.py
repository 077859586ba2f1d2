"""
Which views matter, and what absence costs
==========================================

Three data frames hold measurements of overlapping sets of samples. They are joined on their index,
tuned by cross-validation, and the weights of the views are drawn.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq

# %%
# Each clinic measured one group of features, for some of the patients.
complete, diagnosis = kq.datasets.load_example("wdbc")
labels = pd.Series(diagnosis)
frames = {
    name: pd.DataFrame(complete[name]).sample(frac=share, random_state=seed)
    for seed, (name, share) in enumerate(zip(complete.names, (0.9, 0.6, 0.7), strict=True))
}
X = kq.MultiView.from_frames(frames)
y = labels[X.index].to_numpy()
print(X)

# %%
# Preprocessing and classifier are one estimator, tuned with scikit-learn's own grid search.
train, test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
pipeline = make_pipeline(kq.ViewTransformer(StandardScaler()), kq.SimpleMKLClassifier())
search = GridSearchCV(pipeline, {"simplemklclassifier__C": [0.1, 1, 10, 100]}, cv=5)
search.fit(train, y_train)
print(f"C = {search.best_params_['simplemklclassifier__C']:g}")
print(f"test accuracy {search.score(test, y_test):.3f}")

# %%
# The weights say which views the classifier uses; the gap says how far they are from optimal.
mkl = search.best_estimator_[-1]
print(f"relative duality gap {mkl.duality_gap_ / mkl.objective_:.1e} after {mkl.n_solves_} solves")
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.barh([name.split("__")[0] for name in mkl.kernel_names_], mkl.weights_, color="#0072B2")
ax.set_xlabel("kernel weight")
figure.savefig("view_weights.png", dpi=150)
