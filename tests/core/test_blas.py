"""The limit on BLAS threads is undone whatever happens."""

import os
import sys

import pytest
from threadpoolctl import threadpool_info

from kernelquilt.core import blas


def threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@pytest.mark.parametrize("call", range(1, 40))
def test_an_interrupt_while_threads_are_limited_leaves_no_limit_behind(call):
    before, calls = threads(), 0

    def interrupt(frame, event, argument):
        nonlocal calls
        if event == "call" and "threadpoolctl" in frame.f_code.co_filename:
            calls += 1
            if calls == call:
                raise KeyboardInterrupt

    previous = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with blas.single_threaded_blas():
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(previous)
    assert blas._inside == 0
    assert threads() == before
    with blas.single_threaded_blas():
        assert set(threads()) <= {1}
    assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_lock_that_a_thread_of_the_parent_holds_is_free_in_a_forked_child():
    with blas._lock:
        child = os.fork()
        if child == 0:
            free = blas._lock.acquire(timeout=5)
            os._exit(0 if free and blas._inside == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
