"""Parquet files that do not fit into memory: described piece by piece, compared on a sample."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from kernelquilt import cli
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.experiments.own_data import compare
from kernelquilt.experiments.own_data.compare import comparable, comparison_study
from kernelquilt.experiments.own_data.describe import describe
from kernelquilt.experiments.own_data.files import DataFileError, read_data

pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(rng.standard_normal((n, 5)), columns=["a.x", "a.y", "b.x", "b.y", "b.z"])
    frame.loc[rng.random(n) < 0.3, ["a.x", "a.y"]] = np.nan
    frame.loc[rng.random(n) < 0.1, "b.x"] = np.nan
    frame["b.z"] = 1.0
    frame["ill"] = np.where(rng.random(n) < 0.4, "yes", "no")
    frame.loc[:9, "ill"] = None
    path = tmp_path / "patients.parquet"
    frame.to_parquet(path, row_group_size=70)
    return path


@pytest.fixture
def little_memory(monkeypatch):
    return lambda: monkeypatch.setenv("KERNELQUILT_MAX_MEMORY", "1e-6")


def test_a_large_file_is_described_as_a_small_one(table, little_memory):
    expected = describe(read_data(table, label="ill"))
    little_memory()
    data = read_data(table, label="ill")
    assert isinstance(data.views, LazyViews)
    found = describe(data)
    assert found.notes[0].startswith("the file is read piece by piece: as a whole it would take")
    assert found.views[1].n_missing_cells > 0
    assert any("constant" in each for each in found.warnings)
    assert replace(found, notes=expected.notes) == expected
    assert "10 of 400 samples left out: no label" in found.notes


def test_the_columns_of_a_large_file(table, little_memory):
    little_memory()
    views = read_data(table, label="ill", views={"x": ["*.x"], "rest": ["a.y"]}).views
    assert views.columns == {"x": ("a.x", "b.x"), "rest": ("a.y",)}
    with pytest.raises(DataFileError, match="no column 'sick'"):
        read_data(table, label="sick")
    with pytest.raises(DataFileError, match=r"not numeric: 'ill'"):
        read_data(table, views={"all": ["b.x", "ill"]})


def test_a_large_file_is_compared_on_a_sample(table, little_memory, monkeypatch):
    monkeypatch.setattr(compare, "SAMPLE", 100)
    whole = read_data(table, label="ill")
    assert comparable(whole, seed=0) is whole
    little_memory()
    data = read_data(table, label="ill")
    sample = comparable(data, seed=0)
    assert not isinstance(sample.views, LazyViews)
    assert sample.views.shape == (100, 2)
    rows = np.sort(np.random.default_rng(0).choice(390, 100, replace=False))
    np.testing.assert_array_equal(sample.views["a"], whole.views[rows]["a"])
    np.testing.assert_array_equal(sample.y, whole.y[rows])
    told = "100 of 390 samples, drawn at random, are compared on: the file is large"
    assert told in comparison_study(sample).notes


def test_a_folder_of_large_tables_is_refused(table, little_memory):
    little_memory()
    with pytest.raises(DataFileError, match="write one parquet file with all views"):
        read_data(table.parent, label="ill")


def test_a_large_file_is_described_by_the_command(table, little_memory):
    little_memory()
    shown = CliRunner().invoke(cli.commands(), ["describe", str(table), "--label", "ill"])
    assert shown.exit_code == 0, shown.output
    assert "390 samples" in shown.output
    assert "read piece by piece" in shown.output


@pytest.fixture
def times(table):
    """A column of times, some of them missing, between the views."""
    frame = pd.read_parquet(table)
    rng = np.random.default_rng(1)
    frame.insert(2, "a.months", rng.exponential(10.0, len(frame)))
    frame.loc[20:24, "a.months"] = np.nan
    frame["ill"] = frame["ill"].map({"yes": 1.0, "no": 0.0})
    frame.to_parquet(table, row_group_size=70)
    return table


def test_survival_in_a_large_file(times, little_memory, monkeypatch):
    columns = {"label": "ill", "time": "a.months"}
    whole = read_data(times, **columns)
    little_memory()
    data = read_data(times, **columns)
    assert isinstance(data.views, LazyViews)
    assert data.task == "survival"
    assert data.views.columns["a"] == ("a.x", "a.y")
    np.testing.assert_array_equal(data.y, whole.y)
    found, expected = describe(data), describe(whole)
    assert replace(found, notes=expected.notes) == expected
    assert "15 of 400 samples left out: no label" in found.notes
    monkeypatch.setattr(compare, "SAMPLE", 100)
    sample = comparable(data, seed=0)
    assert sample.views.shape == (100, 2)
    told = "100 of 385 samples, drawn at random, are compared on: the file is large"
    assert told in comparison_study(sample).notes
    with pytest.raises(DataFileError, match="no column 'years'"):
        read_data(times, label="ill", time="years")


def test_survival_in_a_large_file_by_the_command(times, little_memory):
    little_memory()
    options = ["--label", "ill", "--time", "a.months"]
    shown = CliRunner().invoke(cli.commands(), ["describe", str(times), *options])
    assert shown.exit_code == 0, shown.output
    assert "385 samples" in shown.output
    assert "QuiltSurvival" in shown.output
