"""Example data, synthetic data, and masks that make views absent."""

from kernelquilt.datasets.absence import make_absent
from kernelquilt.datasets.examples import Example, load_example
from kernelquilt.datasets.synthetic import make_multiview
from kernelquilt.datasets.toy_kernels import make_toy_kernels

__all__ = ["Example", "load_example", "make_absent", "make_multiview", "make_toy_kernels"]
