"""The protocols as they are shipped: what they name exists, and every study runs."""

from dataclasses import replace

import numpy as np
import pytest

from kernelquilt.experiments.methods import METHODS
from kernelquilt.experiments.methods.completers import COMPLETERS
from kernelquilt.experiments.running.runner import run_study
from kernelquilt.experiments.running.store import Store
from kernelquilt.experiments.study.kernels import KERNELS
from kernelquilt.experiments.study.protocol import PROTOCOLS, load_protocol
from kernelquilt.experiments.study.sources import DataDirectory

STUDIES = [study for name in PROTOCOLS for study in load_protocol(name)]
CLASSIFICATION = [study for study in STUDIES if study.task == "classification"]
BASELINES = {"quilt", "observed fraction", "zero SVC", "kNN SVC", "HGB", "complete only"}
FOLDS = (
    "Composition", "Secondary", "Hydrophobicity", "Volume", "Polarity", "Polarizability",
    "L1", "L4", "L14", "L30", "SWblosum62", "SWpam50",
)  # fmt: skip
FLOWERS = (
    "hsv_hist", "lab_hist", "lbp", "hog", "gabor_gist", "dense_sift_bow", "colour_bow",
)  # fmt: skip
VIEWS = {"protein_fold": FOLDS, "flower17_features": FLOWERS}
KERNEL_FILES = ("psortPos", "psortNeg", "plant", "caltech101")
ABSENT = ("three_sources", "heart_four_hospitals")
N_OF_EACH_CLASS = 24


def label(study):
    return f"{study.protocol}-{study.name}"


def names_of_kernels(study, dataset):
    if study.axis == "reading":
        return {reading["kernels"] for reading in study.problem["readings"].values()}
    given = dataset.options.get("kernels", study.problem.get("kernels", "gaussian"))
    if study.axis == "kernels" and not isinstance(given, dict):
        return set(map(str, study.settings))
    return set(given.values()) if isinstance(given, dict) else {given}


def check_printed(study, table):
    names = {dataset.name for dataset in study.datasets}
    one_number = study.pooled or study.axis in ("none", "reading")
    for method, figures in table.items():
        assert method in study.methods
        assert set(figures) <= names
        for value in figures.values():
            if one_number:
                assert isinstance(value, float | int)
            else:
                assert len(value) == len(study.paper_settings)


@pytest.mark.parametrize("study", STUDIES, ids=label)
def test_what_a_study_names_exists(study):
    known = METHODS if study.task == "classification" else COMPLETERS
    assert set(study.methods) <= set(known)
    assert len(set(study.methods)) == len(study.methods)
    assert len({dataset.name for dataset in study.datasets}) == len(study.datasets)
    if study.task == "classification":
        for dataset in study.datasets:
            assert names_of_kernels(study, dataset) <= set(KERNELS)
    check_printed(study, study.paper)
    check_printed(study, study.paper_std)
    for method, figures in study.paper_std.items():
        assert set(figures) <= set(study.paper[method])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_quick_forms_keep_what_the_figures_depend_on(name):
    full = {study.name: study for study in load_protocol(name)}
    quick = load_protocol(name, quick=True)
    assert [study.name for study in quick] == list(full)
    for study in quick:
        whole = full[study.name]
        assert set(study.methods) <= set(whole.methods)
        assert (study.problem, study.grid, study.folds) == (whole.problem, whole.grid, whole.folds)
        assert all(dataset in whole.datasets for dataset in study.datasets)
        assert all(setting in whole.settings for setting in study.settings)
        assert study.paper_settings == whole.paper_settings


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_paper_is_compared_with_what_users_would_try_first(name):
    printed = [study for study in CLASSIFICATION if study.protocol == name and study.paper]
    tables = [study for study in printed if study.name not in ("readings", "leak")]
    for study in tables:
        given = all(dataset.name in KERNEL_FILES for dataset in study.datasets)
        assert set(study.methods) >= (BASELINES - {"kNN SVC", "HGB"} if given else BASELINES)


def test_printed_figures_at_random():
    found = {label(study): study.paper for study in STUDIES}
    assert found["sample-adaptive-mkl-protein-folds"]["LMKL"]["9 v 12"] == 68.8
    assert found["sample-adaptive-mkl-plant"]["l8-MKL"]["plant"] == 84.1
    assert found["multik-mhks-uci"]["SVM-2K"]["water"] == 60.61
    assert found["multik-mhks-times"]["MKL (SILP)"]["ORL"] == 3894.2
    assert found["matrix-norm-mkl-norms"]["(r,p)-MKL"]["wdbc"] == [97.89, 96.49, 97.59]
    assert found["matrix-norm-mkl-starts"]["(r,p)-MKL0"]["liver"] == 72.32


def write(directory, dataset):
    """Write a small file with the keys of the real one."""
    rng = np.random.default_rng(0)
    labels = np.asarray(dataset.options.get("classes", [0, 1]))
    key = dataset.options.get("labels", "y")
    y = np.tile(labels, N_OF_EACH_CLASS)
    rows = np.arange(len(y))
    X = rng.normal(size=(len(y), 24)) + 1.5 * (y == labels[0])[:, None]
    entries = {key: y, "subset_1000": rows, "train_idx": rows[:30], "test_idx": rows[30:]}
    entries["site"] = np.repeat(["cleveland", "va"], N_OF_EACH_CLASS)
    views = VIEWS.get(dataset.filename.removesuffix(".npz"), ())
    if dataset.name in KERNEL_FILES:
        entries["K"] = np.stack([X[:, k::12] @ X[:, k::12].T + np.eye(len(y)) for k in range(12)])
    elif views or dataset.name in ABSENT:
        views = views or ("bbc", "guardian", "reuters")
        blocks = {f"view_{k}": np.abs(X[:, 2 * k : 2 * k + 2]) for k in range(len(views))}
        if dataset.name in ABSENT:
            blocks["view_0"][::5] = np.nan
        entries |= blocks | {"view_names": np.array(views)}
    else:
        entries["X"] = X[:, : 6 if dataset.options.get("groups") == "columns" else 24]
    np.savez(directory / dataset.filename, **entries)


@pytest.mark.parametrize("study", CLASSIFICATION, ids=label)
def test_every_study_runs(study, tmp_path):
    write(tmp_path, study.datasets[0])
    tiny = replace(
        study,
        datasets=study.datasets[:1],
        settings=study.settings[:1],
        repetitions=1,
        folds=2,
        grid={name: [values[len(values) // 2]] for name, values in study.grid.items()},
    )
    summary = run_study(tiny, tmp_path / "store.sqlite", DataDirectory(tmp_path))
    assert summary.skipped == []
    with Store(tmp_path / "store.sqlite") as store:
        rows = list(store.rows(study.protocol, study.name))
    assert {row.method for row in rows} == set(study.methods)
    for row in rows:
        assert row.status in ("ok", "impossible"), f"{row.method}: {row.message}"
        if row.status == "ok":
            assert np.isfinite(list(row.figures.values())).all()
            assert 0 <= row.figures["accuracy"] <= 1
            assert row.figures["train_seconds"] > 0
    ok = [row for row in rows if row.status == "ok"]
    assert all(study.metric in row.figures for row in ok)
    assert set(study.extra) <= {name for row in ok for name in row.figures}
    assert np.median([row.figures["accuracy"] for row in ok]) > 0.6
