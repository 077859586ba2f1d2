"""
How many samples do I need?
===========================

A learning curve tells whether more patients would help. The quilt gains most where samples are few;
late fusion costs a fraction of its time and comes near as samples get more.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import StratifiedShuffleSplit, learning_curve

import kernelquilt as kq

# %%
# Five views of digits, half of them absent. The curve is taken by scikit-learn. Each doubling
# brings less. Where the curve is flat, more views help more than more samples.
X, y = kq.datasets.load_example("digits")
X = kq.datasets.make_absent(X, 0.5, random_state=0)
sizes = [40, 80, 160]
splits = StratifiedShuffleSplit(3, train_size=160, test_size=400, random_state=0)
models = {
    "quilt": kq.QuiltClassifier(random_state=0),
    "late fusion": kq.LateFusionClassifier(random_state=0),
    "observed fraction": kq.ObservedFractionMKLClassifier(10),
}
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for name, model in models.items():
    _, _, scores = learning_curve(model, X, y, train_sizes=sizes, cv=splits)
    means = scores.mean(axis=1)
    ax.errorbar(sizes, means, scores.std(axis=1), marker="o", capsize=3, label=name)
    print(f"{name}: {means[0]:.3f} with 40 samples, {means[-1]:.3f} with 160")
ax.set(xscale="log", xlabel="training samples", ylabel="accuracy")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()
