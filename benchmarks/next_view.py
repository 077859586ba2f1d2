"""Does `next_view` know which view pays? Gains it expects against those of views held back.

For random sets S of views and each view p beyond them: the gain in log loss that `next_view`
expects by the training samples, and the mean gain on test samples that have S and p and are first
asked with S alone. Reported is Spearman's correlation of the two over pairs (S, p).

    python benchmarks/next_view.py DATA_DIRECTORY
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.model_selection import train_test_split

import kernelquilt as kq

SETS = (
    "uci_multiple_features", "protein_fold", "breast_tcga", "ccle_tissue", "cll_multiomics",
    "heart_four_hospitals", "hepatitis", "horse_colic", "three_sources", "soybean_large",
)  # fmt: skip
N_MOST, N_PATTERNS, N_SPLITS = 500, 8, 2
FEWEST = 20  # test samples that a gain is the mean of


def losses(model, X, y):
    proba = model.predict_proba(X)
    return -np.log(proba[np.arange(len(y)), np.searchsorted(model.classes_, y)])


def pairs_of(X, y, seed):
    """Return expected and obtained gains of the pairs (S, p)."""
    rng = np.random.default_rng(seed)
    train, test, y_train, y_test = train_test_split(
        X, y, train_size=0.6, random_state=seed, stratify=y
    )
    train = kq.datasets.make_absent(train, 0.2, mechanism="mcar", random_state=seed)
    model = kq.QuiltClassifier(random_state=0).fit(train, y_train)
    V = len(X.names)
    patterns = np.unique(rng.random((N_PATTERNS, V)) < 0.5, axis=0)
    patterns = patterns[patterns.any(axis=1) & ~patterns.all(axis=1)]
    patterns = np.array([s for s in patterns if test.observed[:, s].all(axis=1).any()])
    having = [np.flatnonzero(test.observed[:, s].all(axis=1)) for s in patterns]
    new = test[[rows[0] for rows in having]].with_observed(patterns)
    expected = kq.inspection.next_view(model, new, train, y_train).gains
    found = []
    for s, rows, gains in zip(patterns, having, expected, strict=True):
        for p in np.flatnonzero(~s):
            chosen = rows[test.observed[rows, p]]
            if len(chosen) < FEWEST or np.isnan(gains[p]):
                continue
            masks = [np.tile(s | (np.arange(V) == q), (len(chosen), 1)) for q in (-1, p)]
            before, after = (
                losses(model, test[chosen].with_observed(mask), y_test[chosen]) for mask in masks
            )
            found.append((gains[p], (before - after).mean()))
    return found


def main(directory):
    everything = []
    for name in SETS:
        X, y = kq.read_views(Path(directory) / f"{name}.npz", label="y")
        y = np.asarray(y)
        labels, counts = np.unique(y, return_counts=True)
        kept = np.flatnonzero(np.isin(y, labels[counts >= 15]) & X.observed.any(axis=1))
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:N_MOST])
        kept = kept[np.isin(y[kept], [c for c in labels if (y[kept] == c).sum() >= 8])]
        found = [pair for seed in range(N_SPLITS) for pair in pairs_of(X[kept], y[kept], seed)]
        if len(found) < 4:
            print(f"{name:<24} {len(found)} pairs: too few", flush=True)
            continue
        expected, obtained = np.array(found).T
        rho = spearmanr(expected, obtained).statistic
        everything.append(rho)
        print(
            f"{name:<24} {len(found):4d} pairs, expected {expected.mean():.3f}, "
            f"obtained {obtained.mean():.3f}, rank correlation {rho:.2f}",
            flush=True,
        )
    print(f"mean over {len(everything)} sets: {np.mean(everything):.2f}, "
          f"median {np.median(everything):.2f}")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
