"""One BLAS thread at a time, so that results do not depend on how many cores there are."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

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
    with _lock:
        _inside += 1
        if _inside == 1:
            _limiter = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limiter.restore_original_limits()
