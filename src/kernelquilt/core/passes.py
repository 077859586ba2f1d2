"""How often the rows were read, told to those who wait."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SECONDS_BETWEEN_LINES = 5.0


class Passes:
    """Counts the passes over rows, and prints how far they are if asked to.

    Parameters
    ----------
    title : str, default=""
        Whose passes they are.
    verbose : bool or int, default=False
        Whether to print.

    Attributes
    ----------
    count : int
        Number of passes that were begun.
    """

    def __init__(self, title: str = "", verbose: bool | int = False) -> None:
        self.title, self.verbose, self.count = title, verbose, 0

    @contextmanager
    def running(self, name: str, total: int) -> Iterator[Callable[[Any], Any]]:
        """Count a pass over `total` chunks; yields what the result of each is to go through."""
        self.count += 1
        begun = told = time.monotonic()
        done = 0
        what = f"[{self.title}] pass {self.count}" + (f" ({name})" if name else "")

        def advance(result: Any) -> Any:
            nonlocal done, told
            done += 1
            now = time.monotonic()
            if self.verbose and done < total and now - told >= SECONDS_BETWEEN_LINES:
                told = now
                left = (now - begun) / done * (total - done)
                sys.stdout.write(f"{what}: {done} of {total} chunks, about {left:.0f} s left\n")
            return result

        yield advance
        if self.verbose:
            sys.stdout.write(f"{what}: {total} chunks in {time.monotonic() - begun:.1f} s\n")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Say how long something took that is no pass over rows."""
        begun = time.monotonic()
        yield
        if self.verbose:
            sys.stdout.write(f"[{self.title}] {name}: {time.monotonic() - begun:.1f} s\n")
