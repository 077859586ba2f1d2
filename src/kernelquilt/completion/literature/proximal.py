"""The l2,1 norm of the rows of matrices: smoothed, exactly, and its proximal steps.

    |A|_{2,1} = sum_i |a_i|,    |A|_{2,1,eps} = sum_i sqrt(|a_i|^2 + eps^2) >= |A|_{2,1},

    prox(A)_i = max(0, 1 - threshold / |a_i|) a_i    (a scalar factor for each row a_i).

Rows of the minimiser of a smooth function plus the norm are exactly zero where the gradient of the
smooth function by the row is short enough, but no smooth method finds them. So `ProximalDescent`
takes the end of one, drops short rows as long as that lowers the objective, and takes proximal
gradient steps, accelerated and restarted whenever the objective would rise (Beck and Teboulle, SIAM
J. Imaging Sci. 2009; O'Donoghue and Candes, Found. Comput. Math. 2015).
"""

from collections.abc import Callable, Sequence

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.lbfgs import PIECE, Evaluate

Split = Callable[[Floats], Sequence[Floats]]

GROW = 2.0  # of the curvature estimate when a step is refused
RELAX = 0.9  # and after one that is taken
MAX_TRIALS = 60
PROBE = 1e-4  # length of the step that tells the curvature, relative to the point
DROPS = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-5)  # of the longest row


def shrink_rows(A: Floats, threshold: float) -> Floats:
    """Return the proximal point of `threshold` times the l2,1 norm of the rows of A."""
    norms = np.sqrt((A**2).sum(axis=1))
    short = norms <= threshold
    factors = np.where(short, 0.0, 1 - threshold / np.where(short, 1.0, norms))
    return np.asarray(factors[:, None] * A)


def rows_norm(A: Floats) -> float:
    """Return the sum of the norms of the rows of A."""
    return float(np.sqrt((A**2).sum(axis=1)).sum())


def add_smoothed_norm(A: Floats, gradient: Floats, weight: float, smoothing: float) -> float:
    """Add the gradient of `weight` times the smoothed l2,1 norm, and return its value.

    Without smoothing, rows that are zero have gradient zero.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", A, A) + smoothing**2)
    with np.errstate(divide="ignore"):
        gradient += np.where(norms > 0, weight / norms, 0.0)[:, None] * A
    return weight * float(norms.sum())


class ProximalDescent:
    """Accelerated proximal gradient steps on a smooth function plus the l2,1 norm of blocks.

    Parameters
    ----------
    evaluate : callable
        The smooth function: takes a point (n,) and an array for the gradient, returns the value.
    split : callable
        Returns the blocks of a vector as matrices that share its memory.
    x : ndarray of shape (n,)
        Where to start; changed in place.
    weight : float
        Of the norm.

    Attributes
    ----------
    value : float
        Of both parts at `x`.
    x : ndarray of shape (n,)
        The point.
    """

    def __init__(self, evaluate: Evaluate, split: Split, x: Floats, weight: float) -> None:
        self._evaluate, self._split, self._weight = evaluate, split, weight
        self.x = x
        self._before = x.copy()
        self._gradient, self._gradient_ahead = np.empty_like(x), np.empty_like(x)
        self._momentum = 1.0
        self._curvature = 0.0
        self.value = 0.0
        self.evaluate()

    def evaluate(self) -> None:
        """Evaluate anew at the point, after the function has changed."""
        self.value = self._evaluate(self.x, self._gradient) + self._norm(self.x)

    def drop_short_rows(self) -> None:
        """Set rows to zero, all that are short at once, if this lowers the value."""
        norms = [np.sqrt((A**2).sum(axis=1)) for A in self._split(self.x)]
        longest = max((float(norm.max(initial=0.0)) for norm in norms), default=0.0)
        for share in DROPS:
            short = [norm <= share * longest for norm in norms]
            if not any((rows & (norm > 0)).any() for rows, norm in zip(short, norms, strict=True)):
                continue
            trial = self.x.copy()
            for A, rows in zip(self._split(trial), short, strict=True):
                A[rows] = 0.0
            value = self._evaluate(trial, self._gradient) + self._norm(trial)
            if value <= self.value:
                self.x[:], self.value = trial, value
                break
        self._before[:] = self.x

    def step(self) -> bool:
        """Take one step; return whether the value fell."""
        momentum = (1 + np.sqrt(1 + 4 * self._momentum**2)) / 2
        ahead = self.x - self._before
        ahead *= (self._momentum - 1) / momentum
        ahead += self.x
        found = self._search(ahead)
        if found is None or found[1] > self.value:
            if self._momentum == 1.0:
                return False
            self._momentum = 1.0
            self._before[:] = self.x
            return self.step()
        fell = found[1] < self.value
        self._before[:], self.x[:] = self.x, found[0]
        self.value, self._momentum = found[1], momentum
        return fell

    def _search(self, at: Floats) -> tuple[Floats, float] | None:
        """Return the proximal point with a step short enough, and the value there."""
        gradient = self._gradient_ahead
        smooth = self._evaluate(at, gradient)
        if self._curvature == 0.0:
            self._curvature = self._curvature_along(at, gradient)
        point = np.empty_like(at)
        for _ in range(MAX_TRIALS):
            np.divide(gradient, -self._curvature, out=point)
            point += at
            for A in self._split(point):
                A[...] = shrink_rows(A, self._weight / self._curvature)
            value = self._evaluate(point, self._gradient)
            model = smooth + self._model(at, point)
            if value <= model + 1e-12 * abs(smooth):
                self._curvature *= RELAX
                return point, value + self._norm(point)
            self._curvature *= GROW
        return None

    def _model(self, at: Floats, point: Floats) -> float:
        """Return what the quadratic model of the smooth function says of its change."""
        total = 0.0
        for i in range(0, len(at), PIECE):
            part = slice(i, i + PIECE)
            change = point[part] - at[part]
            total += float(self._gradient_ahead[part] @ change)
            total += self._curvature / 2 * float(change @ change)
        return total

    def _curvature_along(self, at: Floats, gradient: Floats) -> float:
        """Return the change of the gradient per step against it, from a small one."""
        length = float(np.linalg.norm(gradient))
        if length == 0:
            return 1.0
        step = PROBE * max(float(np.linalg.norm(at)), PROBE) / length
        self._evaluate(at - step * gradient, self._gradient)
        self._gradient -= gradient
        return max(float(np.linalg.norm(self._gradient)) / (step * length), 1e-12)

    def _norm(self, x: Floats) -> float:
        return self._weight * sum(rows_norm(A) for A in self._split(x))
