"""Files execute nothing, names stay names, and nothing is written outside of its directory."""

import ast
import json
import os
import pickle
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

import kernelquilt as kq
from kernelquilt.experiments.demo import demo_study
from kernelquilt.experiments.errors import UserError
from kernelquilt.experiments.reporting.page import write_report
from kernelquilt.experiments.reporting.summary import summarise
from kernelquilt.experiments.running.store import Row, Store, StoreError
from kernelquilt.experiments.study.protocol import DataSet, ProtocolError, parse_protocol
from kernelquilt.experiments.study.sources import DataDirectory, DataMissingError, UserSource
from kernelquilt.experiments.study.splits import make_split

pd = pytest.importorskip("pandas")

SOURCES = sorted(Path(kq.__file__).parent.rglob("*.py"))
DANGEROUS = {
    "eval", "exec", "compile", "pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve",
    "read_pickle", "system", "popen", "unsafe_load",
}  # fmt: skip


class Payload:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture
def loaded(tmp_path):
    """Return an archive with a payload in it, and the file that the payload would make."""
    marker = tmp_path / "executed"
    objects = np.array([Payload(marker)] * 4, dtype=object)
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "first.npz"
    np.savez(path, X=objects, y=objects, view_0=objects, view_names=objects, allow_pickle=True)
    return path, marker


def test_archives_with_pickled_objects_are_refused(loaded):
    path, marker = loaded
    with pytest.raises(ValueError, match=r"first\.npz"):
        kq.read_views(path)
    with pytest.raises(DataMissingError, match="first"):
        DataDirectory(path.parent)(DataSet("first"))
    assert not marker.exists()


def test_arrays_with_pickled_objects_are_refused(tmp_path):
    marker = tmp_path / "executed"
    np.save(tmp_path / "a.npy", np.array([Payload(marker)], dtype=object), allow_pickle=True)
    with pytest.raises((ValueError, UserError)):
        kq.read_views(tmp_path / "a.npy")
    assert not marker.exists()


def _parquet(path, content):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [content] * 4, "y": [0, 1, 0, 1]})
    frame.attrs["note"] = "cos\nsystem\n(S'false'\ntR."
    frame.to_parquet(path)


def _h5mu(path, content):
    mudata, anndata = (pytest.importorskip(name) for name in ("mudata", "anndata"))
    data = anndata.AnnData(
        np.arange(8.0).reshape(4, 2), uns={"note": np.frombuffer(content, np.uint8)}
    )
    mudata.MuData({"a": data}).write(path)


def _mat(path, content):
    objects = np.array([content] * 4, dtype=object)
    savemat(path, {"K": np.eye(4), "y": objects, "note": np.frombuffer(content, np.uint8)})


def _table(separator):
    def write(path, content):
        rows = [f"{content!r}{separator}{k}" for k in range(4)]
        path.write_text("\n".join([f"a{separator}y", *rows]))

    return write


FORMATS = {
    "csv": _table(","), "tsv": _table("\t"), "parquet": _parquet, "h5mu": _h5mu, "mat": _mat,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("kind", FORMATS)
def test_pickled_objects_in_other_files_stay_bytes(tmp_path, kind):
    """They are given as what cells, notes and variables hold."""
    marker = tmp_path / "executed"
    content = pickle.dumps(Payload(marker))
    FORMATS[kind](tmp_path / f"data.{kind}", content)
    with suppress(ValueError):
        kq.read_views(tmp_path / f"data.{kind}", label="y")
    assert not marker.exists()
    pickle.loads(content).close()
    assert marker.exists()  # it would have been noticed


def test_protocols_are_text_and_numbers():
    """What looks like code in TOML is a name of no data set, kernel or method."""
    text = (Path(kq.__file__).parent / "experiments/study/protocols/quilt.toml").read_text()
    code = "__import__('os').abort()"
    (study, _), *_ = parse_protocol(re.sub(r'kernels = "[^"]+"', f'kernels = "{code}"', text))
    assert study.problem["kernels"] == code
    source = UserSource(kq.MultiView([np.eye(8)]), np.arange(8) % 2)
    cell = replace(next(study.cells()), dataset=DataSet("first"))
    with pytest.raises(ProtocolError, match="there are no kernels"):
        make_split(cell, source(cell.dataset))


def test_reports_stay_in_their_directory(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    names = ["../../evil", "/evil", "..", "a/../../b", "C:\\evil", "nul\0byte", ".hidden", ""]
    summaries = []
    for name in names:
        study = replace(demo_study(), protocol=name, name=name, settings=[0.0], repetitions=1)
        rows = [
            Row(c.key, name, name, c.dataset.name, "0.0", 0, c.method, figures={"accuracy": 0.5})
            for c in study.cells()
        ]
        summaries.append(summarise(study, rows))
    output = tmp_path / "some" / "where"
    report = write_report(summaries, output)
    assert {path.parent for path in (report.page, *report.files)} == {output}
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {output}


def dangers(path):
    """Yield the calls and imports of a file that may execute data."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            of = getattr(getattr(node.func, "value", None), "id", "")
            if name in DANGEROUS and (name, of) != ("compile", "re"):
                yield name
            for keyword in node.keywords:
                given = getattr(keyword.value, "value", None)
                if (keyword.arg, given) in {("allow_pickle", True), ("shell", True)}:
                    yield keyword.arg
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = {getattr(node, "module", None), *(alias.name for alias in node.names)}
            yield from modules & DANGEROUS


def test_sources_call_nothing_that_executes_data(tmp_path):
    assert {path.name: found for path in SOURCES if (found := list(dangers(path)))} == {}
    (tmp_path / "bad.py").write_text("import pickle\neval('1')\nf(shell=True)\nre.compile('x')\n")
    assert sorted(dangers(tmp_path / "bad.py")) == ["eval", "pickle", "shell"]


def test_statements_of_sql_are_made_of_constants():
    """What is put into the text of a statement is a constant of the module, never a value."""
    path = next(path for path in SOURCES if path.name == "store.py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("execute"):
            for name in ast.walk(node.args[0]):
                if isinstance(name, ast.Name):
                    assert re.fullmatch(r"_[A-Z_]+|marks|condition", name.id), name.id


HOSTILE = "x'; DROP TABLE cells; --"


def test_names_are_values_to_the_store(tmp_path):
    with Store(tmp_path / "cells.db") as store:
        store.define(HOSTILE, HOSTILE, {"title": HOSTILE})
        row = Row("key", HOSTILE, HOSTILE, HOSTILE, HOSTILE, 0, HOSTILE, figures={HOSTILE: 1.0})
        store.add(row)
        (found,) = store.rows(HOSTILE, HOSTILE)
        assert (found.method, found.figures) == (HOSTILE, {HOSTILE: 1.0})


def test_a_store_in_a_directory_that_cannot_be_written_can_be_read(tmp_path, monkeypatch):
    path = tmp_path / "cells.db"
    with Store(path) as store:
        store.define("paper", "first", {"title": "A study"})
        store.add(Row("key", "paper", "first", "set", "0.1", 0, "good", figures={"accuracy": 1.0}))
    monkeypatch.setattr(os, "access", lambda *_: False)
    before = sorted(tmp_path.iterdir())
    with Store(path, create=False) as store:
        assert len(list(store.rows("paper", "first"))) == 1
        assert sorted(tmp_path.iterdir()) == before
        with pytest.raises(StoreError, match="readonly"):
            store.define("paper", "second", {"title": "Another"})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((60, 2)), "y": np.arange(40) % 2}, "60 rows for 40 labels"),
        ({"K": np.ones((1, 60, 60)), "y": np.arange(40) % 2}, "60 rows for 40 labels"),
        ({"X": np.array(["a", "b"]), "y": np.arange(2)}, "not what the protocol expects"),
    ],
)
def test_data_that_do_not_fit_together_are_said_in_one_line(tmp_path, arrays, message):
    np.savez(tmp_path / "first.npz", **arrays)
    with pytest.raises(DataMissingError, match=message):
        DataDirectory(tmp_path)(DataSet("first"))


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"\x93NUMPY\x01\x00"])
def test_damaged_archives_are_said_in_one_line(tmp_path, content):
    (tmp_path / "first.npz").write_bytes(content)
    with pytest.raises(DataMissingError, match="first"):
        DataDirectory(tmp_path)(DataSet("first"))


@pytest.mark.parametrize(
    "damage", ["UPDATE cells SET figures = '{'", "UPDATE cells SET figures = x'ff00'"]
)
def test_a_store_that_is_damaged_inside_says_so(tmp_path, damage):
    path = tmp_path / "cells.db"
    with Store(path) as store:
        store.add(Row("key", "paper", "first", "set", "0.1", 0, "good", figures={"accuracy": 1.0}))
        store._connection.execute(damage)
        with pytest.raises(StoreError, match="damaged"):
            store.rows()


def test_a_cluster_that_is_there_is_joined(monkeypatch):
    distributed = pytest.importorskip("distributed")
    import dask

    from kernelquilt.cli import _running

    asked = []
    monkeypatch.setattr(distributed, "Client", lambda *given, **named: asked.append((given, named)))
    options = type("Options", (), {"backend": "dask", "jobs": 2})()
    with dask.config.set({"scheduler-address": "tcp://127.0.0.1:1"}):
        _running._workers(options)
    _running._workers(options)
    (there, alone) = asked
    assert there == (("tcp://127.0.0.1:1",), {})
    assert alone[1]["n_workers"] == 2


def described(folder, name, *options, **environment):
    """Return what `kq describe` writes to stdout and stderr of a table with an odd name."""
    rows = "".join(f"{k},{-k},{k % 2}\n" for k in range(1, 20))
    (folder / "data.csv").write_text(f"{name}__0,{name}__1,kind\n{rows}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "kernelquilt.cli", "describe", "data.csv", *options],
        capture_output=True,
        cwd=folder,
        env={**os.environ, **environment},
        timeout=300,
    )
    return done.stdout, done.stderr


def test_names_command_no_terminal(tmp_path):
    pytest.importorskip("rich")
    name = "\x1b[31mred\x9b2J\u202e"
    views = ["--view", f"{name}={name}__*"]
    for options in (["--label", "kind", *views], [*views, "--label", name]):
        written = b"".join(described(tmp_path, name, *options, PYTHONIOENCODING="utf-8"))
        assert b"\\x1b[31mred\\x9b2J\\u202e" in written.replace(b"\n", b"")
        assert not {"\x1b", "\x9b", "\u202e"} & set(written.decode())


def test_names_are_written_to_terminals_of_few_characters(tmp_path):
    pytest.importorskip("rich")
    written, said = described(tmp_path, "größe", "--label", "kind", PYTHONIOENCODING="ascii")
    assert b"gr\\xf6\\xdfe" in written
    assert said == b""
    _, said = described(tmp_path, "größe", "--label", "größe", PYTHONIOENCODING="ascii")
    assert said.startswith(b"Error: 'data.csv' has no column")
    options = ("--label", "kind", "--view", "größe=größe*", "--json")
    for encoding in ("ascii", "utf-8"):
        written, _ = described(tmp_path, "größe", *options, PYTHONIOENCODING=encoding)
        assert json.loads(written.decode(encoding))["views"][0]["name"] == "größe"
