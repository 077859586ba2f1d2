"""The predictor, and the file that it is saved to."""

import json
import os
import shutil
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .heads import HEADS, class_scores, normalised
from .samples import Rows, kernels_of, views_of

FORMAT = 1
ROWS = 2048  # samples predicted at a time


class NumpyPredictor:
    """A fitted model that predicts with numpy alone, made by `kernelquilt.export`.

    It takes samples as the model does, but as plain arrays: a dict of views (2-D arrays, rows of
    NaN where a view is absent; a view that is left out or None is absent for all), or one 2-D array
    if the model was fitted to 2-D data. Of a model of kernels, a dict of arrays (n_rows, n_train),
    or an array (n_rows, n_train, M).

    Parameters
    ----------
    plan : dict
        What is computed, with arrays, as `kernelquilt.export` makes it.

    Attributes
    ----------
    plan : dict
        The same.
    estimator : str
        The class of the model.
    n_bytes : int
        Size of the arrays in memory.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier(n_landmarks=30, random_state=0).fit(X, y)
    >>> exported = kq.export(model)
    >>> rows = {name: X[name][:5] for name in X.names}
    >>> bool(np.allclose(exported.predict_proba(rows), model.predict_proba(X[:5]), atol=1e-12))
    True
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        if plan.get("format") != FORMAT:
            raise ValueError(
                f"the plan has format {plan.get('format')!r}, this reads format {FORMAT}; "
                "take numpy_predictor of the version that exported the model"
            )
        self.plan = plan
        self.estimator = str(plan["estimator"])

    @property
    def n_bytes(self) -> int:
        """Size of the arrays in memory."""
        return sum(each.nbytes for each in _packed(self.plan)[1])

    def __repr__(self) -> str:
        return f"NumpyPredictor of {self.estimator}, {self.n_bytes / 2**20:.2f} MiB of arrays"

    def save(self, path: Any, *, code: bool = False) -> int:
        """Write one file of arrays, beside its place and then moved there.

        Parameters
        ----------
        path : str or Path
            The file, by custom with the ending ``.npz``.
        code : bool, default=False
            Whether to copy the folder of this module, ``numpy_predictor``, beside it.

        Returns
        -------
        n_bytes : int
            The size of the file.
        """
        tree, arrays = _packed(self.plan)
        held: dict[str, Any] = {f"a{number}": array for number, array in enumerate(arrays)}
        held["plan"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
        path = Path(path)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as made:
            try:
                np.savez_compressed(made, **held)
                made.close()
                os.replace(made.name, path)
            except BaseException:
                made.close()
                os.unlink(made.name)
                raise
        if code:
            here = Path(__file__).parent
            beside = path.parent / here.name
            beside.mkdir(exist_ok=True)
            for module in here.glob("*.py"):
                shutil.copy(module, beside)
        return path.stat().st_size

    @classmethod
    def load(cls, path: Any) -> "NumpyPredictor":
        """Read a file that `save` has written; nothing in it is executed.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        NumpyPredictor
            Predicts as the one that was saved.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                tree = json.loads(file["plan"].tobytes())
                plan = _unpacked(tree, {name: file[name] for name in file.files})
        except (KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"{Path(path).name!r} is no exported model: {error}") from error
        return cls(plan)

    def decision_function(self, X: Any, diag: Any = None) -> NDArray[Any]:
        """Return scores as `decision_function` of the model does.

        Parameters
        ----------
        X : dict of str to ndarray, or ndarray
            Samples, as in the class docstring.
        diag : dict of str to ndarray of shape (n_rows,), or ndarray of shape (M, n_rows)
            Values k(x, x) of the samples, for a quilt of kernels that differ in them.

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes) if multi-class
            Of a classifier.
        """
        classes = self._classes("decision_function")
        scores, finish = self._outputs(X, diag), self.plan["finish"]
        if finish["kind"] == "log_proba":
            scores = normalised(scores)
        if finish["kind"] == "svm":
            scores = class_scores(scores, finish["active"], finish["multi_class"], len(classes))
        return scores[:, 1] - scores[:, 0] if len(classes) == 2 else scores

    def predict_proba(self, X: Any, diag: Any = None) -> NDArray[Any]:
        """Return class probabilities, if the model has them.

        Parameters
        ----------
        X, diag
            As in `decision_function`.

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            In the order of the classes of the model.
        """
        self._classes("predict_proba")
        if self.plan["finish"]["kind"] != "log_proba":
            raise AttributeError(f"{self.estimator} has no predict_proba")
        return np.asarray(np.exp(normalised(self._outputs(X, diag))))

    def predict(self, X: Any, diag: Any = None) -> NDArray[Any]:
        """Return what `predict` of the model does.

        Parameters
        ----------
        X, diag
            As in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_rows,), or (n_rows, n_targets)
            Class labels, numbers, or risk scores.
        """
        finish = self.plan["finish"]
        if finish["kind"] == "numbers":
            found = self._outputs(X, diag)
            return np.asarray(
                finish["mean"] + finish["scale"] * (found if finish["several"] else found[:, 0])
            )
        scores = self.decision_function(X, diag)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(finish["classes"][codes])

    def _classes(self, method: str) -> NDArray[Any]:
        if "classes" not in self.plan["finish"]:
            raise AttributeError(f"{self.estimator} has no {method}")
        return np.asarray(self.plan["finish"]["classes"])

    def _outputs(self, X: Any, diag: Any) -> NDArray[Any]:
        """Return what the head makes of samples (n_rows, c), some of them at a time."""
        given = self.plan["input"]
        read = kernels_of if given["kind"] == "kernels" else views_of
        samples = read(given, X, diag)
        head = HEADS[self.plan["head"]["kind"]]
        parts = [
            head(self.plan["head"], Rows(self.plan, samples, slice(start, start + ROWS)))
            for start in range(0, len(samples["observed"]), ROWS)
        ]
        return np.concatenate(parts)


# from plans to what JSON can hold, and arrays beside


def _packed(plan: Any) -> tuple[Any, list[NDArray[Any]]]:
    """Return a plan with numbers in the place of arrays, and the arrays, each once."""
    arrays: list[NDArray[Any]] = []
    place: dict[int, int] = {}

    def pack(each: Any) -> Any:
        if isinstance(each, np.ndarray):
            if id(each) not in place:
                place[id(each)] = len(arrays)
                arrays.append(each)
            return {"array": place[id(each)]}
        if isinstance(each, dict):
            return {"dict": {str(key): pack(value) for key, value in each.items()}}
        if isinstance(each, list | tuple):
            return [pack(value) for value in each]
        return each.item() if isinstance(each, np.generic) else each

    return pack(plan), arrays


def _unpacked(tree: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(tree, list):
        return [_unpacked(each, arrays) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[f"a{tree['array']}"]
    return {key: _unpacked(value, arrays) for key, value in tree["dict"].items()}
