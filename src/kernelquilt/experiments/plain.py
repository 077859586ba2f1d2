"""Values as plain data for JSON."""

import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a value made of dicts, lists, texts and numbers; None for what is not finite.

    Parameters
    ----------
    value : any
        Of mappings, sequences, arrays, dataclasses, numbers and texts.
    """
    if is_dataclass(value):
        value = vars(value)
    elif isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
