"""Names of array types, each once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
UnsignedIntegers = NDArray[np.uint64]
Numbers = NDArray[np.floating[Any]]
Array = NDArray[Any]
Kernel = Array
