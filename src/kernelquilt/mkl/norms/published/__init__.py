"""The published solvers of l1-norm MKL, as baselines."""
