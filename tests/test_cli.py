import builtins
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from kernelquilt import __version__, cli
from kernelquilt.experiments import demo
from kernelquilt.inspection import AbsenceCurveDisplay

PNG = b"\x89PNG\r\n\x1a\n"
SMALL = demo.Plan((0.0, 0.6), n_splits=2, n_train=60, n_test=50)


@pytest.fixture(scope="module")
def rows():
    return demo.run_demo(SMALL, 0, lambda: None)


def run(*arguments):
    return CliRunner().invoke(cli.commands(), arguments)


def without(monkeypatch, *modules):
    """Make modules look as if they were not installed."""
    real = builtins.__import__

    def find(name, *args, **kwargs):
        if name.split(".")[0] in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", find)


class TestExperiment:
    def test_rows(self, rows):
        assert [row.method for row in rows] == list(demo.METHODS) * 2
        assert [row.absent for row in rows[:7]] == [0.0] * 7
        assert 0.5 < rows[-1].absent < 0.6
        for row in rows[:-1]:
            assert [fit.n_train for fit in row.fits] == [60, 60]
            assert 0.5 < row.scores.mean() <= 1
            assert row.mean("mean_weights").sum() == pytest.approx(1)

    def test_methods_agree_on_complete_data(self, rows):
        found = {row.method: row for row in rows[:7]}
        fraction, uniform, drop = (found[m] for m in ("observed fraction", demo.ALL, demo.DROP))
        np.testing.assert_array_equal(fraction.scores, uniform.scores)
        np.testing.assert_array_equal(drop.scores, uniform.scores)

    def test_dropping_is_impossible_when_a_class_is_gone(self, rows):
        assert rows[-1].method == demo.DROP
        assert rows[-1].fits == ()
        assert np.isnan(rows[-1].scores).all()

    def test_deterministic_and_reports_every_fit(self, rows):
        calls = []
        again = demo.run_demo(SMALL, 0, lambda: calls.append(1))
        assert len(calls) == SMALL.n_fits
        for row, other in zip(rows, again, strict=True):
            np.testing.assert_array_equal(row.scores, other.scores)

    def test_conclusions(self, rows):
        first, *caveat, last = demo.conclusions(rows, SMALL.n_train)
        assert "most accurate" in first
        assert "no longer enough complete samples" in last
        assert len(caveat) == (f"{demo.QUILT!r} is the most accurate" in first)

    def test_a_lead_of_the_quilt_is_not_promised_elsewhere(self):
        def row(method, score):
            return demo.Row(method, 0.3, (demo.Fit(score, 20, 0.1, 0.0, np.ones(5) / 5, True),) * 2)

        for quilt in (0.9, 0.7):
            rows = [row(demo.QUILT, quilt), row(demo.LATE, 0.8), row(demo.DROP, 0.5)]
            rows += [row(demo.ALL, 0.6)]
            said = " ".join(demo.conclusions(rows, 80))
            assert ("absent by nature the quilt had no consistent gain" in said) == (quilt > 0.8)

    def test_conclusions_with_dropping(self):
        def row(method, absent, *scores):
            fits = tuple(demo.Fit(s, 20, 0.1, 1e-4, np.ones(5) / 5, True) for s in scores)
            return demo.Row(method, absent, fits)

        rows = [
            row(demo.DROP, 0.0, 0.9, 0.9),
            row("SimpleMKL", 0.3, 0.7, 0.9),
            row(demo.ALL, 0.3, 0.8, 0.84),
            row(demo.DROP, 0.3, 0.6, 0.64),
        ]
        assert list(demo.conclusions(rows, 80)) == [
            "With 30% of the views absent, 'uniform' is the most accurate: 2.0 points above "
            "'SimpleMKL', and ahead in 1 of 2 splits.",
            "Dropping incomplete samples leaves 20 of 80 for training at 30% and costs 20.0 "
            "points against 'uniform'.",
        ]


class TestCommand:
    def test_demo_in_a_pipe(self, tmp_path):
        path = tmp_path / "figure.png"
        done = subprocess.run(
            [sys.executable, "-m", "kernelquilt.cli", "demo", "--quick", "--output", path],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert path.read_bytes().startswith(PNG)
        assert str(path) in done.stdout
        assert not any(c < " " and c != "\n" for c in done.stdout)
        assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
        for method in demo.METHODS:
            assert done.stdout.count(f" {method} ") >= 3

    def test_demo_shows_unconverged_fits(self, tmp_path, monkeypatch):
        fit = demo.Fit(0.5, 60, 0.1, 0.2, np.ones(5) / 5, False)
        rows = [demo.Row(method, 0.3, (fit, fit)) for method in demo.METHODS]
        monkeypatch.setattr(cli, "run_demo", lambda *_: rows)
        monkeypatch.setattr(cli, "compile_solvers", lambda: None)
        result = run("demo", "--output", str(tmp_path / "[bold].png"))
        assert result.exit_code == 0, result.output
        assert "2e-01*" in result.output
        assert "14 of 14 fits stopped above the tolerance" in result.output
        assert "[bold].png" in result.output

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
        monkeypatch.setattr(cli, "_present", lambda *_: pytest.fail("computed"))
        result = run("demo", "--output", str(tmp_path / name))
        assert result.exit_code == 2
        assert reason in result.output
        assert len(result.output.splitlines()) == 1

    def test_output_check_leaves_no_file_and_keeps_an_old_one(self, tmp_path, monkeypatch):
        monkeypatch.setattr(cli, "_present", lambda *_: None)
        old = tmp_path / "old.png"
        old.write_bytes(b"old")
        assert run("demo", "--output", str(tmp_path / "new.png")).exit_code == 0
        assert run("demo", "--output", str(old)).exit_code == 0
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

    def test_main_names_the_extra(self, monkeypatch):
        without(monkeypatch, "click")
        with pytest.raises(SystemExit, match=r'needs click: pip install "kernelquilt\[demo\]"'):
            cli.main()

    def test_main(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["kq", "--version"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0
        assert __version__ in capsys.readouterr().out


class TestAbsenceCurveDisplay:
    scores = {"a": ([0.9, np.nan], [0.01, np.nan]), "b": ([0.9, 0.7], [0.01, 0.02])}  # noqa: RUF012

    def test_plot(self):
        from matplotlib.figure import Figure

        ax = Figure().subplots()
        display = AbsenceCurveDisplay([0, 0.5], self.scores, score_name="balanced accuracy")
        assert display.plot(ax) is display
        assert display.ax_ is ax
        assert display.figure_ is ax.figure
        np.testing.assert_allclose(display.lines_["b"].get_xydata(), [[0, 90], [50, 70]])
        assert display.lines_["a"].get_color() != display.lines_["b"].get_color()
        assert ax.get_ylabel() == "balanced accuracy (%)"
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]

    def test_without_matplotlib(self, monkeypatch):
        without(monkeypatch, "matplotlib")
        with pytest.raises(ModuleNotFoundError, match=r"kernelquilt\[plot\]"):
            AbsenceCurveDisplay([0, 0.5], self.scores).plot()
