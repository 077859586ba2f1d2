"""Passes on a cluster of dask: on its workers, on some that die, and after it is closed."""

import os
import signal
import warnings

import numpy as np
import pytest

from kernelquilt.core.blocks import Block, Blocks, array_blocks
from kernelquilt.core.dask_chunks import dask_chunks

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="dask's distributed is not installed")

LENGTHS = (50,) * 8


def _numbers():
    return np.random.default_rng(0).standard_normal((400, 3))


def _lazy_blocks(collection):
    def as_block(parts):
        return Block(parts, np.ones((len(parts[0]), len(parts)), dtype=bool))

    return Blocks(dask_chunks({"a": collection}).then(as_block))


def _gram(block, shift):
    Z = block.views[0] - shift
    return Z.T @ Z, len(Z)


def _client():
    return distributed.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    )


@pytest.fixture
def client():
    with _client() as made:
        yield made


def _same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_a_client_gives_the_same_bits(client):
    X, shift = _numbers(), np.zeros(3)
    local = array_blocks([X], np.ones((400, 1), bool), lengths=LENGTHS).sum(_gram, shift)
    blocks = _lazy_blocks(da.from_array(X, chunks=(50, 3)))
    assert _same(blocks.sum(_gram, shift), local)
    # large arguments are nothing to warn of
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blocks.sum(lambda block, large: (large[0, 0],), np.ones((1300, 1300)))


def test_chunks_that_workers_hold_are_kept(client):
    # nothing but the blocks refers to them
    blocks = _lazy_blocks(da.from_array(_numbers(), chunks=(50, 3)).persist())
    for _ in range(2):
        assert blocks.sum(_gram, 0.0)[1] == 400
    assert blocks.take([399, 0]).views[0].shape == (2, 3)


def test_a_closed_client_is_told():
    told = r"client of dask is closed.* make the views again"
    client = _client()
    held = _lazy_blocks(da.from_array(_numbers(), chunks=(50, 3)).persist())
    client.close()
    with pytest.raises(ValueError, match=told):
        held.sum(_gram, 0.0)
    with dask.config.set(scheduler="distributed"), pytest.raises(ValueError, match=told):
        held.sum(_gram, 0.0)
    # what dask can compute anew goes on without
    assert _lazy_blocks(da.from_array(_numbers(), chunks=(50, 3))).sum(_gram, 0.0)[1] == 400


@pytest.mark.kill
def test_a_worker_that_dies_changes_nothing(tmp_path):
    X = _numbers()

    def gram(block, shift, folder):
        try:
            # the third block that is worked on takes its worker along, once
            names = [folder / f"block{k}" for k in range(3)]
            free = next(name for name in names if not name.exists())
            free.touch(exist_ok=False)
            if free == names[2]:
                os.kill(os.getpid(), signal.SIGKILL)
        except (StopIteration, FileExistsError):
            pass
        Z = block.views[0] - shift
        return Z.T @ Z, len(Z)

    shift = np.ones(3)
    expected = array_blocks([X], np.ones((400, 1), bool), lengths=LENGTHS).sum(_gram, shift)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        before = set(client.scheduler_info()["workers"])
        blocks = _lazy_blocks(da.from_array(X, chunks=(50, 3)))
        found = blocks.sum(gram, shift, tmp_path)
        assert (tmp_path / "block2").exists()
        client.wait_for_workers(2, timeout=60)
        assert set(client.scheduler_info()["workers"]) != before
    # another process may round in another way
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-13)
