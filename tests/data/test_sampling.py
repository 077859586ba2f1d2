"""Samples in blocks."""

from pathlib import Path

import numpy as np
import pytest

from kernelquilt.data.sampling import sample_blocks
from kernelquilt.data.views import MultiView


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs the /proc of Linux")
def test_a_pass_over_a_file_leaves_nothing_of_it_in_memory(tmp_path):
    path, n = tmp_path / "view.npy", 100_000
    np.save(path, np.random.default_rng(0).standard_normal((n, 20)))
    view = np.asarray(np.load(path, mmap_mode="r"))
    blocks = sample_blocks(MultiView({"view": view}), n_jobs=2)
    found = blocks.sum(total)[0]
    assert _resident_kilobytes(path) < 2000  # of 16 000
    np.testing.assert_allclose(found, view.sum(axis=0))
    assert _resident_kilobytes(path) > 15_000


def total(block):
    return (block.views[0].sum(axis=0),)


def _resident_kilobytes(path):
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    return sum(
        int(next(line for line in lines if line.startswith("Rss:")).split()[1])
        for line in lines
        if line.endswith(str(path))
    )
