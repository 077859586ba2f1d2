"""From a data set, a setting and a repetition to kernels with holes: some to tune on, some to test.

`Study.problem` has ``partition``:

- ``"published"``: the file has partitions and masks, and the repetition is the number of the
  partition. Samples ``tr_idx (R, n_0)`` have all kernels and belong to both parts, ``val_idx`` are
  for tuning and ``test_idx`` for testing; ``observed_val`` and ``observed_test``, of shape
  (samples, kernels, levels) or with the partition in front, say what these have. The setting is
  the number of kernels that each of them lacks, which tells the level.
- ``"drawn"``: a share ``tuning`` of the samples is for tuning, the others for testing, and a share
  ``complete`` of each part has all kernels. The others lack as many kernels as the setting says if
  the axis is ``"missing"``, or each kernel with that probability if it is ``"ratio"``.

Kernels are ``K (M, n, n)`` of the file. `DataSet.options` may instead have

- ``kernels``: what is computed of each view ``view_0``, ``view_1``, ... of the file, see
  `kernelquilt.experiments.study.kernels`; samples whose kernel values are all zero in a
  view are left out;
- ``toy``: ``{kind, n_samples, views}``, kernels that `make_toy_kernels` draws anew in each
  repetition; there is no file. ``views`` are the numbers of those to keep, all by default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.datasets import make_toy_kernels
from kernelquilt.experiments.study.completion_measures import spectra
from kernelquilt.experiments.study.kernels import KERNELS
from kernelquilt.experiments.study.protocol import Cell, DataSet, ProtocolError
from kernelquilt.experiments.study.sources import Archive, DataMissingError, Load
from kernelquilt.experiments.study.splits import seed_of, with_absent
from kernelquilt.kernels.view_kernels import ViewKernels

PUBLISHED = ("tr_idx", "val_idx", "test_idx", "observed_val", "observed_test")


@dataclass(frozen=True)
class Part:
    """Samples whose kernels are to be completed.

    Attributes
    ----------
    K : ndarray of shape (M, n, n)
        True kernels.
    observed : ndarray of bool of shape (n, M)
    """

    K: Floats
    observed: Bools

    @property
    def stack(self) -> KernelStack:
        """The kernels with NaN where they are absent, all that a completer may see."""
        seen = (self.observed[:, None] & self.observed).transpose(2, 0, 1)
        return KernelStack(np.where(seen, self.K, np.nan), self.observed)

    @property
    def leaky_stack(self) -> KernelStack:
        """The same with the truth behind the mask, for diagnostics."""
        return KernelStack(self.K, self.observed)

    def with_first_complete(self) -> "Part":
        """Return the same with the first kernel complete."""
        first = np.arange(self.observed.shape[1]) == 0
        return Part(self.K, self.observed | first)


@dataclass(frozen=True)
class CompletionSplit:
    """Kernels to complete.

    Attributes
    ----------
    tuning, test : Part
    spectra : ndarray of shape (M, n)
        Eigenvalues of the kernels of all samples, the largest first.
    """

    tuning: Part
    test: Part
    spectra: Floats


def read_archive(dataset: DataSet, load: Load) -> Archive:
    """Return the arrays of a data set; none if its kernels are drawn.

    Raises
    ------
    DataMissingError
        If the file is not there or has no kernels.
    """
    if "toy" in dataset.options:
        return Archive()
    archive = load.archive(dataset)
    needed = "view_0" if "kernels" in dataset.options else "K"
    if needed not in archive:
        raise DataMissingError(f"{dataset.name}: {dataset.filename} has no entry {needed!r}")
    return archive


def make_completion_split(cell: Cell, archive: Mapping[str, Any]) -> CompletionSplit:
    """Return the split of a cell.

    Parameters
    ----------
    cell : Cell
        Cells that differ only in the method have the same split.
    archive : mapping of str to ndarray
        From `read_archive`.

    Returns
    -------
    split : CompletionSplit
    """
    K = _kernels(cell, archive)
    make_part = _published if cell.study.problem["partition"] == "published" else _drawn
    tuning, test = (make_part(cell, K, archive, name) for name in ("val", "test"))
    return CompletionSplit(tuning, test, spectra(K))


def _kernels(cell: Cell, archive: Mapping[str, Any]) -> Floats:
    options = cell.dataset.options
    if "toy" in options:
        toy = options["toy"]
        seed = seed_of(cell, with_setting=False) % 2**31
        K = make_toy_kernels(toy["kind"], toy["n_samples"], random_state=seed).gram()
        return np.asarray(K[toy.get("views", slice(None))])
    if "kernels" in options:
        count = sum(name.startswith("view_") and name[5:].isdigit() for name in archive)
        views = MultiView([np.asarray(archive[f"view_{k}"], float) for k in range(count)])
        K = ViewKernels(KERNELS[options["kernels"]]).fit_transform(views).gram()
        # a sample without any content in a view has no relative error there
        return _among(K, np.flatnonzero(K.any(axis=2).all(axis=0)))
    return np.asarray(archive["K"], dtype=np.float64)


def _published(cell: Cell, K: Floats, archive: Mapping[str, Any], name: str) -> Part:
    absent = [key for key in PUBLISHED if key not in archive]
    if absent:
        raise ProtocolError(f"{cell.dataset.filename} has no entry {absent[0]!r}")
    if cell.repetition >= len(archive["tr_idx"]):
        raise ProtocolError(
            f"{cell.dataset.filename} has {len(archive['tr_idx'])} partitions; "
            "ask for that many repetitions at most"
        )
    complete, rest = (archive[key][cell.repetition] for key in ("tr_idx", f"{name}_idx"))
    masks = np.asarray(archive[f"observed_{name}"], dtype=bool)
    masks = masks[cell.repetition] if masks.ndim == 4 else masks
    levels = np.flatnonzero(((~masks).sum(axis=1) == cell.setting).all(axis=0))
    if not len(levels):
        raise ProtocolError(
            f"{cell.dataset.filename} has no masks with {cell.setting} kernels absent"
        )
    rows = np.concatenate([complete, rest]).astype(np.intp)
    observed = np.ones((len(rows), len(K)), dtype=bool)
    observed[len(complete) :] = masks[:, :, levels[0]]
    return Part(_among(K, rows), observed)


def _drawn(cell: Cell, K: Floats, archive: Mapping[str, Any], name: str) -> Part:
    options = cell.study.problem
    order = np.random.default_rng(seed_of(cell, with_setting=False)).permutation(K.shape[1])
    tuning, test = np.split(order, [round(options["tuning"] * len(order))])
    rows = tuning if name == "val" else test
    by_ratio = cell.study.axis == "ratio"
    stack = with_absent(
        KernelStack(_among(K, rows)),
        cell.setting if by_ratio else cell.setting / len(K),
        "mcar" if by_ratio else "per_sample",
        seed_of(cell, with_setting=True) % 2**31,
    )
    observed = stack.observed.copy()
    observed[: round(options["complete"] * len(rows))] = True
    return Part(stack.gram(), observed)


def _among(K: Floats, rows: Indices) -> Floats:
    return np.asarray(K[:, rows][:, :, rows])
