r"""Views with a classifier each that are made to agree, by an interior point method.

With :math:`f_l = K_l g_l + b_l` the outputs of view l on the samples,

.. math:: \min_{g, b} \; \tfrac12 \sum_l g_l' K_l g_l
          + \sum_{l, i} U_{li} \max(0, 1 - y_i f_{li}) + A(f),

where A is what disagreement costs, one of

.. math:: A(f) = \tfrac12 \sum_i q_i \sum_{l \in O_i} \bigl(f_{li} - \bar f_i\bigr)^2
          \qquad\text{or}\qquad
          A(f) = \sum_i D_i \max(0, |f_{1i} - f_{2i}| - \epsilon),

:math:`O_i` the views that sample i has, :math:`\bar f_i` the mean over them. The dual variables are
:math:`0 \le a_{li} \le U_{li}` of the margins and either :math:`v_i`, which sum to zero over
:math:`O_i`, or :math:`0 \le d^\pm_i \le D_i`, and then

.. math:: g_l = y \circ a_l - v_l \quad\text{or}\quad
          g_1 = y \circ a_1 - d^+ + d^-, \; g_2 = y \circ a_2 + d^+ - d^-,
          \qquad \sum_i g_{li} = 0 .

The dual objective is :math:`\sum a - \tfrac12 \sum_l g_l' K_l g_l` less :math:`\sum v_{li}^2 / 2
q_i` or :math:`\epsilon \sum (d^+ + d^-)`. The gap between the two objectives is a sum of terms of
which none is negative (:mod:`kernelquilt.mkl.agreement.loss_terms`,
:mod:`kernelquilt.mkl.agreement.disagreement`), and valid for inexact solutions.

Near a central point the duals follow small changes of the outputs by
:math:`\Delta g = p - V \Delta f`. Of sample i, V has the block
:math:`\operatorname{diag}(\delta_i) + q_i P_i` with the centring :math:`P_i` over :math:`O_i`, and
a Cholesky factor in closed form. Newton's system
:math:`\Delta g + V (K \Delta g + \Delta b) = p` takes one Cholesky factorisation of a matrix with a
row for every view of every sample. The steps are those of Mehrotra's predictor-corrector method.
Entries of V grow without bound as it converges, for which reason numbers that are nearly equal
are never subtracted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, lapack

from kernelquilt._typing import Bools, Floats
from kernelquilt.mkl.agreement.disagreement import Band, Distance, Squares
from kernelquilt.mkl.agreement.loss_terms import Change, Margins, Term

Disagreement = Band | Distance | Squares
SHORTEN = 0.995
MAX_ITER = 100
EXACT = 1e-11  # relative gap to go on to, as long as it shrinks
CLOSE = 1e-6  # relative gap at which it may end if the gap does not shrink
PATIENCE = 3  # iterations without a smaller gap
REFINEMENTS = 3


class NewtonSystem:
    """The factorised system ``dg + V (K dg + db) = p, sum(dg) = sums`` of all views.

    With the blocks' Cholesky factors ``V = L L'`` and ``dg = L t`` it is
    ``(I + L'KL) t + L'db = L^-1 p``, whose matrix is symmetric with eigenvalues of at least 1.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, positive semi-definite.
    used : ndarray of shape (M, n), bool
        Samples of each view; every view has some.
    give, stiffness : ndarrays of shape (M, n) and (n,)
        V of sample i is ``diag(give[:, i]) + stiffness[i] P_i``.
    """

    def __init__(self, K: Floats, used: Bools, give: Floats, stiffness: Floats) -> None:
        self.K, self.give, self.stiffness = K, give, stiffness
        M, n = used.shape
        self.root = _root(used, give, stiffness)
        blocks = np.zeros((M, n, M, n))
        for k, (kernel, root) in enumerate(zip(K, self.root, strict=True)):
            for l in range(k + 1):  # L is lower triangular
                scaled = root[l][:, None] * kernel
                for m in range(l + 1):
                    blocks[l, :, m] += scaled * root[m]
        self.used = np.flatnonzero(used)
        S = blocks.reshape(M * n, M * n)
        if len(self.used) < M * n:
            S = S[np.ix_(self.used, self.used)]
        S.flat[:: len(S) + 1] += 1.0
        self.factor = _cholesky(S)
        self.of_bias = np.array([self._scaled(ones) for ones in np.eye(M)[:, :, None] * used])
        self.response = np.array([self._inverse(each) for each in self.of_bias])
        self.schur = np.einsum("klj,mlj->km", self.of_bias, self.response)

    def solve(self, p: Floats, sums: Floats) -> tuple[Floats, Change]:
        """Return db (M,) and the change of the outputs, refined against rounding.

        The change is ``df = V^-1 (p - dg)`` instead of the equal ``K dg + db``, whose rounding
        large entries of V would blow up.
        """
        right = _forward(self.root, p)
        t, db = np.zeros_like(p), np.zeros(len(p))
        dg = np.zeros_like(p)
        for _ in range(REFINEMENTS):
            missing = right - t - self._scaled(products(self.K, dg) + db[:, None])
            more = self._inverse(missing)
            left = np.einsum("klj,lj->k", self.of_bias, t + more) - sums
            shift = np.linalg.solve(self.schur, left)
            t += more - np.tensordot(shift, self.response, 1)
            db += shift
            dg = np.einsum("lmj,mj->lj", self.root, t)
        return db, self._change(right - t)

    def _change(self, scaled: Floats) -> Change:
        """Return ``df = L'^-1 scaled``, and where it is known better the difference of two."""
        df = _backward(self.root, scaled)
        difference = df[0] - df[-1]
        stiff = self.stiffness > self.give[0]
        if len(df) == 2 and stiff.any():
            # the first row of L'df = scaled, solved for what the large coefficient belongs to
            q = np.where(stiff, self.stiffness, 1.0)
            known = 2.0 * (self.root[0, 0] * scaled[0] - self.give[0] * df[0]) / q
            difference = np.where(stiff, known, difference)
        return Change(df, difference)

    def _scaled(self, x: Floats) -> Floats:
        """Return ``L'x``."""
        return np.einsum("mlj,mj->lj", self.root, x)

    def _inverse(self, x: Floats) -> Floats:
        """Return ``(I + L'KL)^-1 x``."""
        solution = np.zeros(x.shape)
        solution.flat[self.used], _ = lapack.dpotrs(self.factor, x.flat[self.used], lower=0)
        return solution


def _forward(root: Floats, p: Floats) -> Floats:
    """Return ``L^-1 p``, zero where L has no row."""
    x = np.zeros_like(p)
    for l in range(len(p)):
        x[l] = _divided(p[l] - np.sum(root[l, :l] * x[:l], axis=0), root[l, l])
    return x


def _backward(root: Floats, p: Floats) -> Floats:
    """Return ``L'^-1 p``, zero where L has no row."""
    x = np.zeros_like(p)
    for l in reversed(range(len(p))):
        x[l] = _divided(p[l] - np.sum(root[l + 1 :, l] * x[l + 1 :], axis=0), root[l, l])
    return x


def _divided(numerator: Floats, pivot: Floats) -> Floats:
    return np.where(pivot > 0.0, numerator / np.where(pivot > 0.0, pivot, 1.0), 0.0)


def _root(used: Bools, give: Floats, stiffness: Floats) -> Floats:
    """Return the Cholesky factors (M, M, n) of the blocks of V, without any subtraction.

    What is left of a block after j steps is ``diag(t) - stiffness / alpha_j`` with
    ``t = give + stiffness``, where alpha_j is the number of views left plus the sum of
    ``give / t`` over those eliminated. A difference of t and the fraction would lose the small
    `give` of a sample whose views are all but forced to agree.
    """
    M, n = used.shape
    root = np.zeros((M, M, n))
    left = used.sum(axis=0).astype(np.float64)
    done = np.zeros(n)
    for l in range(M):
        here = used[l]
        t = np.where(here, give[l] + stiffness, 1.0)
        alpha = np.where(here, left + done, 1.0)
        left -= here
        done += np.where(here, give[l] / t, 0.0)
        pivot = np.where(here, np.sqrt(t * (left + done) / alpha), 1.0)
        root[l, l] = np.where(here, pivot, 0.0)
        for m in range(l + 1, M):
            root[m, l] = np.where(here & used[m], -stiffness / (alpha * pivot), 0.0)
    return root


def _cholesky(A: Floats) -> Floats:
    """Return the transposed factor of A, of which the lower triangle counts, in place of A."""
    # transposed it is in the order of LAPACK, and not copied
    factor, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
    if info:
        raise LinAlgError("not positive definite")
    return np.asarray(factor)


def products(K: Floats, g: Floats) -> Floats:
    """Return ``K_l g_l`` of every view, shape (M, n)."""
    return np.array([kernel @ each for kernel, each in zip(K, g, strict=True)])


@dataclass(frozen=True)
class Agreement:
    """A solution with its certificate.

    Attributes
    ----------
    g : ndarray of shape (M, n)
        Signed duals of the views.
    intercepts : ndarray of shape (M,)
        Biases of the views.
    objective, gap : float
        Primal value, and how far it may be above the optimum.
    n_iter : int
        Interior point iterations.
    """

    g: Floats
    intercepts: Floats
    objective: float
    gap: float
    n_iter: int


def agree(K: Floats, margins: Margins, disagreement: Disagreement) -> Agreement:
    """Run the interior point method until the gap does not shrink any more.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, positive semi-definite; if they are not, it ends early with a large gap.
    margins : Margins
        Hinge loss; every view has a sample that takes part.
    disagreement : Band, Distance or Squares
        What disagreement costs.

    Returns
    -------
    Agreement
        The point with the smallest gap.
    """
    terms = (margins, disagreement)
    b = np.zeros(len(K))
    g = _total(term.pull() for term in terms)
    f = products(K, g)
    for term in terms:
        term.start(f)
    best: Agreement | None = None
    n_iter = stalled = 0
    for n_iter in range(MAX_ITER):
        norm = 0.5 * float(np.sum(g * (f - b[:, None])))
        primal = norm + sum(term.value(f) for term in terms)
        # where the coefficients do not sum to zero yet, the biases are not accounted for
        gap = sum(term.gap(f) for term in terms) + float(np.abs(b) @ np.abs(g.sum(axis=1)))
        stalled += 1
        if best is None or gap < best.gap:
            best, stalled = Agreement(g, b, primal, gap, n_iter), 0
        close = best.gap <= CLOSE * abs(best.objective)
        if best.gap <= EXACT * abs(best.objective) or (close and stalled >= PATIENCE):
            break
        try:
            db, length = _predict_and_correct(K, terms, g, f)
        except LinAlgError:
            break
        if not length > 0.0:
            break
        for term in terms:
            term.move(length)
        b = b + length * db
        g = _total(term.pull() for term in terms)
        f = products(K, g) + b[:, None]
    assert best is not None
    return replace(best, n_iter=n_iter)


def _predict_and_correct(
    K: Floats, terms: tuple[Margins, Disagreement], g: Floats, f: Floats
) -> tuple[Floats, float]:
    """Set the steps of the terms, and return that of the biases (M,) and how far to go."""
    for term in terms:
        term.linearise(f)
    margins, disagreement = terms
    system = NewtonSystem(K, margins.used, margins.give, disagreement.stiffness)
    total = sum(term.complementarity(0.0) for term in terms)
    mu = total / sum(term.n_products for term in terms)
    sums = -g.sum(axis=1)
    _, change = system.solve(_total(term.aim(0.0) for term in terms), sums)
    length = min(1.0, _set_steps(terms, 0.0, change))
    ahead = sum(term.complementarity(length) for term in terms)
    for term in terms:
        term.correct()
    centre = mu * (ahead / total) ** 3
    db, change = system.solve(_total(term.aim(centre) for term in terms), sums)
    length = min(1.0, SHORTEN * _set_steps(terms, centre, change))
    return db, length if np.isfinite(change.df).all() else 0.0


def _total(parts: Iterable[Floats]) -> Floats:
    return np.asarray(np.sum(list(parts), axis=0))


def _set_steps(terms: Iterable[Term], centre: float, change: Change) -> float:
    """Set the steps of all terms and return the longest length that keeps them feasible."""
    longest = np.inf
    for term in terms:
        term.step(centre, change)
        longest = min(longest, term.longest())
    return longest
