"""Values as plain data for JSON."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelquilt.experiments.plain import plain


@dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


def test_anything_becomes_plain_data():
    value = Pair({1: np.float64(0.5)}, (np.array([[1.0, np.nan]]), np.int64(3), Pair(None, np.inf)))
    expected = {
        "left": {"1": 0.5},
        "right": [[[1.0, None]], 3, {"left": None, "right": None}],
    }
    found = plain(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


def test_texts_and_flags_stay():
    assert plain(["a", True, np.bool_(False), 2]) == ["a", True, False, 2]
