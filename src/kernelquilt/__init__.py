"""Learning from multi-view data in which whole views are absent for some samples."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelquilt import bounds as bounds
    from kernelquilt import completion as completion
    from kernelquilt import data as data
    from kernelquilt import datasets as datasets
    from kernelquilt import inspection as inspection
    from kernelquilt import kernels as kernels
    from kernelquilt import metrics as metrics
    from kernelquilt import mkl as mkl
    from kernelquilt import persistence as persistence
    from kernelquilt import quilt as quilt
    from kernelquilt.completion import TransferFill as TransferFill
    from kernelquilt.completion import WishartCompletion as WishartCompletion
    from kernelquilt.core.weights.solution import Solution as Solution
    from kernelquilt.data import KernelStack as KernelStack
    from kernelquilt.data import LowRankStack as LowRankStack
    from kernelquilt.data import MultiView as MultiView
    from kernelquilt.data import ViewTransformer as ViewTransformer
    from kernelquilt.data import as_views as as_views
    from kernelquilt.data import read_views as read_views
    from kernelquilt.experiments.own_data.card import card as card
    from kernelquilt.kernels import CentreKernels as CentreKernels
    from kernelquilt.kernels import EmpiricalKernelMap as EmpiricalKernelMap
    from kernelquilt.kernels import Gaussian as Gaussian
    from kernelquilt.kernels import ScaleKernels as ScaleKernels
    from kernelquilt.kernels import ViewKernels as ViewKernels
    from kernelquilt.kernels import gaussian_bank as gaussian_bank
    from kernelquilt.mkl import ConvexAbsentMKLClassifier as ConvexAbsentMKLClassifier
    from kernelquilt.mkl import LpMKLClassifier as LpMKLClassifier
    from kernelquilt.mkl import LpMKLRegressor as LpMKLRegressor
    from kernelquilt.mkl import MKLSearchCV as MKLSearchCV
    from kernelquilt.mkl import ObservedFractionMKLClassifier as ObservedFractionMKLClassifier
    from kernelquilt.mkl import SimpleMKLClassifier as SimpleMKLClassifier
    from kernelquilt.mkl import SimpleMKLRegressor as SimpleMKLRegressor
    from kernelquilt.mkl import mkl_path as mkl_path
    from kernelquilt.persistence import export as export
    from kernelquilt.persistence import load as load
    from kernelquilt.persistence import save as save
    from kernelquilt.persistence import show_versions as show_versions
    from kernelquilt.quilt import LateFusionClassifier as LateFusionClassifier
    from kernelquilt.quilt import LateFusionRegressor as LateFusionRegressor
    from kernelquilt.quilt import QuiltClassifier as QuiltClassifier
    from kernelquilt.quilt import QuiltRegressor as QuiltRegressor
    from kernelquilt.quilt import QuiltSurvival as QuiltSurvival

__version__ = "0.2.0.dev0"

# where names are when they are first used, so that the command line starts at once; type checkers
# and editors read the imports above, and a test compares the two
_NAMES = {
    "completion": "TransferFill WishartCompletion",
    "core.weights.solution": "Solution",
    "data": "KernelStack LowRankStack MultiView ViewTransformer as_views read_views",
    "experiments.own_data.card": "card",
    "kernels": "CentreKernels EmpiricalKernelMap Gaussian ScaleKernels ViewKernels gaussian_bank",
    "mkl": "ConvexAbsentMKLClassifier LpMKLClassifier LpMKLRegressor MKLSearchCV "
    "ObservedFractionMKLClassifier SimpleMKLClassifier SimpleMKLRegressor mkl_path",
    "persistence": "export load save show_versions",
    "quilt": "LateFusionClassifier LateFusionRegressor QuiltClassifier QuiltRegressor "
    "QuiltSurvival",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_PACKAGES = (
    "bounds",
    "completion",
    "data",
    "datasets",
    "inspection",
    "kernels",
    "metrics",
    "mkl",
    "persistence",
    "quilt",
)
__all__ = ["__version__", *_HOMES, *_PACKAGES]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # a type checker is to find names that do not exist

    def __getattr__(name):
        if name in _PACKAGES:
            return import_module(f"kernelquilt.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"kernelquilt.{_HOMES[name]}"), name)
        return value
