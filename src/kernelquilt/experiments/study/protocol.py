"""Protocols as data: what to run, and what the paper printed.

A protocol is a TOML file of this package with one or more studies. A study is a grid of cells,
data set x setting x repetition x method, where the setting is whatever varies in its columns or
along the axis of its curves: the ratio of absent views, the number of missing views, the family of
kernels. `Study` is plain data and goes through JSON, so that a store can hold what it was filled
with.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from itertools import product
from typing import Any

from kernelquilt import __version__
from kernelquilt.experiments.errors import UserError

PROTOCOLS = (
    "absent-mkl",
    "sample-adaptive-mkl",
    "multik-mhks",
    "matrix-norm-mkl",
    "kernel-completion",
    "quilt",
)
# the tasks, and what else than data, kernels and candidates their figures depend on
DEPEND_ON: dict[str, tuple[str, ...]] = {
    "classification": (),
    "regression": (),
    "survival": (),
    "completion": ("metric",),
}


class ProtocolError(UserError):
    """What is wrong with a protocol, in one line for the user."""


@dataclass(frozen=True)
class DataSet:
    """A data set of a study.

    Attributes
    ----------
    name : str
        As in the tables.
    file : str
        ``<file>.npz`` of the data directory; the name if empty.
    stand_in : str
        What it stands in for, and why, if it is not the set of the paper.
    options : dict
        How the file is read, see `kernelquilt.experiments.study.sources`.
    about : list of str
        What a report says of the samples.
    """

    name: str
    file: str = ""
    stand_in: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    about: list[str] = field(default_factory=list)

    @property
    def filename(self) -> str:
        """Name of the file."""
        return f"{self.file or self.name}.npz"


@dataclass(frozen=True)
class Study:
    """A grid of cells and how it is shown.

    Attributes
    ----------
    protocol, name, title : str
    shows : list of str
        What it reproduces, such as ``"Table 1"``.
    task : {"classification", "regression", "survival", "completion"}
    datasets : list of DataSet
    axis : str
        What the settings are: ``"ratio"``, ``"missing"``, ``"kernels"``, ``"none"``, ...
    settings : list
        Values along the axis.
    repetitions : int
    methods : list of str
        Names in `kernelquilt.experiments.methods`.
    diagnostics : list of str
        Those of them that read what a method must not read; shown, but compared with nothing.
    drawn : list of str
        Methods in curves; the best on average if empty.
    problem : dict
        How kernels, masks and splits are made, see `kernelquilt.experiments.study.splits`.
    grid : dict of str to list
        Candidates of the parameters; a method uses those that it has.
    folds : int
        Folds of the cross-validation within the training samples.
    metric : str
        The figure that is compared.
    level : float
        Significance level of a method against the best one.
    higher_is_better : bool
    scale : float
        Figures are multiplied with this to be shown, such as 100 for per cent.
    extra : list of str
        Further figures to show, such as ``"train_seconds"``.
    pooled : bool
        Whether a repetition counts with its mean over the settings, as in the paper.
    paper : dict
        Printed figures, as shown: method -> data set -> a number if `pooled`, otherwise a list with
        one entry for each of `paper_settings`.
    paper_std : dict
        The same of printed standard deviations.
    paper_settings : list
        Settings that the lists of `paper` are for; `settings` of the full form if empty.
    notes : list of str
        What a reader must know, shown below the table.
    """

    protocol: str
    name: str
    title: str
    datasets: list[DataSet]
    methods: list[str]
    diagnostics: list[str] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    shows: list[str] = field(default_factory=list)
    task: str = "classification"
    axis: str = "none"
    settings: list[Any] = field(default_factory=lambda: ["-"])
    repetitions: int = 1
    problem: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    folds: int = 5
    metric: str = "accuracy"
    level: float = 0.01
    higher_is_better: bool = True
    scale: float = 100.0
    extra: list[str] = field(default_factory=list)
    pooled: bool = True
    paper: dict[str, dict[str, Any]] = field(default_factory=dict)
    paper_std: dict[str, dict[str, Any]] = field(default_factory=dict)
    paper_settings: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> "Study":
        """Return the study that a mapping describes; a data set may be given by its name."""
        unknown = set(entries) - {entry.name for entry in fields(cls)}
        if unknown:
            raise ProtocolError(f"a study has no entry {sorted(unknown)[0]!r}")
        datasets = [
            DataSet(entry) if isinstance(entry, str) else DataSet(**entry)
            for entry in entries["datasets"]
        ]
        study = cls(**{**entries, "datasets": datasets})
        for what in ([d.name for d in datasets], study.settings, study.methods):
            if len(set(map(str, what))) < len(what):
                raise ProtocolError(f"study {study.name!r} has something twice in {what}")
        if study.task not in DEPEND_ON:
            raise ProtocolError(f"study {study.name!r} has the unknown task {study.task!r}")
        return study

    def to_dict(self) -> dict[str, Any]:
        """Return the study as a mapping that `from_dict` reads."""
        return asdict(self)

    def cells(self, seed: int = 0) -> Iterator["Cell"]:
        """Yield the cells, those with the same data, setting and repetition one after another."""
        digests = {dataset.name: self.digest_of(dataset) for dataset in self.datasets}
        for repetition, dataset, setting in product(
            range(self.repetitions), self.datasets, self.settings
        ):
            for method in self.methods:
                digest = digests[dataset.name]
                yield Cell(self, dataset, setting, repetition, method, seed, digest)

    def digest_of(self, dataset: DataSet) -> str:
        """Return a digest of what the figures of a data set depend on.

        The version of this package is part of it, because methods may change with it.
        """
        data = [dataset.name, dataset.file, dataset.options]
        own = [getattr(self, name) for name in DEPEND_ON[self.task]]
        what = [__version__, self.task, self.problem, self.grid, self.folds, data, *own]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]

    def select(self, names: list[str] | None = None, methods: list[str] | None = None) -> "Study":
        """Return the study with some of its data sets and methods only."""
        chosen = [d for d in self.datasets if names is None or d.name in names]
        kept = [m for m in self.methods if methods is None or m in methods]
        return replace(self, datasets=chosen, methods=kept)

    def united(self, other: "Study") -> "Study":
        """Return the smallest study that has all cells of two, with the texts of this one."""
        own = {dataset.name: dataset for dataset in self.datasets}
        others = {dataset.name: dataset for dataset in other.datasets}
        return replace(
            self,
            datasets=[own.get(name) or others[name] for name in _joined(list(own), list(others))],
            settings=sorted(_joined(self.settings, other.settings), key=_by_size),
            methods=_joined(self.methods, other.methods),
            repetitions=max(self.repetitions, other.repetitions),
        )


@dataclass(frozen=True)
class Cell:
    """The smallest unit of work."""

    study: Study
    dataset: DataSet
    setting: Any
    repetition: int
    method: str
    seed: int
    digest: str

    @property
    def split(self) -> tuple[str, str, int]:
        """What cells that share their kernels have in common."""
        return self.dataset.name, str(self.setting), self.repetition

    @property
    def key(self) -> str:
        """A name that is equal for equal work, whatever the size of the study around it."""
        where = [self.study.protocol, self.study.name, *map(str, self.split), self.method]
        return "/".join([*where, f"seed {self.seed}", self.digest])


def _joined(one: list[Any], other: list[Any]) -> list[Any]:
    """Return what is in either list, in the order of the longer one."""
    first, second = (one, other) if len(one) > len(other) else (other, one)
    return first + [entry for entry in second if entry not in first]


def _by_size(setting: Any) -> tuple[bool, Any]:
    """Sort numbers by size and keep texts in the order they have."""
    return isinstance(setting, str), 0 if isinstance(setting, str) else setting


def load_protocol(name: str, *, quick: bool = False) -> list[Study]:
    """Return the studies of a protocol of this package in their full or their quick form."""
    return [forms[quick] for forms in load_forms(name)]


def load_forms(name: str, *, reading: str | None = None) -> list[tuple[Study, Study]]:
    """Return the full and the quick form of each study of a protocol."""
    if name not in PROTOCOLS:
        raise ProtocolError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}")
    folder = files("kernelquilt.experiments.study") / "protocols"
    return parse_protocol((folder / f"{name}.toml").read_text("utf-8"), reading=reading)


def parse_protocol(text: str, *, reading: str | None = None) -> list[tuple[Study, Study]]:
    """Return the full and the quick form of each study of a protocol in TOML.

    Entries before the first study are defaults of all studies. A study may ``quick = {...}``
    replace entries in its quick form. ``[readings]`` has entries of `Study.problem` by name, for
    what a paper leaves open: a study takes those of its ``reading``, or of the one that is asked
    for here, and one whose axis is ``"reading"`` compares them all.
    """
    entries = tomllib.loads(text)
    readings = entries.pop("readings", {})
    if reading is not None and reading not in readings:
        there = f"there are {', '.join(readings)}" if readings else "the protocol has none"
        raise ProtocolError(f"there is no reading {reading!r}; {there}")
    found = []
    for study in entries.pop("study"):
        merged = {**entries, **study}
        shorter = merged.pop("quick", {})
        if "reading" in merged:
            own = merged.pop("reading")
            merged["problem"] = {**merged["problem"], **readings[reading or own]}
            if reading not in (None, own):
                merged["title"] += f", reading {reading!r}"
                told = f"The reading is {reading!r}; what notes say of kernels is of {own!r}."
                merged["notes"] = [told, *merged.get("notes", [])]
        if merged.get("axis") == "reading":
            merged["settings"] = list(readings)
            merged["problem"] = {**merged["problem"], "readings": readings}
        merged.setdefault("paper_settings", merged.get("settings", []))
        found.append((Study.from_dict(merged), Study.from_dict({**merged, **shorter})))
    return found
