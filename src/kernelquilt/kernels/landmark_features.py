"""The views of training samples in the span of landmarks, and those of new samples."""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.limits import check_memory
from kernelquilt.data.gram import check_kernel
from kernelquilt.data.sampling import MOST_SAMPLES, Sample
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.training import Samples
from kernelquilt.kernels.inputs import KernelInput, count_kernels, fit_input
from kernelquilt.kernels.landmark_maps import FeatureMap, fit_map
from kernelquilt.kernels.landmarks import LANDMARKS, training_kernel

LEAST_SAMPLES = 3  # that a view must have to be of use
ALL_LANDMARKS = 1000  # samples up to which all are landmarks by default
MANY_LANDMARKS = 240  # landmarks of a view by default where samples are MOST_SAMPLES,
GROWTH = 1 / 14  # growing with this power of their number
FEW_LANDMARKS = 50  # the least of them where views are many,
MOST_FEATURES = 3000  # so that there are no more features than these
POINTS = (3, 10)  # least and most landmarks of all views together, for each landmark of a view
POINT_SHARE = 6  # between them, one of so many samples
MOST_POINTS = 2400  # but no more of them
LANDMARK_CONSTRAINTS: dict[str, Any] = {
    "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "landmarks": [StrOptions(set(LANDMARKS))],
}

Features = list[Floats]  # of M views, (n_rows, D_p) each, zero where absent


@dataclass(frozen=True)
class ViewFeatures:
    """The maps from samples to features of some kernels.

    Attributes
    ----------
    input : KernelInput
        The training samples, or what is left of them: the landmarks.
    kernels : ndarray of int of shape (M,)
        Which of its kernels.
    names : tuple of M str
        Their names.
    maps : list of M FeatureMap
    diagonals : ndarray of shape (M,)
        k(x, x) if it is the same for all training samples, else nan.
    """

    input: KernelInput
    kernels: Indices
    names: tuple[str, ...]
    maps: list[FeatureMap]
    diagonals: Floats

    @property
    def n_features(self) -> int:
        """Number of features of all kernels."""
        return sum(len(each.mean) for each in self.maps)

    def of(self, rows: Samples) -> tuple[Features, Bools]:
        """Return the features of samples, and which kernels they have."""
        observed = self.input.observed_of(rows)[:, self.kernels]
        return [self._of(rows, observed[:, j], j) for j in range(len(self.maps))], observed

    def _of(self, rows: Samples, present: Bools, j: int) -> Floats:
        made, m = self.maps[j], int(self.kernels[j])
        z = np.zeros((len(rows), len(made.mean)))
        having = np.flatnonzero(present)
        if len(having) and len(made.columns):
            part = self.input.narrowed(rows, m)
            part = part if len(having) == len(rows) else part[having]
            z[having] = made.of(self.input.between(part, m, made.columns))
        return z

    def lengths(self, rows: Samples, Z: Features, observed: Bools) -> Floats:
        """Return squared lengths (M, n_rows) of samples, zero where absent."""
        lengths = np.zeros((len(Z), len(rows)))
        diags = [self.input.diag(rows, int(m)) for m in self.kernels]
        unknown = [
            name
            for name, diag, same in zip(self.names, diags, self.diagonals, strict=True)
            if diag is None and np.isnan(same)
        ]
        if unknown:
            raise ValueError(
                f"k(x, x) of the {len(rows)} new samples is needed for the kernels "
                f"{quoted(unknown)}; give it as diag= of the KernelStack, slice training and new "
                "samples from one stack, or scale kernels to unit diagonal"
            )
        for j, (made, z, diag) in enumerate(zip(self.maps, Z, diags, strict=True)):
            own = observed[:, j]
            known = self.diagonals[j] if diag is None else diag[own].astype(np.float64)
            lengths[j, own] = made.lengths(z[own], known)
        return lengths

    def are_all_of(self, n: int) -> bool:
        """Whether the landmarks are all of n training samples, with their columns."""
        everyone = self.input.views is not None and len(self.input.views) == n
        # a sample that depends on others is no landmark, and without it others would be chosen
        having = self.input.observed[:, self.kernels].sum(axis=0)
        return everyone and all(
            len(each.columns) == len(each.mean) == count
            for each, count in zip(self.maps, having, strict=True)
        )

    def without_projections(self) -> "ViewFeatures":
        """Return the same without what follows from the landmarks."""
        return replace(self, maps=[each.without_projection() for each in self.maps])

    def with_projections(self) -> "tuple[ViewFeatures, Features]":
        """Return the same with the projections, and the features of all samples.

        The landmarks are all samples that have a view, as in `are_all_of`.
        """
        made = [each.with_projection(self._among(j)) for j, each in enumerate(self.maps)]
        n = len(self.input.observed)
        Z = [_at(each.columns, own, n) for each, own in made]
        return replace(self, maps=[each for each, _ in made]), Z

    def _among(self, j: int) -> Floats:
        """Return the kernel among the landmarks of kernel j."""
        columns, m = self.maps[j].columns, int(self.kernels[j])
        landmarks = self.input.narrowed(self.input.views, m)[columns]
        return self.input.between(landmarks, m, columns)

    def forget_others(self) -> "ViewFeatures":
        """Let the input forget training samples that are no landmarks."""
        columns = [np.empty(0, dtype=np.intp) for _ in self.input.names]
        for m, made in zip(self.kernels, self.maps, strict=True):
            columns[m] = made.columns
        kept = self.input.keep_only(columns)
        maps = [
            replace(made, columns=kept[m]) for m, made in zip(self.kernels, self.maps, strict=True)
        ]
        return replace(self, maps=maps)


class FittedFeatures(NamedTuple):
    """The features of training samples.

    Attributes
    ----------
    views : ViewFeatures
        Of the M kernels in use; of the training samples it knows the landmarks.
    Z : Features of n samples
    observed : ndarray of bool of shape (n, M)
        Which kernels they have.
    lengths : ndarray of shape (M, n)
        Squared lengths, zero where absent.
    """

    views: ViewFeatures
    Z: Features
    observed: Bools
    lengths: Floats

    def part(self, rows: Indices) -> "FittedFeatures":
        """Return those of some samples, in ascending order."""
        if len(rows) == len(self.observed):
            return self
        Z = [z[rows] for z in self.Z]
        return self._replace(Z=Z, observed=self.observed[rows], lengths=self.lengths[:, rows])


def fit_features(
    estimator: Any,
    data: Samples,
    sample: Sample,
    n_landmarks: int,
    *,
    least: int = LEAST_SAMPLES,
    centred: bool = True,
) -> FittedFeatures:
    """Fit the kernels of an estimator and their features to training samples.

    The estimator is given its input, and the attributes that go with it.

    Parameters
    ----------
    estimator : estimator
        With the parameters `kernels`, `landmarks` and `n_jobs`.
    data : MultiView or KernelStack
        All training samples.
    sample : Sample
        Those in memory.
    n_landmarks : int
        At most so many for each kernel.
    least : int, default=LEAST_SAMPLES
        Samples that a kernel must have to be of use.
    centred : bool, default=True
        Whether features are centred and scaled.

    Returns
    -------
    FittedFeatures
    """
    copies = sample.targets.copies
    if isinstance(data, KernelStack):
        held = fit_input(estimator, data, None)
    else:
        held = fit_input(estimator, sample.data, copies)
    held.describe(estimator)
    observed = held.observed[sample.columns]
    used = usable_views(type(estimator).__name__, held.names, observed.sum(axis=0), least)
    kernels = np.flatnonzero(used)
    # the same for all kernels, whatever their order, and drawn only where it is needed
    state = 0
    if observed.sum(axis=0).max() > n_landmarks:
        state = sample.rng.randint(np.iinfo(np.int32).max)
    done = Parallel(estimator.n_jobs, prefer="threads")(
        delayed(_fit_view)(
            held,
            sample.data,
            sample.columns,
            m,
            copies if centred else None,
            n_landmarks,
            estimator.landmarks,
            state,
        )
        for m in kernels.tolist()
    )
    maps, Z, lengths, diagonals = (list(each) for each in zip(*done, strict=True))
    names = tuple(held.names[m] for m in kernels)
    views = ViewFeatures(held, kernels, names, maps, np.array(diagonals))
    observed = np.ascontiguousarray(observed[:, kernels])
    return FittedFeatures(views.forget_others(), Z, observed, np.array(lengths))


def _fit_view(
    held: KernelInput,
    data: Samples,
    columns: Indices,
    m: int,
    copies: Floats | None,
    n_landmarks: int,
    landmarks: str,
    state: int,
) -> tuple[FeatureMap, Floats, Floats, float]:
    """Return the map, features, squared lengths and the value of the diagonal of one kernel.

    The `columns` (n,) are what the input calls the samples, of which `copies` (n,) count.
    """
    rows = np.flatnonzero(held.observed[columns, m])
    having = held.narrowed(data, m)
    having = having if len(rows) == len(data) else having[rows]
    called, count, rng = columns[rows], min(n_landmarks, len(rows)), np.random.RandomState(state)
    if landmarks == "uniform":
        # kernels share their landmarks as far as samples have them: fewer samples are kept
        chosen = np.sort(np.argsort(rng.random_sample(len(data))[rows])[:count])
    elif count == len(rows):
        chosen = np.arange(count)
    else:
        kernel = training_kernel(held, having, m, called)
        chosen = np.sort(LANDMARKS[landmarks](kernel, count, rng))
    diag = held.diag(having, m)
    assert diag is not None  # of training samples
    similar = held.between(having, m, called[chosen])
    check_kernel(similar[chosen], held.names[m])
    counted = None if copies is None else copies[rows]
    made, found = fit_map(similar, chosen, called[chosen], counted)
    lengths = np.zeros(len(data))
    lengths[rows] = made.lengths(found, diag.astype(np.float64))
    return made, _at(rows, found, len(data)), lengths, _same(diag)


def _at(rows: Indices, values: Floats, n: int) -> Floats:
    if len(rows) == n:
        return values
    out = np.zeros((n, values.shape[1]))
    out[rows] = values
    return out


def _same(diag: Any) -> float:
    """Return the one value of a diagonal (n,), nan if there are several."""
    tolerance = 1e-5 if diag.dtype == np.float32 else 1e-8
    values = diag.astype(np.float64)
    return float(values.mean()) if np.ptp(values) <= tolerance * np.abs(values).max() else np.nan


def landmark_count(estimator: Any, data: Samples, n: int) -> int:
    """Return the number of landmarks of a view, for n samples that count."""
    if not isinstance(estimator.n_landmarks, str):
        return int(estimator.n_landmarks)
    if n <= ALL_LANDMARKS:
        return n
    each = MOST_FEATURES // count_kernels(data, estimator.kernels)
    many = round(MANY_LANDMARKS * (n / MOST_SAMPLES) ** GROWTH)
    return max(FEW_LANDMARKS, min(many, each))


def joint_landmark_count(n: int, n_landmarks: int) -> int:
    """Return the number of landmarks of all views together, for so many of each view."""
    least, most = POINTS[0] * n_landmarks, min(POINTS[1] * n_landmarks, MOST_POINTS)
    return min(n, max(least, min(most, n // POINT_SHARE)))


def check_feature_memory(
    estimator: Any, data: Samples, n: int, n_landmarks: int, n_points: int = 0
) -> None:
    """Refuse training samples whose features would not fit into memory, before any is made.

    Parameters
    ----------
    estimator : estimator
        With the parameter `kernels`, and `max_memory` if it has a limit of its own.
    data : MultiView or KernelStack
    n : int
        Number of samples.
    n_landmarks : int
        Of a view.
    n_points : int, default=0
        Landmarks of all views together.
    """
    M, n = count_kernels(data, estimator.kernels), min(n, MOST_SAMPLES)
    having = np.minimum(data.observed.sum(axis=0), n)
    D = M * float(np.minimum(having, n_landmarks).mean())
    needed = 8 * (n * (4 * D + 3 * n_points) + 2 * D**2 + (2 * M + 6) * min(n, D) ** 2)
    limit = getattr(estimator, "max_memory", None)
    check_memory(n, M, needed, max_memory=limit, instead="lower n_landmarks; ")


def usable_views(owner: str, names: tuple[str, ...], counts: Indices, least: int) -> Bools:
    """Return which kernels (M,) enough samples have; warn of the others.

    Parameters
    ----------
    owner : str
        Name of the estimator, for the error if there are none.
    names : tuple of M str
        Names of the kernels.
    counts : ndarray of int of shape (M,)
        How many training samples have each.
    least : int
        How many must have it.

    Returns
    -------
    used : ndarray of bool of shape (M,)
    """
    used = np.asarray(counts >= least)
    if not used.any():
        raise ValueError(
            f"{owner} needs a view that at least {least} training samples have; the "
            f"{len(names)} kernels are observed for at most {counts.max()} samples"
        )
    few = [
        f"{name} ({count})"
        for name, count, ok in zip(names, counts, used, strict=True)
        if not ok and count
    ]
    if few:
        warn_user(
            f"{len(few)} of {len(names)} kernels are observed for less than {least} "
            f"training samples and therefore ignored, now and in new data: {quoted(few)}"
        )
    return used
