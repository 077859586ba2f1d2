"""Completion of kernels: transformers from stacks with absent samples to stacks without."""
