"""Random cases over everything public: what is made of a seed, and what may come of it.

A seed stands for one case: an estimator, container or command, its parameters, and data. Numbers
are drawn by the seed alone, so that a case can be repeated anywhere. An outcome is good if it is a
finite result of the right shape, or an error of the package or of scikit-learn's validation that
leaves the estimator as it was. Everything else is a finding.
"""

import io
import math
import pickle
import traceback
import warnings
from contextlib import redirect_stdout
from numbers import Integral, Real
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import has_fit_parameter

import kernelquilt as kq
from discovery import VARIANTS, estimators, transformers
from fuzz.commands import run_command

KERNELS = [
    "gaussian",
    "linear",
    "rbf",
    "polynomial",
    "cosine",
    "laplacian",
    kq.Gaussian(0.5),
    kq.kernels.MedianGaussian(),
    ["gaussian", "linear"],
    [kq.Gaussian(2.0**k) for k in (-3, 0, 3)],
]
LIMITS = {"float32": (-1e38, 1e38), "float64": (-1e307, 1e307)}
# fits of some ten samples are to take some ten milliseconds
CHEAP = {"n_trees": 5, "max_iter": 30, "n_jobs": None, "verbose": 0}
# no errors of ours, though raised where the data are checked
CRYPTIC = (
    "zero-size array",
    "could not be broadcast",
    "not aligned",
    "not subscriptable",
    "object is not",
    "need at least one array",
    "must not contain infs or NaNs",
    "unsupported operand",
    "unexpected keyword",
    "invalid literal",
    "empty sequence",
)


OURS = ("/kernelquilt/", "/sklearn/utils/", "/sklearn/base", "/sklearn/model_selection/")


class Outcome(NamedTuple):
    """What came of a case: "result", "refused" or "finding", and what to know about it."""

    kind: str
    about: str = ""


class Case(NamedTuple):
    """One case: a name to show, and a function without arguments that runs it."""

    name: str
    run: object


def chance(rng, share):
    return rng.random() < share


def pick(rng, options):
    return options[int(rng.integers(len(options)))]


# -- data


def scale(rng):
    """Return a factor on numbers: mostly moderate, sometimes near the limits of a float."""
    kind = rng.random()
    if kind < 0.6:
        return 1.0
    exponent = 8 if kind < 0.85 else 160 if kind < 0.95 else 307
    return 10.0 ** rng.uniform(-exponent, exponent)


def blocks(rng, n):
    """Return views by name, and which samples have them."""
    found = {}
    signal = rng.standard_normal(n)
    for name in "abcd"[: int(rng.integers(1, 5))]:
        d = 40 if chance(rng, 0.05) else int(rng.integers(1, 6))
        block = rng.standard_normal((n, d)) + np.outer(signal, rng.standard_normal(d))
        kind = rng.random()
        if kind < 0.08:
            block[:] = 1.0
        elif kind < 0.16:
            block = np.round(block)
        elif kind < 0.24:
            block = block[rng.integers(0, n, n)]
        elif kind < 0.3:
            block = np.where(rng.random((n, d)) < 0.7, 0.0, block)
        with np.errstate(over="ignore"):
            block = block * scale(rng)
        found[name] = block if np.isfinite(block).all() else np.clip(block, -1e308, 1e308)
    share = pick(rng, [0.0, 0.0, 0.2, 0.4, 0.7])
    observed = rng.random((n, len(found))) >= share
    if chance(rng, 0.85):
        observed[np.arange(n), rng.integers(0, len(found), n)] = True
    if chance(rng, 0.05):
        observed[:, 0] = False
    return found, observed


def as_one_array(found, observed):
    X = np.hstack(
        [
            np.where(seen[:, None], block, np.nan)
            for block, seen in zip(found.values(), observed.T, strict=True)
        ]
    )
    ends = np.cumsum([block.shape[1] for block in found.values()])
    views = {
        name: list(range(end - block.shape[1], end))
        for (name, block), end in zip(found.items(), ends, strict=True)
    }
    return X, views


def dressed(rng, found, observed, *, stacks):
    """Return the samples as some kind of input, and parameters that belong to it."""
    kinds = ["array", "frame", "sparse", "float32", "lazy", "factors"]
    kind = "stack" if stacks else pick(rng, ["views"] * 4 + ["stack"] * 3 + kinds)
    if kind == "stack":
        K = np.array(
            [block @ block.T if chance(rng, 0.4) else gaussian(block) for block in found.values()]
        )
        if chance(rng, 0.1):
            K = K + K.std() * rng.standard_normal(K.shape)
        if chance(rng, 0.2):
            K = K * np.array([scale(rng) for _ in K])[:, None, None]
        if chance(rng, 0.3):
            K = K.astype(np.float32)
        return kq.KernelStack(np.clip(K, *LIMITS[K.dtype.name]), observed=observed), {}
    if kind in ("array", "frame"):
        X, views = as_one_array(found, observed)
        if chance(rng, 0.05):
            X[0, 0] = pick(rng, [np.nan, np.inf])
        return (pd.DataFrame(X).rename(columns=str) if kind == "frame" else X), {
            "views": {k: [str(c) for c in v] for k, v in views.items()}
            if kind == "frame"
            else views
        }
    if kind == "factors":
        dtype = pick(rng, ["float32", "float64"])
        factors = [np.clip(block, *LIMITS[dtype]).astype(dtype) for block in found.values()]
        return kq.LowRankStack(factors, observed=observed), {}
    if kind == "lazy":
        return kq.MultiView.stream(found, observed=observed), {}
    if kind == "sparse":
        found = {**found, "a": sparse.csr_matrix(found["a"])}
    if kind == "float32":
        found = {name: np.clip(b, -1e38, 1e38).astype(np.float32) for name, b in found.items()}
    return kq.MultiView(found, observed=observed), {}


def gaussian(block):
    size = float(np.abs(block).max()) or 1.0
    apart = ((block[:, None] / size - block / size) ** 2).sum(axis=2)
    return np.exp(-apart / (apart.mean() or 1.0))


def labels(rng, n):
    n_classes = pick(rng, [2, 2, 2, 3, 4]) if not chance(rng, 0.03) else 1
    codes = rng.integers(0, n_classes, n)
    codes[: min(n, n_classes)] = np.arange(min(n, n_classes))
    if chance(rng, 0.1):
        codes = np.minimum(codes, (np.arange(n) == n - 1).astype(int))
    kind = pick(rng, ["int", "int", "text", "float", "bool"])
    if kind == "text":
        return np.array(["no", "yes", "maybe", "="])[codes]
    return codes > 0 if kind == "bool" else codes.astype(kind) * (1 if kind == "int" else 2.0)


def survival(rng, n):
    y = np.zeros(n, dtype=[("event", bool), ("time", float)])
    y["event"] = rng.random(n) < pick(rng, [0.2, 0.7, 1.0])
    y["time"] = np.abs(targets(rng, n))
    if chance(rng, 0.2):
        y["time"] = np.round(y["time"])
    return y


def targets(rng, n):
    with np.errstate(over="ignore"):
        y = rng.standard_normal(n) * scale(rng)
    return np.clip(y, -1e308, 1e308) if not chance(rng, 0.05) else np.ones(n)


def weights(rng, n):
    kind = rng.random()
    if kind < 0.6:
        return None
    weight = rng.uniform(0.1, 2.0, n)
    if kind < 0.75:
        weight = np.round(weight)
    if kind > 0.9:
        weight = np.clip(weight * scale(rng), 0.0, 1e308)
    return weight


# -- parameters


def number(rng, interval):
    """Return a number of an interval, by its logarithm where it has no upper end."""
    low = -10.0 if interval.left is None or interval.left == -np.inf else float(interval.left)
    high = interval.right
    if interval.type is Integral:
        top = low + 20 if high is None or high == np.inf else float(high)
        return int(rng.integers(math.ceil(low), math.floor(min(top, low + 20)) + 1))
    if high is None or high == np.inf or high > 1e50:
        spread = 2.0 if chance(rng, 0.8) else 12.0 if chance(rng, 0.8) else 200.0
        value = low + 10.0 ** rng.uniform(-spread, spread)
    else:
        value = low + (float(high) - low) * rng.random()
    return float(min(max(value, low), 1e300))


def computes_kernels(estimator):
    """Whether the parameter `kernels` says how kernels are computed, not which are selected."""
    return not isinstance(estimator, kq.kernels.SelectKernels)


def parameters(rng, estimator):
    """Return some parameters of an estimator, drawn from its constraints."""
    constraints = getattr(estimator, "_parameter_constraints", {})
    chosen = {}
    for name in estimator.get_params(deep=False):
        options = constraints.get(name)
        if name in CHEAP:
            chosen |= {name: CHEAP[name]} if name != "max_iter" or chance(rng, 0.3) else {}
        elif name == "kernels" and computes_kernels(estimator):
            chosen[name] = pick(rng, KERNELS) if chance(rng, 0.5) else estimator.kernels
        elif name == "random_state":
            chosen[name] = int(rng.integers(100))
        elif isinstance(options, list) and chance(rng, 0.3):
            one = pick(rng, options)
            if isinstance(one, Interval) and one.type in (Integral, Real):
                chosen[name] = number(rng, one)
            elif isinstance(one, StrOptions):
                chosen[name] = pick(rng, sorted(one.options))
            elif one == "boolean":
                chosen[name] = chance(rng, 0.5)
            elif one is None:
                chosen[name] = None
    if "tol" in chosen:
        chosen["tol"] = max(chosen["tol"], 1e-8)
    return chosen


# -- cases

ESTIMATORS = estimators()
STACKS_ONLY = {*transformers("completion"), kq.CentreKernels, kq.ScaleKernels}
STACKS_ONLY |= {kq.kernels.SelectKernels, kq.completion.CompletionSearchCV}


def make_case(seed):
    """Return the case that a seed stands for."""
    rng = np.random.default_rng([20261117, seed])
    kind = rng.random()
    if kind < 0.02:
        return command_case(rng)
    if kind < 0.08:
        return container_case(rng)
    return estimator_case(rng, ESTIMATORS[seed % len(ESTIMATORS)])


def estimator_case(rng, cls):
    n = int(rng.integers(2, 8)) if chance(rng, 0.1) else int(rng.integers(8, 32))
    found, observed = blocks(rng, n)
    if cls is kq.mkl.SVM2KClassifier and chance(rng, 0.9):
        found = {name: found.get(name, found["a"]) for name in "ab"}
        observed = observed[:, [0, -1]]
    estimator = cls(**pick(rng, VARIANTS.get(cls, [{}])))
    try:
        with np.errstate(all="ignore"):
            X, needed = dressed(rng, found, observed, stacks=cls in STACKS_ONLY)
    except (ValueError, TypeError) as error:
        return Case(f"data for {cls.__name__}, {n} samples", _raising(error))
    known = estimator.get_params(deep=False)
    chosen = parameters(rng, estimator) | {k: v for k, v in needed.items() if k in known}
    y = target_of(rng, estimator, n)
    weight = weights(rng, n) if has_fit_parameter(estimator, "sample_weight") else None
    rows = rng.integers(0, n, int(rng.integers(1, 6)))
    if chance(rng, 0.02):
        rows = rows[:0]
    pickled = chance(rng, 0.1)
    name = f"{cls.__name__}({', '.join(f'{k}={v!r}' for k, v in chosen.items())}) on " + (
        f"{type(X).__name__} of {n}, {len(found)} views"
    )

    def run():
        estimator.set_params(**chosen)
        before = dict(vars(estimator))
        keywords = {} if weight is None else {"sample_weight": weight}
        try:
            estimator.fit(X, y, **keywords)
        except Exception:
            if vars(estimator).keys() != before.keys():
                raise AssertionError("a failed fit left attributes behind") from None
            raise
        new = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
        try:
            check_outputs(estimator, new, len(rows))
            if pickled:
                check_copy(estimator, pickle.loads(pickle.dumps(estimator)), new)
        except (ValueError, TypeError) as error:
            # kernels are made by transform, and searches without a refit predict nothing
            late = isinstance(error, NotFittedError) or isinstance(estimator, kq.ViewKernels)
            if len(rows) == 0 or late:
                raise
            raise AssertionError(f"fitted, but refuses its own samples: {error}") from error
        clone(estimator)

    return Case(name, run)


def target_of(rng, estimator, n):
    if isinstance(estimator, kq.QuiltSurvival):
        return survival(rng, n)
    if not is_regressor(estimator):
        return labels(rng, n)
    several = chance(rng, 0.1)
    return np.column_stack([targets(rng, n) for _ in range(2)]) if several else targets(rng, n)


def check_copy(model, other, X):
    """Raise where a model that was pickled says something else."""
    for name in ("decision_function", "predict_proba", "predict"):
        if callable(getattr(model, name, None)) and (name != "predict" or not is_classifier(model)):
            expected = getattr(model, name)(X)
            size = np.abs(expected).max(initial=1e-300)
            if not np.allclose(getattr(other, name)(X) / size, expected / size, atol=1e-6):
                raise AssertionError(f"{name} of a pickled model is another")


def _raising(error):
    def run():
        raise error

    return run


def check_outputs(model, X, n_rows):
    """Raise where something that a fitted model says is not finite or has another shape."""
    for name in ("decision_function", "predict_proba", "predict", "transform"):
        method = getattr(model, name, None)
        if not callable(method):
            continue
        found = method(X)
        if len(found) != n_rows:
            raise AssertionError(f"{name} returned {len(found)} of {n_rows} rows")
        found = as_numbers(found)
        if name == "predict" and is_classifier(model):
            if not np.isin(found, model.classes_).all():
                raise AssertionError("predict returned something that is no class")
        elif not np.isfinite(found).all():
            raise AssertionError(f"{name} is not finite")
        elif name == "predict_proba" and not np.allclose(found.sum(axis=1), 1.0):
            raise AssertionError("probabilities do not sum to one")
    if isinstance(model, kq.QuiltSurvival):
        shares = model.predict_survival_function(X, return_array=True)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise AssertionError("chances of survival are no chances")
    if not (is_classifier(model) or is_regressor(model)):
        return
    for name in ("weights_", "dual_coef_", "intercept_", "objective_", "duality_gap_"):
        value = getattr(model, name, 0.0)
        if isinstance(value, float | np.ndarray) and not np.isfinite(value).all():
            raise AssertionError(f"{name} is not finite")


def as_numbers(found):
    """Return what an output holds where something is observed."""
    if isinstance(found, kq.KernelStack):
        return found.gram()[found.observed.T.astype(bool)]
    if isinstance(found, kq.LowRankStack):
        parts = zip(found.names, found.observed.T, strict=True)
        return np.concatenate([found.factor(name)[o].ravel() for name, o in parts])
    if isinstance(found, kq.MultiView):
        return np.concatenate([_observed_cells(found, view) for view in found.names])
    return np.asarray(found)


def _observed_cells(data, view):
    block = data[view]
    block = block.toarray() if sparse.issparse(block) else np.asarray(block, dtype=np.float64)
    return block[data.present(view)].ravel()


def container_case(rng):
    n = int(rng.integers(0, 12))
    found, observed = blocks(rng, max(n, 1))
    kind = pick(rng, ["views", "stack", "as_views", "frame", "factors", "lazy"])
    junk = pick(rng, [None, np.nan, "text", -1, [1, 2], observed[:1], observed.astype(int)])
    given = observed if chance(rng, 0.6) else junk

    def run():
        if kind == "views":
            data = kq.MultiView(found, observed=given)
        elif kind == "stack":
            K = np.array([gaussian(block) for block in found.values()])
            diag = None if chance(rng, 0.7) else pick(rng, [np.ones(K.shape[:2]), junk])
            data = kq.KernelStack(K[:, :n], observed=given, diag=diag)
        elif kind == "factors":
            data = kq.LowRankStack(found, observed=given)
        elif kind == "lazy":
            data = kq.MultiView.stream(found, observed=given)
        else:
            X, views = as_one_array(found, observed)
            if kind == "frame":
                X = pd.DataFrame(X).astype(pick(rng, [float, object, str]))
            data = kq.as_views(X, views if chance(rng, 0.8) else junk)
        repr(data)
        rows = pick(rng, [[0], slice(None), np.ones(len(data), bool), [-1], [10**6], "a", 1.5])
        try:
            part = data[rows]
        except IndexError:
            return
        repr(part)

    return Case(f"{kind} with observed={given!r}"[:200], run)


def command_case(rng):
    n = int(rng.integers(4, 30))
    found, observed = blocks(rng, n)
    y = pick(rng, [labels, labels, targets, survival])(rng, n)

    def run():
        run_command(rng, found, observed, y, cryptic=CRYPTIC)

    return Case(f"kq on {n} rows, {len(found)} views", run)


# -- outcomes


def outcome_of(case):
    """Run a case and judge what came of it."""
    with warnings.catch_warnings(record=True) as said, redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            case.run()
            kind, about = "result", ""
        except (ValueError, TypeError, ImportError) as error:
            kind, about = judged(error)
        except Exception as error:
            kind, about = "finding", described(error)
    for warning in said:
        if issubclass(warning.category, RuntimeWarning):
            place = f"{Path(warning.filename).name}:{warning.lineno}"
            return Outcome("finding", f"RuntimeWarning at {place}: {warning.message}; then {about}")
    return Outcome(kind, about)


def judged(error):
    """Tell an error that helps from one that slipped through."""
    frames = traceback.extract_tb(error.__traceback__)
    raised = frames[-1].filename.replace("\\", "/")
    ours = any(place in raised for place in OURS)
    if not ours or any(words in str(error) for words in CRYPTIC):
        return "finding", described(error)
    return "refused", f"{type(error).__name__}: {error}"


def described(error):
    last = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(last))
    return f"{type(error).__name__}: {str(error)[:300]} at {places}"
