"""What a user hands over: named views, stacks of kernels, transformers of views, readers."""

from kernelquilt.data.files.reading import read_views
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.validation import as_views
from kernelquilt.data.views import MultiView

__all__ = [
    "KernelStack",
    "LowRankStack",
    "MultiView",
    "ViewTransformer",
    "as_views",
    "read_views",
]
