"""
How far from the optimum?
=========================

Every convex problem of this package ends with a duality gap: a number that says how far the
objective may be above its minimum. Here are four solvers of the same problem, and how fast each
closes the gap.
"""

import matplotlib.pyplot as plt

import kernelquilt as kq

# %%
# Twelve kernels, four of each view.
X, y = kq.datasets.load_example("wdbc")
X, y = X[:200], y[:200]
bank = kq.gaussian_bank(4, 2**-3, 2**3, spacing="log")
stack = kq.ViewKernels(bank).fit_transform(X)

# %%
# An SVM is solved at every step, which is what a fit costs.
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for solver, cap in {"newton": 200, "level": 200, "silp": 200, "reduced_gradient": 400}.items():
    model = kq.SimpleMKLClassifier(10, tol=1e-5, solver=solver, max_iter=cap)
    if solver == "reduced_gradient":  # the only one that needs hundreds of solves
        model.set_params(tol=1e-2)
    steps = model.fit(stack, y).history_[0]
    ax.plot(
        [step.n_solves for step in steps],
        [max(step.gap / step.objective, 1e-7) for step in steps],
        ".-",
        label=solver.replace("_", " "),
    )
    print(f"{solver}: {model.n_solves_} solves, objective {model.objective_:.4f}")
ax.set(xscale="log", yscale="log", xlabel="SVM solves", ylabel="relative duality gap")
ax.legend(frameon=False)
plt.show()
