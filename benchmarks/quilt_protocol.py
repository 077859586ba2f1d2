"""The data, the masks and the cells of the accuracy runs of ``benchmarks/quilt.py``."""

import json
from pathlib import Path
from zlib import crc32

import numpy as np
from sklearn.model_selection import train_test_split

import kernelquilt as kq

GROUPS = {
    "heart": 4, "ionosphere": 6, "sonar": 6, "wdbc": 5, "spambase": 6, "splice": 6, "pima": 4,
}  # fmt: skip
MAIN = (
    "heart", "ionosphere", "sonar", "wdbc", "spambase", "splice", "pima", "protein_fold",
    "reuters_multilingual_1200", "uci_multiple_features", "webkb_course",
    "protein_location_4class", "flower17_features", "nutrimouse",
)  # fmt: skip
TEXT = ("reuters_multilingual_1200", "webkb_course")
HISTOGRAMS = ("hsv_hist", "lab_hist", "lbp", "dense_sift_bow", "colour_bow")
RATIOS = (0.2, 0.4, 0.6, 0.8)
N_MOST = 300


def load(directory, name):
    """Return blocks (n, d) by view with NaN rows where a view is absent, and labels."""
    with np.load(Path(directory) / f"{name}.npz", allow_pickle=False) as stored:
        y = np.asarray(stored["y"])
        if "X" in stored:
            X = np.asarray(stored["X"], dtype=float)
            columns = np.array_split(np.arange(X.shape[1]), GROUPS[name])
            blocks = {f"group_{k}": X[:, c] for k, c in enumerate(columns)}
        else:
            views = [str(view) for view in stored["view_names"]]
            blocks = {v: np.asarray(stored[f"view_{k}"], float) for k, v in enumerate(views)}
    keep = np.ones(len(y), dtype=bool)
    if name == "flower17_features":
        keep = np.isin(y, np.unique(y)[:10])
    elif name == "protein_fold":
        labels, counts = np.unique(y, return_counts=True)
        keep = np.isin(y, labels[np.argsort(-counts, kind="stable")[:8]])
    if name in TEXT:
        blocks = {v: np.sqrt(block) for v, block in blocks.items()}
    if name == "flower17_features":
        blocks = {v: np.sqrt(b) if v in HISTOGRAMS else b for v, b in blocks.items()}
    return {v: block[keep] for v, block in blocks.items()}, y[keep]


def _filled_cells(block, train):
    """Fill single NaN cells of rows that are there by the mean of the column in training rows."""
    absent = np.isnan(block).all(axis=1)
    if np.isnan(block[~absent]).any():
        known = np.intersect1d(train, np.flatnonzero(~absent))
        block = np.where(np.isnan(block), np.nanmean(block[known], axis=0), block)
        block[absent] = np.nan
    return block


def kernels_of(name, standardize=True):
    """Return the kernel of a set, with columns standardised as asked for where they are at all."""
    if name in TEXT:
        return "cosine"
    return kq.kernels.MedianGaussian(standardize=name != "flower17_features" and standardize)


def cell(directory, name, ratio, repetition, mechanism="mcar"):
    """Return masked views, labels, training and test rows of one cell of the protocol.

    "mnar" makes views absent more often in one half of the classes than in the other.
    """
    blocks, y = load(directory, name)
    seed = crc32(f"{name}/{ratio}/{repetition}/{mechanism}".encode())
    rng = np.random.default_rng(seed)
    rows = np.arange(len(y))
    if len(y) > N_MOST:
        rows, _ = train_test_split(rows, train_size=N_MOST, stratify=y, random_state=repetition)
    blocks, y = {v: block[rows] for v, block in blocks.items()}, y[rows]
    observed = np.column_stack([~np.isnan(b).all(axis=1) for b in blocks.values()])
    share = np.full(observed.shape, ratio)
    if mechanism == "mnar":
        codes = np.unique(y, return_inverse=True)[1]
        often = (codes[:, None] + np.arange(observed.shape[1])) % 2 == 0
        share = np.where(often, min(1.5 * ratio, 0.95), 0.5 * ratio)
    mask = rng.random(observed.shape) >= share
    mask[np.arange(len(mask)), rng.integers(0, mask.shape[1], len(mask))] |= ~mask.any(axis=1)
    observed &= mask
    train, test = train_test_split(
        np.arange(len(y)), train_size=0.6, stratify=y, random_state=1000 + repetition
    )
    filled = {v: _filled_cells(block, train) for v, block in blocks.items()}
    return kq.MultiView(filled, observed), y, train, test


def stack_of(X, name, train):
    """Return kernels of all samples, centred and of mean diagonal 1 by the training samples."""
    maker = kq.ViewKernels(kernels_of(name)).fit(X[train])
    K = np.zeros((len(X.names), len(X), len(X)))
    for p, (view, function) in enumerate(zip(X.names, maker.kernels_, strict=True)):
        rows = np.flatnonzero(X.observed[:, p])
        known = np.intersect1d(train, rows)
        kernel = np.zeros((len(X), len(X)))
        kernel[np.ix_(rows, rows)] = function(X[view][rows], X[view][rows])
        mean = kernel[:, known].mean(axis=1)
        kernel += mean[known].mean() - mean[:, None] - mean
        kernel /= kernel.diagonal()[known].mean()
        K[p][np.ix_(rows, rows)] = kernel[np.ix_(rows, rows)]
    return kq.KernelStack((K + K.transpose(0, 2, 1)) / 2, X.observed, names=X.names)


class Results:
    """Figures of cells, kept in a file of lines so that a run can go on where it stopped."""

    def __init__(self, path):
        self.path = Path(path)
        self.lines = {}
        if self.path.is_file():
            for line in self.path.read_text().splitlines():
                entry = json.loads(line)
                self.lines[entry["key"]] = entry["figures"]

    def get(self, key, compute):
        """Return the figures stored under a key, after computing them if there are none."""
        key = "/".join(map(str, key))
        if key not in self.lines:
            self.lines[key] = compute()
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, "figures": self.lines[key]}) + "\n")
        return self.lines[key]
