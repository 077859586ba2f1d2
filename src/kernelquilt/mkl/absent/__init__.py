"""Kernels that are absent for some samples."""
