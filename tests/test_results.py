"""The tables of the results that come with their cells are those that the cells give."""

import csv
import io
from pathlib import Path

import pytest

from kernelquilt.experiments.reporting.page import BY_SETTING
from kernelquilt.experiments.reporting.summary import summaries_of
from kernelquilt.experiments.reporting.writers import to_csv
from kernelquilt.experiments.running.store import Store

RESULTS = Path(__file__).parents[1] / "docs" / "results"
STORES = sorted(RESULTS.rglob("cells.sqlite.gz"))


def lines_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.parent.name)
def test_tables_are_made_of_the_cells(path):
    with Store(path, create=False) as store:
        summaries = summaries_of(store)
    assert summaries
    tables = [(summary, False) for summary in summaries]
    tables += [(s, True) for s in summaries if len(s.by_setting) > len(s.lines)]
    for summary, by_setting in tables:
        ending = f"-{BY_SETTING}" if by_setting else ""
        name = f"{summary.study.protocol}-{summary.study.name}{ending}.csv"
        made = lines_of(to_csv(summary, by_setting=by_setting))
        kept = lines_of(path.with_name(name).read_text())
        assert len(made) == len(kept) > 0
        for ours, theirs in zip(made, kept, strict=True):
            assert ours.keys() == theirs.keys()
            for key, value in ours.items():
                try:
                    assert float(value) == pytest.approx(float(theirs[key]), rel=1e-6, abs=1e-12)
                except ValueError:
                    assert value == theirs[key]
