"""`kq describe`, `kq compare` and `kq methods` for numbers, and for events and times."""

import json
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kernelquilt import cli
from kernelquilt.experiments.methods import METHODS_OF
from kernelquilt.experiments.own_data.files import DataFileError, read_data

# before click 8.2 the two streams were one unless asked for
SEPARATE = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


def run(*arguments):
    result = CliRunner(**SEPARATE).invoke(cli.commands(), arguments, prog_name="kq")
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*arguments):
    result = CliRunner(**SEPARATE).invoke(cli.commands(), arguments, prog_name="kq")
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write a table of two views with numbers, events and times to predict."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["rna.0,rna.1,clinic.age,clinic.stage,rate,count,died,months"]
    for k in range(80):
        x = rng.normal(size=4)
        rate = x[0] + x[2] + 0.1 * rng.normal()
        months = rng.exponential(np.exp(-rate))
        cells = [f"{value:.3f}" for value in x]
        if rng.random() < 0.3:
            cells[2:] = ["", ""]
        told = [f"{rate:.3f}", str(k % 23), str(int(rng.random() < 0.7)), f"{months:.4f}"]
        lines.append(",".join([*cells, *told]))
    Path("data.csv").write_text("\n".join(lines))
    return "data.csv"


VIEWS = ("--view", "rna=rna.*", "--view", "clinic=clinic.*")


def test_the_task_follows_the_labels(table):
    assert read_data(table, label="rate").task == "regression"
    assert read_data(table, label="died").task == "classification"
    data = read_data(table, label="died", time="months")
    assert data.task == "survival"
    assert data.y.dtype.names == ("event", "time")
    assert read_data(table, label="count", task="regression").y.dtype == np.float64


def test_times_are_no_feature(tmp_path):
    path = tmp_path / "plain.csv"
    lines = [f"{k},{k % 3},{k % 2},{k + 1}" for k in range(12)]
    path.write_text("\n".join(["a,b,died,months", *lines]))
    data = read_data(path, label="died", time="months")
    assert data.views.shape == (12, 1)
    assert data.views["X"].shape == (12, 2)
    np.testing.assert_array_equal(data.y["time"], np.arange(1.0, 13.0))


def test_survival_of_a_folder_of_tables(tmp_path):
    (tmp_path / "rna.csv").write_text("id,g\n" + "\n".join(f"p{k},{k}" for k in range(10)))
    (tmp_path / "ends.csv").write_text(
        "id,died,months\n" + "\n".join(f"p{k},{k % 2},{k}" for k in range(10))
    )
    data = read_data(tmp_path, label="died", time="months")
    assert data.views.names == ("rna",)
    assert data.y["event"].sum() == 5


def test_samples_without_a_time_are_left_out(tmp_path):
    path = tmp_path / "plain.csv"
    lines = [f"{k},{k % 2},{k + 1 if k else ''}" for k in range(12)]
    path.write_text("\n".join(["a,died,months", *lines]))
    data = read_data(path, label="died", time="months")
    assert len(data.y) == 11
    assert data.notes[-1] == "1 of 12 samples left out: no label"


def test_describe(table):
    text = run("describe", table, "--label", "rate", *VIEWS)
    assert "Targets of the regression" in text
    assert "QuiltRegressor()" in text
    found = json.loads(run("describe", table, "--label", "died", "--time", "months", "--json"))
    assert found["task"] == "survival"
    assert found["classes"] is None
    assert found["targets"]["events"] > 40
    assert found["suggestions"][0]["method"] == "QuiltSurvival()"
    assert found["association"] is not None


@pytest.mark.parametrize(
    ("labels", "methods", "metric"),
    [
        (("--label", "rate"), "quilt (kernels),observed fraction,mean", "r2"),
        (("--label", "rate"), "SimpleMKL,mean", "mae"),
        (("--label", "died", "--time", "months"), "quilt (kernels),ridge,no model", None),
    ],
)
def test_compare(table, labels, methods, metric):
    options = () if metric is None else ("--metric", metric)
    found = json.loads(
        run(
            *("compare", table, *labels, *VIEWS, "--methods", methods, *options),
            *("--repetitions", "2", "--json"),
        )
    )
    (study,) = found["studies"]
    assert study["study"]["metric"] == (metric or "concordance")
    means = [entry["mean"] for entry in study["lines"][0]["entries"]]
    # the last one learns nothing
    others = np.array(means[:-1])
    assert (others < means[-1]).all() if metric == "mae" else (others > means[-1] + 10).all()
    assert all(entry["n"] == 2 for entry in study["lines"][0]["entries"])


def test_every_method_of_every_task_runs(table):
    for labels, task in (
        (("--label", "rate"), "regression"),
        (("--label", "died", "--time", "months"), "survival"),
    ):
        methods = ",".join(METHODS_OF[task])
        text = run(
            *("compare", table, *labels, *VIEWS, "--methods", methods, "--repetitions", "1"),
            *("--store", f"{task}.sqlite"),
        )
        assert "failed" not in text
        assert f"{len(METHODS_OF[task])} of {len(METHODS_OF[task])} cells finished" in text


def test_the_metric_is_what_parameters_are_tuned_by(table):
    text = run(
        *("compare", table, "--label", "died", *VIEWS, "--methods", "uniform,majority"),
        *("--metric", "auc", "--repetitions", "1"),
    )
    assert "area under the ROC curve in" in " ".join(text.split())


def test_methods_by_task(table):
    assert run("methods", "--task", "survival").count("\n") == len(METHODS_OF["survival"])
    assert "QuiltRegressor" in run("methods", "--task", "regression")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--label", "rate", "--task", "classification"), "say --task regression"),
        (("--label", "died", "--task", "survival"), "--label EVENT --time TIME"),
        (("--label", "died", "--time", "months", "--task", "regression"), "--time is for nothing"),
        (("--label", "count", "--time", "months"), "events are True or 1 where seen"),
        (("--label", "died", "--time", "rate"), "has negative times"),
        (("--label", "rate", "--metric", "auc"), "no metric of regression 'auc'"),
        (("--label", "rate", "--methods", "zero SVC"), "no method of regression 'zero SVC'"),
        (("--label", "count"), "if labels are numbers to be predicted, say --task regression"),
    ],
)
def test_what_does_not_go_together_is_told(table, arguments, message):
    assert message in fails("compare", table, *VIEWS, *arguments)


def test_bad_numbers(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("a,b\n" + "\n".join(f"{k},x{k}" for k in range(9)))
    with pytest.raises(DataFileError, match=r"9 of 9 labels of .* are no numbers"):
        read_data(path, label="b", task="regression")
    path.write_text("a,b\n" + "\n".join(f"{k},1.5" for k in range(9)))
    with pytest.raises(DataFileError, match=r"all labels of .* are 1"):
        read_data(path, label="b")
