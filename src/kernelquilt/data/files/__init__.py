"""Views, kernels and labels from files."""
