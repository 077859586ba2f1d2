import builtins
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import kernelquilt.cli.demo as demo_command
from kernelquilt import __version__, cli
from kernelquilt.cli._group import COMMANDS
from kernelquilt.cli._running import Results
from kernelquilt.datasets import load_example
from kernelquilt.experiments import demo
from kernelquilt.experiments.methods import METHODS, Method
from kernelquilt.experiments.reporting.summary import summarise
from kernelquilt.experiments.running.runner import run_study
from kernelquilt.experiments.running.store import Row, Store
from kernelquilt.experiments.study import sources
from kernelquilt.experiments.study.protocol import PROTOCOLS

PNG = b"\x89PNG\r\n\x1a\n"
SMALL = replace(
    demo.demo_study(),
    settings=[0.0, 0.6],
    repetitions=2,
    problem={**demo.demo_study().problem, "train": 6, "most": 110},
)
DIGITS = sources.UserSource(*load_example("digits"))


def summary_in(path, study, **options):
    run_study(study, path, DIGITS, **options)
    with Store(path) as store:
        return summarise(study, store.rows())


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    return summary_in(tmp_path_factory.mktemp("demo") / "s.sqlite", SMALL)


@pytest.fixture(scope="module")
def absent():
    return demo.absences(SMALL, DIGITS(SMALL.datasets[0]), 0)


def summary_of(settings, scores, **figures):
    """Return the summary of accuracies (n_settings, n_repetitions) by method, NaN for none."""
    repetitions = len(next(iter(scores.values()))[0])
    study = replace(SMALL, settings=settings, repetitions=repetitions, methods=list(scores))
    rows = []
    for cell in study.cells():
        score = scores[cell.method][settings.index(cell.setting)][cell.repetition]
        names = (study.protocol, study.name, cell.dataset.name, str(cell.setting))
        done = {"figures": {"accuracy": score, **figures}}
        ended = done if score == score else {"status": "impossible"}
        rows.append(Row(cell.key, *names, cell.repetition, cell.method, **ended))
    return summarise(study, rows)


# before click 8.2 the two streams were one unless asked for
SEPARATE = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


def run(*arguments):
    return CliRunner(**SEPARATE).invoke(cli.commands(), arguments, prog_name="kq")


def without(monkeypatch, *modules):
    """Make modules look as if they were not installed."""
    real = builtins.__import__

    def find(name, *args, **kwargs):
        if name.split(".")[0] in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", find)


class TestExperiment:
    def test_scores_and_absences(self, summary, absent):
        assert [line.setting for line in summary.lines] == ["0.0", "0.6"]
        assert absent[0] == demo.Absence(0.0, 60, 60)
        assert 0.5 < absent[1].share < 0.6
        assert absent[1].n_complete < 10
        assert summary.n_failed == 0
        scores = dict(zip(summary.methods, summary.scores, strict=True))
        assert list(scores) == SMALL.methods
        for method, values in scores.items():
            assert (values[0] > 50).all()
            assert (values[0] <= 100).all()
            assert method == demo.DROPPED or (values[1].mean() > 50)

    def test_methods_agree_on_complete_data(self, summary):
        found = dict(zip(summary.methods, summary.scores[:, 0], strict=True))
        np.testing.assert_array_equal(found[demo.DROPPED], found[demo.FILLED])
        np.testing.assert_array_equal(found["C-AMKL"], found["SimpleMKL"])

    def test_dropping_is_impossible_when_a_class_is_gone(self, summary):
        dropped = summary.methods.index(demo.DROPPED)
        assert summary.lines[1].entries[dropped].impossible == 2
        assert np.isnan(summary.scores[dropped, 1]).all()

    def test_deterministic_and_reports_every_fit(self, summary, tmp_path):
        calls, few = [], replace(SMALL, methods=[demo.QUILT, demo.FILLED])
        again = summary_in(tmp_path / "again.sqlite", few, on_cells=calls.append)
        assert sum(calls) == len(list(few.cells()))
        rows = [summary.methods.index(method) for method in few.methods]
        np.testing.assert_array_equal(again.scores, summary.scores[rows])

    def test_conclusions(self, summary, absent):
        first, *caveat, last = demo.conclusions(summary, absent)
        assert "most accurate" in first
        assert "no longer enough complete samples" in last
        assert len(caveat) == (f"{demo.QUILT!r} is the most accurate" in first)

    def test_a_lead_of_the_quilt_is_not_promised_elsewhere(self):
        for quilt in (0.9, 0.7):
            scores = {demo.QUILT: quilt, "late fusion": 0.8, demo.DROPPED: 0.5, demo.FILLED: 0.6}
            found = summary_of([0.3], {name: [[score] * 2] for name, score in scores.items()})
            said = " ".join(demo.conclusions(found, [demo.Absence(0.3, 80, 20)]))
            assert ("absent by nature it was 2.3 points above" in said) == (quilt > 0.8)

    def test_conclusions_with_dropping(self):
        scores = {
            "SimpleMKL": [[0.9, 0.9], [0.7, 0.9]],
            demo.FILLED: [[0.9, 0.9], [0.8, 0.84]],
            demo.DROPPED: [[0.9, 0.9], [0.6, 0.64]],
        }
        absent = [demo.Absence(0.0, 80, 80), demo.Absence(0.3, 80, 20)]
        assert list(demo.conclusions(summary_of([0.0, 0.3], scores), absent)) == [
            "With 30% of the views absent, 'zero SVC' is the most accurate: 2.0 points above "
            "'SimpleMKL', and ahead in 1 of 2 splits.",
            "Dropping incomplete samples leaves 20 of 80 for training at 30% and costs 20.0 "
            "points against 'zero SVC'.",
        ]

    def test_times_and_unconverged_fits(self):
        scores = {"SimpleMKL": [[0.9, 0.9]], demo.DROPPED: [[np.nan] * 2]}
        found = summary_of([0.3], scores, converged=0.0, train_seconds=1.5)
        assert list(demo.costs(found)) == [
            "Seconds for a fit: SimpleMKL 1.50.",
            "2 of 2 fits stopped above the tolerance.",
        ]


class TestCommand:
    def test_demo_in_a_pipe(self, tmp_path):
        path = tmp_path / "figure.png"
        done = subprocess.run(
            [sys.executable, "-m", "kernelquilt.cli", "demo", "--quick", "--output", path],
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        # on a slow machine there is progress to be told
        assert all(" cells, about " in line for line in done.stderr.splitlines())
        assert path.read_bytes().startswith(PNG)
        assert str(path) in done.stdout
        assert not any(c < " " and c != "\n" for c in done.stdout)
        assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
        for method in demo.demo_study().methods:
            assert f" {method} " in " ".join(done.stdout.split())

    def test_demo_shows_unconverged_fits(self, tmp_path, monkeypatch):
        study = demo.demo_study()
        scores = {method: [[0.5] * study.repetitions] * 5 for method in study.methods}
        found = summary_of(study.settings, scores, converged=0.0, train_seconds=0.1)
        monkeypatch.setattr(demo_command, "run", lambda *_: Results([found], [], 0))
        result = run("demo", "--output", str(tmp_path / "[bold].png"))
        assert result.exit_code == 0, result.output
        assert "120 of 120 fits stopped above the tolerance" in result.output
        assert "[bold].png" in result.output

    def test_demo_with_failed_fits(self, tmp_path, monkeypatch):
        def fail(split, tuning):
            raise ValueError("no luck")

        monkeypatch.setitem(METHODS, "kNN SVC", Method("fails", fail))
        few = replace(SMALL, methods=[demo.DROPPED, demo.FILLED, "kNN SVC"], repetitions=1)
        monkeypatch.setattr(demo_command, "demo_study", lambda quick: few)
        result = run("demo", "--output", str(tmp_path / "demo.png"))
        assert result.exit_code == 1
        assert "ValueError: no luck" in result.stdout

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("none/demo.png", "No such file or directory"),
            ("demo.pdf", "must end in .png"),
            ("folder.png", "Is a directory"),
        ],
    )
    def test_output_is_checked_before_computing(self, tmp_path, monkeypatch, name, reason):
        (tmp_path / "folder.png").mkdir()
        monkeypatch.setattr(demo_command, "run", lambda *_: pytest.fail("computed"))
        result = run("demo", "--output", str(tmp_path / name))
        assert result.exit_code == 2
        assert reason in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_output_check_leaves_no_file_and_keeps_an_old_one(self, tmp_path, monkeypatch):
        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(demo_command, "run", interrupted)
        old = tmp_path / "old.png"
        old.write_bytes(b"old")
        assert run("demo", "--output", str(tmp_path / "new.png")).exit_code == 130
        assert run("demo", "--output", str(old)).exit_code == 130
        assert [path.name for path in tmp_path.iterdir()] == ["old.png"]
        assert old.read_bytes() == b"old"

    @pytest.mark.parametrize("arguments", [["--nonsense"], ["--seed", "x"], ["--seed", "-1"]])
    def test_bad_option(self, arguments):
        assert run("demo", *arguments).exit_code == 2

    def test_version_and_help(self):
        assert __version__ in run("--version").output
        assert "demo" in run("--help").output
        assert "--quick" in run("demo", "--help").output

    @pytest.mark.parametrize("module", ["rich", "matplotlib"])
    def test_demo_names_the_extra(self, tmp_path, monkeypatch, module):
        kq = cli.commands()
        without(monkeypatch, module)
        result = CliRunner().invoke(kq, ["demo", "--output", str(tmp_path / "demo.png")])
        assert result.exit_code == 1
        assert f'needs {module}: pip install "kernelquilt[demo]"' in result.output

    def test_main_names_the_extra(self):
        code = "import sys; sys.modules['click'] = None; from kernelquilt.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
        assert done.returncode == 1
        assert done.stderr.strip() == 'kq needs click: pip install "kernelquilt[demo]"'

    def test_main(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["kq", "--version"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0
        assert __version__ in capsys.readouterr().out


def fails(*arguments, code=2):
    """Run a command that must end with one line on stderr and nothing else."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write a table of two views, the second absent for some; commands run beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELQUILT_DATA", raising=False)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    lines = ["rna.0,rna.1,clinic.age,kind"]
    for label in y:
        values = [f"{value:.3f}" for value in rng.normal(size=3) + 2 * label]
        if rng.random() < 0.3:
            values[2] = ""
        lines.append(",".join([*values, "ill" if label else "well"]))
    Path("data.csv").write_text("\n".join(lines))
    return "data.csv"


FAST = ("--methods", "late fusion,complete only,majority", "--repetitions", "2")


class TestDescribe:
    def test_text_and_figure(self, table):
        result = run("describe", table, "--label", "kind", "--figure", "patterns.png")
        assert result.exit_code == 0, result.output
        assert "data: 60 samples" in result.stdout
        assert "clinic" in result.stdout
        assert "ill 30, well 30" in result.stdout
        assert "QuiltClassifier()" in result.stdout
        assert Path("patterns.png").read_bytes().startswith(PNG)

    def test_json(self, table):
        result = run("describe", table, "--label", "kind", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert [view["name"] for view in found["views"]] == ["rna", "clinic"]
        assert found["classes"] == {"ill": 30, "well": 30}

    def test_folder_of_tables(self, table):
        Path("study").mkdir()
        rows = [line.split(",") for line in Path(table).read_text().splitlines()]
        for name, columns in {"rna": [0, 1, 3], "clinic": [2]}.items():
            kept = [
                [str(number), *(row[j] for j in columns)]
                for number, row in enumerate(rows)
                if row[columns[0]]
            ]
            Path(f"study/{name}.csv").write_text("\n".join(map(",".join, kept)))
        result = run("describe", "study", "--label", "kind", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert (found["name"], found["n_samples"]) == ("study", 60)
        one = json.loads(run("describe", table, "--label", "kind", "--json").stdout)
        assert found["n_complete"] == one["n_complete"] < 60

    def test_views_and_no_labels(self, table):
        result = run("describe", table, "--view", "all=rna.*,clinic.age", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert [(view["name"], view["n_features"]) for view in found["views"]] == [("all", 3)]
        assert found["classes"] is None
        assert "No labels" in run("describe", table, "--view", "all=rna.*").stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["none.csv"], "there is no file 'none.csv'"),
            (["data.csv", "--label", "kid"], "did you mean 'kind'?"),
            (["data.csv", "--view", "all=kind"], "not numeric: 'kind'"),
            (["data.csv", "--view", "rna"], "is not NAME=PATTERN"),
            (["data.csv", "--view", "rna=,"], "no names in ','"),
            (["data.csv", "--view", "x=y*"], "view 'x': no column fits 'y*'"),
            (["data.csv", "--label", "kind", "--figure", "a.pdf"], "must end in .png"),
            (["data.csv", "--nonsense"], "See kq describe --help."),
            ([], "Missing argument 'DATA'"),
        ],
    )
    def test_bad_input(self, table, arguments, message):
        assert message in fails("describe", *arguments)


class TestCompare:
    def test_table_then_nothing_left_to_do(self, table):
        first = run("compare", table, "--label", "kind", *FAST)
        assert first.exit_code == 0, first.output
        assert first.stderr == ""
        assert "data: 60 samples, 2 views" in first.stdout
        assert "late fusion" in first.stdout
        assert "6 of 6 cells finished" in first.stdout
        with Store("kq-compare.sqlite") as store:
            before = store.rows()
        assert len(before) == 6
        assert run("compare", table, "--label", "kind", *FAST).stdout == first.stdout
        with Store("kq-compare.sqlite") as store:
            assert store.rows() == before

    def test_json_of_ratios_with_a_report(self, table):
        result = run(
            *["compare", table, "--label", "kind", *FAST, "--json"],
            *["--ratio", "0.2", "--ratio", "0.4", "--store", "s.sqlite", "--output", "report"],
        )
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert (found["store"], found["skipped"]) == ("s.sqlite", [])
        (study,) = found["studies"]
        assert [line["setting"] for line in study["lines"]] == ["0.2", "0.4"]
        assert study["n_finished"] == 12
        assert Path("report", "report.html").is_file()

    def test_samples_without_any_view(self, table):
        lines = Path(table).read_text().splitlines()
        Path(table).write_text("\n".join([*lines, ",,,ill", ",,,well", ",0.5,,ill"]))
        result = run("compare", table, "--label", "kind", *FAST)
        assert result.exit_code == 0, result.output

    def test_another_file_of_the_same_name(self, table):
        arguments = ("compare", table, "--label", "kind", "--methods", "majority")
        assert run(*arguments).exit_code == 0
        lines = Path(table).read_text().splitlines()
        Path(table).write_text("\n".join(lines[:-2]))
        assert run(*arguments).exit_code == 0
        with Store("kq-compare.sqlite") as store:
            assert len(store.definitions()) == 2
            assert len(store.rows()) == 20

    def test_data_as_they_are_and_with_more_absent_do_not_mix(self, table):
        arguments = ("compare", table, "--label", "kind", *FAST)
        for ratios in ([], ["--ratio", "0.5", "--ratio", "0.5"], ["--ratio", "0.2"]):
            assert run(*arguments, *ratios).exit_code == 0
        run(*arguments, "--ratio", "0.5", "--mechanism", "block")
        with Store("kq-compare.sqlite") as store:
            settings = [entry["settings"] for entry in store.definitions().values()]
        assert sorted(map(str, settings)) == ["['as is']", "[0.2, 0.5]", "[0.5]"]

    def test_the_name_of_the_file_changes_nothing(self, table):
        Path("copy.csv").write_bytes(Path(table).read_bytes())
        arguments = ("--label", "kind", "--methods", "zero SVC", "--repetitions", "2", "--json")
        found = [
            json.loads(run("compare", name, *arguments).stdout) for name in (table, "copy.csv")
        ]
        scores = [entry["studies"][0]["scores"] for entry in found]
        assert scores[0] == scores[1]

    def test_methods_with_a_comma_and_diagnostics(self, table):
        result = run(
            "compare", table, "--label", "kind", "--repetitions", "1", "--json",
            "--methods", "(r,p)-MKL,lp-MKL on test,majority",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        (study,) = json.loads(result.stdout)["studies"]
        assert study["methods"] == ["(r,p)-MKL", "lp-MKL on test", "majority"]
        assert study["study"]["diagnostics"] == ["lp-MKL on test"]

    def test_a_report_that_cannot_be_written(self, table):
        Path("out", "report.html").mkdir(parents=True)
        assert "cannot write to 'out'" in fails(
            "compare", table, "--label", "kind", *FAST, "--output", "out"
        )

    def test_failed_cells(self, table, monkeypatch):
        def fail(problem, tuning):
            raise ValueError("no luck")

        monkeypatch.setitem(METHODS, "broken", Method("fails", fail))
        result = run("compare", table, "--label", "kind", "--methods", "broken,majority")
        assert result.exit_code == 1
        assert "10 failed" in result.stdout
        assert "ValueError: no luck" in result.stdout

    def test_only_methods_on_kernels_need_their_memory(self, table, monkeypatch):
        monkeypatch.setenv("KERNELQUILT_MAX_MEMORY", "1e-6")
        result = run(
            "compare", table, "--label", "kind", "--repetitions", "1", "--json",
            "--methods", "majority,HGB,zero SVC",
        )  # fmt: skip
        assert result.exit_code == 1
        (study,) = json.loads(result.stdout)["studies"]
        assert [score[0][0] is None for score in study["scores"]] == [False, False, True]
        assert "samples need about" in study["problems"][0]["message"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "data has no labels; name their column with --label"),
            (["--label", "kind", "--methods", "quit"], "did you mean 'quilt'?"),
            (["--label", "kind", "--methods", ","], "no names in ','"),
            (["--label", "kind", "--ratio", "1"], "--ratio"),
            (["--label", "kind", "--ratio", "nan"], "--ratio must be a number"),
            (["--label", "kind", "--metric", "beauty"], "--metric"),
            (["--label", "kind", "--store", "data.csv"], "store 'data.csv'"),
            (["--label", "kind", "--store", "none/s.sqlite"], "there is no directory 'none'"),
            (["--label", "kind", "--output", "data.csv"], "data.csv"),
        ],
    )
    def test_bad_input(self, table, arguments, message):
        if not arguments:
            arguments = ["--view", "rna=rna.*"]
        assert message in fails("compare", table, *arguments)
        assert not Path("kq-compare.sqlite").exists()

    def test_interrupted(self, table):
        command = [sys.executable, "-m", "kernelquilt.cli", "compare", table, "--label", "kind"]
        command += ["--methods", "late fusion", "--repetitions", "2000"]
        process = subprocess.Popen(command, stdout=-1, stderr=-1, encoding="utf-8")
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.1)
            if Path("kq-compare.sqlite").exists():
                with Store("kq-compare.sqlite") as store:
                    if store.rows():
                        break
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
        assert process.returncode == 130
        assert stdout == ""
        assert stderr.strip() == "interrupted; run the same command again to go on"

    def test_methods(self):
        assert run("methods").stdout.count("\n") == len(METHODS)
        found = json.loads(run("methods", "--json").stdout)
        assert found["quilt"] == METHODS["quilt"].summary


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Make a data directory with one of the data sets of a protocol, stood in for by blobs."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    Path("data").mkdir()
    np.savez("data/heart.npz", X=rng.normal(size=(60, 4)) + y[:, None], y=y)
    monkeypatch.setenv("KERNELQUILT_DATA", "data")
    return "data"


REPRODUCE = ("reproduce", "absent-mkl", "--table", "1", "--methods", "zero SVC,complete only")


class TestReproduce:
    def test_table_beside_the_papers(self, directory):
        result = run(*REPRODUCE, "--repetitions", "1", "--output", "report")
        assert result.exit_code == 0, result.output
        assert "heart" in result.stdout
        assert "sonar: skipped, the data directory has no sonar.npz" in result.stdout
        assert "6 of 6 cells finished, 3 impossible" in result.stdout
        assert "Store: kq-absent-mkl.sqlite" in result.stdout
        assert Path("report", "report.html").is_file()

    def test_json(self, directory):
        result = run(*REPRODUCE, "--repetitions", "1", "--datasets", "heart", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["skipped"] == []
        assert [study["study"]["name"] for study in found["studies"]] == ["uci"]

    def test_a_study_by_its_name(self, directory):
        arguments = ("--study", "block", "--datasets", "heart", "--methods", "majority", "--full")
        result = run("reproduce", "quilt", *arguments, "--repetitions", "1", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert [study["study"]["name"] for study in found["studies"]] == ["block"]

    def test_a_file_is_read_once(self, directory, monkeypatch):
        read, real = [], sources._read
        monkeypatch.setattr(sources, "_read", lambda path: read.append(path.name) or real(path))
        arguments = ("--methods", "zero SVC", "--repetitions", "2", "--datasets", "heart,sonar")
        result = run("reproduce", "absent-mkl", *arguments, "--json")
        assert result.exit_code == 0, result.output
        assert read == ["heart.npz"]

    def test_list(self, directory, monkeypatch):
        monkeypatch.delenv("KERNELQUILT_DATA")
        result = run("reproduce", "absent-mkl", "--list")
        assert result.exit_code == 0, result.output
        assert "Table 1" in result.stdout
        found = json.loads(run("reproduce", "--list", "--json").stdout)
        assert {entry["protocol"] for entry in found} == set(PROTOCOLS)
        assert all(entry["cells_quick"] <= entry["cells_full"] > 0 for entry in found)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "name a protocol"),
            (["nonsense"], "there is no protocol 'nonsense'"),
            (["absent-mkl", "--table", "77"], "has no study of Table 77; it has Table 1"),
            (["quilt", "--study", "natual"], "no study 'natual'; did you mean 'natural'"),
            (["absent-mkl", "--methods", "C-AMK"], "did you mean 'C-AMKL'"),
            (["absent-mkl", "--datasets", "hart"], "no data set 'hart'; did you mean 'heart'"),
            (["kernel-completion", "--datasets", "none"], "there is no data set 'none'"),
            (["absent-mkl", "--datasets", "heart", "--methods", "MMAF"], "no study has such cells"),
            (["absent-mkl", "--data-dir", "none"], "there is no data directory 'none'"),
            (["absent-mkl", "--data-dir", "."], "none of the data sets is there"),
            (["absent-mkl", "--repetitions", "0"], "--repetitions"),
            (["absent-mkl", "--study", "reading"], "no study 'reading'; did you mean 'readings'"),
            (["absent-mkl", "--reading", "none"], "no reading 'none'; there are squared"),
        ],
    )
    def test_bad_input(self, directory, arguments, message):
        assert message in fails("reproduce", *arguments)

    def test_one_study_in_another_reading(self, directory):
        options = ("--methods", "zero SVC", "--datasets", "heart", "--repetitions", "1", "--json")
        for reading, fill in (("linear", "after_centring"), ("squared", "before_centring")):
            result = run(
                "reproduce", "absent-mkl", "--study", "uci", "--reading", reading, *options
            )
            assert result.exit_code == 0, result.output
            (found,) = json.loads(result.stdout)["studies"]
            assert found["study"]["name"] == "uci"
            assert found["study"]["problem"]["fill"] == fill
            assert found["n_finished"] == 3
            assert found["n_left_out"] == (0 if reading == "linear" else 3)

    def test_no_data_directory(self, directory, monkeypatch):
        monkeypatch.delenv("KERNELQUILT_DATA")
        assert "--data-dir or KERNELQUILT_DATA" in fails("reproduce", "absent-mkl")


class TestReport:
    def test_files_and_json(self, table):
        run("compare", table, "--label", "kind", *FAST)
        result = run("report", "kq-compare.sqlite", "--output", "out")
        assert result.exit_code == 0, result.output
        assert Path("out", "report.html").is_file()
        assert str(Path("out", "report.html")) in result.stdout
        assert run("report", "out/cells.sqlite.gz", "--output", "again").exit_code == 0
        tables = [path.name for path in Path("out").iterdir() if path.suffix in {".csv", ".md"}]
        assert len(tables) == 2
        assert all(Path("out", t).read_text() == Path("again", t).read_text() for t in tables)
        found = json.loads(run("report", "kq-compare.sqlite", "--json").stdout)
        assert len(found["studies"]) == 1
        found = json.loads(run("report", "kq-compare.sqlite", "--metric", "auc", "--json").stdout)
        assert found["studies"][0]["study"]["metric"] == "auc"
        assert "no figure 'beauty'" in fails("report", "kq-compare.sqlite", "--metric", "beauty")

    def test_bad_input(self, table):
        assert "there is no store 'none.sqlite'" in fails("report", "none.sqlite")
        assert "not a database" in fails("report", table)
        Store("empty.sqlite").close()
        assert "has no study" in fails("report", "empty.sqlite")


class TestGroup:
    @pytest.mark.parametrize(
        "command", ["demo", "describe", "compare", "reproduce", "report", "methods"]
    )
    def test_help_has_examples(self, command):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"  kq {command}" in result.stdout.partition("Examples:")[2]

    def test_help_of_the_group_is_that_of_the_commands(self):
        for name, summary in COMMANDS.items():
            command = cli.commands().get_command(None, name)
            assert " ".join(command.help.split()).startswith(summary)

    def test_help_imports_neither_the_commands_nor_numpy(self):
        command = [sys.executable, "-X", "importtime", "-m", "kernelquilt.cli", "--help"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "numpy" not in imported
        ours = {name for name in imported if name.startswith("kernelquilt.cli.")}
        assert ours == {"kernelquilt.cli._common", "kernelquilt.cli._group"}

    def test_unknown_command(self):
        assert "No such command 'nonsense'" in fails("nonsense")

    def test_bad_file_in_a_process(self, tmp_path):
        (tmp_path / "data.npz").write_bytes(b"no archive")
        done = subprocess.run(
            [sys.executable, "-m", "kernelquilt.cli", "compare", tmp_path / "data.npz"],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("Error: cannot read 'data.npz'")
