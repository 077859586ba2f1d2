r"""Canonical correlation analysis of any number of views (NmCCA).

With the centred features :math:`S_k` of m views NmCCA looks for components that agree,

.. math:: \min_W \; \sum_k \bigl\|S_k W_k - \tfrac1m \sum_j S_j W_j\bigr\|_F^2 \quad\text{s.t.}\quad
          \sum_k W_k' (S_k' S_k + \epsilon_k I) W_k = I_q,

where :math:`\sum_k \|x_k - \bar x\|^2 = \tfrac1{2m} \sum_{k \ne l} \|x_k - x_l\|^2` makes it the
same as correlation analysis of all pairs of views. Its components are those of the largest
eigenvalues of

.. math:: C w = \rho D w, \quad C = [S_k' S_l]_{kl}, \quad
          D = \operatorname{blockdiag}(S_k' S_k + \epsilon_k I)

(for :math:`\epsilon > 0` this replaces :math:`\|S_k W_k\|^2` by its regularised form). They are
computed from the singular value decompositions :math:`S_k = U_k \Sigma_k V_k'`: with
:math:`A_k = U_k \Sigma_k (\Sigma_k^2 + \epsilon_k)^{-1/2}` the eigenvalues are the squared singular
values of :math:`[A_1 \dots A_m]`, those of MAXVAR generalised correlation analysis, between 0
and m. For two views without regularisation they are one plus the canonical correlations.

Explicit features of a kernel have as many columns as there are samples, and then every correlation
is one: :math:`\epsilon > 0` is a must. A view that is absent for a sample counts as its mean.

=============  ====================================
paper symbol   name here
=============  ====================================
S_k            features of a view, centred
W_k            ``projections_[k]``
rho            ``correlations_``
epsilon_k      ``eps_[k]``
=============  ====================================

References
----------
.. [1] Z. Wang, S. Chen and T. Sun, "MultiK-MHKS: a novel multiple kernel learning algorithm",
   IEEE TPAMI 30(2), 2008, Section 3.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats
from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.data.containers import warn_all_absent
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.validation import check_alignment, check_dense, validate_views
from kernelquilt.data.views import MultiView

MOST_COMPONENTS = 50
SHARE = 1e-2  # of the mean eigenvalue, the default regularisation
RANK_TOL = 1e-10


class Components(NamedTuple):
    """What `solve_nmcca` returns.

    Attributes
    ----------
    projections : list of m ndarrays of shape (d_k, q)
        Projections W_k.
    eigenvalues : ndarray of shape (q,)
        Eigenvalues rho, the largest first.
    eps : ndarray of shape (m,)
        Regularisation of each view.
    """

    projections: list[Floats]
    eigenvalues: Floats
    eps: Floats


def solve_nmcca(
    views: Sequence[Floats], *, n_components: int | None = None, eps: float | None = None
) -> Components:
    """Solve NmCCA (see the module docstring for the problem).

    Parameters
    ----------
    views : sequence of m ndarrays of shape (n, d_k)
        Features S_k with centred columns, zero where absent.
    n_components : int, optional
        Number of components q; by default the smallest rank of the views, at most 50.
    eps : float, optional
        Regularisation, by default a hundredth of the mean eigenvalue of each ``S_k'S_k``.

    Returns
    -------
    Components
        The projections and how far the views agree.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> rng = np.random.default_rng(0)
    >>> views = [A - A.mean(axis=0) for A in rng.standard_normal((2, 30, 4))]
    >>> components = kq.mkl.solve_nmcca(views, n_components=2)
    >>> [each.shape for each in components.projections]
    [(4, 2), (4, 2)]
    """
    parts, right, ranks, used = [], [], [], []
    for S in views:
        U, singular, Vt = np.linalg.svd(S, full_matrices=False)
        rank = int(np.count_nonzero(singular > RANK_TOL * singular.max(initial=0.0)))
        singular = singular[:rank]
        size = singular.max(initial=0.0)
        own = size * np.sqrt(SHARE * np.mean(np.square(singular / size))) if rank else 0.0
        own = np.sqrt(eps) if eps is not None else own
        # hypot, as squares of small numbers may be zero
        parts.append(U[:, :rank] * (singular / np.hypot(singular, own)))
        right.append(Vt[:rank].T / np.hypot(singular, own))
        ranks.append(rank)
        used.append(float(own**2))
    _, singular, Zt = np.linalg.svd(np.hstack(parts), full_matrices=False)
    rank = int(np.count_nonzero(singular > RANK_TOL * singular.max(initial=0.0)))
    if rank == 0:
        raise ValueError(
            f"none of the {len(views)} views varies among the {len(views[0])} samples, which "
            "leaves no components; leave out samples without views and check the features"
        )
    if n_components is None:
        n_components = min([MOST_COMPONENTS, *(each for each in ranks if each > 0)])
    if n_components > rank:
        raise ValueError(
            f"n_components={n_components} is more than the rank {rank} of the {len(views)} views "
            f"of {len(views[0])} samples; ask for fewer"
        )
    # the sign of a singular vector is arbitrary; this makes it the same whoever computes it
    Z = Zt[:n_components].T
    Z = Z * np.sign(Z[np.abs(Z).argmax(axis=0), np.arange(n_components)])
    split = np.split(Z, np.cumsum(ranks)[:-1])
    projections = [V @ part for V, part in zip(right, split, strict=True)]
    return Components(projections, singular[:n_components] ** 2, np.array(used))


class NmCCA(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Project any number of views to components in which they agree.

    For kernels use it after `EmpiricalKernelMap`. Views stay views, and absent ones absent.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the smallest rank of the views, at most 50.
    eps : float or None, default=None
        Regularisation, added to the eigenvalues of ``S_k'S_k``; None takes a hundredth of their
        mean, view by view. Worth tuning: explicit features of kernels need a larger one, about 1
        for Gaussian kernels, or the components are those of chance.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.

    Attributes
    ----------
    projections_ : list of m ndarrays of shape (n_columns, n_components)
        What the centred views are multiplied with.
    means_ : list of m ndarrays of shape (n_columns,)
        Means of the columns over the samples that have the view.
    correlations_ : ndarray of shape (n_components,)
        Eigenvalues, from m, where all views agree, down to 0; one plus the canonical correlations
        for two views and ``eps=0``.
    eps_ : ndarray of shape (m,)
        Regularisation of each view.
    n_components_ : int
        Number of components.
    view_names_ : tuple of str
        The names of the views.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> Z = kq.mkl.NmCCA(3).fit_transform(X)
    >>> {name: Z[name].shape[1] for name in Z.names}
    {'mean': 3, 'error': 3, 'worst': 3}
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "eps": [Interval(Real, 0, np.inf, closed="left"), None],
        "views": "no_validation",
    }

    def __init__(
        self, n_components: int | None = None, *, eps: float | None = None, views: Any = None
    ) -> None:
        self.n_components = n_components
        self.eps = eps
        self.views = views

    def fit(self, X: Any, y: Any = None) -> "NmCCA":
        """Compute the projections.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples
            Features.
        y : object, default=None
            Ignored, unless its index says that its samples are in another order than those of `X`.

        Returns
        -------
        self : NmCCA
            The fitted transformer.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            data = validate_views(self, X, self.views)
            check_alignment(data, y, "y")
            check_dense(self, data)
            if not data.observed.any():
                raise ValueError(f"all {len(data.names)} views of {len(data)} samples are absent")
            warn_all_absent(data.observed, data.names, "view")
            self.means_ = [
                data[name][present].sum(axis=0) / max(int(present.sum()), 1)
                for name, present in zip(data.names, data.observed.T, strict=True)
            ]
            centred = self._centred(data)
            found = solve_nmcca(centred, n_components=self.n_components, eps=self.eps)
            self.projections_, self.correlations_, self.eps_ = found
            self.n_components_ = len(self.correlations_)
            self.trained_ = data.observed.any(axis=0)
        return self

    def transform(self, X: Any) -> MultiView:
        """Project samples.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples
            Features like those of the training samples.

        Returns
        -------
        components : MultiView of n_samples samples
            Each view with `n_components_` columns, absent where it was, and where no training
            sample has it.
        """
        check_is_fitted(self, "projections_")
        data = match_views(self, X, self.views)
        observed = np.asarray(data.observed & self.trained_)
        with single_threaded_blas():
            blocks = {
                name: np.where(observed[:, [k]], S @ self.projections_[k], np.nan)
                for k, (name, S) in enumerate(zip(data.names, self._centred(data), strict=True))
            }
        return MultiView._build(blocks, observed, data.index)

    def _centred(self, data: MultiView) -> list[Floats]:
        """Return the views without their means, zero where absent."""
        return [
            np.where(present[:, None], data[name] - mean, 0.0)
            for name, present, mean in zip(data.names, data.observed.T, self.means_, strict=True)
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.views is not None
        return tags
