"""What a fit may take of the machine, and what it may leave behind.

Memory is checked before it is taken, and BLAS has one thread: with one at a time results do not
depend on how many cores there are. A fit that fails leaves its estimator as it was.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

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


@contextmanager
def unchanged_on_error(estimator: object) -> Iterator[None]:
    """Put the attributes of `estimator` back as they were if the block raises."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


_lock = threading.Lock()
_inside = 0
_limiter: Any = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the callers now inside has left.

    Fits may overlap in threads; counting them keeps one that ends from undoing the limit of
    another, or from leaving the limit behind for good.
    """
    global _inside, _limiter
    entered = False
    try:
        with _lock:
            if _inside == 0:
                # what is to be restored is known before anything is set, which may be interrupted
                _limiter = None
                _limiter = _controller().limit(limits=None)
                _controller().limit(limits=1, user_api="blas")
            _inside += 1
            entered = True
        yield
    finally:
        with _lock:
            _inside -= entered
            if _inside == 0 and _limiter is not None:
                try:
                    _limiter.restore_original_limits()
                except BaseException:
                    _limiter.restore_original_limits()
                    raise


def _after_fork() -> None:
    """Start anew in the child: a thread of the parent may have held the lock, and is not here."""
    global _lock, _inside
    _lock, _inside = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
