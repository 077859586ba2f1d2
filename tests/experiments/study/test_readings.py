"""Readings of a paper: each changes kernels and what is done to them, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelquilt as kq
from kernelquilt.completion import MeanFill, ZeroFill
from kernelquilt.experiments.study.kernels import KERNELS
from kernelquilt.experiments.study.protocol import (
    DataSet,
    ProtocolError,
    Study,
    load_forms,
    parse_protocol,
)
from kernelquilt.experiments.study.sources import Source
from kernelquilt.experiments.study.splits import make_split

READINGS = {
    "squared": {"kernels": "bank_20_squared", "fill": "before_centring"},
    "as they come": {"kernels": "bank_20_squared", "standardize": {"set": False}},
    "linear": {"kernels": "bank_20_linear", "fill": "after_centring"},
}


@pytest.fixture(scope="module")
def source():
    rng = np.random.default_rng(0)
    y = np.repeat([-1, 1], 30)
    X = 3 * rng.normal(size=(60, 4)) + y[:, None]
    return Source(kq.MultiView({"all": X}), y)


def study_of(**changes):
    problem = {
        "channels": True,
        "mask": {"mechanism": "per_sample", "ratio": [0.5, 0.1]},
        "readings": READINGS,
    }
    entries = {
        "protocol": "p", "name": "s", "title": "t", "datasets": [DataSet("set")], "methods": ["ZF"],
        "axis": "reading", "settings": list(READINGS), "repetitions": 3, "problem": problem,
    }  # fmt: skip
    return Study(**{**entries, **changes})


def splits_of(study, source):
    return {(c.setting, c.repetition): make_split(c, source) for c in study.cells()}


def test_a_reading_changes_kernels_and_nothing_else(source):
    splits = splits_of(study_of(), source)
    for repetition in range(3):
        own = [splits[name, repetition] for name in READINGS]
        for split in own[1:]:
            assert_array_equal(split.y_train, own[0].y_train)
            assert_array_equal(split.train.observed, own[0].train.observed)
            assert_array_equal(split.test.observed, own[0].test.observed)
            assert_array_equal(split.train["all_0"], own[0].train["all_0"])
        grams = [split.stacks[0].gram() for split in own]
        assert not np.allclose(grams[0], grams[1])
        assert not np.allclose(grams[0], grams[2])


def test_repetitions_take_the_ratios_in_turn(source):
    splits = splits_of(study_of(), source)
    shares = [1 - splits["linear", r].train.observed.mean() for r in range(3)]
    assert_allclose(shares, [0.5, 0.1, 0.5])


def test_the_study_of_a_reading_has_its_kernels(source):
    splits = splits_of(study_of(), source)
    for name, reading in READINGS.items():
        problem = {**study_of().problem, **reading}
        alone = study_of(axis="none", settings=["-"], problem=problem)
        stacks = splits_of(alone, source)["-", 0].leaky_stacks
        for one, other in zip(stacks, splits[name, 0].leaky_stacks, strict=True):
            assert_array_equal(one.gram(), other.gram())


def test_squared_widths_by_hand(source):
    A = source.data["all"]
    squared = ((A[:, None] - A) ** 2).sum(axis=2)
    mean = np.sqrt(squared).mean()
    bank = KERNELS["bank_20_squared"]
    stack = kq.ViewKernels(bank).fit_transform(source.data)
    scales = np.linspace(2**-7, 2**7, 20)
    assert_allclose(stack.gram(), np.exp(-squared / (scales * mean)[:, None, None]), atol=1e-12)


def double_centred(K, train):
    """Centre and scale a kernel of all samples with the means of some, as in a text book."""
    n = len(K)
    H = np.eye(n) - np.ones((n, 1)) * np.isin(np.arange(n), train) / len(train)
    centred = H @ K @ H.T
    norms = np.sqrt(np.maximum(np.diagonal(centred), 0.0))
    return np.divide(centred, np.outer(norms, norms), where=np.outer(norms, norms) > 1e-7,
                     out=np.zeros_like(K))  # fmt: skip


@pytest.mark.parametrize("filler", [ZeroFill, MeanFill])
def test_filling_before_centring_by_hand(source, filler):
    split = splits_of(study_of(), source)["squared", 0]
    found = split.filled(filler())
    assert all(stack.observed.all() for stack in found)
    A = np.vstack([views["all_0"] for views in split.complete])
    observed = np.vstack([split.train.observed, split.test.observed])
    n = len(split.y_train)
    for p in (0, 3, 19):
        own = np.flatnonzero(observed[:n, p])
        Z = (A - A[own].mean(axis=0)) / A[own].std(axis=0)
        squared = ((Z[:, None] - Z) ** 2).sum(axis=2)
        mean = np.sqrt(squared[np.ix_(own, own)]).mean()
        K = np.exp(-squared / (np.linspace(2**-7, 2**7, 20)[p] * mean))
        B = np.eye(len(A))
        B[~observed[:, p]] = np.isin(np.arange(len(A)), own) / len(own) * (filler is MeanFill)
        expected = double_centred(B @ K @ B.T, np.arange(n))
        assert_allclose(found[0].gram()[p], expected[:n, :n], atol=1e-6)
        assert_allclose(found[1].gram()[p], expected[n:, :n], atol=1e-6)


def test_mean_filling_is_the_same_before_and_after_centring_but_zero_filling_is_not(source):
    study = study_of()
    first = splits_of(study, source)["squared", 0]
    last = replace(first, fill="after_centring")
    for filler, same in ((MeanFill(), True), (ZeroFill(), False)):
        grams = [split.filled(filler)[0].gram() for split in (first, last)]
        assert (np.abs(grams[0] - grams[1]).max() < 0.1) == same


def test_readings_of_a_protocol_are_selectable():
    forms = {full.name: full for full, _ in load_forms("absent-mkl")}
    readings = forms["readings"].problem["readings"]
    assert forms["readings"].settings == list(readings)
    own = {name: v for name, v in forms["uci"].problem.items() if name not in readings["squared"]}
    for name, reading in readings.items():
        chosen = {full.name: full for full, _ in load_forms("absent-mkl", reading=name)}
        assert chosen["uci"].problem == {**own, **reading}
        assert chosen["protein"] == forms["protein"]
    with pytest.raises(ProtocolError, match="no reading 'x'; there are squared"):
        load_forms("absent-mkl", reading="x")
    with pytest.raises(ProtocolError, match="the protocol has none"):
        load_forms("quilt", reading="squared")


def test_an_unknown_reading_is_named(source):
    cell = next(study_of(settings=["cubed"]).cells())
    with pytest.raises(ProtocolError, match="no reading 'cubed'; there are squared"):
        make_split(cell, source)


def test_a_study_takes_the_reading_that_it_names():
    text = """
    protocol = "p"
    datasets = ["a"]
    methods = ["ZF"]
    [readings]
    one = { kernels = "linear" }
    two = { kernels = "cosine" }
    [[study]]
    name = "s"
    title = "t"
    reading = "two"
    problem = { train = 0.5 }
    """
    ((full, _),) = parse_protocol(text)
    assert full.problem == {"train": 0.5, "kernels": "cosine"}
    assert full.title == "t"
    assert not full.notes
    ((full, _),) = parse_protocol(text, reading="one")
    assert full.problem == {"train": 0.5, "kernels": "linear"}
    assert full.title == "t, reading 'one'"
    assert full.notes == ["The reading is 'one'; what notes say of kernels is of 'two'."]
    assert parse_protocol(text, reading="two") == parse_protocol(text)
