"""New samples compared with those that a model remembers."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from kernelquilt.data.validation import MOST_PATTERNS, frequent_patterns, training_summary
from kernelquilt.inspection import drift
from kernelquilt.inspection.drifting import _extreme


def samples(n, seed, rate=0.3):
    """Return views a, b and c of samples of one kind."""
    rng = np.random.default_rng(seed)
    blocks = {name: rng.standard_normal((n, d)) for name, d in (("a", 3), ("b", 2), ("c", 4))}
    for name in "bc":
        blocks[name][rng.random(n) < rate] = np.nan
    return kq.MultiView(blocks)


def labels(n):
    return np.arange(n) % 2


@pytest.fixture(scope="module")
def model():
    return kq.LateFusionClassifier(n_landmarks=20).fit(samples(400, 0), labels(400))


def moved(found, kind):
    return [each.name for each in found.moved if each.kind == kind]


def test_samples_of_the_same_kind_raise_no_alarm(model):
    alarms = [bool(drift(model, samples(150, 1 + seed)).moved) for seed in range(60)]
    assert np.mean(alarms) <= 0.05


def test_the_training_samples_themselves_have_not_moved(model):
    found = drift(model, samples(400, 0))
    assert found.moved == ()
    assert {each.kind for each in found.changes} == {"view"}
    assert found.n_samples == found.n_training == 400


def test_patterns_rates_and_values_that_moved_are_named(model):
    new = samples(200, 5, rate=0.7)
    blocks = {name: new[name].copy() for name in new.names}
    blocks["a"][:7] = np.nan
    blocks["c"][:, 2] += 4.0
    found = drift(model, blocks)
    assert set(moved(found, "pattern")) <= {"b + c", "b", "c", "no view", "without a"}
    assert sum(each.n_new for each in found.moved if each.kind == "pattern") == 7
    assert moved(found, "view") == ["a", "b", "c"]
    assert moved(found, "column") == ["c: column 2"]
    (column,) = (each for each in found.moved if each.kind == "column")
    high = np.nanmax(samples(400, 0)["c"][:, 2])
    assert column.n_new == np.count_nonzero(blocks["c"][:, 2] > high)
    frame = found.to_frame()
    assert frame["moved"].sum() == len(found.moved)
    assert len(frame) == len(found.changes)
    for each in found.moved:
        assert each.name in str(found)


def test_few_samples_are_no_proof(model):
    blocks = {"a": samples(2, 9)["a"]}  # neither has b and c
    found = drift(model, blocks)
    assert moved(found, "view") == []
    assert moved(found, "pattern") == []
    assert len(drift(model, {"a": samples(200, 9)["a"]}).moved) == 2


@pytest.mark.parametrize(("k", "n", "m"), [(1, 5, 3), (2, 5, 3), (3, 4, 3), (1, 1, 1)])
def test_the_probability_of_extremes_is_that_of_shuffled_samples(k, n, m):
    from itertools import combinations

    places = list(combinations(range(n + m), m))  # of the new ones, the largest first
    share = np.mean([set(range(k)) <= set(each) for each in places])
    assert _extreme(k, n, m) == pytest.approx(share, rel=1e-12)


def test_frames_categories_and_missing_cells():
    rng = np.random.default_rng(0)
    clinic = pd.DataFrame(
        {"age": rng.integers(20, 80, 100).astype(float), "sex": rng.choice(["f", "m"], 100)}
    )
    clinic.loc[::9, "age"] = np.nan
    X = {"clinic": clinic, "rna": rng.standard_normal((100, 2))}
    model = kq.QuiltClassifier(experts=None).fit(X, labels(100))
    new = clinic.copy()
    new.loc[:40, "age"] = 150.0
    new.loc[[3, 4], "sex"] = ["d", "d"]
    found = drift(model, {"clinic": new, "rna": X["rna"]})
    assert moved(found, "column") == ["clinic: age"]
    (category,) = (each for each in found.moved if each.kind == "category")
    assert (category.name, category.n_new, category.detail) == ("clinic: sex", 2, "'d' (2)")
    assert "columns with categories that are not known: 1 of 1" in str(found)


def test_two_dimensional_data_sparse_views_pipelines_and_searches():
    new = samples(100, 3)
    X, columns = np.hstack([new[name] for name in "abc"]), {"a": [0, 1, 2], "b": [3, 4]}
    model = kq.SimpleMKLClassifier(views=columns).fit(X, labels(100))
    far = X + 100.0
    assert moved(drift(model, far), "column") == [
        *(f"a: column {j}" for j in range(3)),
        *(f"b: column {j}" for j in range(2)),
    ]
    prepared = make_pipeline(kq.ViewTransformer(views=columns), kq.SimpleMKLClassifier())
    search = GridSearchCV(prepared, {"simplemklclassifier__C": [1.0]}, cv=2)
    assert len(moved(drift(search.fit(X, labels(100)), far), "column")) == 5
    words = np.random.default_rng(0).poisson(0.2, (100, 30)).astype(float)
    sparse = kq.LateFusionClassifier().fit({"words": csr_array(words)}, labels(100))
    words[:50, 7] = 9.0
    assert moved(drift(sparse, {"words": csr_array(words)}), "column") == ["words: column 7"]


def test_kernels_have_patterns_and_no_columns():
    data = samples(80, 0)
    stack = kq.ViewKernels().fit_transform(data)
    model = kq.SimpleMKLClassifier().fit(stack, labels(80))
    found = drift(model, stack._with_observed(stack.observed & [True, True, False]))
    assert moved(found, "view") == ["c"]
    assert "column" not in {each.kind for each in found.changes}
    through = make_pipeline(kq.ViewKernels(), kq.SimpleMKLClassifier()).fit(data, labels(80))
    assert drift(through, data).moved == ()


def test_lazy_views_are_read_once(model):
    new = samples(300, 5, rate=0.7)
    reads = []

    def pieces():
        reads.append(1)
        return (new[start : start + 100] for start in range(0, 300, 100))

    lazy = kq.MultiView.stream(pieces)
    before = len(reads)
    found = drift(model, lazy)
    assert len(reads) == before + 1
    assert found.changes == drift(model, new).changes


def test_lazy_training_samples_are_remembered_without_another_pass():
    new = samples(300, 5)
    reads = []

    def pieces():
        reads.append(1)
        return (new[start : start + 100] for start in range(0, 300, 100))

    lazy = kq.MultiView.stream(pieces)
    before = len(reads)
    found = training_summary(lazy)
    assert lazy.observed.shape == (300, 3)
    assert len(reads) == before + 1
    expected = training_summary(new)
    for name in new.names:
        for one, other in zip(found.ranges[name][:3], expected.ranges[name][:3], strict=True):
            np.testing.assert_array_equal(one, other)


def test_too_many_patterns_are_not_called_unseen():
    rng = np.random.default_rng(0)
    observed = rng.random((3000, 14)) < 0.5
    observed[:, 0] = True
    blocks = {f"v{j}": np.where(o[:, None], 1.0, np.nan) for j, o in enumerate(observed.T)}
    kept = training_summary(kq.MultiView(blocks))
    assert len(kept.patterns) == MOST_PATTERNS
    assert not kept.knows_all_patterns
    patterns, counts = frequent_patterns(observed)
    expected = np.unique(observed, axis=0, return_counts=True)[1]
    assert sorted(counts) == sorted(expected)
    assert len(np.unique(patterns, axis=0)) == len(patterns)


def test_a_model_that_remembers_nothing_says_so():
    model = DummyClassifier().fit(np.zeros((4, 1)), labels(4))
    with pytest.raises(ValueError, match="DummyClassifier does not remember"):
        drift(model, np.zeros((4, 1)))
