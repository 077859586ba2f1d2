"""Predictions of an exported model with numpy alone.

This file imports numpy and Python's own modules, nothing else: copied beside a file that
`NumpyPredictor.save` has written, it predicts as the model did, where the library is not at hand.

    from numpy_predictor import NumpyPredictor
    model = NumpyPredictor.load("model.npz")
    model.predict({"mri": mri, "clinic": clinic})

A file holds arrays, and a plan that says what they are for. Reading it executes nothing. The plan
has four parts: the views or kernels that samples have (``input``), kernels with training samples
(``kernels``), what is made of them (``head``), and what is returned (``finish``).
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
ROWS = 2048  # samples predicted at a time
FEW_COLUMNS = 32  # up to which distances are summed column by column
DIAGONAL_ROWS = 64
LARGEST = 1e38  # in single precision, which trees compare in
MIXED = 0.02  # share of uniform probabilities in those of a forest
SMALL = 1e-9  # added to probabilities before logarithms are taken


class NumpyPredictor:
    """A fitted model that predicts with numpy alone, made by `kernelquilt.export`.

    It takes samples as the model does, but as plain arrays: a dict of views (2-D arrays, rows of
    NaN where a view is absent; a view that is left out or None is absent for all), or one 2-D array
    if the model was fitted to 2-D data. Of a model of kernels, a dict of arrays (n_rows, n_train),
    or an array (n_rows, n_train, M).

    Parameters
    ----------
    plan : dict
        What is computed, with arrays, as `kernelquilt.export` makes it.

    Attributes
    ----------
    plan : dict
        The same.
    estimator : str
        The class of the model.
    n_bytes : int
        Size of the arrays in memory.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier(n_landmarks=30, random_state=0).fit(X, y)
    >>> exported = kq.export(model)
    >>> rows = {name: X[name][:5] for name in X.names}
    >>> bool(np.allclose(exported.predict_proba(rows), model.predict_proba(X[:5]), atol=1e-12))
    True
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        if plan.get("format") != FORMAT:
            raise ValueError(
                f"the plan has format {plan.get('format')!r}, this file reads format {FORMAT}; "
                "take numpy_predictor.py of the version that exported the model"
            )
        self.plan = plan
        self.estimator = str(plan["estimator"])

    @property
    def n_bytes(self) -> int:
        """Size of the arrays in memory."""
        return sum(each.nbytes for each in _packed(self.plan)[1])

    def __repr__(self) -> str:
        return f"NumpyPredictor of {self.estimator}, {self.n_bytes / 2**20:.2f} MiB of arrays"

    def save(self, path: Any, *, code: bool = False) -> int:
        """Write one file of arrays.

        Parameters
        ----------
        path : str or Path
            The file, by custom with the ending ``.npz``.
        code : bool, default=False
            Whether to copy this module, ``numpy_predictor.py``, beside it.

        Returns
        -------
        n_bytes : int
            The size of the file.
        """
        tree, arrays = _packed(self.plan)
        held: dict[str, Any] = {f"a{number}": array for number, array in enumerate(arrays)}
        held["plan"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
        with open(path, "wb") as file:
            np.savez_compressed(file, **held)
        if code:
            shutil.copy(__file__, Path(path).parent)
        return Path(path).stat().st_size

    @classmethod
    def load(cls, path: Any) -> "NumpyPredictor":
        """Read a file that `save` has written; nothing in it is executed.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        NumpyPredictor
            Predicts as the one that was saved.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                tree = json.loads(file["plan"].tobytes())
                plan = _unpacked(tree, {name: file[name] for name in file.files})
        except (KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"{Path(path).name!r} is no exported model: {error}") from error
        return cls(plan)

    def decision_function(self, X: Any, diag: Any = None) -> NDArray[Any]:
        """Return scores as `decision_function` of the model does.

        Parameters
        ----------
        X : dict of str to ndarray, or ndarray
            Samples, as in the class docstring.
        diag : dict of str to ndarray of shape (n_rows,), or ndarray of shape (M, n_rows)
            Values k(x, x) of the samples, for a quilt of kernels that differ in them.

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes) if multi-class
            Of a classifier.
        """
        classes = self._classes("decision_function")
        scores, finish = self._outputs(X, diag), self.plan["finish"]
        if finish["kind"] == "log_proba":
            scores = _normalised(scores)
            return scores[:, 1] - scores[:, 0] if len(classes) == 2 else scores
        if len(classes) == 2:
            return scores[:, 0]
        if finish["multi_class"] == "ovo":
            scores = _votes(scores, finish["active"], len(classes))
        idle = np.setdiff1d(np.arange(len(classes)), finish["active"])
        scores[:, idle] = scores[:, finish["active"]].min(axis=1, keepdims=True) - 1.0
        return scores

    def predict_proba(self, X: Any, diag: Any = None) -> NDArray[Any]:
        """Return class probabilities, if the model has them.

        Parameters
        ----------
        X, diag
            As in `decision_function`.

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            In the order of the classes of the model.
        """
        self._classes("predict_proba")
        if self.plan["finish"]["kind"] != "log_proba":
            raise AttributeError(f"{self.estimator} has no predict_proba")
        return np.asarray(np.exp(_normalised(self._outputs(X, diag))))

    def predict(self, X: Any, diag: Any = None) -> NDArray[Any]:
        """Return what `predict` of the model does.

        Parameters
        ----------
        X, diag
            As in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_rows,), or (n_rows, n_targets)
            Class labels, numbers, or risk scores.
        """
        finish = self.plan["finish"]
        if finish["kind"] == "numbers":
            found = self._outputs(X, diag)
            return np.asarray(
                finish["mean"] + finish["scale"] * (found if finish["several"] else found[:, 0])
            )
        scores = self.decision_function(X, diag)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(finish["classes"][codes])

    def _classes(self, method: str) -> NDArray[Any]:
        if "classes" not in self.plan["finish"]:
            raise AttributeError(f"{self.estimator} has no {method}")
        return np.asarray(self.plan["finish"]["classes"])

    def _outputs(self, X: Any, diag: Any) -> NDArray[Any]:
        """Return what the head makes of samples (n_rows, c), some of them at a time."""
        given = self.plan["input"]
        read = _kernels_of if given["kind"] == "kernels" else _views_of
        samples = read(given, X, diag)
        head = _HEADS[self.plan["head"]["kind"]]
        parts = [
            head(self.plan["head"], _Rows(self.plan, samples, slice(start, start + ROWS)))
            for start in range(0, len(samples["observed"]), ROWS)
        ]
        return np.concatenate(parts)


class _Rows:
    """Some samples, and their kernels with the training samples.

    Parameters
    ----------
    plan : dict
    samples : dict
        From `_views_of` or `_kernels_of`.
    rows : slice

    Attributes
    ----------
    given : list of ndarrays
        Views as they were given.
    present : ndarray of bool of shape (n_rows, V)
        Which of the views samples have.
    observed : ndarray of bool of shape (n_rows, K)
        Which of the kernels of the plan samples have.
    """

    def __init__(self, plan: dict[str, Any], samples: dict[str, Any], rows: slice) -> None:
        self.kernels = plan["kernels"]
        self.given = [block[rows] for block in samples["given"]]
        self.blocks = [block[rows] for block in samples["blocks"]]
        self.diag = None if samples["diag"] is None else samples["diag"][:, rows]
        sources = [kernel["source"] for kernel in self.kernels]
        self.present = samples["observed"][rows]
        self.observed = self.present[:, sources]

    def __len__(self) -> int:
        return len(self.observed)

    def block(self, k: int, having: NDArray[Any]) -> NDArray[Any]:
        """Return the columns that kernel k is of."""
        return np.asarray(self.blocks[self.kernels[k]["source"]][having])

    def kernel(self, k: int, having: NDArray[Any]) -> NDArray[Any]:
        """Return kernel k (len(having), m) of samples that have it with its training samples."""
        kernel, A = self.kernels[k], self.block(k, having)
        if kernel["points"] is not None and len(kernel["points"]) == 0:
            return np.zeros((len(having), 0))
        if kernel["function"] is None:
            values = A if kernel["columns"] is None else A[:, kernel["columns"]]
        else:
            values = _FUNCTIONS[kernel["function"]["name"]](A, kernel["points"], kernel["function"])
        if not np.isfinite(values).all():
            raise ValueError(f"kernel {kernel['name']!r} has values that are not finite")
        return np.asarray(values, dtype=np.float64)

    def own(self, k: int, having: NDArray[Any], otherwise: float) -> Any:
        """Return k(x, x) of samples that have kernel k."""
        kernel = self.kernels[k]
        if kernel["function"] is None:
            if self.diag is not None:
                return self.diag[kernel["source"], having]
            if np.isnan(otherwise):
                raise ValueError(
                    f"k(x, x) of the new samples is needed for kernel {kernel['name']!r}: diag="
                )
            return otherwise
        if "gaussian" in kernel["function"]["name"]:
            return 1.0
        A, function = self.block(k, having), _FUNCTIONS[kernel["function"]["name"]]
        parts = [A[i : i + DIAGONAL_ROWS] for i in range(0, len(A), DIAGONAL_ROWS)]
        return np.concatenate(
            [np.diagonal(function(part, part, kernel["function"])) for part in parts]
        )

    def terms(
        self, terms: list[dict[str, Any]]
    ) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Yield the number of a kernel, the samples that have it and its scores for them."""
        for term in terms:
            k = term["kernel"]
            having = np.flatnonzero(self.observed[:, k])
            if len(having):
                yield k, having, self.kernel(k, having) @ term["coef"] + term["offset"]


# what samples are


def _views_of(given: dict[str, Any], X: Any, diag: Any) -> dict[str, Any]:
    """Return the views of samples as they were given and as kernels need them."""
    X = X if isinstance(X, dict) else _split(given, X)
    names = [view["name"] for view in given["views"]]
    unknown = [name for name in X if name not in names]
    if unknown:
        raise ValueError(f"the views {unknown} are not known; the model has {names}")
    found = {
        view["name"]: _block(view, X[view["name"]])
        for view in given["views"]
        if X.get(view["name"]) is not None
    }
    counts = {name: len(block) for name, (block, _) in found.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        raise ValueError(f"views need the same samples, at least one; they have {counts}")
    n = next(iter(counts.values()))
    raw, blocks, observed = [], [], np.zeros((n, len(names)), dtype=bool)
    for v, view in enumerate(given["views"]):
        nothing = np.full((n, view["size"]), np.nan), np.zeros(n, dtype=bool)
        block, present = found.get(view["name"], nothing)
        for step in view["before"]:
            block = _spread(_prepared(view["name"], block[present], step), present)
        raw.append(block)
        if view["seen"] and present.any():
            observed[:, v] = present
            numbers = _prepared(view["name"], block[present], view["preparation"])
            if not np.isfinite(numbers).all():
                raise ValueError(
                    f"view {view['name']!r} has {np.count_nonzero(~np.isfinite(numbers))} cells "
                    "that are missing or infinite; fill them, the model does not do it"
                )
            block = _spread(numbers, present)
        blocks.append(block)
    return {"given": raw, "blocks": blocks, "observed": observed, "diag": None}


def _split(given: dict[str, Any], X: Any) -> dict[str, Any]:
    """Return the views of 2-D data."""
    if given["columns"] is None:
        raise ValueError("the model was fitted to views; give a dict of them")
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != given["n_columns"]:
        raise ValueError(f"X has shape {X.shape}, the model has {given['n_columns']} columns")
    return {name: X[:, columns] for name, columns in given["columns"].items()}


def _block(view: dict[str, Any], block: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a view as numbers or objects, and which samples have it."""
    columns = getattr(block, "columns", None)
    if view["columns"] and columns is not None and list(columns) != view["columns"]:
        raise ValueError(f"view {view['name']!r} must have the columns {view['columns']}")
    values = np.asarray(block)
    if values.ndim != 2 or values.shape[1] != view["size"]:
        raise ValueError(
            f"view {view['name']!r} has shape {values.shape}, the model has {view['size']} columns"
        )
    if values.dtype.kind in "fiub":
        values = values.astype(np.float64)
        return values, ~np.isnan(values).all(axis=1)
    values = values.astype(object)
    present = [not all(map(_is_missing, row)) for row in values]
    return values, np.array(present, dtype=bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _spread(values: NDArray[Any], present: NDArray[Any]) -> NDArray[Any]:
    """Return rows of samples that have a view between rows of NaN."""
    if present.all():
        return values
    found = np.full((len(present), values.shape[1]), np.nan, dtype=values.dtype)
    found[present] = values
    return found


def _prepared(name: str, block: NDArray[Any], step: dict[str, Any] | None) -> NDArray[Any]:
    """Fill missing cells, encode categories and scale numbers, as in training."""
    if step is None:
        return _numbers(name, block)
    parts = []
    if len(step["numbers"]):
        numbers = _numbers(name, block[:, step["numbers"]])
        numbers = np.where(np.isnan(numbers), step["mean"], numbers)
        parts.append((numbers - step["mean"]) / step["scale"] if step["scaled"] else numbers)
    for j, categories in zip(step["categories"], step["values"], strict=True):
        texts = _texts(block[:, j])
        parts.append(np.array([[text == each for each in categories] for text in texts], float))
    return np.hstack(parts)


def _numbers(name: str, block: NDArray[Any]) -> NDArray[Any]:
    if block.dtype.kind == "f":
        return block
    try:
        values = [np.nan if _is_missing(value) else float(value) for value in block.ravel()]
    except (TypeError, ValueError) as error:
        raise ValueError(f"view {name!r} has a cell that is no number: {error}") from error
    return np.array(values).reshape(block.shape)


def _texts(values: NDArray[Any]) -> list[str | None]:
    """Return cells as strings, None where missing; 1 and 1.0 are the same."""
    return [None if _is_missing(value) else _text(value) for value in values]


def _text(value: Any) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def _kernels_of(given: dict[str, Any], X: Any, diag: Any) -> dict[str, Any]:
    """Return kernels of samples with the training samples."""
    names = given["names"]
    if not isinstance(X, dict):
        X = np.asarray(X, dtype=np.float64)
        X = X[:, :, None] if X.ndim == 2 else X
        if X.ndim != 3 or X.shape[2] != len(names):
            raise ValueError(f"X has shape {X.shape}, not (n_rows, n_train, {len(names)})")
        X = {name: X[:, :, m] for m, name in enumerate(names)}
    unknown = [name for name in X if name not in names]
    if unknown:
        raise ValueError(f"the kernels {unknown} are not known; the model has {names}")
    known = {name: np.asarray(K, dtype=np.float64) for name, K in X.items() if K is not None}
    shapes = {K.shape for K in known.values()}
    if len(shapes) != 1 or any(shape[1:] != (given["n_train"],) for shape in shapes):
        raise ValueError(
            f"kernels have the shapes {sorted(shapes)}; all need (n_rows, {given['n_train']}), the "
            "columns the training samples in their order"
        )
    n = next(iter(shapes))[0]
    blocks = [known.get(name, np.full((n, given["n_train"]), np.nan)) for name in names]
    observed = np.column_stack([~np.isnan(block).all(axis=1) for block in blocks])
    if isinstance(diag, dict):
        diag = np.array([diag[name] for name in names], dtype=np.float64)
    return {
        "given": [],
        "blocks": blocks,
        "observed": observed,
        "diag": None if diag is None else np.asarray(diag, dtype=np.float64),
    }


# kernel functions of blocks (n, d) and (m, d)


def _squared_distances(A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    if A.shape[1] <= FEW_COLUMNS:
        squared = np.zeros((len(A), len(B)))
        for a, b in zip(A.T, B.T, strict=True):
            squared += np.square(np.subtract.outer(a, b))
        return squared
    # a matrix product is faster, but cancels for close pairs
    centre = B.mean(axis=0)
    A, B = A - centre, B - centre
    lengths = np.add.outer(np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B))
    squared = lengths - 2 * (A @ B.T)
    for i, j in np.argwhere(squared <= 1e-2 * lengths):
        squared[i, j] = np.square(A[i] - B[j]).sum()
    return squared


def _gaussian(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    unit = function["unit"]
    width = min(max(function["width"] / unit, 1e-150), 1e150)
    with np.errstate(over="ignore"):
        return np.exp(_squared_distances(A / unit, B / unit) * (-0.5 / width**2))


def _median_gaussian(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    *drawn_in, last = zip(function["centres"], function["scales"], strict=True)
    for centre, scale in drawn_in:
        A, B = (np.clip((each - centre) / scale, -1e100, 1e100) for each in (A, B))
        A, B = (each / np.sqrt(1.0 + np.square(each / 3.0)) for each in (A, B))
    A, B = ((each - last[0]) / last[1] for each in (A, B))
    with np.errstate(over="ignore"):
        return np.exp(_squared_distances(A, B) / -function["squared_width"])


def _jaccard(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    in_a, in_b = (A != 0).astype(np.float64), (B != 0).astype(np.float64)
    both = in_a @ in_b.T
    either = np.add.outer(in_a.sum(axis=1), in_b.sum(axis=1)) - both
    return np.divide(both, either, out=np.ones_like(both), where=either > 0)


def _latent_semantic(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    units = []
    for block in (A, B):
        projected = block @ function["components"].T
        length = np.linalg.norm(projected, axis=1)
        length[length <= 1e-10 * np.linalg.norm(block, axis=1)] = np.inf
        units.append(projected / length[:, None])
    return units[0] @ units[1].T


def _rbf(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    squares = [np.einsum("ij,ij->i", each, each) for each in (A, B)]
    squared = np.maximum(np.add.outer(*squares) - 2 * (A @ B.T), 0)
    return np.exp(-_gamma(A, function) * squared)


def _polynomial(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    inner = _gamma(A, function) * (A @ B.T) + function.get("coef0", 1)
    return np.asarray(inner ** function.get("degree", 3))


def _sigmoid(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    return np.tanh(_gamma(A, function) * (A @ B.T) + function.get("coef0", 1))


def _laplacian(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    distances = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        distances += np.abs(np.subtract.outer(a, b))
    return np.exp(-_gamma(A, function) * distances)


def _cosine(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    lengths = [np.linalg.norm(each, axis=1) for each in (A, B)]
    A, B = (
        each / np.where(length > 0, length, 1.0)[:, None]
        for each, length in zip((A, B), lengths, strict=True)
    )
    return A @ B.T


def _additive_chi2(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    total = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        sums = np.add.outer(a, b)
        total -= np.where(
            sums != 0, np.square(np.subtract.outer(a, b)) / np.where(sums, sums, 1), 0
        )
    return total


def _gamma(A: NDArray[Any], function: dict[str, Any]) -> float:
    gamma = function.get("gamma")
    return float(1.0 / A.shape[1] if gamma is None else gamma)


_FUNCTIONS: dict[str, Callable[[NDArray[Any], NDArray[Any], dict[str, Any]], NDArray[Any]]] = {
    "gaussian": _gaussian,
    "median_gaussian": _median_gaussian,
    "jaccard": _jaccard,
    "latent_semantic": _latent_semantic,
    "linear": lambda A, B, function: A @ B.T,
    "polynomial": _polynomial,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
    "additive_chi2": _additive_chi2,
    "chi2": lambda A, B, function: np.exp(
        function.get("gamma", 1.0) * _additive_chi2(A, B, function)
    ),
}


# heads: from kernels to outputs (n_rows, c)


def _sum(head: dict[str, Any], rows: _Rows) -> NDArray[Any]:
    """Add what each kernel says; ``fraction`` divides by the share of kernels that a sample has."""
    total = np.zeros((len(rows), len(head["bias"])))
    for _, having, scores in rows.terms(head["terms"]):
        total[having] += scores
    if head["fraction"] is not None:
        share = rows.observed[:, head["fraction"]].mean(axis=1)
        total /= np.where(share > 0, share, 1.0)[:, None]
    return total + head["bias"]


def _mean(head: dict[str, Any], rows: _Rows) -> NDArray[Any]:
    """Average what the kernels of a sample say, each of the problems that it was trained for."""
    total = np.zeros((len(rows), len(head["bias"])))
    counts = np.zeros(total.shape)
    for k, having, scores in rows.terms(head["terms"]):
        trained = head["trained"][:, k]
        total[having] += np.where(trained, scores, 0.0)
        counts[having] += trained
    return np.where(counts > 0, total / np.maximum(counts, 1.0), head["bias"])


def _adaptive(head: dict[str, Any], rows: _Rows) -> NDArray[Any]:
    """Let the pattern of kernels decide that is surest."""
    parts = np.zeros((len(head["bias"]), len(rows), rows.observed.shape[1]))
    for k, having, scores in rows.terms(head["terms"]):
        parts[:, having, k] = scores.T
    found = []
    for part, patterns, bias in zip(parts, head["patterns"], head["bias"], strict=True):
        scores = part @ patterns.T + bias
        chosen = (np.abs(scores) if head["both_signs"] else scores).argmax(axis=1)
        found.append(np.take_along_axis(scores, chosen[:, None], axis=1)[:, 0])
    return np.column_stack(found)


def _gated(head: dict[str, Any], rows: _Rows) -> NDArray[Any]:
    """Weigh what each kernel says by gates that depend on the sample."""
    c, n_inputs = len(head["bias"]), head["gate_weights"].shape[2] - 1
    in_kernels = head["inputs"]["columns"] is None
    products = np.zeros((len(head["terms"]), len(rows), c + n_inputs * in_kernels))
    for k, having, scores in rows.terms(head["terms"]):
        products[k, having] = scores
    inputs = _gate_inputs(head["inputs"], rows, products[:, :, c:].sum(axis=0))
    total = np.tile(head["bias"], (len(rows), 1))
    for j, weights in enumerate(head["gate_weights"]):
        opened = np.where(rows.observed, inputs @ weights[:, :-1].T + weights[:, -1], -np.inf)
        if head["gating"] == "sigmoid":
            gates = np.exp(-np.logaddexp(0.0, -opened))
        else:
            top = opened.max(axis=1, keepdims=True)
            gates = np.exp(opened - np.where(np.isfinite(top), top, 0.0))
            gates /= np.maximum(gates.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        total[:, j] += np.sum(gates * products[:, :, j].T, axis=1)
    return total


def _gate_inputs(plan: dict[str, Any], rows: _Rows, projected: NDArray[Any]) -> NDArray[Any]:
    """Return standardised columns of views, or components of kernels, (n_rows, d)."""
    if plan["columns"] is None:
        counts = rows.observed[:, plan["used"]].sum(axis=1, keepdims=True)
        found = projected / np.sqrt(np.maximum(counts, 1.0)) + plan["offset"]
        return np.where(counts > 0, found, 0.0)
    blocks = []
    for view in plan["columns"]:
        present = rows.present[:, view["view"]]
        block = np.zeros((len(rows), len(view["mean"])))
        block[present] = (rows.blocks[view["view"]][present] - view["mean"]) / view["scale"]
        blocks.append(block)
    return np.hstack(blocks)


def _quilt(head: dict[str, Any], rows: _Rows) -> NDArray[Any]:
    """Return log-probabilities, predictions or risks of a quilt and its experts on columns."""
    early, late = _quilt_scores(head, rows)
    experts = [_forest(expert, rows) for expert in head["experts"]]
    if head["risk"]:
        blocks = [early, late, *(each[None] for each in experts)]
        return np.tensordot(head["members"], np.vstack([each[:, :, 0] for each in blocks]), 1)[
            :, None
        ]
    members = [
        np.tensordot(stacking["weights"], scores, axes=1) + stacking["bias"]
        for stacking, scores in zip(head["stackings"], (early, late), strict=True)
    ]
    if head["classify"]:
        members = [np.exp(_normalised(each)) + SMALL for each in members]
        members = [np.log(each) for each in [*members, *experts]]
    else:
        members += experts
    return np.tensordot(head["members"], np.array(members), axes=1)


def _quilt_scores(head: dict[str, Any], rows: _Rows) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scores (1 or 2, n_rows, c) of experts on completed views, and of those beside."""
    n, c = len(rows), len(head["weighted"]["bias"])
    late = np.zeros((len(head["maps"]) + (head["pattern"] is not None), n, c))
    early = np.zeros((1 if head["joint"] is None else 2, n, c))
    Z, lengths = [], np.zeros((len(head["maps"]), n))
    for k, made in enumerate(head["maps"]):
        z, having = np.zeros((n, len(made["mean"]))), np.flatnonzero(rows.observed[:, k])
        if len(having):
            z[having] = (rows.kernel(k, having) @ made["projection"] - made["mean"]) * made["scale"]
            late[k, having] = z[having] @ head["late"][k]["coef"] + head["late"][k]["bias"]
            own = rows.own(k, having, made["diagonal"]) - made["mean"] @ made["mean"]
            square = made["scale"] ** 2 * own
            lengths[k, having] = square - 2.0 * made["scale"] * (z[having] @ made["mean"])
        Z.append(z)
    some = np.flatnonzero(rows.observed.any(axis=1))
    if not len(some):
        return early, late
    observed, lengths = rows.observed[some], lengths[:, some]
    if head["pattern"] is not None:
        features = (observed - head["pattern"]["mean"]) * head["pattern"]["scale"]
        late[-1, some] = features @ head["pattern"]["coef"] + head["pattern"]["bias"]
    Z = _completed(head["transfer"], [z[some] for z in Z], observed)
    for k, z in enumerate(Z):
        lengths[k] = np.where(observed[:, k], lengths[k], np.square(z).sum(axis=1))
    flat = np.hstack(Z)
    early[0, some] = flat @ head["weighted"]["coef"] + head["weighted"]["bias"]
    joint = head["joint"]
    if joint is not None:
        D = np.add.outer(lengths.sum(axis=0), joint["lengths"]) - 2.0 * (flat @ joint["points"].T)
        similar = np.exp(-joint["rate"] * np.maximum(D, 0.0))
        early[1, some] = similar @ joint["coef"] + joint["bias"]
    return early, late


def _completed(
    transfer: dict[str, Any], Z: list[NDArray[Any]], observed: NDArray[Any]
) -> list[NDArray[Any]]:
    """Return features of all views, those of absent ones predicted from the others."""
    once = []
    for p, z in enumerate(Z):
        absent = np.flatnonzero(~observed[:, p])
        found, total = np.zeros((len(absent), z.shape[1])), np.zeros(len(absent))
        for l, W in transfer["first"][p].items():
            having = observed[absent, int(l)]
            weight = transfer["weights"][p, int(l)]
            found[having] += weight * (Z[int(l)][absent[having]] @ W)
            total[having] += weight
        served = total > 0
        found[served] /= total[served, None]
        found[~served] = transfer["means"][p]
        z = z.copy()
        z[absent] = found
        once.append(z)
    again = [z.copy() for z in once]
    for p, maps in enumerate(transfer["second"]):
        absent = np.flatnonzero(~observed[:, p])
        if maps is not None and len(absent):
            again[p][absent] = sum(once[int(l)][absent] @ W for l, W in maps.items())
    return again


def _forest(expert: dict[str, Any], rows: _Rows) -> NDArray[Any]:
    """Return probabilities or predictions (n_rows, c) of a random forest on columns."""
    X = _columns(expert, rows)
    having, c = np.flatnonzero(~np.isnan(X).all(axis=1)), expert["n_outputs"]
    found = np.full((len(X), c), 1.0 / c if expert["classify"] else 0.0)
    leaves = _leaves(expert, X[having].astype(np.float32))
    said = np.zeros((len(having), expert["value"].shape[1]))
    for leaf in leaves.T:
        said += expert["value"][leaf]
    said /= leaves.shape[1]
    if not expert["classify"]:
        found[having] = said
        return found
    P = np.zeros((len(having), c))
    P[:, expert["classes"]] = said
    total = P.sum(axis=1, keepdims=True)
    P = np.where(total > 0, P / np.where(total > 0, total, 1.0), 1.0 / c)
    found[having] = (1.0 - MIXED) * P + MIXED / c
    return found


def _columns(expert: dict[str, Any], rows: _Rows) -> NDArray[Any]:
    """Return the columns that an expert sees, NaN where a value is not known."""
    blocks = []
    for v, codes in zip(expert["views"], expert["codes"], strict=True):
        given = rows.given[v]
        block = np.empty(given.shape)
        for j in range(given.shape[1]):
            known = codes.get(str(j))
            if known is None:
                block[:, j] = _numbers(f"column {j}", given[:, j])
            else:
                block[:, j] = [
                    np.nan if text is None else known.get(text, np.nan)
                    for text in _texts(given[:, j])
                ]
        blocks.append(block)
    with np.errstate(over="ignore"):
        found = (np.hstack(blocks)[:, expert["used"]] / 2 - expert["middle"]) / expert["unit"]
    return np.clip(found, -LARGEST, LARGEST)


def _leaves(expert: dict[str, Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return the leaf (n_rows, n_trees) that samples end in, of trees that stand one by one."""
    node = np.tile(expert["roots"], (len(X), 1))
    sample = np.arange(len(X))[:, None]
    for _ in range(len(expert["left"])):  # a forged cycle ends, too
        inner = expert["left"][node] >= 0
        if not inner.any():
            break
        value = X[sample, np.where(inner, expert["feature"][node], 0)]
        left = np.where(
            np.isnan(value), expert["missing_left"][node], value <= expert["threshold"][node]
        )
        ahead = np.where(left, expert["left"][node], expert["right"][node])
        node = np.where(inner, ahead, node)
    return node


_HEADS: dict[str, Callable[[dict[str, Any], _Rows], NDArray[Any]]] = {
    "sum": _sum,
    "mean": _mean,
    "adaptive": _adaptive,
    "gated": _gated,
    "quilt": _quilt,
}


def _normalised(scores: NDArray[Any]) -> NDArray[Any]:
    """Return logarithms of probabilities (n_rows, c)."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def _votes(scores: NDArray[Any], active: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Return one-vs-one votes (n_rows, n_classes), ties broken by the sum of the scores."""
    votes, confidence = np.zeros((2, len(scores), n_classes))
    pairs = [(a, b) for number, a in enumerate(active) for b in active[number + 1 :]]
    for score, (negative, positive) in zip(scores.T, pairs, strict=True):
        votes[:, positive] += score > 0
        votes[:, negative] += score <= 0
        confidence[:, positive] += score
        confidence[:, negative] -= score
    return np.asarray(votes + confidence / (3.0 * (np.abs(confidence) + 1.0)))


# from plans to what JSON can hold, and arrays beside


def _packed(plan: Any) -> tuple[Any, list[NDArray[Any]]]:
    """Return a plan with numbers in the place of arrays, and the arrays, each once."""
    arrays: list[NDArray[Any]] = []
    place: dict[int, int] = {}

    def pack(each: Any) -> Any:
        if isinstance(each, np.ndarray):
            if id(each) not in place:
                place[id(each)] = len(arrays)
                arrays.append(each)
            return {"array": place[id(each)]}
        if isinstance(each, dict):
            return {"dict": {str(key): pack(value) for key, value in each.items()}}
        if isinstance(each, list | tuple):
            return [pack(value) for value in each]
        return each.item() if isinstance(each, np.generic) else each

    return pack(plan), arrays


def _unpacked(tree: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(tree, list):
        return [_unpacked(each, arrays) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[f"a{tree['array']}"]
    return {key: _unpacked(value, arrays) for key, value in tree["dict"].items()}
