"""Fitted models in files that execute nothing when they are read.

A file is an archive of skops: arrays, and the names of the classes that the objects are of. Beside
them stands a stamp with the versions it was written with. `load` makes objects of classes of this
package, of those of numpy, scipy and scikit-learn that skops knows, and scikit-learn's pairwise
kernels; everything else has to be named.
"""

import inspect
import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils.validation import check_is_fitted

from kernelquilt import __version__
from kernelquilt._messages import quoted
from kernelquilt.persistence.versions import version_of

FORMAT = 1
STAMP = "kernelquilt.json"
OWN_SCORE = {  # of a search that has no scoring, and what it holds in scikit-learn 1.6
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
}
STAMPED = ("numpy", "scipy", "scikit-learn", "skops")


class SavedModel(NamedTuple):
    """What was saved.

    Attributes
    ----------
    path : Path
        The file.
    n_bytes : int
        Its size.
    estimator : str
        The class of the model.
    foreign : tuple of str
        Classes and functions of other packages that `load` has to be told to trust.

    Examples
    --------
    >>> from pathlib import Path
    >>> import kernelquilt as kq
    >>> str(kq.persistence.SavedModel(Path("model.kq"), 2**20, "QuiltClassifier"))
    "QuiltClassifier in 'model.kq', 1.00 MiB"
    """

    path: Path
    n_bytes: int
    estimator: str
    foreign: tuple[str, ...] = ()

    def __str__(self) -> str:
        trust = f", needs trusted={list(self.foreign)}" if self.foreign else ""
        return f"{self.estimator} in {self.path.name!r}, {self.n_bytes / 2**20:.2f} MiB{trust}"


def save(model: Any, path: Any) -> SavedModel:
    """Save a fitted model to a file that executes nothing when it is loaded.

    Needs the extra ``persist``. The file is written beside its place and then moved there, so that
    a file of that name is whole at any time.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package, or a pipeline or search of scikit-learn around one.
    path : str or Path
        The file, by custom with the ending ``.kq``.

    Returns
    -------
    SavedModel
        Where the file is, how large it is, and what `load` has to be told to trust.

    Examples
    --------
    >>> import tempfile
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = kq.save(model, f"{folder}/wdbc.kq")
    >>> print(saved.estimator, saved.path.name, saved.foreign)
    LateFusionClassifier wdbc.kq ()
    """
    io = _skops()
    check_is_fitted(model)
    path, name = Path(path), type(model).__name__
    stamp = {
        "format": FORMAT,
        "kernelquilt": __version__,
        "estimator": name,
        "versions": {package: version_of(package) for package in STAMPED},
    }
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as made:
        try:
            try:
                io.dump(model, made, compression=ZIP_DEFLATED)
            except (TypeError, AttributeError, io.exceptions.UnsupportedTypeException) as error:
                raise ValueError(
                    f"{name} holds something that cannot be saved: {error}; a kernel, score or "
                    "transformer of your own must be a function of a module, no lambda"
                ) from error
            with ZipFile(made, "a", compression=ZIP_DEFLATED) as archive:
                archive.writestr(STAMP, json.dumps(stamp, indent=1))
            made.close()
            foreign = _foreign(io.get_untrusted_types(file=made.name))
            os.replace(made.name, path)
        except BaseException:
            made.close()
            os.unlink(made.name)
            raise
    return SavedModel(path, path.stat().st_size, name, foreign)


def load(path: Any, *, trusted: Sequence[str] = ()) -> Any:
    """Load a model that `save` has written.

    Parameters
    ----------
    path : str or Path
        The file.
    trusted : sequence of str, default=()
        Names of classes and functions of other packages that the model needs, as ``SavedModel``
        and the error of `load` tell them. Name only what you know: what they do when they are
        made or called is theirs.

    Returns
    -------
    model : estimator
        It predicts as the one that was saved, without the training data.

    Raises
    ------
    ValueError
        If the file was not written by `save`, was written by another version of this package, or
        holds classes or functions that are not trusted.

    Examples
    --------
    >>> import tempfile
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = kq.save(model, f"{folder}/wdbc.kq")
    ...     loaded = kq.load(saved.path)
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    io = _skops()
    path = Path(path)
    unknown = [name for name in foreign_to(path) if name not in trusted]
    if unknown:
        raise ValueError(
            f"{path.name!r} holds {len(unknown)} classes or functions of other packages, "
            f"{quoted(unknown)}; if you know what they are, load it with trusted={unknown}"
        )
    return io.load(path, trusted=io.get_untrusted_types(file=path))


def foreign_to(path: Path) -> tuple[str, ...]:
    """Return the classes and functions in a file that `load` has to be told to trust."""
    _check_stamp(path)
    return _foreign(_skops().get_untrusted_types(file=path))


def _check_stamp(path: Path) -> None:
    """Refuse files that `save` has not written, and those of another version."""
    try:
        with ZipFile(path) as archive:
            stamp = json.loads(archive.read(STAMP))
        written, form = str(stamp["kernelquilt"]), stamp["format"]
    except (BadZipFile, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name!r} was not written by kq.save, or is damaged") from error
    if form != FORMAT or _release(written) != _release(__version__):
        raise ValueError(
            f"{path.name!r} was written by kernelquilt {written}, this is {__version__}; install "
            f"kernelquilt {written} to load it, or fit the model again and save it"
        )


def _release(version: str) -> list[str]:
    """Return the part of a version within which files can be exchanged: 0.2 of 0.2.1."""
    return version.split(".")[:2]


def _foreign(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the names that are neither classes of this package nor usual kernels."""
    known = {f"{each.__module__}.{each.__name__}" for each in PAIRWISE_KERNEL_FUNCTIONS.values()}
    known |= OWN_SCORE
    return tuple(name for name in names if name not in known and not _is_ours(name))


def _is_ours(name: str) -> bool:
    """Whether a name is that of a class which a module of this package defines.

    What a module has imported from elsewhere is not, nor are functions.
    """
    module, _, attribute = name.rpartition(".")
    if module.split(".")[0] != "kernelquilt" or "__" in module:
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    return inspect.isclass(found) and found.__module__ == module


def _skops() -> Any:
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError(
            'models are saved by skops: pip install "kernelquilt[persist]"'
        ) from error
