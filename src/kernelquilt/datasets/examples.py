"""Real multi-view data that come with scikit-learn."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.fft import dctn
from sklearn.datasets import load_breast_cancer, load_digits

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Floats
from kernelquilt.data.views import MultiView

_N_ORIENTATIONS = 8


class Example(NamedTuple):
    """A data set.

    Attributes
    ----------
    data : MultiView of shape (n_samples, n_views)
        Complete and unscaled.
    target : ndarray of shape (n_samples,)
        Class labels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> example = kq.datasets.load_example("wdbc")
    >>> example.data.shape, example.target.shape
    ((569, 3), (569,))
    """

    data: MultiView
    target: Array


def load_example(name: str = "digits") -> Example:
    """Load a real multi-view data set; nothing is downloaded.

    Parameters
    ----------
    name : {"digits", "wdbc"}, default="digits"
        ``"digits"``: 1797 images (8 x 8) of the digits 0 to 9, described by five views: pixels
        (64), sums of rows and columns (profiles, 16), low frequencies of the cosine transform
        (frequencies, 21), means of 2 x 2 blocks (zones, 16), and histograms of gradient directions
        in the four quarters (gradients, 32).
        ``"wdbc"``: 569 breast tumours, benign or malignant. Ten properties of cell nuclei, of which
        the views are the mean, the standard error and the worst value (10 columns each).

    Returns
    -------
    example : Example
        The pair ``(data, target)``.

    Examples
    --------
    >>> from kernelquilt.datasets import load_example
    >>> X, y = load_example("wdbc")
    >>> X.names, X.shape, y[:2].tolist()
    (('mean', 'error', 'worst'), (569, 3), ['malignant', 'malignant'])
    """
    if name not in _LOADERS:
        raise ValueError(f"there is no example {name!r}; the examples are {quoted(_LOADERS)}")
    return _LOADERS[name]()


def _digits() -> Example:
    bunch = load_digits()
    images: Floats = bunch.images
    row, column = np.indices(images.shape[1:])
    n = len(images)
    views = {
        "pixels": images.reshape(n, -1),
        "profiles": np.hstack([images.sum(axis=2), images.sum(axis=1)]),
        "frequencies": dctn(images, axes=(1, 2), norm="ortho")[:, row + column < 6],
        "zones": images.reshape(n, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(n, -1),
        "gradients": _orientation_histograms(images),
    }
    return Example(MultiView(views), bunch.target)


def _orientation_histograms(images: Floats) -> Floats:
    """Sum gradient lengths by direction, in each quarter of the images (n, 8, 8)."""
    down, right = np.gradient(images, axis=(1, 2))
    turn = np.arctan2(down, right) / (2 * np.pi)
    direction = np.rint(turn * _N_ORIENTATIONS).astype(int) % _N_ORIENTATIONS
    votes = np.hypot(down, right)[..., None] * np.eye(_N_ORIENTATIONS)[direction]
    quarters = votes.reshape(len(images), 2, 4, 2, 4, _N_ORIENTATIONS)
    return np.asarray(quarters.sum(axis=(2, 4)).reshape(len(images), -1))


def _wdbc() -> Example:
    bunch = load_breast_cancer()
    blocks = np.split(bunch.data, 3, axis=1)
    views = dict(zip(("mean", "error", "worst"), blocks, strict=True))
    return Example(MultiView(views), bunch.target_names[bunch.target])


_LOADERS: dict[str, Callable[[], Example]] = {"digits": _digits, "wdbc": _wdbc}
