"""Everything public, found by walking the families, and what the contracts must know about it.

An estimator that a family exports goes through the contracts of its kind by itself, made with its
default parameters. Where that cannot be, it is said here, once, with the reason.
"""

import inspect
from types import ModuleType

from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from kernelquilt.data.preparation import ColumnPreparation

FAMILIES = {
    name: module for name in kq.__all__ if isinstance(module := getattr(kq, name), ModuleType)
}

# what the contracts make of an estimator instead of one with default parameters
VARIANTS = {
    kq.ViewTransformer: [{}, {"transformers": StandardScaler()}],
    kq.ScaleKernels: [{}, {"method": "unit_trace"}],
    kq.EmpiricalKernelMap: [{}, {"kernels": "gaussian"}, {"kernels": "gaussian", "factors": True}],
    kq.mkl.CCAFusion: [{}, {"fusion": "vote"}],
    kq.MKLSearchCV: [
        {"estimator": kq.SimpleMKLClassifier(), "param_grid": {"C": [0.1, 10.0]}, "cv": 2},
        {"estimator": kq.SimpleMKLRegressor(), "param_grid": {"C": [0.1, 10.0]}, "cv": 2},
    ],
    kq.completion.CompletionSearchCV: [
        {"completer": kq.TransferFill(), "param_grid": {"eps": [0.1, 1.0]}}
    ],
    # a forest draws at random and sees columns, which a stack does not have: test_members.py
    kq.QuiltClassifier: [{"experts": None}],
    kq.QuiltRegressor: [{"experts": None}],
    kq.TransferFill: [{}, {"weighting": "loo", "n_passes": 2, "constant": 0.0}],
    kq.WishartCompletion: [{}, {"n_sweeps": 2, "residual": False}],
    kq.completion.EmbeddingCompletion: [{"tol": 1e-3}],
    kq.completion.ApproximationCompletion: [{"tol": 1e-3}],
    kq.completion.SDPCompletion: [{"tol": 1e-4}],
    kq.completion.LatentFactorCompletion: [{"tol": 1e-2}],
}

_ANY_NUMBER = "works with any number of samples, in common or not"
_OWN_FUNCTIONS = "every kernel has a function and duals of its own"
# contract -> the estimators that it is not for, and why
EXCEPTIONS = {
    "to be exported": {
        ColumnPreparation: "is what ViewTransformer and the quilt do to the columns of one view",
    },
    "targets that are classes or numbers": {
        kq.QuiltSurvival: "learns from events and times; its contracts are in test_survival.py",
    },
    "weights of kernels": {
        kq.mkl.CCAFusion: "projects the views and hands them to another classifier",
    },
    "checks of the data in one place": {
        kq.mkl.CCAFusion: "hands the data on to estimators, each of which checks its own",
    },
    "more than two views": {
        kq.mkl.SVM2KClassifier: "is a method for two views; its contracts are in test_svm2k.py",
    },
    "outputs that are arrays": {
        kq.ViewTransformer: "views are transformed to views",
        kq.ViewKernels: "views are transformed to a stack of kernels",
        kq.EmpiricalKernelMap: "kernels are mapped to views",
        kq.kernels.FeatureKernels: "views are mapped to factors",
        kq.mkl.NmCCA: "views are transformed to views",
    },
    "duals in common": {
        kq.mkl.MHKSClassifier: _OWN_FUNCTIONS,
        kq.mkl.MultiKernelMHKSClassifier: _OWN_FUNCTIONS,
        kq.mkl.SVM2KClassifier: _OWN_FUNCTIONS,
        kq.mkl.MultiViewSVMClassifier: _OWN_FUNCTIONS,
    },
    "one weight of a kernel for all samples": {
        kq.mkl.LocalizedMKLClassifier: "the weights of a kernel differ between samples",
    },
    "completion without help": {
        kq.completion.AuxiliaryEMCompletion: "needs a kernel that every sample has",
    },
    "relations of kernels": {
        kq.completion.ZeroFill: _ANY_NUMBER,
        kq.completion.MeanFill: _ANY_NUMBER,
        kq.completion.EMFill: _ANY_NUMBER,
        kq.completion.SVTFill: _ANY_NUMBER,
    },
}


def public(family=None):
    """Return the public functions and classes by their names below `kq`, or those of a family."""
    found = {
        f"{name}.{each}": getattr(module, each)
        for name, module in FAMILIES.items()
        for each in module.__all__
        if family in (None, name)
    }
    if family is None:
        # what the top level has from families is known already
        top = {name: getattr(kq, name) for name in kq.__all__}
        found |= {k: v for k, v in top.items() if callable(v) and v not in found.values()}
    return found


def public_callables():
    """Return what is public and its own public methods, by name below `kq`."""
    found = {}
    for name, thing in public().items():
        found[name] = thing
        if inspect.isclass(thing):
            for method, value in inspect.getmembers(thing):
                ours = (inspect.isfunction(value) or inspect.ismethod(value)) and (
                    value.__module__.startswith("kernelquilt")
                )
                if ours and not method.startswith("_"):
                    found[f"{name}.{method}"] = value
    return found


def functions(prefix=""):
    """Return the public functions whose names begin with `prefix`."""
    return [
        thing
        for thing in public().values()
        if inspect.isfunction(thing) and thing.__name__.startswith(prefix)
    ]


def estimators(kind=BaseEstimator, family=None):
    """Return the public estimators that are a `kind` of scikit-learn's.

    Kernel functions have parameters as estimators have, but neither predict nor transform.
    """
    return [
        thing
        for thing in public(family).values()
        if inspect.isclass(thing)
        and issubclass(thing, BaseEstimator)
        and issubclass(thing, kind)
        and (hasattr(thing, "predict") or hasattr(thing, "transform"))
    ]


def transformers(family=None):
    """Return the public transformers that are no searches."""
    searches = estimators(MetaEstimatorMixin, family)
    return [each for each in estimators(TransformerMixin, family) if each not in searches]


def predictors():
    """Return the public classifiers and regressors."""
    return estimators(ClassifierMixin) + estimators(RegressorMixin)


def held_to(classes, *contracts):
    """Return those of `classes` that all `contracts` are for."""
    return [
        each for each in classes if not any(each in EXCEPTIONS[contract] for contract in contracts)
    ]


def instances(classes):
    """Return what the contracts make of `classes`: one estimator each, or the variants of it."""
    return [each(**parameters) for each in classes for parameters in VARIANTS.get(each, [{}])]
