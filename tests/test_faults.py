"""What goes wrong around a fit: interrupts, threads, processes, arrays that cannot be written.

Every public estimator goes through all of it, found by discovery.
"""

import multiprocessing
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone, is_regressor

import kernelquilt as kq
from discovery import held_to, instances, predictors, transformers
from inputs import VIEWS, as_input
from kernelquilt.core import limits

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
N = 24
FACTORS = "factors"
PREDICTORS = instances(held_to(predictors(), "more than two views"))
COMPLETERS = instances(held_to(transformers("completion"), "completion without help"))
OTHERS = [
    each for each in transformers() if each not in [*transformers("completion"), *predictors()]
]
# the estimators on factors, of which solvers are other ones
ON_FACTORS = [
    kq.SimpleMKLClassifier(),
    kq.LpMKLClassifier(),
    kq.ConvexAbsentMKLClassifier(),
    kq.mkl.IterativeAbsentMKLClassifier(),
    kq.mkl.MHKSClassifier(),
    kq.SimpleMKLRegressor(),
    kq.mkl.LpMKLRegressor(),
]
CASES = {
    **{repr(each): (each, "views") for each in PREDICTORS},
    **{f"{each!r} of factors": (each, FACTORS) for each in ON_FACTORS},
    "quilt with its forest": (kq.QuiltClassifier(random_state=0), "views"),
    "survival": (kq.QuiltSurvival(random_state=0), "views"),
    "two views": (kq.mkl.SVM2KClassifier(), "two views"),
    **{repr(each): (each, "stack") for each in COMPLETERS},
    **{repr(each): (each, "any") for each in instances(OTHERS)},
}
every_case = pytest.mark.parametrize("case", CASES)


def problem(case, X=None):
    """Return an estimator, and samples and targets for it."""
    estimator, kind = CASES[case]
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    if X is None:
        X = arrays()
    if kind == "any":
        kind = "views" if estimator.__sklearn_tags__().input_tags.two_d_array else "stack"
    if kind == "two views":
        return clone(estimator), {"a": X[:, :3], "b": X[:, 3:5]}, y
    data = as_input(kind, X)[0]
    if isinstance(estimator, kq.QuiltSurvival):
        return clone(estimator), data, (y == 0, rng.exponential(size=N) + 0.1)
    return clone(estimator), data, y + rng.random(N) if is_regressor(estimator) else y


def arrays():
    """Return 2-D data (N, 8) with absent views."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 8)) + 0.8 * (np.arange(N) % 2)[:, None]
    for columns in VIEWS.values():
        X[np.ix_(rng.random(N) < 0.15, columns)] = np.nan
    X[:4] = rng.standard_normal((4, 8))
    return X


def said(model, data):
    """Return all that a fitted model says about samples, as arrays."""
    found = []
    for method in ("decision_function", "predict_proba", "predict", "transform"):
        if not callable(getattr(model, method, None)):
            continue
        made = getattr(model, method)(data)
        if isinstance(made, kq.MultiView):
            found += [made[name] for name in made.names]
        elif isinstance(made, kq.KernelStack):
            found.append(np.asarray(made.gram()))
        else:
            found.append(made.training_factors().Z if isinstance(made, kq.LowRankStack) else made)
    return found


def assert_same(found, expected):
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


class Fault:
    """Raise an error as the n-th call of a function of the package begins; count calls."""

    def __init__(self, error, call):
        self.error, self.call, self.calls = error, call, 0

    def __call__(self, frame, event, argument):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("kernelquilt"):
            self.calls += 1
            if self.calls == self.call:
                raise self.error

    def during(self, work):
        previous = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        finally:
            sys.settrace(previous)


@every_case
def test_interrupts_and_lack_of_memory_leave_everything_as_it_was(case):
    model, data, y = problem(case)
    count = Fault(None, 0)
    count.during(lambda: model.fit(data, y))
    expected, before, n_threads = said(model, data), dict(vars(model)), threading.active_count()
    assert count.calls > 3
    for error, share in (
        (KeyboardInterrupt, 0.2),
        (MemoryError, 0.5),
        (KeyboardInterrupt, 0.8),
        (MemoryError, 0.97),
    ):
        fault = Fault(error, max(1, round(share * count.calls)))
        fresh = clone(model)
        parameters = dict(vars(fresh))
        for each in (model, fresh):
            fault.calls = 0
            with pytest.raises(error):
                fault.during(lambda each=each: each.fit(data, y))
        assert vars(fresh) == parameters
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is value for name, value in before.items())
        assert limits._inside == 0
        assert threading.active_count() == n_threads
    assert_same(said(model, data), expected)
    assert_same(said(fresh.fit(data, y), data), expected)


def test_an_error_in_a_chunk_of_dask_leaves_everything_as_it_was():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    X, y = arrays(), np.arange(N) % 2
    reads, fail_at = [], [0, ValueError]

    def read(block):
        reads.append(1)
        if len(reads) == fail_at[0]:
            raise fail_at[1]
        return block

    def lazy():
        return kq.MultiView(
            {
                name: da.from_array(X[:, columns], chunks=(8, -1)).map_blocks(
                    read, dtype=float, meta=np.empty((0, 0))
                )
                for name, columns in VIEWS.items()
            }
        )

    for model in (
        kq.QuiltClassifier(experts=None, random_state=0),
        kq.QuiltRegressor(experts=None, random_state=0),
        kq.LateFusionClassifier(random_state=0),
        kq.LateFusionRegressor(random_state=0),
    ):
        target = y + 0.5 if is_regressor(model) else y
        reads.clear()
        fail_at[0] = 0
        model.fit(lazy(), target)
        n_reads, before = len(reads), dict(vars(model))
        expected = model.predict(lazy())
        assert n_reads > 3
        for error in (MemoryError, KeyboardInterrupt):
            for number in (1, n_reads // 2, n_reads):
                reads.clear()
                fail_at[:] = [number, error]
                with pytest.raises(error):
                    model.fit(lazy(), target)
                assert vars(model) == before
        fail_at[0] = 0
        np.testing.assert_array_equal(model.predict(lazy()), expected)


@every_case
def test_two_threads_fit_as_one_does(case):
    model, data, y = problem(case)
    expected = said(model.fit(data, y), data)

    def fitted(_):
        each = clone(model)
        return said(each.fit(data, y), data)

    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(fitted, range(4)):
            assert_same(found, expected)


@every_case
def test_arrays_that_cannot_be_written(case, tmp_path):
    model, data, y = problem(case)
    expected = said(model.fit(data, y), data)
    frozen = arrays()
    frozen.setflags(write=False)
    np.save(tmp_path / "X.npy", frozen)
    labels = np.array(y) if isinstance(y, np.ndarray) else y
    if isinstance(labels, np.ndarray):
        labels.setflags(write=False)
    for X in (frozen, np.load(tmp_path / "X.npy", mmap_mode="r")):
        again, given, _ = problem(case, X)
        assert_same(said(again.fit(given, labels), given), expected)
    np.testing.assert_array_equal(frozen, arrays())


def _fit_all(path):
    """Fit all cases and write what they say; for another process."""
    found = {}
    for case in CASES:
        model, data, y = problem(case)
        found[case] = said(model.fit(data, y), data)
    path.write_bytes(pickle.dumps(found))


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_other_processes_fit_alike(method, tmp_path):
    _fit_all(tmp_path / "here")
    process = multiprocessing.get_context(method).Process(
        target=_fit_all, args=(tmp_path / "there",)
    )
    process.start()
    process.join(300)
    assert process.exitcode == 0
    here, there = (pickle.loads((tmp_path / name).read_bytes()) for name in ("here", "there"))
    for case in CASES:
        assert_same(there[case], here[case])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    model, data, y = problem(repr(kq.SimpleMKLClassifier()))
    exported = kq.export(model.fit(data, y))
    path = tmp_path / "model.npz"
    exported.save(path)
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"PK")
        with open("/dev/full", "wb", buffering=0) as device:
            device.write(b"more")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        exported.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
