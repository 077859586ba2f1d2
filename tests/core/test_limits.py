"""Arrays that would not fit are refused before they are made; limits on threads are undone."""

import os
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.base import ClassifierMixin
from threadpoolctl import threadpool_info

import kernelquilt as kq
from discovery import estimators
from kernelquilt.core import limits
from kernelquilt.core.limits import VARIABLE, check_memory, memory_limit

CLASSIFIERS = estimators(ClassifierMixin, "mkl")
IN_LANDMARKS = [kq.LateFusionClassifier, kq.quilt.LpMKLRidgeClassifier]  # any number of samples
COMPLETERS = [
    kq.completion.ZeroFill,
    kq.completion.MeanFill,
    kq.completion.KNNFill,
    kq.TransferFill,
    kq.WishartCompletion,
    kq.completion.SharedFactorCompletion,
    kq.completion.EMFill,
    kq.completion.SVTFill,
    kq.completion.SDPCompletion,
    kq.completion.LatentFactorCompletion,
    kq.completion.EmbeddingCompletion,
    kq.completion.ApproximationCompletion,
]
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def data(n=60, n_views=2):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    X = kq.MultiView([rng.standard_normal((n, 3)) + y[:, None] for _ in range(n_views)])
    return kq.datasets.make_absent(X, 0.2, random_state=0), y


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1e-6")


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("classifier", [*CLASSIFIERS, *IN_LANDMARKS, kq.EmpiricalKernelMap])
@pytest.mark.parametrize("kind", ["views", "stack"])
def test_every_estimator_refuses(classifier, kind):
    X, y = data()
    parameters = {"kernels": "gaussian"} if classifier is kq.EmpiricalKernelMap else {}
    if kind == "stack":
        views, parameters = X, {}
        X = kq.KernelStack(np.array([np.eye(60), np.eye(60)]), views.observed)
    model = classifier(**parameters)
    message = r"kernels of \d+ samples need about .* GiB, above the limit of 1e-06 GiB"
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(X, y)
    assert f"environment variable {VARIABLE}" in str(caught.value)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "transformer",
    [
        *COMPLETERS,
        kq.completion.AuxiliaryEMCompletion,
        kq.CentreKernels,
        kq.ScaleKernels,
    ],
)
def test_every_transformer_of_stacks_refuses(transformer):
    stack = kq.KernelStack(np.array([np.eye(60), np.eye(60)]), data()[0].observed)
    with pytest.raises(ValueError, match="2 kernels of 60 samples need about"):
        transformer().fit_transform(stack)


@pytest.mark.usefixtures("little_memory")
def test_view_kernels_refuse():
    X, _ = data()
    with pytest.raises(ValueError, match=r"2 kernels of 60 samples.*float32"):
        kq.ViewKernels().fit_transform(X)


@pytest.mark.usefixtures("little_memory")
def test_a_parameter_outranks_the_limit_of_the_package():
    X, y = data()
    with pytest.raises(ValueError, match=r"above max_memory=1e-05; .*or raise max_memory"):
        kq.QuiltClassifier(max_memory=1e-5).fit(X, y)


def test_many_samples_are_refused_at_once(monkeypatch):
    """The kernels of 100 000 samples are not even begun."""
    monkeypatch.setenv(VARIABLE, "12")
    X, y = np.zeros((100_000, 2)), np.arange(100_000) % 2
    views = {"a": [0], "b": [1]}
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"2 kernels of 100000 samples.*LateFusionClassifier"):
        kq.SimpleMKLClassifier(views=views, kernels="linear").fit(X, y)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, kq.ViewKernels, kq.EmpiricalKernelMap])
def test_not_even_the_widths_of_kernels_are_sought(estimator, monkeypatch):
    """All pairs of samples count for them, which takes minutes where there are many."""

    def sought(*_):
        raise AssertionError("the pairs of samples are compared")

    monkeypatch.setenv(VARIABLE, "12")
    monkeypatch.setattr("kernelquilt.kernels.view_kernels.mean_distance", sought)
    X, y = np.zeros((60_000, 2)), np.arange(60_000) % 2
    model = estimator(views={"a": [0], "b": [1]}, kernels="gaussian")
    with pytest.raises(ValueError, match="2 kernels of 60000 samples need about"):
        getattr(model, "fit_transform", model.fit)(X, y)


def test_18000_samples_of_four_views_need_more_than_half_of_24_gib(monkeypatch):
    monkeypatch.setenv(VARIABLE, "12")
    X, y = np.zeros((18_000, 4)), np.arange(18_000) % 2
    with pytest.raises(ValueError, match="4 kernels of 18000 samples need about"):
        kq.SimpleMKLClassifier(views="columns", kernels="linear").fit(X, y)


def test_float32_counts_half(monkeypatch):
    seen = {}
    for dtype in (np.float32, np.float64):
        monkeypatch.setattr(
            "kernelquilt.kernels.inputs.check_memory",
            lambda n, m, n_bytes, dtype=dtype, **_: seen.update({dtype: n_bytes}),
        )
        stack = kq.KernelStack(np.array([np.eye(60)] * 10, dtype=dtype))
        kq.mkl.UniformMKLClassifier().fit(stack, np.arange(60) % 2)
    assert seen == {np.float32: 60**2 * 56, np.float64: 60**2 * 96}


def peak(function):
    """Return the bytes that this process holds at most while a function runs."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("estimator", CLASSIFIERS + COMPLETERS)
def test_estimates_are_about_what_is_taken(estimator, monkeypatch):
    """The estimate is at least what a fit takes, and not many times as much."""
    X, y = data(260, 2 if estimator is kq.mkl.SVM2KClassifier else 4)
    if estimator in COMPLETERS:
        X = kq.ViewKernels().fit_transform(X)
    parameters = {}
    if "max_iter" in estimator().get_params() and estimator in COMPLETERS:
        parameters["max_iter"] = 2
    estimates = [0.0]
    for module in (
        "kernels.inputs",
        "kernels.maps",
        "completion.completer",
        "mkl.agreement.cca_fusion",
    ):
        monkeypatch.setattr(
            f"kernelquilt.{module}.check_memory",
            lambda n, m, n_bytes, **_: estimates.append(n_bytes),
        )
    estimator(**parameters).fit(X[:40], y[:40])  # compiles and imports
    taken = np.inf
    for _ in range(3):
        # what threads of earlier tests take meanwhile is counted too, but not every time
        taken = min(taken, peak(lambda: estimator(**parameters).fit(X, y)))
        if taken < 1.25 * max(estimates):
            break
    assert 0.3 * max(estimates) < taken < 1.25 * max(estimates)


class TestLimit:
    def test_half_of_the_machine(self, monkeypatch):
        monkeypatch.delenv(VARIABLE, raising=False)
        monkeypatch.setattr(limits, "total_memory", lambda: 24.0)
        assert memory_limit() == 12.0
        with pytest.raises(ValueError, match=r"13 GiB, above the limit of 12 GiB \(by default"):
            check_memory(10, 2, 13 * 2**30)
        check_memory(10, 2, 11 * 2**30)

    def test_a_container_counts(self, monkeypatch, tmp_path):
        path = tmp_path / "memory.max"
        monkeypatch.setattr(limits, "CONTAINER", path)
        whole = limits.total_memory()
        assert whole > 0
        path.write_text("max\n")
        assert limits.total_memory() == whole
        path.write_text(f"{2**29}\n")
        assert limits.total_memory() == 0.5

    def test_a_machine_that_does_not_tell(self, monkeypatch, tmp_path):
        monkeypatch.delattr("os.sysconf")
        monkeypatch.setattr(limits, "CONTAINER", tmp_path / "none")
        assert limits.total_memory() == limits.UNKNOWN_MEMORY

    @pytest.mark.parametrize("given", ["much", "-1", "0", "nan"])
    def test_nonsense_is_named(self, given, monkeypatch):
        monkeypatch.setenv(VARIABLE, given)
        with pytest.raises(ValueError, match=f"positive number of GiB, got '{given}'"):
            memory_limit()


def threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@pytest.mark.parametrize("call", range(1, 40))
def test_an_interrupt_while_threads_are_limited_leaves_no_limit_behind(call):
    before, calls = threads(), 0

    def interrupt(frame, event, argument):
        nonlocal calls
        if event == "call" and "threadpoolctl" in frame.f_code.co_filename:
            calls += 1
            if calls == call:
                raise KeyboardInterrupt

    previous = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with limits.single_threaded_blas():
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(previous)
    assert limits._inside == 0
    assert threads() == before
    with limits.single_threaded_blas():
        assert set(threads()) <= {1}
    assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_lock_that_a_thread_of_the_parent_holds_is_free_in_a_forked_child():
    with limits._lock:
        child = os.fork()
        if child == 0:
            free = limits._lock.acquire(timeout=5)
            os._exit(0 if free and limits._inside == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
