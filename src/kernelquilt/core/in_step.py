"""Solvers that run in step, so that one pass over large data serves all of them.

A solver that reads such data makes each pass with `Reader.ask`. By itself it is served at once.
Under `in_step` it waits until all that are not done have asked, and they are served together. Each
has a thread only to keep its place: no two ever run at the same time, so that results do not depend
on timing and nothing needs a lock. The requests of every solver are numbered from the start, and
those that are served together have the same number: what depends on the number and the request
alone is the same however many run in step.
"""

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Serve = Callable[[list[Any], int], Sequence[Any]]

AT_ONCE = 32  # solvers in step, each with what it holds

_local = threading.local()


class Cancelled(BaseException):
    """Ends a solver that will get no answer."""


class Reader:
    """A solver by itself: its requests are served at once."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.number = 0

    def ask(self, request: Any) -> Any:
        """Return the answer to a request."""
        self.number += 1
        return self.serve([request], self.number)[0]


class _InStep(Reader, Generic[Result]):
    """A solver that stops wherever it asks, until it is resumed."""

    def __init__(self, serve: Serve, solver: Callable[[], Result]) -> None:
        super().__init__(serve)
        self.request: Any = None
        self.result: Result
        self.done = False
        self._answer: Any = None
        self._error: BaseException | None = None
        self._cancelled = False
        self._turn, self._pause = threading.Semaphore(0), threading.Semaphore(0)
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run, solver), daemon=True)
        self._thread.start()

    def _run(self, solver: Callable[[], Result]) -> None:
        _local.reader = self
        try:
            self._wait()
            self.result = solver()
        except BaseException as error:
            self._error = error
        self.done = True
        self._pause.release()

    def _wait(self) -> Any:
        self._turn.acquire()
        if self._cancelled:
            raise Cancelled
        return self._answer

    def ask(self, request: Any) -> Any:
        self.number += 1
        self.request = request
        self._pause.release()
        return self._wait()

    def resume(self, answer: Any = None) -> None:
        """Let the solver go on until it asks again, or ends; raise what it raises."""
        self._answer = answer
        self._turn.release()
        self._pause.acquire()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Let the solver end where it asks."""
        self._cancelled = True
        self._turn.release()

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()


def current_reader(serve: Serve) -> Reader:
    """Return who asks for the solver that runs in this thread, a new one if it is by itself."""
    reader: Reader | None = getattr(_local, "reader", None)
    return Reader(serve) if reader is None else reader


def in_step(solvers: Sequence[Callable[[], Result]], serve: Serve) -> list[Result]:
    """Return the results of solvers that are served together, `AT_ONCE` at a time.

    Parameters
    ----------
    solvers : sequence of callables
        They ask by their `current_reader`. An error of one ends all of them.
    serve : callable
        Returns the answers to a list of requests, given the number that they have in common.
    """
    results: list[Result] = []
    for first in range(0, len(solvers), AT_ONCE):
        results += _one_group(solvers[first : first + AT_ONCE], serve)
    return results


def _one_group(solvers: Sequence[Callable[[], Result]], serve: Serve) -> list[Result]:
    if len(solvers) == 1:
        return [_by_itself(solvers[0], serve)]
    group: list[_InStep[Result]] = []
    try:
        for solver in solvers:
            group.append(_InStep(serve, solver))
            group[-1].resume()
        while waiting := [each for each in group if not each.done]:
            answers = serve([each.request for each in waiting], waiting[0].number)
            for each, answer in zip(waiting, answers, strict=True):
                each.resume(answer)
    finally:
        for each in group:
            each.cancel()
        for each in group:
            each.join()
    return [each.result for each in group]


def _by_itself(solver: Callable[[], Result], serve: Serve) -> Result:
    _local.reader = Reader(serve)
    try:
        return solver()
    finally:
        del _local.reader
