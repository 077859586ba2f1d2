"""From a data set, a setting and a repetition to one split: kernels, features, labels.

Every statistic (means of features, widths of kernels, centring, scaling) comes from observed
training entries, and no test sample influences another. `Study.problem` may have

- ``kernels``: what is computed of each view, a name of `kernelquilt.experiments.study.kernels`; a
  dict of these by setting if the axis is ``"kernels"``; a data set may have its own in
  ``options["kernels"]``;
- ``own_kernels``: those of methods that make kernels of views themselves, if they are others;
- ``channels``: true if each kernel is a channel of its own that can be absent; otherwise views are;
- ``mask``: ``{mechanism = ...}`` of `make_absent`; the ratio is the setting if the axis is
  ``"ratio"``, otherwise ``ratio`` of the mask, where a list has a ratio for each repetition in
  turn; mechanism ``"block_test"`` takes one view, drawn at
  random, from all test samples and makes ``ratio`` of the others absent in training;
- ``standardize``: whether features are standardised (default true), or a dict of that by data set;
- ``centre``: whether kernels are centred (default true);
- ``fill``: ``"after_centring"`` (default), fillers of kernels are given centred and scaled kernels;
  or ``"before_centring"``, they are given kernels as they are, and what they return is centred
  and scaled;
- ``readings``: entries as these by setting if the axis is ``"reading"``;
- ``scale``: ``"unit_diagonal"``, ``"unit_trace"``, ``"mean_diagonal"`` or ``"none"``;
- ``train``: the share of training samples, or their number in each class, or ``"published"``: the
  split that comes with the data and, in further repetitions, random ones of its size; a data set
  may have its own in ``options["train"]``;
- on the axis ``"site"`` the samples of the site that is the setting test, and ``train`` of the
  others train; on the axis ``"presence"`` those test samples count that have ``"fewer"`` views than
  the median sample, ``"as many"`` or ``"more"``;
- ``tuned_by``: the figure by which parameters are tuned, the first of `METRICS` by default;
- ``seeds``: what the seeds of splits and masks are drawn from, in the place of the names of
  protocol, study and data set;
- ``most``: the number of samples above which a stratified part is drawn; a data set may have its
  own in ``options["most"]``.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from kernelquilt._typing import Array, Floats, Indices
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.views import MultiView
from kernelquilt.datasets import make_absent
from kernelquilt.experiments.study.kernels import KERNELS
from kernelquilt.experiments.study.protocol import Cell, ProtocolError
from kernelquilt.experiments.study.sources import Source
from kernelquilt.kernels.preprocessing import CentreKernels, ScaleKernels
from kernelquilt.kernels.view_kernels import ViewKernels
from kernelquilt.quilt.survival.targets import survival_targets

Stacks = tuple[KernelStack, KernelStack]

ROUNDING = 1e-9  # squared norms below it, relative to the largest, are those of zero
N_COORDINATES = 5  # of each kernel, for methods that need features where there are only kernels


@dataclass(frozen=True)
class Split:
    """Training and test samples of one split in one setting.

    Attributes
    ----------
    train, test : MultiView or KernelStack
        With views made absent; rows of one stack if the data are kernels.
    complete : (train, test)
        The same before views were made absent; only for leaky diagnostics.
    y_train, y_test : ndarrays of shapes (n_train,) and (n_test,)
    kernels : list or dict
        Kernels of the views.
    own_kernels : list or dict
        Those of methods that make kernels themselves.
    centre : bool
    scale : str
    standardize : bool
    fill : {"before_centring", "after_centring"}
        When methods that fill kernels do so.
    has_features : bool
        Whether `train` has features that can be given to methods for features.
    """

    train: Any
    test: Any
    complete: tuple[Any, Any]
    y_train: Array
    y_test: Array
    kernels: Any
    own_kernels: Any
    centre: bool
    scale: str
    standardize: bool
    fill: str
    has_features: bool

    @cached_property
    def stacks(self) -> Stacks:
        """Kernels of training (n_train, n_train) and test samples (n_test, n_train)."""
        return self._finished(*self._kernels)

    @cached_property
    def leaky_stacks(self) -> Stacks:
        """The same with the entries that should be absent behind the mask, for diagnostics."""
        train, test = self._finished(*self._computed(*self.complete))
        masked = self.stacks
        return (
            train._with_observed(masked[0].observed),
            test._with_observed(masked[1].observed),
        )

    @cached_property
    def features(self) -> tuple[Floats, Floats]:
        """Features (n_train, d) and (n_test, d), NaN where absent.

        Where there are only kernels, or where one table of features gives several channels, the
        leading coordinates of each kernel's empirical map take the place of the features.
        """
        if self.has_features:
            return _joined(self.train), _joined(self.test)
        return _coordinates(*self.stacks)

    def filled(self, filler: Any) -> Stacks:
        """Return the kernels completed by a new transformer."""
        if self.fill == "after_centring":
            train, test = self.stacks
            return filler.fit_transform(train), filler.transform(test)
        train, test = self._kernels
        return self._finished(filler.fit_transform(train), filler.transform(test))

    @cached_property
    def _kernels(self) -> Stacks:
        """Kernels as they are."""
        return self._computed(self.train, self.test)

    def _computed(self, train: Any, test: Any) -> Stacks:
        if not isinstance(train, MultiView):
            return train, test
        cells = SimpleImputer(keep_empty_features=True)
        scaler = StandardScaler() if self.standardize else FunctionTransformer()
        transformer = ViewTransformer(make_pipeline(cells, scaler))
        maker = ViewKernels(self.kernels)
        train = maker.fit_transform(transformer.fit_transform(train))
        return train, maker.transform(transformer.transform(test))

    def _finished(self, train: KernelStack, test: KernelStack) -> Stacks:
        """Centre and scale kernels."""
        if self.centre:
            centring = CentreKernels()
            train, test = centring.fit_transform(train), centring.transform(test)
            if self.fill == "before_centring":
                train, test = _without_means(train, test)
        if self.scale == "none":
            return train, test
        # a mean diagonal of one is a trace of as many as there are samples
        scaling = ScaleKernels(self.scale.replace("mean_diagonal", "unit_trace"))
        train, test = scaling.fit_transform(train), scaling.transform(test)
        if self.scale == "mean_diagonal":
            counts = train.observed.sum(axis=0)
            train, test = _scaled(train, counts), _scaled(test, counts)
        return train, test


def make_split(cell: Cell, source: Source) -> Split:
    """Return the split of a cell.

    Parameters
    ----------
    cell : Cell
        Cells that differ only in the method have the same split.
    source : Source

    Returns
    -------
    split : Split
    """
    options = _problem(cell)
    data, y = source.data, source.y
    kernels = _kernels_of(cell)
    has_features = isinstance(data, MultiView) and not options.get("channels", False)
    if isinstance(data, MultiView) and options.get("channels", False):
        data, kernels = _channels(data, kernels)
    train, test = _split(cell, source)
    complete = data[train], data[test]
    masked = _masked(cell, data, train, test)
    return Split(
        *masked,
        complete=complete,
        y_train=y[train],
        y_test=y[test],
        kernels=kernels,
        own_kernels=_kernels_of(cell, "own_kernels"),
        centre=options.get("centre", True),
        scale=options.get("scale", "unit_diagonal"),
        standardize=_by_dataset(options.get("standardize", True), cell.dataset.name),
        fill=options.get("fill", "after_centring"),
        has_features=has_features,
    )


def _problem(cell: Cell) -> dict[str, Any]:
    """Return how the split of a cell is made, in the reading of its setting if that is one."""
    options = cell.study.problem
    if cell.study.axis != "reading":
        return options
    readings = options["readings"]
    if cell.setting not in readings:
        raise ProtocolError(
            f"there is no reading {cell.setting!r}; there are {', '.join(readings)}"
        )
    return {**options, **readings[cell.setting]}


def _by_dataset(value: Any, dataset: str) -> bool:
    return bool(value.get(dataset, True) if isinstance(value, dict) else value)


def seed_of(cell: Cell, *, with_setting: bool) -> int:
    """Return the seed of a split, or with the setting that of a mask.

    The split of a repetition is the same in all settings.
    """
    own = [cell.study.protocol, cell.study.name, cell.dataset.name]
    parts = [*cell.study.problem.get("seeds", own), cell.repetition, cell.seed]
    return crc32("/".join(map(str, [*parts, cell.setting] if with_setting else parts)).encode())


def _kernels_of(cell: Cell, option: str = "kernels") -> Any:
    options = _problem(cell)
    by_study = options.get(option, options.get("kernels", "gaussian"))
    chosen = cell.dataset.options.get("kernels", by_study)
    if cell.study.axis == "kernels":
        chosen = chosen[cell.setting] if isinstance(chosen, dict) else cell.setting
    if isinstance(chosen, dict):
        return {view: _kernel(name) for view, name in chosen.items()}
    return _kernel(chosen)


def _kernel(name: str) -> Any:
    if name not in KERNELS:
        raise ProtocolError(f"there are no kernels {name!r}; there are {', '.join(KERNELS)}")
    return KERNELS[name]


def _channels(data: MultiView, kernels: Any) -> tuple[MultiView, dict[str, Any]]:
    """Return a view of its own for each kernel of each view."""
    blocks, functions, columns = {}, {}, []
    for p, view in enumerate(data.names):
        own = kernels[view] if isinstance(kernels, dict) else kernels
        for k, function in enumerate(own if isinstance(own, list) else [own]):
            blocks[f"{view}_{k}"], functions[f"{view}_{k}"] = data[view], function
            columns.append(p)
    return MultiView(blocks, data.observed[:, columns]), functions


def _split(cell: Cell, source: Source) -> tuple[Indices, Indices]:
    options = {**cell.study.problem, **cell.dataset.options}
    share = options.get("train", 0.6)
    if share == "published":
        if source.published is None:
            raise ProtocolError(f"{cell.dataset.name} has no published split")
        if cell.repetition == 0:
            return source.published
        share = len(source.published[0]) / sum(map(len, source.published))
    y, seed = _strata(cell, source.y), seed_of(cell, with_setting=False)
    rows = np.arange(len(source.y))
    most = options.get("most")
    if most is not None and len(rows) > most:
        rows, _ = train_test_split(rows, train_size=most, stratify=y, random_state=seed)
    if cell.study.axis == "site":
        return _without_site(cell, source, rows, share)
    if isinstance(share, int):
        share *= len(np.unique(source.y))
    strata = None if y is None else y[rows]
    train, test = train_test_split(rows, train_size=share, stratify=strata, random_state=seed)
    if cell.study.axis == "presence":
        test = _with_presence(cell, source.data.observed.sum(axis=1), test)
    return np.sort(train), np.sort(test)


def _strata(cell: Cell, y: Array) -> Array | None:
    """Return what is to be as frequent in training as in test samples: classes, or events."""
    if cell.study.task == "regression":
        return None
    return survival_targets(y)[0] if cell.study.task == "survival" else y


def _without_site(cell: Cell, source: Source, rows: Indices, share: Any) -> tuple[Indices, Indices]:
    """Return part of the rows of other sites for training, and those of one site for testing."""
    if source.sites is None:
        raise ProtocolError(f"{cell.dataset.name} has no sites; name their key in its options")
    own = source.sites[rows] == cell.setting
    if not own.any():
        raise ProtocolError(f"{cell.dataset.name} has no samples of the site {cell.setting!r}")
    others, seed = rows[~own], seed_of(cell, with_setting=False)
    strata = _strata(cell, source.y)
    train, _ = train_test_split(
        others,
        train_size=share,
        stratify=None if strata is None else strata[others],
        random_state=seed,
    )
    return np.sort(train), rows[own]


def _with_presence(cell: Cell, counts: Indices, test: Indices) -> Indices:
    """Return the test rows whose number of views compares with the median as the setting says."""
    median = np.median(counts)
    compared = {
        "fewer": counts[test] < median,
        "as many": counts[test] == median,
        "more": counts[test] > median,
    }
    if not compared[cell.setting].any():
        raise ValueError(f"no test sample has {cell.setting} views, compared with the median")
    return test[compared[cell.setting]]


def _masked(cell: Cell, data: Any, train: Indices, test: Indices) -> tuple[Any, Any]:
    options = cell.study.problem.get("mask")
    if options is None or cell.setting == "as is":
        return data[train], data[test]
    mechanism = options["mechanism"]
    ratio = cell.setting if cell.study.axis == "ratio" else options["ratio"]
    if isinstance(ratio, list):
        ratio = ratio[cell.repetition % len(ratio)]
    if cell.study.axis == "reading":
        cell = replace(cell, setting=ratio)  # all readings have the same mask
    seed = seed_of(cell, with_setting=True) % 2**31
    if mechanism == "block_test":
        rng = np.random.default_rng(seed)
        lost = rng.integers(data.shape[1])
        observed = data.observed[test]
        observed[:, lost] &= observed.sum(axis=1) == 1
        kept = data[test]
        views = MultiView({name: kept[name] for name in kept.names}, observed)
        return with_absent(data[train], ratio, "mcar", seed), views
    masked = with_absent(data, ratio, mechanism, seed)
    return masked[train], masked[test]


def with_absent(data: Any, ratio: float, mechanism: str, seed: int) -> Any:
    """Make views or kernels absent; tables say what share was reached, so no warning does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* of the (views|kernels) were made absent", UserWarning)
        return make_absent(data, ratio, mechanism=mechanism, random_state=seed)


def _without_means(train: KernelStack, test: KernelStack) -> Stacks:
    """Return centred kernels whose samples at the mean, as filling may put them there, are zero.

    What rounding leaves of them would be blown up by a unit diagonal.
    """
    K, rows = train.gram().copy(), test.gram().copy()
    own = np.diagonal(K, axis1=1, axis2=2)
    lowest = ROUNDING * own.max(axis=1, keepdims=True)
    diag = np.asarray(test.diag)
    at_mean, new_at_mean = own <= lowest, diag <= lowest
    for k, r, columns, new in zip(K, rows, at_mean, new_at_mean, strict=True):
        k[columns] = k[:, columns] = r[:, columns] = r[new] = 0
    return (
        KernelStack(K, train.observed, names=train.names),
        KernelStack(rows, test.observed, names=test.names, diag=np.where(new_at_mean, 0.0, diag)),
    )


def _scaled(stack: KernelStack, factors: Array) -> KernelStack:
    K = stack.gram() * factors[:, None, None]
    diag = None if stack.diag is None else stack.diag * factors[:, None]
    return KernelStack(K, stack.observed, names=stack.names, diag=None if stack.square else diag)


def _joined(data: MultiView) -> Floats:
    absent = ~data.observed
    blocks = [np.where(absent[:, [p]], np.nan, data[name]) for p, name in enumerate(data.names)]
    return np.column_stack(blocks)


def _coordinates(train: KernelStack, test: KernelStack) -> tuple[Floats, Floats]:
    parts = []
    K_train, K_test = train.gram(), test.gram()
    for p, (square, rows) in enumerate(zip(K_train, K_test, strict=True)):
        known, new = train.observed[:, p], test.observed[:, p]
        count = min(N_COORDINATES, int(known.sum()))
        values, vectors = np.linalg.eigh(square[np.ix_(known, known)])
        values, vectors = values[-count:], vectors[:, -count:]
        axes = vectors / np.sqrt(np.maximum(values, 1e-12 * max(values.max(initial=0.0), 1e-300)))
        pair = np.full((len(train), count), np.nan), np.full((len(test), count), np.nan)
        pair[0][known] = square[np.ix_(known, known)] @ axes
        pair[1][new] = rows[np.ix_(new, known)] @ axes
        parts.append(pair)
    return np.column_stack([a for a, _ in parts]), np.column_stack([b for _, b in parts])
