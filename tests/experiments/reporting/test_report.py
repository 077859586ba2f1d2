"""Summaries, tables, figures and the page of a store with made-up rows."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from kernelquilt.experiments.plain import plain
from kernelquilt.experiments.reporting.drawing import set_log_x
from kernelquilt.experiments.reporting.figures import study_figures, to_png, to_svg
from kernelquilt.experiments.reporting.page import write_report
from kernelquilt.experiments.reporting.statistics import mean_interval
from kernelquilt.experiments.reporting.summary import summaries_of, summarise
from kernelquilt.experiments.reporting.table import decimals_of, remarks, stand_ins, status
from kernelquilt.experiments.reporting.writers import to_csv, to_latex, to_markdown
from kernelquilt.experiments.running.store import Row, Store
from kernelquilt.experiments.study.protocol import DataSet, ProtocolError, Study

SCRIPT = "<script>alert(1)</script>"


def make_study(**changes):
    entries = {
        "protocol": "paper",
        "name": "first",
        "title": "A study",
        "datasets": ["heart", "sonar", "wdbc"],
        "methods": ["good", "close", "poor"],
        "axis": "ratio",
        "settings": [0.1, 0.5],
        "repetitions": 6,
    }
    return Study.from_dict({**entries, **changes})


def make_rows(study, skip=lambda cell: False, seed=0, **changes):
    """Return a row for each cell; "good" beats "close" by noise only and "poor" by far."""
    rows = []
    for number, cell in enumerate(study.cells(seed)):
        noise = np.random.default_rng([seed, number]).normal(scale=0.01)
        level = 0.9 - 0.2 * (cell.method == "poor") - 0.001 * (cell.method == "close")
        figures = {
            study.metric: level + noise + 0.02 * np.sin(cell.repetition),
            "train_seconds": 1.0 + cell.repetition,
        }
        row = Row(
            cell.key,
            study.protocol,
            study.name,
            cell.dataset.name,
            str(cell.setting),
            cell.repetition,
            cell.method,
            figures=figures,
            seed=seed,
            versions={"numpy": "2.0"},
        )
        if not skip(cell):
            rows.append(replace(row, **changes))
    return rows


def entry(summary, method, label):
    line = next(line for line in summary.lines if line.label == label)
    return line.entries[summary.methods.index(method)]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "cells.db") as opened:
        yield opened


def put(store, study, rows):
    store.define(study.protocol, study.name, study.to_dict())
    for row in rows:
        store.add(row)


def test_pooled_figures_are_means_over_the_settings_of_each_repetition():
    study = make_study(extra=["train_seconds"])
    rows = make_rows(study)
    summary = summarise(study, rows)
    figures = {
        (row.method, row.dataset, row.setting, row.repetition): row.figures["accuracy"]
        for row in rows
    }
    scores = [
        50 * (figures["good", "sonar", "0.1", r] + figures["good", "sonar", "0.5", r])
        for r in range(6)
    ]
    found = entry(summary, "good", "sonar")
    np.testing.assert_allclose(summary.scores[0, 1], scores)
    assert found.mean == pytest.approx(np.mean(scores))
    assert found.std == pytest.approx(np.std(scores, ddof=1))
    assert found.n == 6
    assert found.extra["train_seconds"] == pytest.approx(3.5)
    assert (summary.n_cells, summary.n_finished) == (108, 108)


def test_settings_that_are_pooled_have_a_table_of_their_own():
    study = make_study(paper={"good": {"sonar": 90.0}})
    summary = summarise(study, make_rows(study))
    apart = summarise(replace(study, pooled=False, paper={}), make_rows(study))
    assert repr(summary.by_setting) == repr(apart.lines) == repr(apart.by_setting)
    found = list(csv.DictReader(io.StringIO(to_csv(summary, by_setting=True))))
    assert [(row["dataset"], row["setting"]) for row in found[::3]] == [
        (name, setting) for name in ("heart", "sonar", "wdbc") for setting in ("0.1", "0.5")
    ]
    assert {row["paper"] for row in found} == {""}  # that of all settings is not of one
    pooled = entry(summary, "good", "sonar")
    each = [
        float(r["ours_mean"]) for r in found if (r["dataset"], r["method"]) == ("sonar", "good")
    ]
    assert pooled.mean == pytest.approx(np.mean(each))


def test_marks_follow_the_paired_t_test_against_the_best():
    summary = summarise(study := make_study(), make_rows(study))
    line = summary.lines[0]
    best = int(np.argmax([e.mean for e in line.entries]))
    assert line.entries[best].best
    raw = np.array(
        [stats.ttest_rel(summary.scores[m, 0], summary.scores[best, 0]).pvalue for m in range(3)]
    )
    other = 1 - best
    assert line.entries[2].t_p_value == pytest.approx(2 * raw[2])
    assert not line.entries[2].level
    assert line.entries[other].t_p_value == pytest.approx(max(raw[other], 2 * raw[2]))
    assert line.entries[other].level
    assert np.isnan(line.entries[best].t_p_value)


def test_lower_may_be_better():
    study = make_study(metric="error", higher_is_better=False)
    summary = summarise(study, make_rows(study))
    assert summary.reference == "poor"
    assert summary.standings[2].rank == 1
    assert [e.best for e in summary.lines[0].entries] == [False, False, True]
    assert summary.standings[0].losses == 3


def test_missing_cells_shrink_the_comparison_and_are_told():
    study = make_study()
    rows = make_rows(
        study,
        lambda c: (c.dataset.name, c.method, c.repetition, c.setting) == ("heart", "close", 4, 0.5),
    )
    summary = summarise(study, rows)
    assert [e.n for e in summary.lines[0].entries] == [5, 5, 5]
    kept = np.delete(summary.scores[0, 0], 4)
    assert entry(summary, "good", "heart").mean == pytest.approx(kept.mean())
    assert status(summary) == "107 of 108 cells finished."
    assert any("heart (5)" in text for text in remarks(summary))


def test_a_method_with_few_repetitions_does_not_shrink_the_others():
    study = make_study()
    rows = make_rows(study, lambda c: c.method == "poor" and c.repetition > 0)
    summary = summarise(study, rows)
    assert [e.n for e in summary.lines[0].entries] == [6, 6, 1]
    assert not entry(summary, "poor", "heart").compared
    assert np.isnan(summary.standings[2].average)
    assert any("poor on heart (1)" in text for text in remarks(summary))
    assert "‡" in to_markdown(summary)


def test_impossible_and_failed_cells():
    study = make_study()
    rows = make_rows(study, lambda c: c.method == "poor")
    rows += make_rows(
        study,
        lambda c: c.method != "poor" or c.setting == 0.1,
        status="impossible",
        message="no complete samples",
        figures={},
    )
    rows[0] = replace(rows[0], figures={"accuracy": float("nan")})
    summary = summarise(study, rows)
    assert (summary.n_impossible, summary.n_failed) == (18, 1)
    assert entry(summary, "poor", "wdbc").impossible == 6
    assert "| impossible |" in to_markdown(summary)
    told = {problem.message: problem.n_cells for problem in summary.problems}
    assert told == {"no complete samples": 18, "has no finite figure 'accuracy'": 1}


def test_settings_that_are_not_pooled_have_lines_and_figures_of_the_paper():
    paper = {"good": {"heart": [91.0, 81.5, 71.0], "musk1": [60.0, 50.0, 40.0]}}
    study = make_study(pooled=False, paper=paper, paper_settings=[0.1, 0.5, 0.9])
    summary = summarise(study, make_rows(study))
    labels = [line.label for line in summary.lines]
    assert labels[:3] == ["heart, 0.1", "heart, 0.5", "heart, 0.9"]
    assert labels[-3:] == ["musk1, 0.1", "musk1, 0.5", "musk1, 0.9"]
    found = entry(summary, "good", "heart, 0.5")
    assert found.paper == 81.5
    assert found.difference == pytest.approx(found.mean - 81.5)
    only_printed = entry(summary, "good", "musk1, 0.9")
    assert only_printed.paper == 40
    assert np.isnan(only_printed.mean)
    assert np.isnan(entry(summary, "close", "heart, 0.1").paper)
    assert summary.averaged == ("heart", "sonar", "wdbc")


@pytest.mark.parametrize(
    ("axis", "setting", "words"),
    [("missing", 2, "2 absent"), ("kernels", "polynomial_3", "cubic"), ("site", "va", "va")],
)
def test_settings_of_lines_are_told_in_words(axis, setting, words):
    study = make_study(pooled=False, axis=axis, settings=[setting])
    summary = summarise(study, make_rows(study))
    assert summary.lines[0].label == f"{study.datasets[0].name}, {words}"
    assert f",{setting}," in to_csv(summary)
    assert words in to_markdown(summary)


def test_methods_and_sets_that_only_the_paper_has_are_shown():
    study = make_study(paper={"theirs": {"musk1": 77.25, "heart": 80.0}}, paper_std={})
    summary = summarise(study, make_rows(study))
    assert summary.methods == ("good", "close", "poor", "theirs")
    assert "- [77.25]" in to_markdown(summary)
    assert decimals_of(summary) == 2
    assert summary.ranked == ("good", "close", "poor")


def test_averages_of_the_paper_are_over_the_sets_that_ours_are_over():
    study = make_study(paper={"good": {"heart": 80.0, "sonar": 90.0, "wdbc": 10.0}})
    summary = summarise(study, make_rows(study, lambda c: c.dataset.name == "wdbc"))
    assert summary.averaged == ("heart", "sonar")
    assert summary.standings[0].paper_average == 85
    assert any("2 of 3 data sets" in text for text in remarks(summary))
    without_rows = summarise(study, [])
    assert without_rows.standings[0].paper_average == 60
    assert without_rows.reference == ""


def test_rows_of_other_definitions_are_left_out_and_counted():
    study = make_study()
    old = make_study(grid={"C": [1]}, methods=["good", "forgotten"], datasets=["heart", "gone"])
    summary = summarise(study, make_rows(study) + make_rows(old))
    assert summary.n_left_out == 48
    assert summary.methods == ("good", "close", "poor")
    assert any("48 rows" in text for text in remarks(summary))


def test_seeds_count_as_further_repetitions():
    study = make_study(repetitions=3)
    summary = summarise(study, make_rows(study) + make_rows(study, seed=7))
    assert summary.seeds == (0, 7)
    assert summary.lines[0].entries[0].n == 6
    assert summary.n_cells == 108


def test_remarks_tell_whether_the_winner_of_the_paper_wins():
    names = ("heart", "sonar", "wdbc")
    paper = {
        "poor": {"heart": 99.0, "sonar": 99.0, "wdbc": 1.0},
        "good": dict.fromkeys(names, 90.0),
    }
    study = make_study(paper=paper)
    text = " ".join(remarks(summarise(study, make_rows(study))))
    assert "in 1 of 3 lines" in text
    fewer = make_study(paper=paper, paper_settings=[0.1, 0.5, 0.9])
    assert "the paper's over 3" in " ".join(remarks(summarise(fewer, make_rows(fewer))))


def test_one_repetition_and_no_rows_warn_nothing(store, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # of matplotlib and pyparsing
        once = make_study(repetitions=1, name="once")
        put(store, once, make_rows(once))
        put(store, make_study(name="empty", datasets=[]), [])
        put(store, make_study(name="none"), [])
        report = write_report(summaries_of(store), tmp_path / "out")
    by_name = {summary.study.name: summary for summary in report.summaries}
    assert np.isnan(by_name["once"].lines[0].entries[2].t_p_value)
    assert "There are no tests within a line: 1 repetition" in report.page.read_text()
    assert "0 of 108 cells finished" in report.page.read_text()


def test_markdown_keeps_its_columns():
    study = make_study(methods=["a|b", "c_d*e"], datasets=["x|y", SCRIPT], notes=["a | b"])
    text = to_markdown(summarise(study, make_rows(study)))
    table = [line for line in text.splitlines() if line.startswith("|")]
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in table]
    assert columns == [4] * 6 + [8] * 3  # with averages and wins, then against the best
    assert r"c\_d\*e" in text
    assert "<script>" not in text


def test_markdown_tells_differences_over_the_sets_with_intervals():
    study = make_study()
    summary = summarise(study, make_rows(study))
    lines = to_markdown(summary).split(f"Against {summary.reference}, ")[1].splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    for method, standing in zip(summary.methods, summary.standings, strict=True):
        if method == summary.reference:
            continue
        own = next(row for row in rows if row[0] == f"| {method}")
        assert float(own[1]) == pytest.approx(standing.difference, abs=0.05)
        assert [float(end) for end in own[2].split(" to ")] == pytest.approx(
            [standing.low, standing.high], abs=0.05
        )


def test_latex_is_escaped():
    study = make_study(methods=["50% & more", "a_b#c"], title=r"{x} \y ~ ^ $", datasets=["[d]"])
    text = to_latex(summarise(study, make_rows(study)))
    assert r" & 50\% \& more & a\_b\#c \\" in text
    assert r"\{x\} \textbackslash{}y \textasciitilde{} \textasciicircum{} \$" in text
    assert "\n{[}d] & " in text
    body = text.split(r"\midrule")[1].strip()
    assert all(row.endswith(r"\\") for row in body.splitlines())
    assert re.search(r"\\textbf\{[\d.]+ \$\\pm\$ [\d.]+\}", text)


def test_names_in_csv_are_no_formulas():
    study = make_study(methods=["=1+2", "good"], datasets=["@sum(a1)", "-x", "plain"])
    lines = list(csv.DictReader(io.StringIO(to_csv(summarise(study, make_rows(study))))))
    assert {line["method"] for line in lines} == {"'=1+2", "good"}
    assert {line["dataset"] for line in lines} == {"'@sum(a1)", "'-x", "plain"}


def test_csv_has_one_line_per_set_and_method_in_full_precision():
    study = make_study(
        methods=['say "hi", you', "b"], paper={"b": {"heart": 80.5}}, extra=["train_seconds"]
    )
    summary = summarise(study, make_rows(study))
    lines = list(csv.DictReader(io.StringIO(to_csv(summary))))
    assert len(lines) == 6
    assert lines[0]["method"] == 'say "hi", you'
    assert float(lines[1]["ours_mean"]) == summary.lines[0].entries[1].mean
    assert float(lines[1]["paper"]) == 80.5
    assert lines[0]["paper"] == ""
    assert {line["best"] for line in lines} == {"0", "1"}
    assert float(lines[0]["train_seconds"]) == 3.5


def test_figures_are_those_that_there_are_data_for():
    study = make_study(paper={"good": {"heart": 80.0}})
    assert [f.name for f in study_figures(summarise(study, make_rows(study)))] == [
        "curves-1",
        "leads",
        "ranks",
        "paper",
    ]
    words = make_study(settings=["linear", "gaussian"], datasets=["a", "b"], pooled=False)
    (figure,) = study_figures(summarise(words, make_rows(words)))
    assert figure.name == "lines"
    (axes,) = figure.figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["a, linear", "a, gaussian", "b, linear", "b, gaussian"]
    alone = replace(words, methods=["good"])
    assert study_figures(summarise(alone, make_rows(alone))) == []


@pytest.mark.parametrize("n_sets", [2, 9])
def test_many_names_below_a_figure_leave_its_rows_apart(n_sets):
    sets = [f"a data set with a long name {k}" for k in range(n_sets)]
    study = make_study(
        datasets=sets, paper={m: dict.fromkeys(sets, 80.0) for m in ("good", "poor")}
    )
    figure = study_figures(summarise(study, make_rows(study)))[-1].figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    inches = axes.get_window_extent().height / figure.dpi
    assert inches / len(axes.get_yticks()) > 0.3


def test_leads_are_differences_of_means_over_data_sets():
    study = make_study(drawn=["poor"])
    summary = summarise(study, make_rows(study))
    figure = next(f for f in study_figures(summary) if f.name == "leads").figure
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["poor"]
    ours, theirs = (
        [line.entries[summary.methods.index(method)].mean for line in summary.lines]
        for method in (summary.reference, "poor")
    )
    drawn = axes.lines[1].get_xdata()
    np.testing.assert_allclose(drawn, np.subtract(ours, theirs))


def test_repetitions_are_drawn_for_one_line():
    study = make_study(datasets=["heart"], settings=[0.1])
    rows = make_rows(study, skip=lambda cell: cell.method == "close" and cell.repetition > 0)
    (figure,) = study_figures(summarise(study, rows))
    assert figure.name == "repetitions"
    (axes,) = figure.figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "poor"
    assert sorted(len(line.get_xdata()) for line in axes.lines) == [1, 1, 1, 1, 6, 6]


def swinging(study, low, high):
    """Return rows whose scores go from one value to another with each repetition."""
    return [
        replace(row, figures={study.metric: high if row.repetition % 2 else low})
        for row in make_rows(study)
    ]


def first_panel(study, rows):
    figure = study_figures(summarise(study, rows))[0].figure
    figure.draw_without_rendering()
    return figure.axes[0]


@pytest.mark.parametrize("repetitions", [1, 2, 4])
def test_few_repetitions_are_drawn_as_dots_within_the_bounds(repetitions):
    study = make_study(repetitions=repetitions)
    axes = first_panel(study, swinging(study, 0.1, 1.0))
    assert len(axes.lines) == 3  # no interval
    assert [len(dots.get_offsets()) for dots in axes.collections] == [2 * repetitions] * 3
    low, high = axes.get_ylim()
    assert 0 <= low < high <= 100


@pytest.mark.parametrize(
    ("metric", "scale", "low", "high"),
    [
        ("accuracy", 100.0, 0, 100),
        ("mcc", 100.0, -100, 100),
        ("squared_relative_error", 1.0, 0, np.inf),
        ("log_objective", 1.0, -np.inf, np.inf),
    ],
)
def test_intervals_stay_within_the_bounds_of_the_metric(metric, scale, low, high):
    study = make_study(metric=metric, scale=scale)
    axes = first_panel(study, swinging(study, 0.02, 0.98))
    half = 0.48 * stats.t.ppf(0.975, 5) / np.sqrt(5)
    if np.isfinite(high):  # by the delta method
        share, width = (scale * 0.5 - low) / (high - low), (high - low) / scale
        slope = half / (width * share * (1 - share))
        expected = low + (high - low) * expit(logit(share) + slope * np.array([-1, 1]))
    elif np.isfinite(low):
        expected = 0.5 * np.exp([-2 * half, 2 * half])
    else:
        expected = [0.5 - half, 0.5 + half]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), expected)
    assert low <= axes.get_ylim()[0] <= expected[0]
    assert expected[1] <= axes.get_ylim()[1] <= high


def test_a_panel_has_the_interval_of_median_width():
    study = make_study()
    summary = summarise(study, make_rows(study))
    axes = study_figures(summary)[0].figure.axes[0]
    widths = [e.high - e.low for s in summary.by_setting[:2] for e in s.entries]
    low, high = axes.lines[0].get_ydata()
    assert high - low == sorted(widths)[3]
    assert not any(len(dots.get_offsets()) for dots in axes.collections)


def test_repetitions_of_one_line_stay_within_the_bounds():
    study = make_study(datasets=["heart"], settings=[0.1])
    axes = first_panel(study, swinging(study, 0.0, 1.0))
    assert axes.get_xlim() == (0, 100)


@pytest.mark.parametrize(
    ("axis", "settings", "scale", "label", "n_texts"),
    [
        ("ratio", [0.9, 0.1, 0.5], "linear", "share of views absent (%)", 3),
        ("ratio", [0.05, 0.1, 0.9], "linear", "share of views absent (%)", 3),
        ("max_iter", [1, 2, 3, 4, 5, 6, 8, 10, 20, 50], "log", "iterations at most", 10),
        ("max_iter", [0, 1, 2, 3, 100, 101], "linear", "iterations at most", 2),
        ("lam", [0.0625, 0.5, 16], "log", "weight of the agreement (lambda)", 3),
        ("n_parts", [1, 2, 3], "linear", "n parts", 3),
    ],
)
def test_settings_have_words_and_ticks_that_do_not_collide(axis, settings, scale, label, n_texts):
    study = make_study(axis=axis, settings=settings, repetitions=1)
    axes = study_figures(summarise(study, make_rows(study)))[0].figure.axes[2]
    axes.figure.draw_without_rendering()
    assert (axes.get_xscale(), axes.get_xlabel()) == (scale, label)
    texts = [text for text in axes.get_xticklabels() if text.get_text()]
    assert len(texts) == n_texts
    boxes = [text.get_window_extent() for text in texts]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    if axis == "ratio":
        assert texts[-1].get_text() == "90"


def test_figures_take_any_name_and_are_well_formed():
    names = [SCRIPT, "_hidden", r"$\frac", "long " * 20]
    study = make_study(methods=names, datasets=["a", "b", "$c$"], axis="a$b")
    figures = study_figures(summarise(study, make_rows(study)))
    assert len(figures[0].figure.legends[0].get_texts()) == 4
    for drawn in figures:
        root = ElementTree.fromstring(to_svg(drawn.figure))
        assert root.tag.endswith("svg")
        assert not [element for element in root.iter() if "script" in str(element.tag)]
    assert to_png(figures[1].figure).startswith(b"\x89PNG")


def test_svg_is_the_same_for_the_same_rows():
    study = make_study(datasets=["a"])
    first, second = (
        to_svg(study_figures(summarise(study, make_rows(study)))[0].figure) for _ in range(2)
    )
    assert first == second


def test_many_sets_are_spread_over_figures():
    study = make_study(datasets=[f"set {k}" for k in range(10)], repetitions=2)
    names = [f.name for f in study_figures(summarise(study, make_rows(study)))]
    assert names == ["curves-1", "curves-2", "leads", "ranks"]


def test_report_writes_everything(store, tmp_path):
    study = make_study(
        datasets=[DataSet("heart", stand_in="rows of our own").__dict__, "sonar", "wdbc"],
        paper={"good": {"heart": 80.0}},
        notes=["mind this"],
        shows=["Table 9"],
    )
    put(store, study, make_rows(study))
    report = write_report(summaries_of(store), tmp_path / "deep" / "out")
    names = sorted(path.name for path in report.files)
    figures = [
        f"paper-first-{f}.{e}"
        for f in ("curves-1", "leads", "paper", "ranks")
        for e in ("png", "svg")
    ]
    tables = [f"paper-first{e}" for e in (".csv", ".md", ".tex", "-by-setting.csv")]
    assert names == sorted([*figures, *tables])
    assert all(path.stat().st_size for path in report.files)
    page = report.page.read_text()
    assert page.count("data:image/svg+xml;base64,") == 4
    for text in ("Table 9", "mind this", "rows of our own", "108 of 108 cells", "numpy 2.0"):
        assert text in page
    assert stand_ins(report.summaries[0]) == ["heart: rows of our own"]
    assert not re.search(r"https?://|<script|@import|url\(", page)


def test_page_escapes_names_and_messages(store, tmp_path):
    study = make_study(
        methods=[SCRIPT, "poor"],
        datasets=[SCRIPT, "sonar", "wdbc"],
        title=SCRIPT,
        name=SCRIPT,
        notes=[SCRIPT],
        settings=["linear"],
        paper={SCRIPT: {SCRIPT: 90.0}},
    )
    rows = make_rows(study)
    rows[0] = replace(rows[0], status="failed", message=SCRIPT)
    put(store, study, rows)
    report = write_report(summaries_of(store), tmp_path / "out")
    page = report.page.read_text()
    assert "<script" not in page.lower()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert {path.parent for path in report.files} == {tmp_path / "out"}
    for path in report.files:
        if path.suffix in (".svg", ".md"):
            assert b"<script" not in path.read_bytes()


def test_studies_with_alike_names_have_files_of_their_own(store, tmp_path):
    for name in ("a/b", "a b", "A-b"):
        put(store, make_study(name=name, datasets=["x"]), [])
    report = write_report(summaries_of(store), tmp_path / "out")
    assert len({path.name.lower() for path in report.files}) == len(report.files) == 12


def test_report_of_some_studies(store, tmp_path):
    for protocol in ("one", "two"):
        put(store, make_study(protocol=protocol), [])
    report = write_report(summaries_of(store, protocol="two", study="first"), tmp_path / "out")
    assert [summary.study.protocol for summary in report.summaries] == ["two"]
    with pytest.raises(ProtocolError, match=r"no study 'x' of 'two'; it has: 'first' of 'one'"):
        summaries_of(store, protocol="two", study="x")


def test_json_is_strict_and_complete(store):
    study = make_study(paper={"good": {"heart": 80.0}}, repetitions=1)
    put(store, study, make_rows(study))
    report = json.loads(json.dumps(plain({"studies": summaries_of(store)}), allow_nan=False))
    (found,) = report["studies"]
    assert found["study"]["title"] == "A study"
    assert found["lines"][0]["entries"][0]["paper"] == 80.0
    assert found["lines"][0]["entries"][0]["std"] is None


def test_missing_package_is_named_with_its_remedy(store, tmp_path, monkeypatch):
    put(store, make_study(), [])
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"kernelquilt\[report\]"):
        write_report(summaries_of(store), tmp_path / "out")


MEASURE = """<script>addEventListener("load", () => parent.postMessage([
  document.documentElement.scrollWidth - document.documentElement.clientWidth,
  [...document.images].map(image => [image.naturalWidth, image.clientHeight])], "*"))</script>"""
FRAMES = """<body><p id="told"></p><script>addEventListener("message", event => {
  document.getElementById("told").textContent += JSON.stringify(event.data) + ";" })</script>
<iframe src="page.html" width="1200" height="900"></iframe>
<iframe src="page.html" width="400" height="800"></iframe></body>"""


@pytest.mark.browser
def test_page_in_a_browser(store, tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    study = make_study(methods=["good", "close", "poor", "x" * 60], paper={"good": {"heart": 80.0}})
    put(store, study, make_rows(study))
    page = write_report(summaries_of(store), tmp_path).page.read_text()
    (tmp_path / "page.html").write_text(page.replace("</body>", f"{MEASURE}</body>"))
    (tmp_path / "frames.html").write_text(FRAMES)
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--enable-logging=stderr --virtual-time-budget=4000 --dump-dom"
    )
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    address = (tmp_path / "frames.html").as_uri()
    ran = subprocess.run(
        [chromium, *flags.split(), profile, address], capture_output=True, text=True, timeout=120
    )
    assert "CONSOLE" not in ran.stderr
    told = re.search(r'<p id="told">(.*?)</p>', ran.stdout).group(1).strip(";").split(";")
    assert len(told) == 2
    for overflow, sizes in map(json.loads, told):
        assert overflow <= 0
        assert len(sizes) == 4  # curves, leads, ranks, paper
        assert min(min(size) for size in sizes) > 50


def sized(rows, n_train=60.0, n_test=40.0):
    sizes = {"n_train": n_train, "n_test": n_test}
    return [replace(row, figures=row.figures | sizes) for row in rows]


def test_p_values_allow_for_common_samples_where_the_sizes_are_known():
    study = make_study()
    known, unknown = summarise(study, sized(make_rows(study))), summarise(study, make_rows(study))
    assert known.test_ratios == pytest.approx(dict.fromkeys(["heart", "sonar", "wdbc"], 2 / 3))
    own, other = entry(known, "poor", "heart"), entry(unknown, "poor", "heart")
    assert own.t_p_value == other.t_p_value < own.corrected_p_value
    assert np.isnan(other.corrected_p_value)
    rows = list(csv.DictReader(io.StringIO(to_csv(known))))
    assert float(rows[2]["corrected_p_value"]) == own.corrected_p_value


def many_methods(**changes):
    methods = [f"method {k}" for k in range(9)]
    study = make_study(methods=methods, **changes)
    rows = make_rows(study)
    levels = {method: 0.5 + 0.05 * k for k, method in enumerate(methods)}
    return study, [
        replace(row, figures={study.metric: levels[row.method] + 0.001 * row.repetition})
        for row in rows
    ]


def test_a_panel_has_the_six_best_methods():
    study, rows = many_methods()
    figure = study_figures(summarise(study, rows))[0]
    names = [text.get_text() for text in figure.figure.legends[0].get_texts()]
    assert names == [f"method {k}" for k in range(3, 9)]
    assert "3 other methods in the table only." in figure.caption
    lower = summarise(replace(study, higher_is_better=False), rows)
    names = [text.get_text() for text in study_figures(lower)[0].figure.legends[0].get_texts()]
    assert names == [f"method {k}" for k in range(6)]


def test_a_study_may_name_the_methods_of_its_panels():
    study, rows = many_methods(drawn=["method 8", "method 0"])
    figure = study_figures(summarise(study, rows))[0].figure
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["method 0", "method 8"]


@pytest.mark.parametrize(("metric", "scale"), [("train_seconds", "log"), ("accuracy", "linear")])
def test_figures_that_span_decades_have_a_logarithmic_axis(metric, scale):
    study = make_study(metric=metric, scale=1.0)
    rows = [
        replace(row, figures={metric: 10.0 ** -(row.repetition % 3)}) for row in make_rows(study)
    ]
    figure = study_figures(summarise(study, rows))[0].figure
    assert {axes.get_yscale() for axes in figure.axes} == {scale}


def test_the_page_of_one_data_set_shows_what_one_can_show(tmp_path):
    about = ["60 samples", "Classes: a (30), b (30)"]
    study = make_study(
        datasets=[{"name": "own", "about": about}],
        settings=["-"], axis="none", extra=["train_seconds", "test_seconds"],
    )  # fmt: skip
    rows = sized(make_rows(study))
    text = write_report([summarise(study, rows)], tmp_path).page.read_text("utf-8")
    for told in ("Data: own", *about, "p, corrected t-test", "seconds to train", "&lt;0.001"):
        assert told in text
    for left_out in ("win-tie-loss", "Win-tie-loss", "Against ", "average rank", "<details"):
        assert left_out not in text
    methods = re.findall(r'<th scope="row">(\w+)</th>', text)
    assert methods[-1] == "poor"
    assert sorted(methods) == ["close", "good", "poor"]


def test_one_data_set_in_several_settings_has_no_ranks_and_open_p_values(tmp_path):
    study = make_study(datasets=["own"], pooled=False, extra=["train_seconds"])
    text = write_report([summarise(study, make_rows(study))], tmp_path).page.read_text("utf-8")
    assert "win-tie-loss" not in text
    assert text.count("<details open>") == 2


def test_readings_are_told_by_their_distance_to_the_paper():
    printed = {"good": {"heart": 90.0, "sonar": 80.0}, "poor": {"heart": 70.0, "sonar": 60.0}}
    study = make_study(
        datasets=["heart", "sonar"], methods=["good", "poor"], axis="reading", pooled=False,
        settings=["far", "near"], repetitions=1, paper=printed,
    )  # fmt: skip
    rows = [
        replace(row, figures={"accuracy": printed[row.method][row.dataset] / 100 + shift})
        for row in make_rows(study)
        for shift in [{"far": -0.05, "near": 0.01}[row.setting] * (1 + (row.method == "poor"))]
    ]
    assert remarks(summarise(study, rows))[-1] == (
        "Mean absolute difference to the printed good and poor over 2 data sets, the nearest "
        "reading first: near: 1.50; far: 7.50."
    )
    fewer = [row for row in rows if (row.dataset, row.setting) != ("sonar", "far")]
    assert "over 1 data set," in remarks(summarise(study, fewer))[-1]
    more = summarise(replace(study, repetitions=2), rows)
    assert "nothing to compare" in remarks(more)[-1]

    (figure,) = [f for f in study_figures(summarise(study, rows)) if f.name == "paper"]
    (axes,) = figure.figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["near: 1.5", "far: 7.5"]
    _, good, poor = axes.lines
    np.testing.assert_allclose(good.get_xdata(), [1, 1, -5, -5])
    np.testing.assert_allclose(poor.get_xdata(), [2, 2, -10, -10])
    assert all(f.name != "paper" for f in study_figures(more))


def test_a_leak_is_drawn_between_the_honest_figure_and_the_printed_one():
    printed = {"good": {"heart": 95.0, "sonar": 85.0}, "poor": {"heart": 70.0}}
    study = make_study(
        methods=["good", "good leaky", "poor"], diagnostics=["good leaky"], paper=printed
    )
    summary = summarise(study, make_rows(study))
    (figure,) = [f for f in study_figures(summary) if f.name == "leak"]
    (axes,) = figure.figure.axes
    assert axes.get_title() == "good"
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["heart", "sonar"]  # no figure is printed for the third
    drawn = {line.get_label(): line.get_xdata() for line in axes.lines}
    np.testing.assert_allclose(drawn["printed"], [95, 85])
    for name, method in {"ours": "good", "ours with the leak": "good leaky"}.items():
        means = [entry(summary, method, label).mean for label in labels]
        np.testing.assert_allclose(drawn[name], means)
    honest = summarise(replace(study, diagnostics=[]), make_rows(study))
    assert all(f.name != "leak" for f in study_figures(honest))


def test_intervals_of_a_line_allow_for_common_samples_and_need_five_repetitions():
    study = make_study()
    rows = sized(make_rows(study))
    found = entry(summarise(study, rows), "poor", "heart")
    scores = summarise(study, rows).scores[2, 0]
    _, low, high = mean_interval(scores, test_ratio=40 / 60, low=0.0, high=100.0)
    assert (found.low, found.high) == (low, high)
    assert low < found.mean < high
    few = replace(study, repetitions=4)
    found = entry(summarise(few, make_rows(few)), "poor", "heart")
    assert np.isnan([found.low, found.high]).all()


def test_errors_that_span_decades_are_divided_by_those_of_the_paper():
    study = make_study(
        metric="squared_relative_error",
        higher_is_better=False,
        pooled=True,
        settings=[0.1],
        paper={"good": {"heart": 8.0, "sonar": 2.0}},
    )
    level = {"heart": 4.0, "sonar": 0.04, "wdbc": 1.0}
    rows = [
        replace(row, figures={"squared_relative_error": level[row.dataset] / study.scale})
        for row in make_rows(study)
    ]
    figure = next(f for f in study_figures(summarise(study, rows)) if f.name == "paper")
    (axes,) = figure.figure.axes
    assert axes.get_xscale() == "log"
    assert "divided by" in axes.get_xlabel()
    points = [line.get_xdata()[0] for line in axes.lines[1:]]
    np.testing.assert_allclose(points, [0.5, 0.02, 0.1])


def test_logarithmic_axes_have_plain_numbers_that_do_not_collide():
    from matplotlib.figure import Figure

    for high, expected in [(90.0, ["2", "5", "10", "20", "50"]), (1e5, ["100", "10000"])]:
        axes = Figure((3.2, 2)).subplots()
        axes.plot([1.5, high], [0, 1])
        set_log_x(axes)
        axes.figure.canvas.draw()
        shown = [text.get_text() for text in axes.get_xticklabels()]
        assert set(expected) <= set(shown)
        assert not any(text.get_text() for text in axes.get_xticklabels(minor=True))
        boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
        inside = [b for b in boxes if axes.bbox.x0 <= b.x0 + b.width / 2 <= axes.bbox.x1]
        assert all(a.x1 < b.x0 for a, b in pairwise(inside))
