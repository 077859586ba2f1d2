"""From views to kernels, and from kernels to kernels."""
