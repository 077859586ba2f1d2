"""`kq explain`: the page about a saved model."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from inspect import signature

import joblib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import HistGradientBoostingClassifier

import kernelquilt as kq
from kernelquilt import cli

SEPARATE = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
NAMES = ("rna", "clinic", "scan")


def run(*arguments):
    return CliRunner(**SEPARATE).invoke(cli.commands(), list(map(str, arguments)), prog_name="kq")


def fails(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    return done.stderr


def make_table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    columns = {}
    for k, name in enumerate(NAMES):
        block = rng.normal(size=(n, 2)) + (2 - k) * 0.7 * y[:, None]
        block[rng.random(n) < 0.25] = np.nan
        columns |= {f"{name}__{j}": block[:, j] for j in range(2)}
    table = pd.DataFrame(columns)
    table.loc[table.isna().all(axis=1), "rna__0"] = 0.0
    table.loc[:, "rna__1"] = table["rna__1"].where(
        table["rna__0"].isna(), table["rna__1"].fillna(0)
    )
    table.insert(0, "patient", [f"<p{k}>" for k in range(n)])
    table["type"] = np.where(y == 1, "ill", "well")
    return table


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    table = make_table()
    table[60:].to_csv(folder / "new.csv", index=False)
    table[60:].drop(columns="type").to_csv(folder / "unlabelled.csv", index=False)
    table.rename(columns=lambda name: name.replace("rna", "dna")).to_csv(
        folder / "other.csv", index=False
    )
    table[:60].to_csv(folder / "train.csv", index=False)
    X, y = kq.read_views(folder / "train.csv", label="type", index="patient")
    model = kq.QuiltClassifier(random_state=0).fit(X, y)
    joblib.dump(model, folder / "model.joblib")
    kq.save(model, folder / "model.kq")
    boosted = kq.QuiltClassifier(experts=[HistGradientBoostingClassifier(max_iter=3)]).fit(X, y)
    kq.save(boosted, folder / "boosted.kq")
    joblib.dump(kq.SimpleMKLClassifier().fit(X.numeric(), y), folder / "svm.joblib")
    joblib.dump({"no": "model"}, folder / "dict.joblib")
    (folder / "broken.joblib").write_bytes(b"nothing")
    joblib.dump(model, folder / "renamed.kq")
    return folder


class Page(HTMLParser):
    """The tags, addresses and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.alternatives, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        own = dict(attributes)
        self.addresses += [own[name] for name in ("src", "href") if name in own]
        if tag == "img":
            self.alternatives.append(own["alt"])

    def handle_data(self, data):
        self.text += data


def page_of(files, *options, model="model.joblib", data="new.csv", output="page.html"):
    done = run(
        "explain", files / model, files / data, "--index", "patient", "--output", files / output,
        *options,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("Page: ")
    return Page((files / output).read_text())


def test_a_page_of_a_cohort_and_of_samples(files):
    table = pd.read_csv(files / "new.csv")
    lacking = table.index[table["rna__0"].isna()][0]
    name = table["patient"][lacking]
    page = page_of(files, "--label", "type", "--sample", name, "--sample", table["patient"][0])
    assert "script" not in page.tags
    assert all(each.startswith(("data:", "#")) for each in page.addresses)
    for title in (
        "Which views there are", "What views are worth", "How good it is", "How far probabilities",
        "What views say about samples", f"Sample {name}",
    ):  # fmt: skip
        assert title in page.text
    assert page.tags.count("img") == 6
    assert f"Contributions to the {'log odds of well'}" in page.alternatives[-1]
    assert "View to take next: " in page.text
    assert "rests on samples" in page.text
    assert "<p" in page.text


def test_without_labels_there_are_no_scores(files):
    page = page_of(files, "--sample", "<p60>", data="unlabelled.csv")
    assert "What views say about samples" in page.text
    assert "What views are worth" not in page.text
    assert "name their column with --label" in page.text


def test_models_without_probabilities(files):
    page = page_of(files, "--label", "type", "--sample", "<p60>", model="svm.joblib")
    assert "How far probabilities" not in page.text
    assert "Predicted: " in page.text


def test_files_that_execute_nothing(files):
    expected = page_of(files, "--label", "type", "--sample", "<p60>")
    page = page_of(files, "--label", "type", "--sample", "<p60>", model="model.kq")
    assert page.text == expected.text
    assert page.alternatives == expected.alternatives


def test_what_is_not_trusted_is_not_read(files, tmp_path, monkeypatch):
    index = "--label", "type", "--index", "patient", "--output", tmp_path / "page.html"
    told = fails("explain", files / "boosted.kq", files / "new.csv", *index)
    assert "classes or functions of other packages" in told
    options = re.findall(r"--trust \S+", told)
    trust = [word for option in options for word in option.split()]
    done = run("explain", files / "boosted.kq", files / "new.csv", *index, *trust)
    assert done.exit_code == 0, done.stderr
    (tmp_path / "page.html").unlink()
    monkeypatch.setattr(joblib, "load", lambda path: pytest.fail("a .kq file was unpickled"))
    told = fails("explain", files / "renamed.kq", files / "new.csv", *index)
    assert "was not written by kq.save" in told
    assert not (tmp_path / "page.html").exists()


def test_bad_input(files, tmp_path):
    model, data = files / "model.joblib", files / "new.csv"
    index = ("--index", "patient", "--output", tmp_path / "page.html")
    assert "0 samples of new are called 'q'" in fails(
        "explain", model, data, "--label", "type", "--sample", "q", *index
    )
    assert "does not fit the model" in fails(
        "explain", model, files / "other.csv", "--label", "type", *index
    )
    assert "holds a dict" in fails(
        "explain", files / "dict.joblib", data, "--label", "type", *index
    )
    for name in ("broken.joblib", "nowhere.joblib"):
        assert "cannot read a model from" in fails(
            "explain", files / name, data, "--label", "type", *index
        )
    table = pd.read_csv(data)
    table["type"] = np.where(table["type"] == "ill", "sick", "well")
    table.to_csv(tmp_path / "renamed.csv", index=False)
    assert "labels ['sick'], which the model does not know" in fails(
        "explain", model, tmp_path / "renamed.csv", "--label", "type", *index
    )
    assert "cannot write to" in fails(
        "explain", model, data, "--label", "type", "--index", "patient",
        "--output", tmp_path / "no" / "page.html",
    )  # fmt: skip
    assert not (tmp_path / "page.html").exists()


MEASURE = """<script>addEventListener("load", () => parent.postMessage([
  document.documentElement.scrollWidth - document.documentElement.clientWidth,
  [...document.images].map(image => [image.naturalWidth, image.clientHeight])], "*"))</script>"""
FRAMES = """<body><p id="told"></p><script>addEventListener("message", event => {
  document.getElementById("told").textContent += JSON.stringify(event.data) + ";" })</script>
<iframe src="page.html" width="1400" height="900"></iframe>
<iframe src="page.html" width="400" height="800"></iframe></body>"""


@pytest.mark.browser
def test_page_in_a_browser(files, tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    page_of(files, "--label", "type", "--sample", "<p60>", output="seen.html")
    page = (files / "seen.html").read_text()
    (tmp_path / "page.html").write_text(page.replace("</body>", f"{MEASURE}</body>"))
    (tmp_path / "frames.html").write_text(FRAMES)
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--enable-logging=stderr --virtual-time-budget=4000 --dump-dom"
    )
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    ran = subprocess.run(
        [chromium, *flags.split(), profile, (tmp_path / "frames.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "CONSOLE" not in ran.stderr
    told = re.search(r'<p id="told">(.*?)</p>', ran.stdout).group(1).strip(";").split(";")
    assert len(told) == 2
    for overflow, sizes in map(json.loads, told):
        assert overflow <= 0
        assert len(sizes) == 5
        assert min(min(size) for size in sizes) > 50
