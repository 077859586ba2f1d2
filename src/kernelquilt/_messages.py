"""Names in messages, warnings at the line of the user, and lines about progress."""

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from types import FrameType
from typing import Any

_NUMBER = re.compile(r"(?<![\w'])\d+(\.\d+)?(e[+-]?\d+)?")  # not of a name


def quoted(names: Iterable[str]) -> str:
    """Join names for a message: ``'mri', 'rna'``; the first of many."""
    listed = [repr(name) for name in names]
    shown = 40
    return ", ".join(listed[:shown]) + (
        f" and {len(listed) - shown} more" if listed[shown:] else ""
    )


def remedy(name: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """Return which names may have been meant instead of one that is not known."""
    near = get_close_matches(name, list(known), n=3, cutoff=cutoff)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as the line outside of the package that led here."""
    # scikit-learn wraps transform, its pipelines and searches stand in between, and contextlib
    # and joblib call the functions that they are given
    inside = f"{__name__.partition('.')[0]}.", "sklearn.", "contextlib", "joblib."
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame and frame.f_globals.get("__name__", "").startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def print_progress(name: str, step: str, objective: float, what: str, value: float) -> None:
    """Print the line about one step of a solver that `verbose` asks for."""
    sys.stdout.write(f"[{name}] {step}: objective {objective:.8g}, {what} {value:.2g}\n")


Said = list[tuple[type[Warning], str]]


def with_warnings(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Said]:
    """Call a function, and return its result and its warnings instead of giving them."""
    with warnings.catch_warnings(record=True) as caught:
        result = function(*arguments)
    return result, [(each.category, str(each.message)) for each in caught]


def warn_once(folds: Sequence[Said]) -> None:
    """Give each warning of several folds once and say in how many; numbers in it may differ."""
    first: dict[tuple[type[Warning], str], str] = {}
    counts: Counter[tuple[type[Warning], str]] = Counter()
    for said in folds:
        alike = {(category, _NUMBER.sub("#", text)): text for category, text in said}
        counts.update(alike.keys())
        first = {**alike, **first}
    for (category, pattern), text in first.items():
        count = counts[category, pattern]
        warn_user(f"{text} (in {count} of {len(folds)} folds)", category)
