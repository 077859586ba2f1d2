"""Random cases of the command line: tables and stores, some of them damaged, and models."""

import json
import tempfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from click.testing import CliRunner

import kernelquilt as kq
from kernelquilt.cli._group import kq as group
from kernelquilt.experiments.methods import METHODS_OF
from kernelquilt.experiments.running.store import Row, Store
from kernelquilt.experiments.study.protocol import PROTOCOLS

# what a table is compared by, of methods that are fitted in no time
COMPARED = {
    "classification": ("majority", "zero SVC", "late fusion", "complete only", "logistic"),
    "regression": ("mean", "ridge", "observed fraction"),
    "survival": ("no model", "ridge"),
}
COMMANDS = ["describe"] * 4 + ["compare"] * 3 + ["report"] * 3 + ["methods", "reproduce", "explain"]


def run_command(rng, blocks, observed, y, *, cryptic):
    """Run a command on views, and raise what it should have said in one line."""
    name = COMMANDS[int(rng.integers(len(COMMANDS)))]
    with tempfile.TemporaryDirectory() as folder:
        arguments, files = ARGUMENTS[name](rng, Path(folder), blocks, observed, y)
        if files and rng.random() < 0.3:
            _damage(rng, files[int(rng.integers(len(files)))])
        result = CliRunner().invoke(group, [name, *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in ((0, 1, 2) if name == "compare" else (0, 2)):
        raise AssertionError(f"{name} ended with {result.exit_code}: {result.output[-300:]}")
    if result.exit_code == 0 and "--json" in arguments:
        _check_json(result.stdout)
    if any(words in result.output for words in cryptic):
        raise AssertionError(f"{name} says {result.output[-300:]}")


def _check_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    json.loads(text, parse_constant=refuse)


def _damage(rng, path):
    content = bytearray(path.read_bytes())
    kind = rng.random()
    if kind < 0.2:
        content = content[: int(rng.integers(len(content) + 1))]
    elif kind < 0.9:
        for place in rng.integers(0, len(content), 5):
            content[place] = int(rng.integers(256))
    else:
        content = bytearray(b"")
    path.write_bytes(bytes(content))


def _table(rng, folder, blocks, observed, y):
    """Write a table of one of the kinds, and return its path and the options that go with it."""
    seen = [
        np.where(o[:, None], b, np.nan) for b, o in zip(blocks.values(), observed.T, strict=True)
    ]
    options = ["--label", "label"]
    kind = ["csv", "tsv", "parquet", "npz"][int(rng.integers(4))]
    path = folder / f"data.{kind}"
    if kind == "npz":
        arrays = {f"view_{k}": block for k, block in enumerate(seen)}
        np.savez(path, **arrays, label=y if y.dtype.names is None else y["event"])
        return path, options
    columns = [f"{name}__{k}" for name, block in blocks.items() for k in range(block.shape[1])]
    frame = pd.DataFrame(np.hstack(seen), columns=columns)
    if y.dtype.names is None:
        frame["label"] = y
    else:
        frame["label"], frame["months"] = y["event"], y["time"]
        options += ["--time", "months"]
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    return path, options


def _describe(rng, folder, *data):
    path, options = _table(rng, folder, *data)
    return [path, *options, *(["--json"] if rng.random() < 0.5 else [])], [path]


def _compare(rng, folder, blocks, observed, y):
    path, options = _table(rng, folder, blocks, observed, y)
    task = "survival" if "--time" in options else "classification"
    if task == "classification" and y.dtype.kind == "f" and (y != np.round(y)).any():
        task = "regression"
    methods = [name for name in COMPARED[task] if rng.random() < 0.5] or [COMPARED[task][0]]
    assert set(methods) <= set(METHODS_OF[task])
    options += ["--methods", ",".join(methods), "--repetitions", "1", "--json"]
    options += ["--ratio", "0.3"] if rng.random() < 0.3 else []
    return [path, *options, "--store", folder / "cells.sqlite"], [path]


def _report(rng, folder, *_):
    path = folder / "cells.sqlite"
    names = ["quilt", "=1+1", "<b>", "\x1b[31m", "x'; DROP TABLE cells; --", ""]
    with Store(path) as store:
        for key in range(int(rng.integers(0, 12))):
            own = [names[int(k)] for k in rng.integers(len(names), size=4)]
            figures = {"accuracy": float(rng.choice([0.5, np.nan, np.inf, 1e300, -1.0]))}
            store.add(Row(str(key), *own, int(rng.integers(3)), own[0], figures=figures))
    return [path, "--json"], [path]


def _methods(rng, *_):
    return ["--task", sorted(METHODS_OF)[int(rng.integers(len(METHODS_OF)))], "--json"], []


def _reproduce(rng, folder, *_):
    protocol = [*PROTOCOLS, "none"][int(rng.integers(len(PROTOCOLS) + 1))]
    if rng.random() < 0.5:
        return [protocol, "--list", "--json"], []
    return [protocol, "--data-dir", folder, "--store", folder / "cells.sqlite"], []


def _explain(rng, folder, blocks, observed, y):
    path, options = _table(rng, folder, blocks, observed, y)
    model, written = folder / "model.joblib", folder / "page.html"
    rows = np.arange(40) % 2
    views = kq.MultiView(
        {name: rng.standard_normal((40, b.shape[1])) for name, b in blocks.items()}
    )
    joblib.dump(kq.LateFusionClassifier().fit(views, rows), model)
    return [model, path, *options, "--sample", "0", "--output", written], [path, model]


ARGUMENTS = {
    "describe": _describe,
    "compare": _compare,
    "report": _report,
    "methods": _methods,
    "reproduce": _reproduce,
    "explain": _explain,
}
