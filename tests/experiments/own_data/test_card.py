"""Cards of models."""

import joblib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from kernelquilt import cli
from kernelquilt.experiments.own_data.card import fingerprint


def samples(n=160, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, "ill", "well")
    blocks = {name: rng.standard_normal((n, 3)) + (y == "ill")[:, None] for name in ("<rna>", "b")}
    blocks["b"][rng.random(n) < 0.3] = np.nan
    return kq.MultiView(blocks), y


@pytest.fixture(scope="module")
def fitted():
    X, y = samples()
    return kq.LateFusionClassifier().fit(X[:80], y[:80])


def rows_of(text, title):
    """Return the cells of the first table below a title of a Markdown page."""
    part = text[text.index(title) :]
    lines = [line for line in part.split("\n\n## ")[0].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_card_tells_what_the_model_is(fitted, tmp_path):
    X, y = samples()
    path = kq.card(
        fitted, X[80:], y[80:], tmp_path / "card.md", train=(X[:80], y[:80]), notes="For nothing."
    )
    text = path.read_text()
    for each in (
        "LateFusionClassifier",
        "80 samples, SHA-256",
        "kernelquilt",
        "numpy",
        "ill 50.0%",
    ):
        assert each in text
    assert fingerprint(X[:80], y[:80]) in text
    assert fingerprint(X[80:], y[80:]) in text
    assert "For nothing." in text
    head, first, *_ = rows_of(text, "## How good it is")
    assert head == ["views", "samples", "accuracy", "95 % interval"]
    scores = kq.inspection.score_by_pattern(fitted, X[80:], y[80:])
    low, high = scores.n_views_intervals[0]
    assert first[-1] == f"{low:.3f} to {high:.3f}"
    assert rows_of(text, "## Which views samples have")[1][0] == "all views"
    assert rows_of(text, "## Data")[1][0] == r"\<rna\>"
    for title in ("## How far probabilities", "## What views are worth", "## In what these"):
        assert title in text


def test_pages_are_whole_and_escaped(fitted, tmp_path):
    X, y = samples()
    text = kq.card(fitted, X[80:], y[80:], tmp_path / "card.html").read_text()
    assert "<rna>" not in text
    assert "&lt;rna&gt;" in text
    assert text.count("data:image/svg+xml;base64,") == 3
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "no fingerprint was taken" in text


def test_other_training_samples_are_refused(fitted, tmp_path):
    X, y = samples()
    with pytest.raises(ValueError, match="train has 70 samples, but not the 80"):
        kq.card(fitted, X[80:], y[80:], tmp_path / "card.md", train=(X[:70], y[:70]))
    other, labels = samples(seed=3)
    with pytest.raises(ValueError, match="not the 80 that the model was fitted to: "):
        kq.card(fitted, X[80:], y[80:], tmp_path / "card.md", train=(other[:80], labels[:80]))
    assert not list(tmp_path.iterdir())


def test_regressions_pipelines_kernels_and_survival(tmp_path):
    X, y = samples()
    number = np.nan_to_num(X["<rna>"][:, 0])
    model = make_pipeline(kq.ViewTransformer(), kq.LateFusionRegressor()).fit(X[:80], number[:80])
    text = kq.card(model, X[80:], number[80:], tmp_path / "card.md").read_text()
    assert text.startswith("# LateFusionRegressor\n")
    assert "R²" in text
    assert "How far probabilities" not in text
    stack = kq.ViewKernels().fit_transform(X)
    svm = kq.SimpleMKLClassifier().fit(stack[:80], y[:80])
    text = kq.card(svm, stack[80:], y[80:], tmp_path / "card.md", train=(stack[:80], y[:80]))
    assert fingerprint(stack[:80], y[:80]) in text.read_text()
    target = np.array(
        list(zip(y == "ill", np.abs(number) + 0.1, strict=True)),
        dtype=[("event", bool), ("time", float)],
    )
    risk = kq.QuiltSurvival(experts=None).fit(X[:80], target[:80])
    text = kq.card(risk, X[80:], target[80:], tmp_path / "card.md").read_text()
    assert rows_of(text, "## How good it is")[1][-1] == ""  # asked once only


def test_fingerprints_depend_on_what_matters():
    X, y = samples()
    same = kq.MultiView({name: X[name].copy() for name in X.names})
    assert fingerprint(same, y) == fingerprint(X, list(y))
    frame = kq.MultiView({"c": pd.DataFrame({"sex": ["f", "m", None], "age": [1, 2, 3]})})
    other = kq.MultiView({"c": pd.DataFrame({"sex": ["f", "m", "m"], "age": [1, 2, 3]})})
    prints = {
        fingerprint(X, y),
        fingerprint(X, y[::-1]),
        fingerprint(X[::-1], y),
        fingerprint(X.with_observed(X.observed & (np.arange(160) > 0)[:, None]), y),
        fingerprint(kq.MultiView({"rna": X["<rna>"], "b": X["b"]}), y),
        fingerprint(frame, y[:3]),
        fingerprint(other, y[:3]),
    }
    assert len(prints) == 7
    zeros = kq.MultiView({"a": np.array([[0.0], [1.0]])})
    minus = kq.MultiView({"a": np.array([[-0.0], [1.0]])})
    assert fingerprint(zeros, [0, 1]) == fingerprint(minus, [0, 1])


def test_intervals_cover_and_shrink():
    X, y = samples(n=2080, seed=1)
    model = kq.LateFusionClassifier().fit(X[:80], y[:80])
    truth = model.score(X[80:], y[80:])
    covered, widths = [], []
    for start in range(80, 2080, 100):
        part = slice(start, start + 100)
        for scoring in (None, "roc_auc"):
            found = kq.inspection.score_by_pattern(model, X[part], y[part], scoring=scoring)
            low, high = found.interval
            assert low < found.score <= max(high, 1.0)
            if scoring is None:
                covered.append(low <= truth <= high)
                widths.append(high - low)
    assert np.mean(covered) >= 0.85
    whole = kq.inspection.score_by_pattern(model, X[80:], y[80:]).interval
    assert np.ptp(whole) < 0.4 * np.mean(widths)


def test_scores_that_ask_the_model_again_have_no_interval(fitted):
    X, y = samples()
    own = kq.inspection.score_by_pattern(
        fitted, X[80:], y[80:], scoring=lambda model, X, y: float(model.score(X, y))
    )
    assert np.isnan(own.interval).all()
    number = np.nan_to_num(X["<rna>"][:, 0])
    model = kq.LateFusionRegressor().fit(X[:80], number[:80])
    error = make_scorer(mean_absolute_error, greater_is_better=False)
    found = kq.inspection.score_by_pattern(model, X[80:], number[80:], scoring=error)
    assert found.interval[0] < found.score < found.interval[1]


@pytest.mark.parametrize("saved", ["kq", "joblib"])
def test_the_command(saved, tmp_path):
    pytest.importorskip("skops")
    X, y = samples()
    frame = pd.concat(
        {name: pd.DataFrame(X[name], columns=list("xyz")) for name in X.names}, axis=1
    )
    frame.columns = [f"{view}__{column}" for view, column in frame.columns]
    frame["type"] = y
    frame[:80].to_csv(tmp_path / "train.csv", index=False)
    frame[80:].to_csv(tmp_path / "new.csv", index=False)
    views, labels = kq.read_views(tmp_path / "train.csv", label="type")
    model = kq.LateFusionClassifier().fit(views, labels)
    path = tmp_path / f"model.{saved}"
    if saved == "kq":
        kq.save(model, path)
    else:
        joblib.dump(model, path)
    arguments = ["card", path, tmp_path / "new.csv", "--output", tmp_path / "card.md"]
    run = CliRunner()
    done = run.invoke(cli.commands(), list(map(str, [*arguments, "--label", "type"])))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "card.md").read_text().startswith("# LateFusionClassifier\n")
    without = run.invoke(cli.commands(), list(map(str, arguments)))
    assert without.exit_code == 2
    assert "has no labels" in without.output
