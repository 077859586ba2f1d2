"""Passes over blocks of rows: the partition, ordered sums, and the same in threads and on dask."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from kernelquilt.core.blocks import (
    BLOCK_ROWS,
    Block,
    Blocks,
    array_blocks,
    default_lengths,
    sliced_chunks,
)
from kernelquilt.core.dask_chunks import DaskChunks
from kernelquilt.core.passes import Passes
from kernelquilt.data.blocks import is_dask


def _data(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    observed = rng.random((n, 2)) < 0.7
    a, b = rng.standard_normal((n, 3)), rng.standard_normal((n, 4))
    a[~observed[:, 0]] = np.nan
    b[~observed[:, 1]] = np.nan
    return (a, b), observed


def moments(block, shift):
    both = block.observed.all(axis=1)
    a, b = block.views[0][both] - shift, block.views[1][both]
    return a.T @ b, a.sum(axis=0), np.count_nonzero(both)


def scores(block, factor):
    having = block.observed[:, 0]
    return factor * block.views[0][having].sum(axis=1), np.flatnonzero(having)


def weighted_rows(block):
    codes, weight = block.beside
    return np.bincount(codes, weight, minlength=3), weight.sum()


def fail_on_many(block, limit):
    if len(block.observed) > limit:
        raise ValueError(f"a block of {len(block.observed)} rows")
    return (len(block.observed),)


def _on_dask(views, observed, lengths):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    parts = [
        dask.delayed(Block)(tuple(view[i:j] for view in views), observed[i:j])
        for i, j in pairwise(bounds)
    ]
    return Blocks(DaskChunks(parts, lengths))


def test_the_partition_depends_on_the_number_of_rows_only():
    assert default_lengths(5) == (5,)
    lengths = default_lengths(3 * BLOCK_ROWS + 1)
    assert sum(lengths) == 3 * BLOCK_ROWS + 1
    assert max(lengths) <= BLOCK_ROWS
    assert max(lengths) - min(lengths) <= 1
    assert default_lengths(0) == (0,)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_sums_have_the_same_bits_for_any_number_of_threads(n_jobs):
    views, observed = _data()
    lengths = (7,) * 700 + (100,)
    one = array_blocks(views, observed, lengths=lengths).sum(moments, 0.5)
    many = array_blocks(views, observed, lengths=lengths, n_jobs=n_jobs).sum(moments, 0.5)
    for left, right in zip(one, many, strict=True):
        assert np.array_equal(left, right)


def test_many_tiny_blocks_equal_one_block():
    views, observed = _data()
    rounded = [np.round(10 * view) for view in views]  # whole numbers are added without rounding
    tiny = array_blocks(rounded, observed, lengths=(1,) * 13 + (3,) * 1662 + (1,))
    whole = array_blocks(rounded, observed, lengths=(5000,))
    expected = moments(Block(tuple(rounded), observed), 1.0)
    for a, b, c in zip(tiny.sum(moments, 1.0), whole.sum(moments, 1.0), expected, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)
    for a, b in zip(tiny.map(scores, 2.0)[:1], whole.map(scores, 2.0)[:1], strict=True):
        assert np.array_equal(a, b)


def test_blocks_are_cut_however_long_the_chunks_are():
    views, observed = _data(3 * BLOCK_ROWS)
    blocks = array_blocks(views, observed, lengths=(3 * BLOCK_ROWS,))
    assert blocks.sum(fail_on_many, BLOCK_ROWS) == (3 * BLOCK_ROWS,)


def test_sums_are_added_as_a_tree():
    values = np.random.default_rng(1).standard_normal(11) * 10.0 ** np.arange(11)

    def leaf(block):
        return (block.views[0].sum(),)

    def tree(parts):
        while len(parts) > 1:
            parts = [sum(parts[i : i + 2][1:], parts[i]) for i in range(0, len(parts), 2)]
        return parts[0]

    for n in range(1, 12):
        blocks = array_blocks([values[:n, None]], np.ones((n, 1), bool), lengths=(1,) * n)
        assert blocks.sum(leaf)[0] == tree(list(values[:n]))


def test_a_sum_does_not_hold_the_results_of_all_blocks():
    views, observed = np.zeros((64, 1)), np.ones((64, 1), dtype=bool)
    blocks = array_blocks([views], observed, lengths=(1,) * 64)

    def large(block):
        return (np.ones((500, 500)),)  # 2 MB

    tracemalloc.start()
    total = blocks.sum(large)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total[0, 0] == 64
    assert peak < 32e6


@pytest.mark.parametrize("lengths", [(5000,), (1000, 1, 3999), (100,) * 50])
def test_dask_gives_the_same_bits(lengths):
    views, observed = _data()
    local, lazy = array_blocks(views, observed, lengths=lengths), _on_dask(views, observed, lengths)
    codes, weight = np.arange(5000) % 3, np.linspace(0, 1, 5000)
    for left, right in (
        (local.sum(moments, 0.1), lazy.sum(moments, 0.1)),
        (local.map(scores, 3.0), lazy.map(scores, 3.0)),
        (
            local.beside(codes, weight).sum(weighted_rows),
            lazy.beside(codes, weight).sum(weighted_rows),
        ),
    ):
        for a, b in zip(left, right, strict=True):
            assert np.array_equal(a, b)


def test_dask_arrays_are_computed_late():
    pytest.importorskip("dask", reason="dask is not installed")
    views, observed = _data()
    lazy = _on_dask(views, observed, (2000, 3000))
    made = lazy.chunks.rowwise(_first_column, 2.0, like=np.zeros(1))
    assert is_dask(made)
    assert not is_dask(views[0])
    assert made.chunks == ((2000, 3000),)
    assert lazy.chunks.passes.count == 0
    assert np.array_equal(made.compute(), 2 * views[0][:, 0], equal_nan=True)


def _first_column(block, factor):
    return factor * block.views[0][:, 0]


@pytest.mark.parametrize("where", ["local", "dask"])
def test_rows_are_taken_in_any_order(where):
    views, observed = _data()
    views = (views[0], csr_array(np.nan_to_num(views[1])))
    if where == "local":
        blocks = array_blocks(views, observed, lengths=(2500, 2500))
    else:
        blocks = _on_dask(views, observed, (2500, 2500))
    rows = np.array([4999, 3, 3, 2500, 0])
    taken = blocks.beside(np.arange(5000)).take(rows)
    assert taken.beside[0].tolist() == rows.tolist()
    assert np.array_equal(taken.views[0], views[0][rows], equal_nan=True)
    assert issparse(taken.views[1])
    assert np.array_equal(taken.views[1].toarray(), views[1][rows].toarray())
    assert np.array_equal(taken.observed, observed[rows])
    with pytest.raises(IndexError, match="5000 rows"):
        blocks.take([5000])


def test_sparse_and_dense_views_give_the_same_sums():
    views, observed = _data()
    whole = [np.nan_to_num(np.round(view)) for view in views]
    dense = array_blocks(whole, observed).sum(moments, 0.0)
    sparse = array_blocks([whole[0], csr_array(whole[1])], observed).sum(moments, 0.0)
    for a, b in zip(dense, sparse, strict=True):
        assert np.array_equal(a, b)


def test_only_chunks_that_hold_rows_are_read():
    read = []

    def cut(rows):
        read.append(rows.start)
        return Block((np.zeros((rows.stop - rows.start, 1)),), np.ones((10, 1), bool))

    Blocks(sliced_chunks(cut, (10,) * 20)).take([15, 199])
    assert read == [10, 190]


def test_memory_maps_are_not_loaded(tmp_path):
    n = 200_000
    disk = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", dtype=np.float32, shape=(n, 20))
    disk[:] = 1.0
    observed = np.ones((n, 1), dtype=bool)
    blocks = array_blocks([disk], observed)
    tracemalloc.start()
    total = blocks.sum(lambda block: (block.views[0].T @ block.views[0],))[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(total, np.full((20, 20), float(n)))
    assert peak < 2e6


def test_passes_are_counted_and_told(capsys, monkeypatch):
    monkeypatch.setattr("kernelquilt.core.passes.SECONDS_BETWEEN_LINES", 0.0)
    views, observed = _data()
    passes = Passes("Quilt", verbose=True)
    blocks = array_blocks(views, observed, lengths=(2500, 2500), passes=passes)
    blocks.sum(moments, 0.0, name="moments")
    blocks.beside(observed).map(scores, 1.0)
    assert passes.count == 2
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("[Quilt] pass 1 (moments): 1 of 2 chunks, about")
    assert told[1].startswith("[Quilt] pass 1 (moments): 2 chunks in")
    assert len(told) == 4
    array_blocks(views, observed).sum(moments, 0.0)
    assert capsys.readouterr().out == ""


def test_errors_come_through():
    views, observed = _data()
    blocks = array_blocks(views, observed, n_jobs=2)
    with pytest.raises(ValueError, match="a block of"):
        blocks.sum(fail_on_many, 10)
    with pytest.raises(ValueError, match="there are 5000 rows, but an array of 3"):
        blocks.beside(np.zeros(3))
