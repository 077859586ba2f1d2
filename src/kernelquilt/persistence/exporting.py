"""From a fitted model to a plan of arrays that numpy alone can follow.

What the plan says is computed in :mod:`kernelquilt.persistence.numpy_predictor`. Maps that are
applied one after the other are multiplied out where that changes no more than rounding.
"""

from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kernelquilt import __version__
from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Floats, Indices
from kernelquilt.data.preparation import ColumnPreparation
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.kernels.factor_input import FactorInput
from kernelquilt.kernels.functions import Gaussian, Jaccard, LatentSemantic, MedianGaussian
from kernelquilt.kernels.view_kernels import ViewKernels
from kernelquilt.mkl.absent.convex import ConvexAbsentMKLClassifier
from kernelquilt.mkl.agreement.averaging import ViewAverageClassifier
from kernelquilt.mkl.agreement.cca_fusion import CCAFusion
from kernelquilt.mkl.agreement.mhks import MHKSClassifier
from kernelquilt.mkl.classifier import BaseMKLClassifier
from kernelquilt.mkl.per_sample.gate_inputs import ViewFeatures
from kernelquilt.mkl.per_sample.localized import LocalizedMKLClassifier
from kernelquilt.mkl.per_sample.sample_adaptive import SampleAdaptiveMKLClassifier
from kernelquilt.mkl.regression.absent import ObservedFractionMKLRegressor
from kernelquilt.mkl.regression.regressor import BaseMKLRegressor
from kernelquilt.persistence.numpy_predictor import FORMAT, NumpyPredictor
from kernelquilt.quilt.classifier import QuiltClassifier
from kernelquilt.quilt.experts import ColumnExpert
from kernelquilt.quilt.forests import FORESTS, LEAF, TreeArrays
from kernelquilt.quilt.late_fusion import LateFusionClassifier, LateFusionRegressor
from kernelquilt.quilt.lp_ridge.classifier import LpMKLRidgeClassifier
from kernelquilt.quilt.lp_ridge.regressor import LpMKLRidgeRegressor
from kernelquilt.quilt.model import TransferCompletion
from kernelquilt.quilt.regressor import QuiltRegressor
from kernelquilt.quilt.space.pair_maps import BySamples
from kernelquilt.quilt.survival.quilt import QuiltSurvival

Plan = dict[str, Any]

FUNCTION_PARAMETERS = {"gamma", "degree", "coef0"}


def export(model: Any) -> NumpyPredictor:
    """Make a minimal predictor of a fitted model, which needs numpy alone.

    For services and devices on which the library is not wanted: the predictor, or the file that
    its `save` writes and one Python file beside, gives the same scores, probabilities and
    predictions to rounding.

    Parameters
    ----------
    model : estimator
        A fitted estimator of the quilt family (with forests or without experts on columns), or of
        the MKL family, on views, kernels or factors; a search around one; or a pipeline of
        ``ViewTransformer()``, `ViewKernels` or both and one.

    Returns
    -------
    NumpyPredictor
        With `predict`, `decision_function` and `predict_proba` where the model has them, its size
        as `n_bytes`, and `save`.

    Raises
    ------
    ValueError
        Names what needs more than numpy: kernels and transformers of your own, other experts than
        forests, completers, sparse views.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.SimpleMKLClassifier().fit(X, y)
    >>> exported = kq.export(model)
    >>> exported.predict({"worst": X["worst"][:3]}).tolist()  # the other views are absent
    ['malignant', 'malignant', 'malignant']
    """
    check_is_fitted(model)
    name = type(model).__name__
    before, computed, model = _unwrapped(model)
    fitted = model.regressor_ if isinstance(model, QuiltSurvival) else model
    kernels = _Kernels(fitted, before, computed)
    head, finish = _head_and_finish(model, kernels)
    return NumpyPredictor(
        {
            "format": FORMAT,
            "kernelquilt": __version__,
            "estimator": name,
            "input": kernels.input(),
            "kernels": kernels.plans,
            "head": head,
            "finish": finish,
        }
    )


def _unwrapped(model: Any) -> tuple[list[ViewTransformer], ViewKernels | None, Any]:
    """Return what prepares views and computes kernels before the model, and the model itself."""
    before: list[ViewTransformer] = []
    computed = None
    while hasattr(model, "best_estimator_") or isinstance(model, Pipeline):
        if not isinstance(model, Pipeline):
            model = model.best_estimator_
            continue
        for name, step in model.steps[:-1]:
            if type(step) is ViewTransformer and computed is None:
                before.append(step)
            elif type(step) is ViewKernels and computed is None and step.dtype == np.float64:
                computed = step
            elif step not in (None, "passthrough"):
                raise _refusal(
                    f"step {name!r} of the pipeline, {step!r},",
                    "ViewTransformer() and then ViewKernels() of float64 before the model",
                )
        model = model.steps[-1][1]
    return before, computed, model


def _refusal(what: str, instead: str) -> ValueError:
    return ValueError(f"{what} cannot be exported; what can is {instead}. kq.save keeps any model")


class _Kernels:
    """The kernels of a model with training samples, and what they need of new samples.

    Parameters
    ----------
    model : estimator
    before : list of ViewTransformer
        What prepares views for it.
    computed : ViewKernels or None
        What computes kernels for it.

    Attributes
    ----------
    plans : list of dict
    """

    def __init__(
        self, model: Any, before: list[ViewTransformer], computed: ViewKernels | None
    ) -> None:
        if not hasattr(model, "input_"):
            raise _refusal(type(model).__name__, "a model of the quilt or the MKL family")
        self.model, self.before, self.held = model, before, model.input_
        if isinstance(self.held, FactorInput) and self.held.map is not None:
            self.held = self.held.map.input_
        self.computed = computed if self.held.views is None else self.held.view_kernels
        self.plans: list[Plan] = []
        self._blocks: dict[tuple[int, bytes], Floats] = {}
        first = [*before, model if computed is None else computed][0]
        self.first, self.views = first, list(getattr(first, "view_forms_", {}))

    def add(self, m: int, columns: Indices | None) -> int:
        """Add kernel m with some training samples, or the columns of its view, and number it."""
        name, function, points, source = self.held.names[m], None, None, m
        if self.computed is not None:
            source = self.views.index(self.computed.view_of(m))
        if self.computed is not None and columns is not None:
            function = _function(self.computed.kernels_[m], name)
            key = source, columns.tobytes()
            if key not in self._blocks:
                block = self.computed.training_views_[self.computed.view_of(m)]
                if getattr(self.held, "held", None) is not None:
                    columns = np.searchsorted(self.held.held, columns)
                self._blocks[key] = np.ascontiguousarray(block[columns])
            points, columns = self._blocks[key], None
        self.plans.append(
            {
                "name": name,
                "source": source,
                "function": function,
                "points": points,
                "columns": columns,
            }
        )
        return len(self.plans) - 1

    def input(self) -> Plan:
        """Return what samples consist of."""
        if isinstance(self.held, FactorInput):
            views = [
                _view(name, int(rank), None)
                for name, rank in zip(self.held.names, self.held.ranks, strict=True)
            ]
            return {"kind": "views", "views": views, "columns": None}
        if self.computed is None:
            n_train = len(self.held.observed)
            return {"kind": "kernels", "names": list(self.held.names), "n_train": n_train}
        first = self.first
        sparse = [name for name, form in first.view_forms_.items() if form.sparse]
        if sparse:
            raise _refusal(f"the sparse views {quoted(sparse)}", "a model of dense views")
        names = self.computed.training_views_.names
        seen = dict(zip(names, self.computed.seen_views_.tolist(), strict=True))
        views = []
        for name, form in first.view_forms_.items():
            view = _view(name, form.size, form.columns)
            view["before"] = [
                _preparation(each.transformers_[name], name)
                for each in self.before
                if name in each.transformers_
            ]
            own = getattr(self.model, "preparation_", None)
            if own is not None and name in own.transformers_:
                view["preparation"] = _preparation(own.transformers_[name], name)
            view["seen"] = seen.get(name, True)  # one that only gates depend on is no kernel
            views.append(view)
        columns = getattr(first, "view_columns_", None)
        return {
            "kind": "views",
            "views": views,
            "columns": None if columns is None else {k: np.asarray(v) for k, v in columns.items()},
            "n_columns": first.n_features_in_,
        }


def _view(name: str, size: int, columns: tuple[str, ...] | None) -> Plan:
    names = None if columns is None else list(columns)
    return {
        "name": name,
        "size": size,
        "columns": names,
        "before": [],
        "preparation": None,
        "seen": True,
    }


def _preparation(step: Any, name: str) -> Plan:
    """Return how the columns of a view are prepared."""
    if type(step) is not ColumnPreparation:
        raise _refusal(f"the transformer {step!r} of view {name!r}", "ViewTransformer()")
    scaler, encoder = step.scaler_, step.encoder_
    mean = np.zeros(0) if scaler is None else scaler.mean_
    return {
        "numbers": step.number_columns_,
        "mean": mean,
        "scale": np.ones(len(mean)) if scaler is None or not step.scale else scaler.scale_,
        "scaled": step.scale,
        "categories": step.category_columns_,
        "values": [] if encoder is None else [each.tolist() for each in encoder.categories_],
    }


def _function(kernel: Any, name: str) -> Plan:
    """Return name and parameters of a fitted kernel function."""
    if type(kernel) is Gaussian:
        return {"name": "gaussian", "unit": kernel.unit_, "width": kernel.width_}
    if type(kernel) is MedianGaussian:
        return {
            "name": "median_gaussian",
            "mean": kernel.mean_,
            "deviation": kernel.deviation_,
            "squared_width": kernel.squared_width_,
        }
    if type(kernel) is Jaccard:
        return {"name": "jaccard"}
    if type(kernel) is LatentSemantic:
        return {"name": "latent_semantic", "components": kernel.components_}
    function, options = kernel, {}
    if isinstance(kernel, partial) and not kernel.args:
        function, options = kernel.func, kernel.keywords
    named = [name for name, each in PAIRWISE_KERNEL_FUNCTIONS.items() if each is function]
    if not named or not set(options) <= FUNCTION_PARAMETERS:
        raise _refusal(f"kernel {name!r}, {kernel!r},", "a kernel that has a name")
    return {"name": "polynomial" if "poly" in named else named[0], **options}


# heads


def _head_and_finish(model: Any, kernels: _Kernels) -> tuple[Plan, Plan]:
    """Return what is made of the kernels, and what is returned."""
    numbers: Plan = {"kind": "numbers", "mean": 0.0, "scale": 1.0, "several": False}
    if isinstance(model, QuiltSurvival):
        head = _quilt(model.regressor_, kernels)
        return head | {"risk": True, "members": model.member_weights_}, numbers
    if isinstance(model, BaseMKLRegressor):
        return _mkl(model, kernels), numbers
    if isinstance(model, BaseMKLClassifier):
        head = (_gated if isinstance(model, LocalizedMKLClassifier) else _mkl)(model, kernels)
        return head, _svm(model, model._active_classes, model.multi_class)
    if isinstance(model, CCAFusion):
        classifier = _of_components(model)
        return _projected(model, classifier, kernels), _svm(
            model, classifier._active_classes, classifier.multi_class
        )
    if isinstance(model, QuiltClassifier | QuiltRegressor):
        head = _quilt(model, kernels)
    elif isinstance(model, LateFusionClassifier | LateFusionRegressor):
        head = _late_fusion(model, kernels)
    elif isinstance(model, LpMKLRidgeClassifier | LpMKLRidgeRegressor):
        head = _lp_ridge(model, kernels)
    else:
        raise _refusal(type(model).__name__, "a model of the quilt or the MKL family")
    if hasattr(model, "classes_"):
        return head, {"kind": "log_proba", "classes": _labels(model.classes_)}
    several = np.ndim(model.mean_) > 0
    return head, numbers | {"mean": model.mean_, "scale": model.scale_, "several": several}


def _svm(model: Any, active: Indices, multi_class: str) -> Plan:
    """Return how classes are found from the scores of binary problems."""
    classes = _labels(model.classes_)
    return {"kind": "svm", "classes": classes, "active": active, "multi_class": multi_class}


def _labels(classes: Array) -> Array:
    """Return class labels as an array that a file can hold."""
    if classes.dtype.kind != "O":
        return classes
    if all(isinstance(each, str) for each in classes):
        return np.array(classes.tolist())
    raise _refusal(f"the classes {classes.tolist()}", "a model of classes that are text or numbers")


def _sum(bias: Floats, terms: list[Plan]) -> Plan:
    return {"kind": "sum", "bias": bias, "terms": terms, "fraction": None}


def _term(kernel: int, coef: Floats, offset: Any = None) -> Plan:
    offset = np.zeros(coef.shape[1]) if offset is None else offset
    return {"kernel": kernel, "coef": np.ascontiguousarray(coef), "offset": offset}


def _late_fusion(model: Any, kernels: _Kernels) -> Plan:
    terms = [
        _term(kernels.add(m, ridge.rows), weight * ridge.projection, weight * ridge.bias)
        for m, (ridge, weight) in enumerate(
            zip(model.view_ridges_, model.reliability_, strict=True)
        )
        if ridge is not None and weight > 0
    ]
    return _sum(model.stacking_.bias, terms)


def _lp_ridge(model: Any, kernels: _Kernels) -> Plan:
    weight, bias = 1.0, model.intercept_
    if isinstance(model, LpMKLRidgeClassifier):
        weight = float(model.stacking_.weights[0])
        bias = weight * bias + model.stacking_.bias
    terms = [
        _term(kernels.add(m, made.columns), weight * coef)
        for m, made, coef in zip(
            model._views.kernels.tolist(), model._views.maps, model._coef, strict=True
        )
        if model.weights_[m] > 0
    ]
    return _sum(bias, terms)


def _mkl(model: Any, kernels: _Kernels) -> Plan:
    """Return the head of an SVM, or of the views' own functions."""
    averages = isinstance(model, ViewAverageClassifier | MHKSClassifier)
    weights = np.atleast_2d(model.weights_)
    terms, added = [], []
    for m, coef in enumerate(_coefficients(model, weights, averages)):
        offset = model.view_intercepts_[:, m] if averages else None
        if not (weights[:, m] > 0).any() and (averages or not coef.any()):
            continue
        if isinstance(model.input_, FactorInput):
            if model.input_.map is None:
                term = _term(kernels.add(m, None), coef, offset)
            else:
                landmarks = model.input_.map
                term = _term(
                    kernels.add(m, landmarks.columns_[m]), landmarks.maps_[m] @ coef, offset
                )
        elif averages and hasattr(model, "coef_"):
            term = _term(kernels.add(m, None), coef, offset)
        else:
            used = np.flatnonzero(coef.any(axis=1) & model.input_.observed[:, m])
            term = _term(kernels.add(m, used), coef[used], offset)
        terms.append(term)
        added.append(m)
    head = _sum(model.intercept_, terms)
    if averages:
        return head | {"kind": "mean", "trained": weights[:, added] > 0}
    if isinstance(model, ObservedFractionMKLRegressor):
        head["fraction"] = weights[0, added] > 0
    if isinstance(model, SampleAdaptiveMKLClassifier):
        patterns = model.patterns_ if isinstance(model.patterns_, list) else [model.patterns_]
        return head | {
            "kind": "adaptive",
            "patterns": [each[:, added].astype(np.float64) for each in patterns],
            "both_signs": len(model.classes_) == 2 or model.multi_class == "ovo",
        }
    return head


def _coefficients(model: Any, weights: Floats, averages: bool) -> list[Floats]:
    """Return what similarities, or columns, are multiplied by, (n or r, n_problems) by kernel."""
    M = weights.shape[1]
    if isinstance(model.input_, FactorInput) or (averages and hasattr(model, "coef_")):
        return [coef.T for coef in model.coef_]
    if averages:
        return [model.dual_coef_[:, m].T for m in range(M)]
    if isinstance(model, ConvexAbsentMKLClassifier) and model.formulation != "exact":
        coef = model.dual_coef_.reshape(len(model.intercept_), M, -1)
        return [coef[:, m].T for m in range(M)]
    duals = model.dual_coef_
    if isinstance(model, SampleAdaptiveMKLClassifier):
        switches = model.switches_.reshape(len(weights), -1, M)
        return [(duals * switches[:, :, m] * weights[:, [m]]).T for m in range(M)]
    return [(duals * weights[:, [m]]).T for m in range(M)]


def _gated(model: LocalizedMKLClassifier, kernels: _Kernels) -> Plan:
    """Return the head of kernels that are weighed by gates, the inputs of which come with them."""
    duals = model.dual_coef_[:, :, None] * model.training_gates_
    gate_weights = model.gate_weights_.reshape(len(duals), len(model.kernel_names_), -1)
    opened = np.isfinite(gate_weights[:, :, -1]).any(axis=0)
    features = model.gate_features_
    terms, having = [], np.flatnonzero(model.input_.observed.any(axis=0))
    for m in having.tolist():
        coef = np.hstack([duals[:, :, m].T, features.coef * opened[m]])
        used = np.flatnonzero(coef.any(axis=1) & model.input_.observed[:, m])
        terms.append(_term(kernels.add(m, used), coef[used]))
    if isinstance(features, ViewFeatures):
        inputs: Plan = {
            "columns": [
                {"view": kernels.views.index(name), "mean": mean, "scale": features.scale[name]}
                for name, mean in features.mean.items()
            ]
        }
    else:
        inputs = {"columns": None, "used": features.used[having], "offset": features.offset}
    return _sum(model.intercept_, terms) | {
        "kind": "gated",
        "inputs": inputs,
        "gating": model.gating,
        "gate_weights": gate_weights[:, having],
    }


def _of_components(model: CCAFusion) -> MHKSClassifier:
    """Return the classifier of components, if it is the usual one and knows all classes."""
    classifier = model.estimators_.get("all")
    usual = type(classifier) is MHKSClassifier and hasattr(classifier, "coef_")
    if usual and len(classifier.classes_) == len(model.classes_):
        return classifier
    raise _refusal(
        f"fusion={model.fusion!r} of {model._new_estimator()!r} in CCAFusion",
        "fusion='concatenate' with estimator=None",
    )


def _projected(model: CCAFusion, classifier: MHKSClassifier, kernels: _Kernels) -> Plan:
    """Return the head of a linear classifier of components side by side."""
    q, terms = model.cca_.n_components_, []
    for m in np.flatnonzero(model.cca_.trained_).tolist():
        own = model.scale_ * classifier.coef_[0][:, m * q : (m + 1) * q].T
        coef = model.cca_.projections_[m] @ own
        offset = -(model.cca_.means_[m] @ coef)
        columns = None if model.map_ is None else model.map_.columns_[m]
        coef = coef if model.map_ is None else model.map_.maps_[m] @ coef
        terms.append(_term(kernels.add(m, columns), coef, offset))
    return _sum(classifier.intercept_, terms)


def _quilt(model: Any, kernels: _Kernels) -> Plan:
    """Return the head of a quilt, with the experts on columns beside it."""
    fitted = model._fitted.made_again()
    quilt, views = fitted.quilt, fitted.views
    if not isinstance(quilt.completion, TransferCompletion):
        raise _refusal(f"completion={model.completion!r}", "a quilt with completion=None")
    maps = []
    for m, made, diagonal in zip(views.kernels.tolist(), views.maps, views.diagonals, strict=True):
        kernels.add(m, made.columns)
        maps.append(
            {
                "projection": made.projection,
                "mean": made.mean,
                "scale": made.scale,
                "diagonal": float(diagonal),
            }
        )
    transfer, joint, pattern = quilt.completion.transfer, quilt.joint, quilt.pattern
    return {
        "kind": "quilt",
        "classify": isinstance(model, QuiltClassifier),
        "risk": False,
        "maps": maps,
        "late": [_ridge(each) for each in quilt.late],
        "transfer": {
            "weights": transfer.weights,
            "means": transfer.means,
            "first": [{l: _map(each)[l] for l, each in maps.items()} for maps in transfer.first],
            "second": [None if each is None else _map(each) for each in transfer.second],
        },
        "weighted": _ridge(quilt.weighted.ridge),
        "joint": joint
        and {
            "rate": joint.rate,
            "points": joint.points,
            "lengths": joint.lengths,
            **_ridge(joint.ridge),
        },
        "pattern": pattern
        and {"mean": pattern.map.mean, "scale": pattern.map.scale, **_ridge(pattern.ridge)},
        "stackings": [
            {"weights": each.weights, "bias": each.bias}
            for each in (model.early_stacking_, model.late_stacking_)
        ],
        "members": model.member_weights_,
        "experts": [_forest(each, list(model.view_forms_)) for each in model.experts_],
    }


def _ridge(ridge: Any) -> Plan:
    return {"coef": ridge.coef, "bias": ridge.bias}


def _map(each: Any) -> dict[int, Floats]:
    """Return what the features of views are multiplied by to predict those of another."""
    if not isinstance(each, BySamples):
        return dict(each.maps)
    return {l: a * (each.training[l][each.rows].T @ each.coef) for l, a in each.shares.items()}


def _forest(expert: ColumnExpert, names: list[str]) -> Plan:
    """Return an expert on columns, its trees one after the other."""
    forest, columns = expert.estimator, expert.columns
    if type(forest) not in FORESTS:
        raise _refusal(f"the expert {forest!r}", "a forest, or experts=None")
    trees = TreeArrays.of(forest)
    roots = np.cumsum(trees.sizes) - trees.sizes
    first = np.repeat(roots, trees.sizes)
    left, right = (
        np.where(child == LEAF, LEAF, child + first).astype(np.int32)
        for child in (trees.nodes["left_child"], trees.nodes["right_child"])
    )
    return {
        "views": [names.index(name) for name in columns.views],
        "codes": [
            {str(j): codes for j, codes in columns.codes[name].items()} for name in columns.views
        ],
        "used": columns.used,
        "middle": columns.middle,
        "unit": columns.unit,
        "classify": expert.classify,
        "n_outputs": expert.out_of_sample.shape[1],
        "classes": np.asarray(forest.classes_) if expert.classify else None,
        "roots": roots,
        "left": left,
        "right": right,
        "feature": trees.nodes["feature"].astype(np.int32),
        "threshold": trees.nodes["threshold"],
        "missing_left": trees.nodes["missing_go_to_left"].astype(bool),
        "value": trees.values[:, 0, :] if expert.classify else trees.values[:, :, 0],
    }
