"""One BLAS thread at a time, so that results do not depend on how many cores there are."""

import os
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
