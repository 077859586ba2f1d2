"""Protocols, splits, the runner and the store: what is run, once and only once."""

import gzip
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.experiments import methods as known_methods
from kernelquilt.experiments.methods import METHODS, ImpossibleError, Method, Tuning
from kernelquilt.experiments.methods import _recipes as recipes
from kernelquilt.experiments.methods.completers import COMPLETERS
from kernelquilt.experiments.running.runner import count_open, run_study
from kernelquilt.experiments.running.store import Row, Store, StoreError
from kernelquilt.experiments.study.measures import calibration_error, class_measures
from kernelquilt.experiments.study.protocol import (
    PROTOCOLS,
    DataSet,
    ProtocolError,
    Study,
    load_protocol,
    parse_protocol,
)
from kernelquilt.experiments.study.sources import (
    DataDirectory,
    DataMissingError,
    Source,
    UserSource,
)
from kernelquilt.experiments.study.splits import make_split


def study_of(**changes):
    entries = {
        "protocol": "tiny",
        "name": "study",
        "title": "A tiny study",
        "datasets": [DataSet("first", options={"groups": 3}), DataSet("second")],
        "methods": ["uniform", "C-AMKL", "zero SVC", "majority"],
        "axis": "ratio",
        "settings": [0.2, 0.5],
        "repetitions": 2,
        "grid": {"C": [1.0, 10.0]},
        "folds": 2,
        "problem": {
            "kernels": "gaussian",
            "train": 0.5,
            "mask": {"mechanism": "mcar"},
            "scale": "unit_diagonal",
        },
    }
    return Study(**{**entries, **changes})


def write_data(directory):
    rng = np.random.default_rng(0)
    y = np.repeat([-1, 1], 20)
    X = rng.normal(size=(40, 6)) + 0.8 * y[:, None]
    np.savez(directory / "first.npz", X=X, y=y)
    views = {f"view_{k}": X[:, [k, k + 1]] for k in range(3)}
    views["view_0"] = np.where(np.arange(40)[:, None] % 5 == 0, np.nan, views["view_0"])
    np.savez(directory / "second.npz", y=y, view_names=["a", "b", "c"], **views)
    return DataDirectory(directory)


@pytest.fixture
def load(tmp_path):
    return write_data(tmp_path)


def without_times(rows):
    """Return what must be equal for equal seeds."""
    kept = []
    for row in rows:
        figures = {k: v for k, v in row.figures.items() if not k.endswith("seconds")}
        kept.append(replace(row, seconds=0.0, figures=figures))
    return kept


class TestStudies:
    def test_keys_are_distinct_and_do_not_depend_on_the_size_of_the_study(self):
        study = study_of()
        keys = [cell.key for cell in study.cells()]
        assert len(set(keys)) == len(keys) == 2 * 2 * 2 * 4
        fewer = replace(study, repetitions=1, settings=[0.5], methods=["uniform"])
        assert {cell.key for cell in fewer.cells()} < set(keys)
        assert not {cell.key for cell in study.cells(seed=1)} & set(keys)

    @pytest.mark.parametrize(
        "change",
        [{"folds": 3}, {"grid": {"C": [2.0]}}, {"problem": {"train": 0.7}}],
        ids=["folds", "grid", "problem"],
    )
    def test_keys_depend_on_what_the_figures_depend_on(self, change):
        keys = {cell.key for cell in study_of().cells()}
        assert not keys & {cell.key for cell in study_of(**change).cells()}

    def test_the_metric_that_is_shown_does_not_change_the_cells_of_a_classification(self):
        keys = {cell.key for cell in study_of().cells()}
        assert keys == {cell.key for cell in study_of(metric="auc").cells()}

    def test_a_study_survives_json(self):
        study = study_of(paper={"uniform": {"first": 80.0}})
        assert Study.from_dict(study.to_dict()) == study

    @pytest.mark.parametrize("name", PROTOCOLS)
    def test_quick_cells_are_cells_of_the_full_form(self, name):
        full = {s.name: {c.key for c in s.cells()} for s in load_protocol(name)}
        quick = {s.name: {c.key for c in s.cells()} for s in load_protocol(name, quick=True)}
        assert any(quick.values())
        assert all(keys <= full[study] for study, keys in quick.items())

    @pytest.mark.parametrize("name", PROTOCOLS)
    def test_what_reads_too_much_competes_with_nothing(self, name):
        for study in load_protocol(name):
            known = COMPLETERS if study.task == "completion" else METHODS
            leaky = {method for method in study.methods if known[method].leaky}
            assert leaky <= set(study.diagnostics)

    def test_united_studies_have_the_cells_of_both(self):
        study = study_of()
        small = replace(study, settings=[0.9, 0.2], methods=["ZF"], repetitions=1)
        united = small.united(study)
        assert united.settings == [0.2, 0.5, 0.9]
        keys = {cell.key for cell in united.cells()}
        assert {cell.key for cell in study.cells()} | {c.key for c in small.cells()} <= keys

    def test_what_comes_twice_is_refused(self):
        with pytest.raises(ProtocolError, match="twice"):
            Study.from_dict(study_of(settings=[0.5, 0.5]).to_dict())

    def test_unknown_names_are_refused(self):
        with pytest.raises(ProtocolError, match="no protocol 'absent'"):
            load_protocol("absent")
        with pytest.raises(ProtocolError, match="no entry 'colour'"):
            parse_protocol('[[study]]\ncolour = "red"\n')


class TestSources:
    def test_options(self, tmp_path):
        X = np.arange(24.0).reshape(6, 4)
        X[:, 2] = 1.0
        np.savez(
            tmp_path / "data.npz", X=X, y=[0, 0, 1, 1, 1, 2], kept=[0, 2, 3, 4, 5],
            train_idx=[0, 2, 5], test_idx=[3, 4],
        )  # fmt: skip
        load = DataDirectory(tmp_path)

        def read(**options):
            return load(DataSet("any", file="data", options=options))

        assert read().data.names == ("group_0",)
        assert read(groups="columns").data.names == ("column_0", "column_1", "column_3")
        assert read(classes=[0, 2]).y.tolist() == [0, 0, 2]
        assert read(first_classes=2).y.tolist() == [0, 0, 1, 1, 1]
        assert read(largest_classes=1).y.tolist() == [1, 1, 1]
        assert read(rows="kept").y.tolist() == [0, 1, 1, 1, 2]
        source = read(classes=[0, 1], published=True)
        assert [part.tolist() for part in source.published] == [[0, 2], [3, 4]]
        np.testing.assert_array_equal(read(roots=True).data["group_0"], np.sqrt(X))

    def test_what_is_missing_is_said_in_one_line(self, tmp_path):
        load = DataDirectory(tmp_path)
        with pytest.raises(DataMissingError, match=r"musk1: .* has no musk1\.npz"):
            load(DataSet("musk1"))
        (tmp_path / "broken.npz").write_bytes(b"no archive")
        with pytest.raises(DataMissingError, match=r"broken\.npz cannot be read"):
            load(DataSet("broken"))
        np.savez(tmp_path / "unlabelled.npz", X=np.ones((3, 2)))
        with pytest.raises(DataMissingError, match="no entry"):
            load(DataSet("unlabelled"))


class TestSplits:
    def test_the_split_of_a_repetition_is_the_same_in_all_settings(self, load):
        cells = list(study_of(methods=["uniform"]).cells())
        source = load(cells[0].dataset)
        first, second = (make_split(cell, source) for cell in cells[:2])
        np.testing.assert_array_equal(first.complete[0]["group_0"], second.complete[0]["group_0"])
        assert not np.array_equal(first.train.observed, second.train.observed)

    @pytest.mark.parametrize("channels", [False, True])
    def test_absent_and_test_values_influence_nothing_else(self, load, channels):
        cell = next(study_of(problem={**study_of().problem, "channels": channels}).cells())
        source = load(cell.dataset)
        split = make_split(cell, source)
        changed = replace(
            split,
            train=spoiled(split.train),
            test=spoiled(split.test[:1]),
        )
        for stack, other in zip(split.stacks, changed.stacks, strict=True):
            rows = slice(0, len(other))
            np.testing.assert_array_equal(stack.gram()[:, rows], other.gram())
            assert np.all(stack.gram().transpose(1, 0, 2)[~stack.observed] == 0)
        for matrix, other in zip(split.features, changed.features, strict=True):
            np.testing.assert_allclose(matrix[: len(other)], other, rtol=1e-12)

    def test_the_leaky_stacks_hold_what_should_be_absent(self, load):
        cell = next(study_of().cells())
        split = make_split(cell, load(cell.dataset))
        train, _ = split.leaky_stacks
        np.testing.assert_array_equal(train.observed, split.stacks[0].observed)
        assert np.any(train.gram().transpose(1, 0, 2)[~train.observed] != 0)

    def test_each_kernel_of_a_bank_is_a_channel_of_its_own(self, load):
        options = {**study_of().problem, "kernels": "bank_3", "channels": True}
        cell = next(study_of(problem=options).cells())
        split = make_split(cell, load(cell.dataset))
        assert split.stacks[0].shape == (20, 9)
        assert split.features[0].shape == (20, 9 * 5)

    def test_mean_diagonal(self, load):
        options = {**study_of().problem, "scale": "mean_diagonal"}
        cell = next(study_of(problem=options).cells())
        train, _ = make_split(cell, load(cell.dataset)).stacks
        diagonal = train.gram().diagonal(axis1=1, axis2=2)
        np.testing.assert_allclose(diagonal.sum(axis=1) / train.observed.sum(axis=0), 1.0)

    def test_whole_test_set_lacks_a_view(self, load):
        options = {**study_of().problem, "mask": {"mechanism": "block_test"}}
        cell = next(study_of(problem=options).cells())
        split = make_split(cell, load(cell.dataset))
        assert sorted(split.test.observed.mean(axis=0)) == [0.0, 1.0, 1.0]
        assert 0 < split.train.observed.mean() < 1

    def test_published_splits(self, tmp_path, load):
        cell = next(study_of(problem={"train": "published"}).cells())
        data = load(cell.dataset)
        with pytest.raises(ProtocolError, match="no published split"):
            make_split(cell, data)
        source = Source(data.data, data.y, (np.arange(30), np.arange(30, 40)))
        split = make_split(cell, source)
        np.testing.assert_array_equal(split.y_test, data.y[30:])
        again = make_split(replace(cell, repetition=1), source)
        assert (len(again.y_train), len(again.y_test)) == (30, 10)
        assert abs(np.mean(again.y_train == 1) - np.mean(data.y == 1)) < 0.05
        assert not np.array_equal(again.train["group_0"], split.train["group_0"])

    def test_at_most_so_many_samples_and_so_many_of_each_class(self, load):
        cell = next(study_of(problem={"train": 3, "most": 20}).cells())
        split = make_split(cell, load(cell.dataset))
        assert (len(split.y_train), len(split.y_test)) == (6, 14)

    def test_a_site_tests_what_the_others_learned(self, load):
        study = study_of(axis="site", settings=["here"], problem={"train": 0.5})
        cell = next(study.cells())
        source = load(cell.dataset)
        with pytest.raises(ProtocolError, match="first has no sites"):
            make_split(cell, source)
        sites = np.where(np.arange(40) % 4 == 0, "here", "there")
        split = make_split(cell, replace(source, sites=sites))
        here = source.data[np.flatnonzero(sites == "here")]
        np.testing.assert_array_equal(split.test["group_0"], here["group_0"])
        assert len(split.y_train) == 15
        assert not np.isin(split.train["group_0"][:, 0], here["group_0"][:, 0]).any()
        with pytest.raises(ProtocolError, match="no samples of the site 'here'"):
            make_split(cell, replace(source, sites=np.repeat("there", 40)))

    def test_presence_chooses_among_the_same_test_samples(self, load):
        settings = ["fewer", "as many", "more"]
        study = study_of(axis="presence", settings=settings, problem={"train": 0.5})
        source = load(DataSet("second"))
        views = {name: np.nan_to_num(source.data[name]) for name in source.data.names}
        observed = np.arange(3) <= np.arange(40)[:, None] % 3
        source = replace(source, data=kq.MultiView(views, observed))
        cells = [cell for cell in study.cells() if cell.dataset.name == "second"][::4][:3]
        splits = [make_split(cell, source) for cell in cells]
        assert [set(split.test.observed.sum(axis=1)) for split in splits] == [{1}, {2}, {3}]
        assert sum(len(split.y_test) for split in splits) == 20
        for split in splits[1:]:
            np.testing.assert_array_equal(split.train["c"], splits[0].train["c"])


def spoiled(data):
    """Return views with other values where they are absent."""
    rng = np.random.default_rng(1)
    blocks = {
        name: np.where(present[:, None], data[name], rng.normal(size=data[name].shape))
        for name, present in zip(data.names, data.observed.T, strict=True)
    }
    return kq.MultiView(blocks, data.observed)


class TestRuns:
    def test_equal_seeds_give_equal_rows_however_they_are_run(self, load, tmp_path):
        found = []
        for number, options in enumerate(
            [{}, {"n_jobs": 2}, {"n_jobs": 2, "backend": "threading"}, {"seed": 1}]
        ):
            path = tmp_path / f"{number}.sqlite"
            summary = run_study(study_of(), path, load, **options)
            assert (summary.n_cells, summary.n_new, summary.n_failed) == (32, 32, 0)
            with Store(path) as store:
                found.append(without_times(store.rows()))
        assert found[0] == found[1] == found[2]
        assert {row.status for row in found[0]} == {"ok"}
        assert found[0] != found[3]

    def test_rows_say_what_was_done(self, load, tmp_path):
        run_study(study_of(methods=["C-AMKL"]), tmp_path / "s.sqlite", load)
        with Store(tmp_path / "s.sqlite") as store:
            row = store.rows("tiny", "study")[0]
        assert row.parameters["C"] in (1.0, 10.0)
        assert row.n_solves >= 5
        assert 0 <= row.gap <= 1e-3
        assert row.versions["kernelquilt"] == kq.__version__
        assert {"accuracy", "f1", "mcc", "auc", "train_seconds", "support_share"} < set(row.figures)

    def test_a_finished_study_is_not_run_again_and_a_larger_one_goes_on(self, load, tmp_path):
        path = tmp_path / "s.sqlite"
        small = study_of(repetitions=1, methods=["majority"])
        assert count_open(small, path) == 4
        assert run_study(small, path, load).n_new == 4
        assert run_study(small, path, load).n_new == 0
        assert count_open(small, path) == 0
        calls = []
        larger = study_of(methods=["majority", "uniform"])
        assert run_study(larger, path, load, on_cells=calls.append).n_new == sum(calls) == 12
        assert run_study(small, path, load).n_new == 0
        with Store(path) as store:
            definition = Study.from_dict(store.definitions()["tiny", "study"])
        assert {c.key for c in definition.cells()} == {c.key for c in larger.cells()}

    def test_a_data_set_that_is_not_there_is_skipped_with_a_line(self, load, tmp_path):
        study = study_of(datasets=[DataSet("musk1"), DataSet("first")], methods=["majority"])
        summary = run_study(study, tmp_path / "s.sqlite", load)
        assert (summary.n_cells, summary.n_new) == (4, 4)
        assert len(summary.skipped) == 1
        assert "musk1.npz" in summary.skipped[0]

    def test_data_that_have_changed_are_refused(self, load, tmp_path):
        study = study_of(methods=["majority"])
        run_study(study, tmp_path / "s.sqlite", load)
        np.savez(tmp_path / "first.npz", X=np.eye(40)[:, :6], y=np.repeat([0, 1], 20))
        with pytest.raises(StoreError, match=r"cells of another first\.npz; name another store"):
            run_study(study, tmp_path / "s.sqlite", load)

    def test_data_that_cannot_be_used_fail_in_their_cells_only(self, load, tmp_path):
        np.savez(tmp_path / "second.npz", X=np.eye(3), y=[0, 1, 2])
        summary = run_study(study_of(methods=["majority"]), tmp_path / "s.sqlite", load)
        assert (summary.n_cells, summary.n_failed) == (8, 4)

    def test_two_processes_share_the_work(self, load, tmp_path, monkeypatch):
        made = []

        def counted(split, tuning):
            made.append(1)
            if len(made) == 3:  # another process begins and ends in the middle
                run_study(study, path, load)
            return METHODS["majority"].recipe(split, tuning)

        path, study = tmp_path / "s.sqlite", study_of(methods=["odd"])
        monkeypatch.setitem(METHODS, "odd", Method("", counted))
        run_study(study, path, load)
        assert len(made) == 9  # the third cell twice

    def test_failed_cells_are_told_and_tried_again(self, load, tmp_path, monkeypatch):
        def fails(split, tuning):
            raise ArithmeticError("seven")

        path, study = tmp_path / "s.sqlite", study_of(methods=["majority", "odd"])
        monkeypatch.setitem(METHODS, "odd", Method("", fails))
        assert run_study(study, path, load).n_failed == 8
        with Store(path) as store:
            messages = {row.message for row in store.rows() if row.status == "failed"}
        assert all(text.startswith("ArithmeticError: seven (fails, line") for text in messages)
        monkeypatch.setitem(METHODS, "odd", METHODS["majority"])
        summary = run_study(study, path, load)
        assert (summary.n_new, summary.n_failed) == (8, 0)

    def test_what_is_impossible_is_no_failure(self, load, tmp_path):
        summary = run_study(
            study_of(methods=["complete only"], settings=[0.9]), tmp_path / "s.sqlite", load
        )
        assert (summary.n_impossible, summary.n_failed) == (4, 0)

    def test_every_standard_method_runs_on_views_and_on_kernels(self, tmp_path, load):
        source = load(DataSet("first", options={"groups": 3}))
        K = kq.ViewKernels().fit_transform(source.data).gram()
        np.savez(tmp_path / "kernels.npz", K=K, y=source.y)
        names = [*known_methods.baselines.METHODS, *known_methods.absent.METHODS]
        study = study_of(
            datasets=[DataSet("first", options={"groups": 3}), DataSet("kernels")],
            settings=[0.2], repetitions=1, methods=names,
        )  # fmt: skip
        summary = run_study(study, tmp_path / "s.sqlite", load)
        with Store(tmp_path / "s.sqlite") as store:
            rows = store.rows()
        assert summary.n_failed == 0, [row.message for row in rows if row.status == "failed"]
        accuracy = {(r.dataset, r.method): r.figures.get("accuracy") for r in rows}
        for dataset in ("first", "kernels"):
            assert accuracy[dataset, "quilt"] > 0.7 > accuracy[dataset, "majority"]
        told = {r.method: r.figures for r in rows if r.dataset == "first" and r.status == "ok"}
        assert {"log_loss", "calibration_error"} <= set(told["quilt"])
        assert "log_loss" not in told["zero SVC"]

    def test_the_quilt_has_its_forest_where_there_are_columns(self, load, monkeypatch):
        cell = next(study_of().cells())
        split = make_split(cell, load(cell.dataset))
        seen = []
        monkeypatch.setattr(recipes, "predictions", lambda model, test: seen.append(model))
        monkeypatch.setattr(recipes, "with_figures", lambda fitted, **figures: fitted)
        for given in (split, replace(split, has_features=False)):
            METHODS["quilt"].recipe(given, Tuning({}, 2, 0))
        assert [len(model.experts_) for model in seen] == [1, 0]

    def test_boosted_trees_can_split_few_samples(self, load):
        cell = next(study_of().cells())
        split = make_split(cell, load(cell.dataset))
        fitted = METHODS["HGB"].recipe(split, Tuning({}, 2, 0))
        assert len(np.unique(fitted.proba[:, 1])) > 1  # with leaves of 20 all would be the same

    def test_what_is_not_installed_is_impossible(self, load, monkeypatch):
        monkeypatch.setitem(sys.modules, "lightgbm", None)
        with pytest.raises(ImpossibleError, match="lightgbm is not installed"):
            METHODS["LightGBM"].recipe(None, None)

    def test_the_users_own_data(self, load, tmp_path):
        source = load(DataSet("second"))
        study = study_of(datasets=[DataSet("mine")], axis="none", settings=["as is"])
        run_study(study, tmp_path / "s.sqlite", UserSource(source.data, source.y))
        with Store(tmp_path / "s.sqlite") as store:
            assert {row.setting for row in store.rows()} == {"as is"}
            assert {row.status for row in store.rows()} == {"ok"}

    def test_dask(self, load, tmp_path):
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(
            1, threads_per_worker=2, processes=False, dashboard_address=None
        )
        with cluster, distributed.Client(cluster):
            study = study_of(repetitions=1, methods=["uniform", "majority"])
            run_study(study, tmp_path / "dask.sqlite", load, backend="dask", n_jobs=2)
        run_study(study, tmp_path / "here.sqlite", load)
        with Store(tmp_path / "dask.sqlite") as one, Store(tmp_path / "here.sqlite") as other:
            assert without_times(one.rows()) == without_times(other.rows())


def row_of(number, **changes):
    names = {"protocol": "p", "study": "s", "dataset": "d", "setting": "0.1", "method": "m"}
    return Row(**{"key": f"key {number}", "repetition": number, **names, **changes})


def write_rows(path, numbers):
    with Store(path) as store:
        for number in numbers:
            store.add(row_of(number, seconds=float(os.getpid())))


class TestStore:
    def test_rows_come_back_as_they_were(self, tmp_path):
        row = row_of(
            1, figures={"accuracy": 1 / 3, "auc": float("nan")}, parameters={"C": 2.0, "p": "x"},
            n_solves=7, gap=1e-4, message="3 UserWarning", versions={"numpy": "1"},
        )  # fmt: skip
        with Store(tmp_path / "s.sqlite") as store:
            store.add(row)
            store.add(replace(row, seconds=99.0))
            (found,) = store.rows()
        assert np.isnan(found.figures.pop("auc"))
        del row.figures["auc"]
        assert found == row

    def test_several_writers(self, tmp_path):
        path = tmp_path / "s.sqlite"
        context = multiprocessing.get_context("spawn")
        numbers = [range(0, 120), range(60, 180), range(90, 200)]
        writers = [context.Process(target=write_rows, args=(path, part)) for part in numbers]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [writer.exitcode for writer in writers] == [0, 0, 0]
        with Store(path) as store:
            assert sorted(row.repetition for row in store.rows()) == list(range(200))

    def test_a_full_disk_is_told_and_keeps_what_is_there(self, tmp_path):
        path = tmp_path / "s.sqlite"
        with Store(path) as store:
            store.add(row_of(0))
            store._connection.execute("PRAGMA max_page_count = 1")
            with pytest.raises(StoreError, match=r"full.*free some space.*finished cells are kept"):
                store.add(row_of(1, message="x" * 100_000))
        with Store(path) as store:
            assert [row.repetition for row in store.rows()] == [0]

    def test_a_packed_copy_is_read_and_not_filled(self, tmp_path):
        packed = [tmp_path / name for name in ("one.sqlite.gz", "two.sqlite.gz")]
        with Store(tmp_path / "s.sqlite") as store:
            store.add(row_of(0))
            store.define("p", "s", {"methods": ["m"]})
            for path in packed:
                store.pack(path)
            rows = store.rows()
        assert packed[0].read_bytes() == packed[1].read_bytes()
        with Store(packed[0], create=False) as store:
            assert store.rows() == rows
            assert store.definitions() == {("p", "s"): {"methods": ["m"]}}
        with pytest.raises(StoreError, match=r"one\.sqlite\.gz' is packed.*gunzip"):
            Store(packed[0])
        unpacked = tmp_path / "again.sqlite"
        unpacked.write_bytes(gzip.decompress(packed[0].read_bytes()))
        with Store(unpacked) as store:
            store.add(row_of(1))
            assert [row.repetition for row in store.rows()] == [0, 1]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is no store of kq"),
            (b"text", "[Nn]ot a gzipped file"),
            (gzip.compress(b"cells " * 100)[:20], "ended before"),
            (gzip.compress(b"cells " * 100), "not a database"),
        ],
        ids=["empty", "text", "cut short", "no database"],
    )
    def test_a_packed_file_that_is_no_store(self, tmp_path, content, message):
        path = tmp_path / "cells.sqlite.gz"
        path.write_bytes(content)
        with pytest.raises(StoreError, match=message):
            Store(path, create=False)

    def test_a_file_that_is_no_store(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("not a database " * 100)
        with pytest.raises(StoreError, match=r"notes\.txt.*not a database"):
            Store(path)
        with pytest.raises(StoreError, match="there is no store"):
            Store(tmp_path / "nothing.sqlite", create=False)
        with pytest.raises(StoreError, match="there is no directory"):
            Store(tmp_path / "no" / "directory.sqlite")
        with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
            other.execute("CREATE TABLE people (name TEXT)")
        before = (tmp_path / "other.sqlite").read_bytes()
        for create in (True, False):
            with pytest.raises(StoreError, match="is no store of kq"):
                Store(tmp_path / "other.sqlite", create=create)
        assert (tmp_path / "other.sqlite").read_bytes() == before

    def test_definitions_that_meet_are_joined(self, tmp_path):
        def join(earlier):
            return {"methods": earlier["methods"] + ["b"]}

        with Store(tmp_path / "s.sqlite") as store:
            store.define("p", "s", {"methods": ["a"]}, join)
            store.define("p", "s", {"methods": ["b"]}, join)
            assert store.definitions() == {("p", "s"): {"methods": ["a", "b"]}}


def test_measures_on_a_table_done_by_hand():
    y, labels = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    found = class_measures(y, labels, np.array([0.1, 0.2, 0.7, 0.6]), np.array([0, 1]))
    assert found["accuracy"] == 3 / 4
    assert found["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["mcc"] == pytest.approx(1 / np.sqrt(3))
    assert found["auc"] == pytest.approx(2 / 3)
    three = class_measures(np.array([0, 1, 2]), np.array([0, 1, 1]), None, np.array([0, 1, 2]))
    assert three["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert "auc" not in three


def test_calibration_error_by_hand():
    confidence = np.array([0.55, 0.58, 0.9, 0.95, 1.0])
    right = np.array([True, False, True, True, False])
    expected = (abs(0.55 + 0.58 - 1) + abs(0.9 + 0.95 + 1.0 - 2)) / 5
    assert calibration_error(confidence, right) == pytest.approx(expected)
    assert calibration_error(np.array([0.5, 0.5]), np.array([True, False])) == 0


SWEEP = """
import sys
from pathlib import Path
from test_runner import study_of
from kernelquilt.experiments.running.runner import run_study
from kernelquilt.experiments.study.sources import DataDirectory
directory = Path(sys.argv[1])
study = study_of(repetitions=6, methods=["uniform", "C-AMKL", "zero SVC", "kNN SVC", "majority"])
run_study(study, directory / "killed.sqlite", DataDirectory(directory), n_jobs=int(sys.argv[2]))
"""


@pytest.mark.kill
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_sweep_goes_on_to_the_same_rows(tmp_path, n_jobs):
    load = write_data(tmp_path)
    study = study_of(
        repetitions=6, methods=["uniform", "C-AMKL", "zero SVC", "kNN SVC", "majority"]
    )
    run_study(study, tmp_path / "undisturbed.sqlite", load)
    rng = np.random.default_rng(n_jobs)
    command = [sys.executable, "-c", SWEEP, str(tmp_path), str(n_jobs)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    killed, seen = 0, 0
    while count_open(study, tmp_path / "killed.sqlite"):
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        deadline = time.monotonic() + 60
        # wait for a few cells of progress, then strike at a random moment
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(rng.uniform(0.0, 0.05))
            done = len(list(study.cells())) - count_open(study, tmp_path / "killed.sqlite")
            if killed < 10 and done > seen + rng.integers(0, 12):
                os.killpg(process.pid, signal.SIGKILL)
                killed, seen = killed + 1, done
        process.wait()
    assert killed >= 5
    with Store(tmp_path / "undisturbed.sqlite") as one, Store(tmp_path / "killed.sqlite") as other:
        assert without_times(one.rows()) == without_times(other.rows())
