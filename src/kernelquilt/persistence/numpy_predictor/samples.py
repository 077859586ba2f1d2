"""What samples are: views as they were given, what kernels need of them, and the kernels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .functions import FUNCTIONS

DIAGONAL_ROWS = 64


class Rows:
    """Some samples, and their kernels with the training samples.

    Parameters
    ----------
    plan : dict
    samples : dict
        From `views_of` or `kernels_of`.
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
        kernel = self.kernels[k]
        values = self._values(k, having)
        if kernel["steps"]:
            values = self._after_steps(k, having, values)[0][:, kernel["used"]]
        if not np.isfinite(values).all():
            raise ValueError(f"kernel {kernel['name']!r} has values that are not finite")
        return values

    def own(self, k: int, having: NDArray[Any], otherwise: float) -> Any:
        """Return k(x, x) of samples that have kernel k."""
        if self.kernels[k]["steps"]:
            own = self._after_steps(k, having, self._values(k, having))[1]
        else:
            own = self._own(k, having)
        if own is None and np.isnan(otherwise):
            raise self._needs_diag(k)
        return otherwise if own is None else own

    def _values(self, k: int, having: NDArray[Any]) -> NDArray[Any]:
        """Return kernel k as it is given or computed."""
        kernel, A = self.kernels[k], self.block(k, having)
        if kernel["points"] is not None and len(kernel["points"]) == 0:
            return np.zeros((len(having), 0))
        if kernel["function"] is None:
            values = A if kernel["columns"] is None else A[:, kernel["columns"]]
        else:
            values = FUNCTIONS[kernel["function"]["name"]](A, kernel["points"], kernel["function"])
        return np.asarray(values, dtype=np.float64)

    def _own(self, k: int, having: NDArray[Any]) -> NDArray[Any] | None:
        """Return k(x, x) as it is given or computed, None if it is not known."""
        kernel = self.kernels[k]
        if kernel["function"] is None:
            return None if self.diag is None else np.asarray(self.diag[kernel["source"], having])
        if "gaussian" in kernel["function"]["name"]:
            return np.ones(len(having))
        A, function = self.block(k, having), FUNCTIONS[kernel["function"]["name"]]
        parts = [A[i : i + DIAGONAL_ROWS] for i in range(0, len(A), DIAGONAL_ROWS)]
        return np.concatenate(
            [np.diagonal(function(part, part, kernel["function"])) for part in parts]
        )

    def _after_steps(
        self, k: int, having: NDArray[Any], values: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return kernel k, and k(x, x), centred and scaled as in training."""
        own = self._own(k, having)
        for step in self.kernels[k]["steps"]:
            if step["kind"] == "centre":
                means = values @ step["share"]
                values = values - means[:, None] - step["columns"] + step["overall"]
                own = None if own is None else own - 2 * means + step["overall"]
            elif step["kind"] == "divide":
                values = values / step["by"]
                own = None if own is None else own / step["by"]
            elif own is None:
                raise self._needs_diag(k)
            else:
                size = np.maximum(own, step["lowest"])
                values = values / np.sqrt(size)[:, None] / step["columns"]
                own = own / size
        return values, own

    def _needs_diag(self, k: int) -> ValueError:
        name = self.kernels[k]["name"]
        return ValueError(f"k(x, x) of the new samples is needed for kernel {name!r}: diag=")

    def terms(
        self, terms: list[dict[str, Any]]
    ) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Yield the number of a kernel, the samples that have it and its scores for them."""
        for term in terms:
            k = term["kernel"]
            having = np.flatnonzero(self.observed[:, k])
            if len(having):
                yield k, having, self.kernel(k, having) @ term["coef"] + term["offset"]


def views_of(given: dict[str, Any], X: Any, diag: Any) -> dict[str, Any]:
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
        return as_numbers(name, block)
    parts = []
    if len(step["numbers"]):
        numbers = as_numbers(name, block[:, step["numbers"]])
        gaps = np.isnan(numbers)
        numbers = np.where(gaps, step["mean"], numbers)
        parts.append((numbers - step["mean"]) / step["scale"] if step["scaled"] else numbers)
        parts.append(gaps[:, step["gaps"]].astype(float))
    for j, categories in zip(step["categories"], step["values"], strict=True):
        texts = as_texts(block[:, j])
        parts.append(np.array([[text == each for each in categories] for text in texts], float))
    return np.hstack(parts)


def as_numbers(name: str, block: NDArray[Any]) -> NDArray[Any]:
    """Return cells as floats, NaN where missing."""
    if block.dtype.kind == "f":
        return block
    try:
        values = [np.nan if _is_missing(value) else float(value) for value in block.ravel()]
    except (TypeError, ValueError) as error:
        raise ValueError(f"view {name!r} has a cell that is no number: {error}") from error
    return np.array(values).reshape(block.shape)


def as_texts(values: NDArray[Any]) -> list[str | None]:
    """Return cells as strings, None where missing; 1 and 1.0 are the same."""
    return [None if _is_missing(value) else _text(value) for value in values]


def _text(value: Any) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def kernels_of(given: dict[str, Any], X: Any, diag: Any) -> dict[str, Any]:
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
