"""Limited-memory BFGS for large smooth problems that change a little now and then.

The descent is done in place and in rounds, so that a caller can improve other variables between
them, and keeps three vectors besides the pairs of steps and changes of the gradient: the point, its
gradient and the next one. The step is the newest of the pairs and is stored nowhere else. Pairs of
long vectors are kept in single precision, which costs no iterations that could be noticed.

A first estimate of the inverse Hessian can be given up to a factor, which is fitted to the latest
pair now and then.

A step satisfies the weak Wolfe conditions, found by bisection and doubling, which also copes with
functions that are nearly not smooth (Lewis and Overton, Math. Prog. 2013).
"""

from collections.abc import Callable, Sequence

import numpy as np

from kernelquilt._typing import Floats, Numbers

Vector = Numbers
Pair = tuple[Vector, Vector, float]  # a step, the change of the gradient, and their product
Evaluate = Callable[[Floats, Floats], float]

SINGLE = 10**6  # length of vectors from which on pairs are kept in single precision
DECREASE = 1e-4
CURVATURE = 0.9
MAX_TRIALS = 30
PIECE = 2**16
YOUNG, REFIT = 3, 10  # pairs up to which, and steps after which, the first estimate is fitted anew
NEGLIGIBLE = 1e-12  # curvature relative to the change of the gradient


def _dot(a: Vector, b: Vector) -> float:
    # in pieces, so that no vector is converted as a whole if the two are of different precision
    if a.dtype == b.dtype == np.float64:
        return float(a @ b)
    return sum(
        float(a[i : i + PIECE].astype(np.float64) @ b[i : i + PIECE])
        for i in range(0, len(a), PIECE)
    )


def _add(x: Floats, factor: float, y: Vector) -> None:
    """Add a multiple of y to x in place, in pieces for the same reason."""
    for i in range(0, len(x), PIECE):
        x[i : i + PIECE] += factor * y[i : i + PIECE]


def apply_inverse_hessian(
    d: Floats,
    pairs: Sequence[Pair],
    scale: float,
    precondition: Callable[[Floats], None] | None = None,
) -> None:
    """Multiply d (n,) in place by the inverse Hessian that the pairs, the latest last, tell of.

    The first estimate is `scale`, times the matrix that `precondition` multiplies by in place.
    """
    factors = []
    for s, y, product in reversed(pairs):
        factors.append(_dot(s, d) / product)
        _add(d, -factors[-1], y)
    if precondition is not None:
        precondition(d)
    d *= scale
    for (s, y, product), factor in zip(pairs, reversed(factors), strict=True):
        _add(d, factor - _dot(y, d) / product, s)


class LBFGS:
    """A point on its way down.

    Parameters
    ----------
    evaluate : callable
        Takes a point (n,) and an array (n,) for the gradient there, returns the value.
    x : ndarray of shape (n,)
        Where to start; changed in place.
    n_pairs : int
        Pairs that are kept.
    precondition : callable, default=None
        Multiplies a vector (n,) in place by a positive definite matrix.

    Attributes
    ----------
    value : float
        Value at the point.
    x, gradient : ndarray of shape (n,)
        The point and the gradient there.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        x: Floats,
        n_pairs: int = 10,
        precondition: Callable[[Floats], None] | None = None,
    ) -> None:
        self._evaluate = evaluate
        self._precondition = precondition
        self._scale, self._age = 1.0, 0
        self.x = x
        self.gradient = np.empty_like(x)
        self._next = np.empty_like(x)
        kind = np.float32 if len(x) >= SINGLE else np.float64
        self._n_pairs = n_pairs
        self._pairs: list[Pair] = []
        # one more than are kept, for the step that is being tried
        self._free: list[tuple[Vector, Vector]] = [
            (np.empty(len(x), dtype=kind), np.empty(len(x), dtype=kind)) for _ in range(n_pairs + 1)
        ]
        self.value = 0.0
        self.evaluate()

    def evaluate(self) -> None:
        """Evaluate anew at the point, after the function has changed."""
        self.value = self._evaluate(self.x, self.gradient)

    @np.errstate(over="ignore", invalid="ignore")  # a trial may overflow, and is then too long
    def step(self) -> bool:
        """Take one step; return whether a lower value was found."""
        step, change = self._free[-1]
        slope = self._direction(step)
        first = not self._pairs
        length = min(1.0, 1.0 / max(float(np.abs(self.gradient).sum()), 1e-300)) if first else 1.0
        taken, value = self._search(step, slope, length) if slope < 0 else (0.0, self.value)
        if taken == 0.0:
            self.forget()
            # the pairs may mislead; the gradient does not
            return not first and self.step()
        step *= taken
        np.subtract(self._next, self.gradient, out=change, casting="same_kind")
        self.gradient, self._next = self._next, self.gradient
        self.value = value
        product = _dot(step, change)
        if product > NEGLIGIBLE * _dot(change, change):
            self._pairs.append((*self._free.pop(), product))
            if len(self._pairs) > self._n_pairs:
                self._free.append(self._pairs.pop(0)[:2])
        return True

    def forget(self) -> None:
        """Forget the pairs, so that the next step is along the gradient."""
        self._free += [pair[:2] for pair in self._pairs]
        self._pairs.clear()

    def _direction(self, out: Vector) -> float:
        """Write minus the inverse Hessian times the gradient, and return the slope."""
        if self._pairs:
            self._rescale()
        d = self._next
        np.negative(self.gradient, out=d)
        if self._pairs:
            apply_inverse_hessian(d, self._pairs, self._scale, self._precondition)
        out[:] = d
        return _dot(out, self.gradient)

    def _rescale(self) -> None:
        """Fit the factor of the first estimate to the latest pair."""
        _, y, product = self._pairs[-1]
        if self._precondition is None:
            self._scale = product / _dot(y, y)
        elif len(self._pairs) < YOUNG or self._age % REFIT == 0:
            image = self._next
            image[:] = y
            self._precondition(image)
            self._scale = product / _dot(y, image)
        self._age += 1

    def _search(self, step: Vector, slope: float, length: float) -> tuple[float, float]:
        """Move the point along the step; return the length taken and the value, 0 if none."""
        at, low, high = 0.0, 0.0, np.inf
        for _ in range(MAX_TRIALS):
            _add(self.x, length - at, step)
            at = length
            value = self._evaluate(self.x, self._next)
            if not value <= self.value + DECREASE * length * slope:
                high = length
            elif _dot(step, self._next) < CURVATURE * slope:
                low = length
            else:
                return length, value
            length = 2 * low if high == np.inf else (low + high) / 2
        _add(self.x, low - at, step)
        return low, self._evaluate(self.x, self._next) if low > 0 else self.value
