"""Cells of completion studies: who sees what, and whether the figures are right."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelquilt as kq
from kernelquilt.experiments.methods._leaky_embedding import _LeakyKernels, _LeakyWeights
from kernelquilt.experiments.methods.completers import COMPLETERS
from kernelquilt.experiments.running.completion import complete
from kernelquilt.experiments.running.runner import available, run_study
from kernelquilt.experiments.running.store import Store
from kernelquilt.experiments.study.completion_measures import heterogeneity, nonlinearity, spectra
from kernelquilt.experiments.study.completion_splits import (
    Part,
    make_completion_split,
    read_archive,
)
from kernelquilt.experiments.study.protocol import DataSet, ProtocolError, Study, load_protocol
from kernelquilt.experiments.study.sources import DataDirectory, DataMissingError, UserSource
from kernelquilt.metrics import average_relative_error

FAST = {"lam1": [0.1], "lam2": [0.1], "rank": [5], "coupling": [1.0], "tol": [1e-3]}
QUICK = [study for study in load_protocol("kernel-completion", quick=True) if study.name == "toy"]
HONEST = [name for name, completer in COMPLETERS.items() if not completer.leaky]
LEAKY = [name for name, completer in COMPLETERS.items() if completer.leaky]


def study_of(**changes):
    entries = {
        "protocol": "kernel-completion",
        "name": "toy",
        "title": "toy",
        "task": "completion",
        "datasets": ["tiny"],
        "methods": ["MeanFill"],
        "axis": "missing",
        "settings": [2],
        "problem": {"partition": "published"},
        "grid": FAST,
        "metric": "squared_relative_error",
        "higher_is_better": False,
    }
    return Study.from_dict({**entries, **changes})


def lacking(rng, n, counts):
    """Return masks (n, 5, levels) in which each sample lacks so many of five kernels."""
    return np.stack([rng.permuted(np.tile(np.arange(5) >= c, (n, 1)), axis=1) for c in counts], 2)


@pytest.fixture
def load(tmp_path):
    rng = np.random.default_rng(0)
    order = np.array([rng.permutation(24) for _ in range(2)])
    np.savez(
        tmp_path / "tiny.npz",
        K=kq.datasets.make_toy_kernels("TOYG1", 24, random_state=0).gram().astype(np.float32),
        tr_idx=order[:, :6].astype(np.int16),
        val_idx=order[:, 6:13].astype(np.int16),
        test_idx=order[:, 13:].astype(np.int16),
        observed_val=lacking(rng, 7, (1, 2)),
        observed_test=np.stack([lacking(rng, 11, (1, 2)) for _ in range(2)]),
    )
    return DataDirectory(tmp_path)


def split_of(study, load):
    cell = next(study.cells())
    return cell, make_completion_split(cell, read_archive(cell.dataset, load))


def figures_of(study, load):
    """Return the figures by method, without times."""
    _, split = split_of(study, load)
    rows = [complete(cell, split) for cell in study.cells()]
    assert {row.status for row in rows} == {"ok"}
    return {
        row.method: {k: v for k, v in row.figures.items() if not k.endswith("_seconds")}
        for row in rows
    }


def test_all_quick_methods_run(tmp_path, load):
    study = study_of(methods=QUICK[0].methods, settings=[1])
    summary = run_study(study, tmp_path / "store", load)
    assert (summary.n_cells, summary.n_failed, summary.skipped) == (len(study.methods), 0, [])
    with Store(tmp_path / "store") as store:
        rows = {row.method: row for row in store.rows()}
    errors = {name: row.figures["squared_relative_error"] for name, row in rows.items()}
    assert errors["ZeroFill"] == pytest.approx(1.0)
    assert errors["Wishart"] < errors["MeanFill"] < 1
    assert rows["ht"].parameters == {"lam1": 0.1, "lam2": 0.1, "tol": 1e-3}
    assert {"train_seconds", "search_seconds", "nonlinearity"} <= set(rows["Knn"].figures)
    assert rows["Knn"].figures["n_test"] == 11


def test_the_published_partition_is_used(load):
    archive = read_archive(DataSet("tiny"), load)
    cell = list(study_of(repetitions=2).cells())[1]
    split = make_completion_split(cell, archive)
    rows = np.concatenate([archive["tr_idx"][1], archive["test_idx"][1]])
    assert_array_equal(split.test.K, archive["K"][:, rows][:, :, rows].astype(float))
    assert split.test.observed[:6].all()
    assert_array_equal(split.test.observed[6:], archive["observed_test"][1, :, :, 1])
    assert_array_equal(split.tuning.observed[6:], archive["observed_val"][:, :, 1])
    assert_allclose(split.spectra, spectra(archive["K"].astype(float)))


def test_figures_are_those_of_the_true_kernels(load):
    study = study_of()
    _, split = split_of(study, load)
    truth, observed = split.test.K, split.test.observed
    filled = kq.completion.MeanFill().fit_transform(kq.KernelStack(truth, observed)).gram()
    found = figures_of(study, load)["MeanFill"]
    for name, squared in (("average_relative_error", False), ("squared_relative_error", True)):
        error = average_relative_error(truth, filled, observed, squared=squared)
        assert found[name] == pytest.approx(error / 100, rel=1e-12)
    assert found["heterogeneity"] == heterogeneity(split.spectra)


def test_parameters_are_those_of_least_error_on_the_tuning_samples(load):
    cell, split = split_of(study_of(methods=["Knn"]), load)
    tuning = split.tuning
    errors = {
        k: average_relative_error(
            tuning.K,
            kq.completion.KNNFill(k, unit_diagonal=False).fit_transform(tuning.stack),
            tuning.observed,
            squared=True,
        )
        for k in (1, 2, 3, 5, 7, 10)
    }
    assert complete(cell, split).parameters == {"n_neighbors": min(errors, key=errors.get)}


def behind_the_mask(part, value):
    """Return the kernels of a part with a value where they are absent."""
    seen = (part.observed[:, None] & part.observed).transpose(2, 0, 1)
    return kq.KernelStack(np.where(seen, part.K, value), part.observed)


def test_completers_see_nothing_of_what_is_absent(load, monkeypatch):
    study = study_of(methods=HONEST)
    _, split = split_of(study, load)
    hidden = ~(split.test.observed[:, None] & split.test.observed).transpose(2, 0, 1)
    assert np.isnan(split.test.stack.gram()[hidden]).all()
    before = figures_of(study, load)
    monkeypatch.setattr(Part, "stack", property(lambda part: behind_the_mask(part, -1e6)))
    assert figures_of(study, load) == before


def test_leaky_diagnostics_do_see_it(load, monkeypatch):
    study = study_of(methods=[*LEAKY, "ht", "app"])
    before = figures_of(study, load)
    for name in ("ht", "app"):
        error = before[f"{name} leaky"]["squared_relative_error"]
        assert error < 0.7 * before[name]["squared_relative_error"]
    monkeypatch.setattr(Part, "leaky_stack", property(lambda part: behind_the_mask(part, 0.0)))
    after = figures_of(study_of(methods=LEAKY), load)
    for name in LEAKY:
        error = before[name]["squared_relative_error"]
        assert after[name]["squared_relative_error"] > 1.2 * error


@pytest.mark.parametrize("kind", [_LeakyWeights, _LeakyKernels])
def test_the_leaky_gradient_is_that_of_the_value(load, kind):
    _, split = split_of(study_of(), load)
    objective = kind(split.test.K, split.test.observed, 0.3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=sum(len(b) for b in objective.basis) * objective.n) / 5
    direction, gradient, step = rng.normal(size=x.size), np.empty_like(x), 1e-6
    objective.evaluate(x, gradient)
    ends = [objective.evaluate(x + s * direction, np.empty_like(x)) for s in (step, -step)]
    assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_em_is_given_the_first_kernel_complete(load):
    cell, split = split_of(study_of(methods=["EM"]), load)
    part = split.test.with_first_complete()
    assert part.observed[:, 0].all()
    assert_array_equal(part.observed[:, 1:], split.test.observed[:, 1:])
    filled = kq.completion.AuxiliaryEMCompletion(0).fit_transform(part.stack)
    error = average_relative_error(part.K[1:], filled.gram()[1:], part.observed[:, 1:])
    figure = complete(cell, split).figures["average_relative_error"]
    assert figure == pytest.approx(error / 100, rel=1e-9)


@pytest.mark.parametrize(("axis", "setting"), [("missing", 2), ("ratio", 0.4)])
def test_drawn_partitions(axis, setting):
    toy = {"kind": "TOYL", "n_samples": 60, "views": [2, 3, 4]}
    study = study_of(
        datasets=[{"name": "drawn", "options": {"toy": toy}}],
        problem={"partition": "drawn", "tuning": 0.4, "complete": 0.25},
        axis=axis, settings=[setting], repetitions=2,
    )  # fmt: skip
    cells = list(study.cells())
    splits = [make_completion_split(cell, {}) for cell in cells]
    for split in splits:
        assert (split.tuning.K.shape, split.test.K.shape) == ((3, 24, 24), (3, 36, 36))
        absent = (~split.test.observed).sum(axis=1)
        assert absent[:9].max() == 0
        assert absent.max() <= 2
        if axis == "missing":
            assert (absent[9:] == 2).all()
        else:
            assert 0.25 < (~split.test.observed[9:]).mean() < 0.5
    assert not np.allclose(splits[0].test.K, splits[1].test.K)
    again = make_completion_split(cells[0], {})
    assert_array_equal(again.test.K, splits[0].test.K)
    assert_array_equal(again.test.observed, splits[0].test.observed)


def test_kernels_of_views_leave_out_empty_samples(tmp_path):
    rng = np.random.default_rng(0)
    views = {f"view_{k}": rng.poisson(1.0, size=(30, 12)) + 1.0 for k in range(3)}
    views["view_1"][4] = 0.0
    np.savez(tmp_path / "texts.npz", view_names=["a", "b", "c"], y=np.zeros(30), **views)
    study = study_of(
        datasets=[{"name": "texts", "options": {"kernels": "latent_semantic"}}],
        problem={"partition": "drawn", "tuning": 0.4, "complete": 0.1},
        settings=[1],
    )
    _, split = split_of(study, DataDirectory(tmp_path))
    assert split.spectra.shape == (3, 29)
    assert_allclose(split.test.K.diagonal(axis1=1, axis2=2), 1.0)


def test_what_is_not_there(tmp_path, load):
    study = study_of(datasets=["tiny", "none"])
    sources, skipped = available(study, load)
    assert list(sources) == ["tiny"]
    assert skipped == ["none: skipped, the data directory has no none.npz"]
    np.savez(tmp_path / "labels.npz", y=np.zeros(3))
    with pytest.raises(DataMissingError, match=r"labels\.npz has no entry 'K'"):
        read_archive(DataSet("labels"), load)
    with pytest.raises(ProtocolError, match=r"tiny\.npz has no masks with 4 kernels absent"):
        split_of(study_of(settings=[4]), load)
    archive = read_archive(DataSet("tiny"), load)
    last = list(study_of(repetitions=3).cells())[-1]
    with pytest.raises(ProtocolError, match=r"tiny\.npz has 2 partitions"):
        make_completion_split(last, archive)
    del archive["val_idx"]
    with pytest.raises(ProtocolError, match=r"tiny\.npz has no entry 'val_idx'"):
        make_completion_split(next(study.cells()), archive)
    with pytest.raises(ProtocolError, match="data directory"):
        read_archive(DataSet("tiny"), UserSource(kq.MultiView([np.ones((3, 1))]), np.zeros(3)))


def test_a_completer_that_fails_is_a_failed_row(load, monkeypatch):
    cell, split = split_of(study_of(methods=["EM"]), load)
    needing = replace(COMPLETERS["EM"], first_complete=False)
    monkeypatch.setitem(COMPLETERS, "EM", needing)
    row = complete(cell, split)
    assert row.status == "failed"
    assert "the auxiliary kernel 'kernel_0' is absent for" in row.message


def test_measures_by_hand():
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
    first, second, third = np.ones(20), np.zeros(20), np.arange(20.0)
    second[3], third[0] = 20.0, 2.0  # third: 19, 18, ..., 2, 2, 1
    K = np.array([(rotation * values) @ rotation.T for values in (first, second, third)])
    values = spectra(K)
    assert_allclose(values[2][[0, 17, 18, 19]], [19, 2, 2, 1])
    # (1): (19^2 + 19) / 20, then sums over the other two pairs
    with_third = np.mean((np.sort(third) - 1.0) ** 2)
    apart = ((20 - 19) ** 2 + sum(k**2 for k in range(2, 19)) + 2**2 + 1) / 20
    assert heterogeneity(values) == pytest.approx((19.0 + with_third + apart) / 3)
    assert nonlinearity(values) == pytest.approx((1 + 0 + 1) / 3)
    assert heterogeneity(values[[0, 0]]) == 0
