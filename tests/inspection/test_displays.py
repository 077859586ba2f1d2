"""Displays: what they show is what was computed, and they can be drawn where a user wants."""

import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from kernelquilt.inspection import (
    AbsenceCurveDisplay,
    CalibrationByPatternDisplay,
    CompletionDisplay,
    ConvergenceDisplay,
    KernelStackDisplay,
    KernelWeightsDisplay,
    ObservedPatternDisplay,
    SurvivalByViewDisplay,
    SwitchDisplay,
    ViewContributionsDisplay,
    ViewImportanceDisplay,
    ViewTransferDisplay,
    view_contributions,
)
from kernelquilt.inspection.style import COLOURS, figure_of, label, line_style

matplotlib.use("Agg")


class Step:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Survival(kq.QuiltRegressor):
    """A stand-in that has survival functions."""

    def predict_survival_function(self, X):
        times = np.linspace(0.0, 5.0, 11)
        return [Step(times, np.exp(-times * np.exp(0.1 * risk))) for risk in self.predict(X)]


@pytest.fixture(scope="module")
def data():
    X, y = kq.datasets.load_example("wdbc")
    X = kq.datasets.make_absent(X, 0.3, mechanism="mcar", random_state=0)
    return X[:150], y[:150], X[150:350], y[150:350]


@pytest.fixture(scope="module")
def late(data):
    return kq.LateFusionClassifier().fit(*data[:2])


@pytest.fixture(scope="module")
def digits():
    X, y = kq.datasets.load_example("digits")
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    return kq.LateFusionClassifier().fit(X[:200], y[:200]), X[200:400], y[200:400]


def make(name, data, late):
    """Return a display of each kind."""
    X, y, new, labels = data
    stack = kq.ViewKernels().fit_transform(kq.datasets.load_example("wdbc")[0][:50])
    return {
        "patterns": lambda: ObservedPatternDisplay.from_views(X),
        "one sample": lambda: ViewContributionsDisplay.from_estimator(late, new[:3], sample=1),
        "samples": lambda: ViewContributionsDisplay.from_estimator(late, new[:30]),
        "importance": lambda: ViewImportanceDisplay.from_estimator(late, new, labels),
        "weights": lambda: KernelWeightsDisplay(["a", "b"], [[0.2, 0.8], [0.3, 0.7]]),
        "convergence": lambda: ConvergenceDisplay.from_estimator(
            kq.SimpleMKLClassifier().fit(X, y)
        ),
        "stack": lambda: KernelStackDisplay.from_views(X[:40], y[:40]),
        "switches": lambda: SwitchDisplay(["a", "b"], np.eye(2, dtype=bool), [1, 0]),
        "completion": lambda: CompletionDisplay.from_estimator(
            kq.TransferFill(), stack, np.arange(50)[:, None] >= [0, 20, 0]
        ),
        "transfer": lambda: ViewTransferDisplay(["a", "b"], [[1.0, 0.4], [-0.2, 1.0]]),
        "curve": lambda: AbsenceCurveDisplay.from_estimator(late, new, labels, n_repeats=2),
        "calibration": lambda: CalibrationByPatternDisplay.from_estimator(late, new, labels),
        "survival": lambda: SurvivalByViewDisplay({"all": ([0, 1], [1, 0.5])}),
    }[name]()


NAMES = (
    "patterns", "one sample", "samples", "importance", "weights", "convergence", "stack",
    "switches", "completion", "transfer", "curve", "calibration", "survival",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_display_is_drawn_in_a_new_figure_and_in_given_axes(name, data, late):
    import matplotlib.pyplot as plt

    display = make(name, data, late)
    assert not hasattr(display, "figure_")
    assert display.plot() is display
    display.figure_.canvas.draw()
    plt.close(display.figure_)
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    right.plot([0, 1])
    display.plot(ax=left)
    assert display.figure_ is figure
    assert len(right.get_children()) == len(Figure().subplots().get_children()) + 1
    figure.canvas.draw()
    own = figure_of(display, title="a $ b")
    assert tuple(own.get_size_inches()) == display.figsize
    assert any(ax.has_data() for ax in own.axes)
    own.canvas.draw()


@pytest.mark.parametrize("name", ["patterns", "weights", "curve"])
def test_without_matplotlib(name, data, late, monkeypatch):
    display = make(name, data, late)
    for module in list(sys.modules):
        if module.partition(".")[0] == "matplotlib":
            monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"kernelquilt\[plot\]"):
        display.plot()


def test_panels_need_axes_with_a_place(data, late):
    ax = Figure().add_axes((0, 0, 1, 1))
    with pytest.raises(ValueError, match="made by subplots"):
        make("importance", data, late).plot(ax)


def test_lines_are_told_apart_by_more_than_their_colour():
    styles = [line_style(k) for k in range(2 * len(COLOURS))]
    assert len({(each["color"], each["linestyle"]) for each in styles}) == len(styles)
    assert len({each["marker"] for each in styles}) == len(styles)
    assert label("_x$") == r" _x\$"
    assert len(label("x" * 100)) == 24


class TestObservedPatterns:
    def display(self):
        a = np.arange(40.0)[:, None]
        b = np.where(np.arange(40)[:, None] < 30, a, np.nan)
        return ObservedPatternDisplay.from_views({"a": a, "b": b})

    def test_what_is_drawn(self):
        axes = self.display().plot(Figure().subplots()).axes_
        assert [bar.get_height() for bar in axes["counts"].patches] == [30, 10]
        assert [bar.get_width() for bar in axes["shares"].patches] == [100, 75]
        matrix = axes["matrix"]
        assert [text.get_text() for text in matrix.get_yticklabels()] == ["a", "b"]
        absent, present = (sorted(map(tuple, c.get_offsets())) for c in matrix.collections[-2:])
        assert absent == [(1, 1)]
        assert present == [(0, 0), (0, 1), (1, 0)]

    def test_names_that_look_like_formulas(self):
        display = ObservedPatternDisplay([r"$\frac$", "b$"], np.eye(2, dtype=bool))
        figure = figure_of(display, title=r"a$\frac$b")
        figure.canvas.draw()  # a formula that cannot be read would raise
        written = [text.get_text() for text in figure.findobj(Text)]
        assert {r"\$\frac\$", r"b\$", r"a\$\frac\$b"} <= set(written)
        assert not any(map(is_math_text, written))

    def test_many_patterns(self):
        observed = np.random.default_rng(0).random((200, 8)) < 0.5
        display = ObservedPatternDisplay([f"v{k}" for k in range(8)], observed)
        assert (np.diff(display.counts) <= 0).all()
        assert display.counts.sum() == 200
        axes = display.plot(Figure().subplots()).axes_
        assert len(axes["counts"].patches) == 24
        text = axes["matrix"].get_xlabel()
        assert f"24 most frequent of {len(display.patterns)}" in text

    def test_stacks_and_columns(self, data):
        X = data[0]
        of_views = ObservedPatternDisplay.from_views(X).counts
        stack = kq.ViewKernels().fit_transform(X)
        frame = X.to_frame()
        for form in (stack, frame):
            found = ObservedPatternDisplay.from_views(form).counts
            np.testing.assert_array_equal(found, of_views)


class TestContributions:
    def test_a_waterfall_leads_from_the_base_to_the_output(self, data, late):
        found = view_contributions(late, data[2][:5])
        display = ViewContributionsDisplay(found, sample=2).plot(Figure().subplots())
        bars = display.bars_
        assert bars[0].get_x() == pytest.approx(found.base)
        last = bars[-1]
        assert last.get_x() + last.get_width() == pytest.approx(found.output[2])
        names = [text.get_text() for text in display.ax_.get_yticklabels()]
        assert names[0] == "no view"
        assert sorted(names[1:-1]) == sorted(found.view_names)
        texts = [text.get_text() for text in display.ax_.texts]
        assert texts.count("absent") == (~found.observed[2]).sum()

    def test_identifiers_and_classes(self, digits):
        model, X, _ = digits
        X = kq.MultiView({n: X.given(n) for n in X.names}, index=[f"p{k}" for k in range(len(X))])
        found = view_contributions(model, X[:4])
        display = ViewContributionsDisplay(found, sample="p2")
        best = found.output[2].argmax()
        assert display.what == f"log probability of {best}"
        np.testing.assert_array_equal(display.values[0], found.values[2, :, best])
        other = ViewContributionsDisplay(found, sample="p2", target=7)
        np.testing.assert_array_equal(other.values[0], found.values[2, :, 7])
        everyone = ViewContributionsDisplay(found)
        assert everyone.what == "log probability of the predicted class"
        with pytest.raises(ValueError, match="there is no output 'x'"):
            ViewContributionsDisplay(found, target="x")
        with pytest.raises(ValueError, match="0 of 4 samples are called 'q'"):
            ViewContributionsDisplay(found, sample="q")

    def test_strips_have_a_dot_for_each_sample_with_the_view(self, data, late):
        display = ViewContributionsDisplay.from_estimator(late, data[2])
        display.plot(Figure().subplots())
        counts = [len(strip.get_offsets()) for strip in display.strips_]
        assert counts == data[2].observed.sum(axis=0)[display.order].tolist()
        with pytest.raises(ValueError, match="one output"):
            ViewContributionsDisplay(display.contributions, target=1)


def test_importance_shows_falls_and_scores_alone(data, late):
    display = ViewImportanceDisplay.from_estimator(late, *data[2:]).plot(Figure().subplots())
    known = display.importance
    drop, alone = (bars.lines[0].get_xdata() for bars in display.errorbars_)
    np.testing.assert_allclose(drop, known.drop[display.order])
    np.testing.assert_allclose(alone, known.score - known.drop_others[display.order])
    assert (np.diff(drop) <= 0).all()


def test_weights_of_folds_pipelines_and_classes(data, digits):
    X, y = data[:2]
    model = make_pipeline(kq.ViewKernels(), kq.SimpleMKLClassifier())
    fits = cross_validate(model, X, y, cv=3, return_estimator=True)["estimator"]
    display = KernelWeightsDisplay.from_estimator(fits).plot(Figure().subplots())
    expected = np.array([each[-1].weights_ for each in fits])
    np.testing.assert_array_equal(display.weights, expected)
    np.testing.assert_allclose(
        [bar.get_width() for bar in display.bars_], expected.mean(axis=0), atol=1e-12
    )
    assert len(display.dots_.get_xdata()) == expected.size
    assert display.kernel_names == X.names
    quilt = kq.QuiltClassifier(experts=None).fit(X, y)
    one = KernelWeightsDisplay.from_estimator(quilt).plot(Figure().subplots())
    np.testing.assert_array_equal(one.weights[0], quilt.kernel_weights_)
    assert one.dots_ is None
    with pytest.raises(ValueError, match="LateFusionClassifier has no kernel weights"):
        KernelWeightsDisplay.from_estimator(digits[0])


@pytest.mark.parametrize("against", ["solves", "seconds"])
def test_convergence_ends_at_the_objective(data, against):
    model = kq.SimpleMKLClassifier(tol=1e-6).fit(*data[:2])
    display = ConvergenceDisplay.from_estimator(model, against=against).plot(Figure().subplots())
    ((upper, lower, gap),) = display.lines_.values()
    assert upper.get_ydata()[-1] == pytest.approx(model.objective_)
    np.testing.assert_array_less(lower.get_ydata()[:-1], upper.get_ydata()[:-1])
    assert gap.get_ydata()[-1] <= 1e-6
    assert (np.diff(upper.get_xdata()) > 0).all()


def test_convergence_of_several_classes_and_bad_input(digits):
    model, X, y = digits
    svm = kq.SimpleMKLClassifier().fit(X[:100], y[:100])
    assert list(ConvergenceDisplay.from_estimator(svm).histories) == [str(k) for k in range(10)]
    with pytest.raises(ValueError, match="keeps no steps"):
        ConvergenceDisplay.from_estimator(model)
    with pytest.raises(ValueError, match="against must be"):
        ConvergenceDisplay({}, against="time")


def test_stack_is_sorted_by_class_and_aligned(data):
    X, y = data[:2]
    display = KernelStackDisplay.from_views(X[:60], y[:60])
    assert list(y[:60][display.order]) == sorted(y[:60])
    np.testing.assert_allclose(np.diag(display.alignments), 1.0)
    np.testing.assert_allclose(display.alignments, display.alignments.T)
    for values in display.spectra:
        assert values.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="60 samples, but y has 3"):
        KernelStackDisplay.from_views(X[:60], y[:3])


def test_switches_of_a_model(data, late):
    X, y = data[:2]
    model = kq.mkl.SampleAdaptiveMKLClassifier(m0=1).fit(X, y)
    display = SwitchDisplay.from_estimator(model, y).plot(Figure().subplots())
    np.testing.assert_allclose(display.shares, model.switches_.mean(axis=0))
    assert list(y[display.order]) == sorted(y)
    np.testing.assert_array_equal(display.image_.get_array(), model.switches_[display.order].T)
    with pytest.raises(ValueError, match="has no switches"):
        SwitchDisplay.from_estimator(late)
    with pytest.raises(ValueError, match="2 samples, but 3 labels"):
        SwitchDisplay(["a"], [[True], [False]], [1, 2, 3])


def test_completion_keeps_what_was_there_and_tells_the_error():
    X, _ = kq.datasets.load_example("wdbc")
    stack = kq.ViewKernels().fit_transform(X[:50])
    observed = np.ones((50, 3), dtype=bool)
    observed[30:, 1] = False
    completer = kq.TransferFill()
    display = CompletionDisplay.from_estimator(completer, stack, observed, kernel="error")
    assert not hasattr(completer, "training_rows_")
    np.testing.assert_allclose(display.error[:30, :30], 0.0, atol=1e-12)
    hidden = ~np.outer(observed[:, 1], observed[:, 1])
    away = np.linalg.norm(display.error[hidden]) / np.linalg.norm(display.true[hidden])
    assert display.relative_error == pytest.approx(away)
    assert 0 < away < 1


def test_transfer_of_quilt_and_completer(data, late):
    X, y = data[:2]
    quilt = kq.QuiltClassifier(experts=None).fit(X, y)
    display = ViewTransferDisplay.from_estimator(quilt)
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_array_equal(display.transfer[off], quilt.view_transfer_[off])
    stack = kq.ViewKernels().fit_transform(X)
    fill = kq.TransferFill(weighting="loo").fit(stack)
    assert ViewTransferDisplay.from_estimator(fill).view_names == stack.names
    with pytest.raises(ValueError, match="does not tell which view"):
        ViewTransferDisplay.from_estimator(late)


class TestAbsenceCurve:
    scores = {"a": ([0.9, np.nan], [0.01, np.nan]), "b": ([0.9, 0.7], [0.01, 0.02])}  # noqa: RUF012

    def test_plot(self):
        ax = Figure().subplots()
        display = AbsenceCurveDisplay([0, 0.5], self.scores, score_name="balanced accuracy")
        assert display.plot(ax) is display
        assert display.ax_ is ax
        assert display.figure_ is ax.figure
        np.testing.assert_allclose(display.lines_["b"].get_xydata(), [[0, 90], [50, 70]])
        assert display.lines_["a"].get_color() != display.lines_["b"].get_color()
        assert ax.get_ylabel() == "balanced accuracy (%)"
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]

    def test_from_estimator_begins_with_the_samples_as_they_are(self, data, late):
        new, labels = data[2:]
        display = AbsenceCurveDisplay.from_estimator(
            {"late": late}, new, labels, ratios=[0, 0.5], n_repeats=3
        )
        means, deviations = display.scores["late"]
        assert means[0] == pytest.approx(late.score(new, labels))
        assert deviations[0] == pytest.approx(0.0, abs=1e-12)
        assert means[1] < means[0]
        assert display.ratios[0] == pytest.approx(1 - new.observed.mean())
        again = AbsenceCurveDisplay.from_estimator(
            {"late": late}, new, labels, ratios=[0, 0.5], n_repeats=3
        )
        np.testing.assert_array_equal(again.scores["late"], display.scores["late"])


def test_calibration_is_of_all_samples_and_by_views(digits):
    model, X, y = digits
    proba = model.predict_proba(X)
    right = model.classes_[proba.argmax(axis=1)] == y
    for by in ("n_views", "pattern"):
        display = CalibrationByPatternDisplay.from_estimator(model, X, y, by=by, min_samples=20)
        counts = [curve.counts.sum() for curve in display.curves.values()]
        assert sum(counts) == len(y)
        told = sum((curve.right * curve.counts).sum() for curve in display.curves.values())
        assert told == pytest.approx(right.sum())
        for curve in display.curves.values():
            assert (np.diff(curve.probability) >= 0).all()
            assert 0 <= curve.error <= 1
    with pytest.raises(ValueError, match="by must be"):
        CalibrationByPatternDisplay.from_estimator(model, X, y, by="views")
    svm = kq.SimpleMKLClassifier().fit(X, y)
    with pytest.raises(ValueError, match="has no probabilities"):
        CalibrationByPatternDisplay.from_estimator(svm, X, y)


def test_survival_with_and_without_each_view(data, late):
    X, y = data[:2]
    model = Survival(experts=None).fit(X, (y == y[0]).astype(float))
    complete = X[X.observed.all(axis=1)]
    display = SurvivalByViewDisplay.from_estimator(model, complete, sample=1)
    assert list(display.curves) == ["all its views", *(f"without {n}" for n in X.names)]
    expected = model.predict_survival_function(complete[[1]])[0].y
    np.testing.assert_allclose(display.curves["all its views"][1], expected)
    without = complete[[1]].with_observed([[False, True, True]])
    expected = model.predict_survival_function(without)[0].y
    np.testing.assert_allclose(display.curves[f"without {X.names[0]}"][1], expected)
    display.plot(Figure().subplots())
    assert len(display.lines_) == 4
    with pytest.raises(ValueError, match="no predict_survival_function"):
        SurvivalByViewDisplay.from_estimator(late, X)
