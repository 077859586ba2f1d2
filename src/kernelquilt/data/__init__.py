"""What a user hands over: named views, stacks of kernels, and transformers of views."""

from kernelquilt.data.conversion import as_views
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.views import MultiView

__all__ = [
    "KernelStack",
    "MultiView",
    "ViewTransformer",
    "as_views",
]
