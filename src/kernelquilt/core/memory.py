"""What a fit may take of the memory, checked before it is taken."""

import os
from pathlib import Path

VARIABLE = "KERNELQUILT_MAX_MEMORY"
GIB = 2**30
UNKNOWN_MEMORY = 16.0  # GiB, where the size cannot be found out
CONTAINER = Path("/sys/fs/cgroup/memory.max")


def memory_limit() -> float:
    """Return the GiB that the arrays of a fit may take.

    Half of the memory of the machine, or what the environment variable KERNELQUILT_MAX_MEMORY says.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return total_memory() / 2
    try:
        limit = float(given)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise ValueError(f"{VARIABLE} must be a positive number of GiB, got {given!r}")
    return limit


def total_memory() -> float:
    """Return the GiB of the machine, or of the container that the process runs in."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    except (AttributeError, OSError, ValueError):
        memory = UNKNOWN_MEMORY
    try:
        return min(memory, int(CONTAINER.read_text()) / GIB)
    except (OSError, ValueError):
        return memory


def check_memory(
    n_samples: int,
    n_kernels: int,
    n_bytes: float,
    *,
    max_memory: float | None = None,
    instead: str = "",
) -> None:
    """Refuse to make arrays that would take too much memory.

    Parameters
    ----------
    n_samples, n_kernels : int
        What they are made of.
    n_bytes : float
        What they need.
    max_memory : float or None, default=None
        The GiB that a parameter of this name allows; by default those of `memory_limit`.
    instead : str, default=""
        What else there is for that many samples.
    """
    needed = n_bytes / GIB
    limit = memory_limit() if max_memory is None else max_memory
    if needed > limit:
        above, remedy = f"max_memory={limit:g}", "raise max_memory"
        if max_memory is None:
            above = f"the limit of {_rounded(limit)} GiB (by default half of the memory)"
            remedy = f"raise the limit with the environment variable {VARIABLE}"
        raise ValueError(
            f"{n_kernels} kernels of {n_samples} samples need about {_rounded(needed)} GiB, above "
            f"{above}; {instead}use fewer samples or kernels, or {remedy}"
        )


def _rounded(size: float) -> str:
    return f"{size:.2g}" if size < 10 else f"{size:.0f}"
