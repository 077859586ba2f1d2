"""What an exported model makes of its kernels, and what it returns."""

from typing import Any

import numpy as np

from kernelquilt._typing import Array, Floats, Indices
from kernelquilt.kernels.factor_input import FactorInput
from kernelquilt.mkl.absent.convex import ConvexAbsentMKLClassifier
from kernelquilt.mkl.agreement.averaging import ViewAverageClassifier
from kernelquilt.mkl.agreement.cca_fusion import CCAFusion
from kernelquilt.mkl.agreement.mhks import MHKSClassifier
from kernelquilt.mkl.fitting import BaseMKLClassifier
from kernelquilt.mkl.per_sample.gate_inputs import ViewFeatures
from kernelquilt.mkl.per_sample.localized import LocalizedMKLClassifier
from kernelquilt.mkl.per_sample.sample_adaptive import SampleAdaptiveMKLClassifier
from kernelquilt.mkl.regression.absent import ObservedFractionMKLRegressor
from kernelquilt.mkl.regression.regressor import BaseMKLRegressor
from kernelquilt.persistence.kernel_plans import KernelPlans, Plan, refusal
from kernelquilt.quilt.classifier import QuiltClassifier
from kernelquilt.quilt.experts import ColumnExpert
from kernelquilt.quilt.forests import FORESTS, LEAF, TreeArrays
from kernelquilt.quilt.late_fusion import LateFusionClassifier, LateFusionRegressor
from kernelquilt.quilt.lp_ridge.classifier import LpMKLRidgeClassifier
from kernelquilt.quilt.lp_ridge.regressor import LpMKLRidgeRegressor
from kernelquilt.quilt.regressor import QuiltRegressor
from kernelquilt.quilt.space.model import TransferCompletion
from kernelquilt.quilt.space.pair_maps import BySamples
from kernelquilt.quilt.survival.quilt import QuiltSurvival


def head_and_finish(model: Any, kernels: KernelPlans) -> tuple[Plan, Plan]:
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
    if isinstance(model, CCAFusion) and model.fusion == "vote":
        return _voted(model, kernels), {"kind": "scores", "classes": _labels(model.classes_)}
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
        raise refusal(type(model).__name__, "a model of the quilt or the MKL family")
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
    raise refusal(f"the classes {classes.tolist()}", "a model of classes that are text or numbers")


def _sum(bias: Floats, terms: list[Plan]) -> Plan:
    return {"kind": "sum", "bias": bias, "terms": terms, "fraction": None}


def _term(kernel: int, coef: Floats, offset: Any = None) -> Plan:
    offset = np.zeros(coef.shape[1]) if offset is None else offset
    return {"kernel": kernel, "coef": np.ascontiguousarray(coef), "offset": offset}


def _late_fusion(model: Any, kernels: KernelPlans) -> Plan:
    terms = [
        _term(kernels.add(m, ridge.rows), weight * ridge.projection, weight * ridge.bias)
        for m, (ridge, weight) in enumerate(
            zip(model.view_ridges_, model.reliability_, strict=True)
        )
        if ridge is not None and weight > 0
    ]
    return _sum(model.stacking_.bias, terms)


def _lp_ridge(model: Any, kernels: KernelPlans) -> Plan:
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


def _mkl(model: Any, kernels: KernelPlans) -> Plan:
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


def _gated(model: LocalizedMKLClassifier, kernels: KernelPlans) -> Plan:
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


def _usual(model: CCAFusion, classifier: Any) -> MHKSClassifier:
    """Return a classifier of components, if it is the usual, linear one."""
    if isinstance(classifier, MHKSClassifier) and hasattr(classifier, "coef_"):
        return classifier
    raise refusal(f"CCAFusion of {model._new_estimator()!r}", "CCAFusion with estimator=None")


def _of_components(model: CCAFusion) -> MHKSClassifier:
    """Return the classifier of components side by side, if it knows all classes."""
    classifier = _usual(model, model.estimators_["all"])
    if len(classifier.classes_) < len(model.classes_):
        raise refusal("CCAFusion with classes of which no sample has a view", "one without")
    return classifier


def _projected(model: CCAFusion, classifier: MHKSClassifier, kernels: KernelPlans) -> Plan:
    """Return the head of a linear classifier of components side by side."""
    q, terms = model.cca_.n_components_, []
    for m in np.flatnonzero(model.cca_.trained_).tolist():
        own = classifier.coef_[0][:, m * q : (m + 1) * q]
        terms.append(_of_view(model, m, own, kernels))
    return _sum(classifier.intercept_, terms)


def _of_view(model: CCAFusion, m: int, own: Floats, kernels: KernelPlans) -> Plan:
    """Return the term of coefficients (n_problems, q) of the components of a view."""
    coef = model.cca_.projections_[m] @ (model.scale_ * own.T)
    offset = -(model.cca_.means_[m] @ coef)
    if model.map_ is None:
        return _term(kernels.add(m, None), coef, offset)
    return _term(kernels.add(m, model.map_.columns_[m]), model.map_.maps_[m] @ coef, offset)


def _voted(model: CCAFusion, kernels: KernelPlans) -> Plan:
    """Return the head of a linear classifier of the components of each view, which vote."""
    voters = []
    for name, each in model.estimators_.items():
        classifier, m = _usual(model, each), kernels.held.names.index(name)
        voters.append(
            {
                "term": _of_view(model, m, classifier.coef_[0], kernels),
                "bias": classifier.intercept_,
                "known": np.searchsorted(model.classes_, classifier.classes_),
                "active": classifier._active_classes,
                "multi_class": classifier.multi_class,
            }
        )
    return {"kind": "vote", "voters": voters, "prior": model.class_prior_}


def _quilt(model: Any, kernels: KernelPlans) -> Plan:
    """Return the head of a quilt, with the experts on columns beside it."""
    fitted = model._fitted.made_again()
    quilt, views = fitted.quilt, fitted.views
    if not isinstance(quilt.completion, TransferCompletion):
        raise refusal(f"completion={model.completion!r}", "a quilt with completion=None")
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
        raise refusal(f"the expert {forest!r}", "a forest, or experts=None")
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
