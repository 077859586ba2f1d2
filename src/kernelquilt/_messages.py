"""Small helpers shared by the containers and the estimators."""

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from html import escape
from types import FrameType
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Indices

_NUMBER = re.compile(r"(?<![\w'])\d+(\.\d+)?(e[+-]?\d+)?")  # not of a name


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


def row_positions(rows: Any, n_rows: int) -> Indices:
    """Turn what scikit-learn and users index rows with into positions.

    Parameters
    ----------
    rows : int, slice, bool or int array-like, or the pair ``(rows, ...)``
    n_rows : int

    Returns
    -------
    positions : ndarray of shape (n_selected,)
        Between 0 and `n_rows` - 1.
    """
    if isinstance(rows, list) and not rows:
        return np.empty(0, dtype=np.intp)
    positions = np.atleast_1d(np.arange(n_rows)[rows])
    if positions.ndim != 1:
        raise IndexError(f"rows are selected by one-dimensional keys, got {positions.ndim}-D")
    return positions


def check_mask(observed: Any, shape: tuple[int, int], columns: str) -> Bools:
    """Return a copy of an explicit `observed` mask after checking shape and dtype.

    Parameters
    ----------
    observed : array-like of bool of shape `shape`
    shape : tuple of int
    columns : str
        What the columns of the mask stand for, for the message.
    """
    mask = np.array(observed)
    if mask.dtype != np.bool_:
        raise ValueError(
            f"observed must be boolean (True where observed), got dtype {mask.dtype}; "
            "convert it with .astype(bool)"
        )
    if mask.shape != shape:
        raise ValueError(f"observed must have shape {shape} (samples, {columns}), got {mask.shape}")
    return mask


def check_names(names: Iterable[Any], count: int, kind: str) -> tuple[str, ...]:
    """Return `names` as strings after checking that there are `count` different ones."""
    checked = tuple(str(name) for name in names)
    if len(checked) != count:
        raise ValueError(f"{len(checked)} names were given for {count} {kind}s")
    repeated = sorted({name for name in checked if checked.count(name) > 1})
    if repeated:
        raise ValueError(f"{kind} names must be different, repeated: {quoted(repeated)}")
    return checked


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Make names different by numbering repetitions: a, a_2, a_3."""
    made: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in made:
            number += 1
            candidate = f"{name}_{number}"
        made[candidate] = None
    return tuple(made)


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


def warn_all_absent(observed: Bools, names: Sequence[str], kind: str) -> None:
    """Warn once about the columns of `observed` that no training sample has.

    Parameters
    ----------
    observed : ndarray of bool of shape (n_samples, n_names)
    names : sequence of str
    kind : str
        ``"view"`` or ``"kernel"``.
    """
    gone = [name for name, rows in zip(names, observed.T, strict=True) if not rows.any()]
    if gone:
        warn_user(
            f"{len(gone)} of {len(names)} {kind}s absent for all {len(observed)} training samples "
            f"and therefore ignored, now and in new data: {quoted(gone)}"
        )


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


SHOWN = 12  # views or kernels of a container, and patterns of presence


def container_text(
    title: str, names: Sequence[str], details: Sequence[str], observed: Bools
) -> str:
    """Describe a container: a title line, then one line per view or kernel.

    Parameters
    ----------
    title : str
    names : sequence of str
    details : sequence of str
        One text per name.
    observed : ndarray of bool of shape (n_samples, n_names)
    """
    absent = 100 * (1 - observed.mean(axis=0)) if len(observed) else np.zeros(len(names))
    width = max(len(name) for name in names[:SHOWN])
    lines = [_headline(title, observed)]
    lines += [
        f"  {name:<{width}}  {detail}{share:.1f} % absent"
        for name, detail, share in zip(names[:SHOWN], details, absent, strict=False)
    ]
    if len(names) > SHOWN:
        lines.append(f"  ... and {len(names) - SHOWN} more")
    return "\n".join(lines)


def container_html(
    title: str, names: Sequence[str], details: Sequence[str], observed: Bools
) -> str:
    """Describe a container for a notebook, with bars for presence and the patterns of it.

    Colours are those of the page around or stand out on light and on dark.

    Parameters
    ----------
    title, names, details, observed
        As in `container_text`.
    """
    cell = "padding:0.1em 0.8em 0.1em 0;text-align:left;white-space:nowrap;border:0"
    table = "border-collapse:collapse;margin:0.3em 0;color:inherit;font-size:inherit"
    present = observed.mean(axis=0) if len(observed) else np.ones(len(names))
    rows = [
        f'<tr style="background:none"><td style="{cell}">{escape(name)}</td>'
        f'<td style="{cell}">{escape(detail.strip())}</td><td style="{cell}">{_bar(share)}</td>'
        f'<td style="{cell}">{100 * (1 - share):.1f} % absent</td></tr>'
        for name, detail, share in zip(names[:SHOWN], details, present, strict=False)
    ]
    more = f"<div>and {len(names) - SHOWN} more</div>" if len(names) > SHOWN else ""
    return (
        f'<div style="font-size:0.92em"><div><b>{escape(_headline(title, observed))}</b></div>'
        f'<table style="{table}">{"".join(rows)}</table>{more}'
        f"{_patterns_html(names, observed)}</div>"
    )


def _headline(title: str, observed: Bools) -> str:
    absent = 100 * (1 - observed.mean()) if len(observed) else 0.0
    patterns = len(np.unique(observed, axis=0))
    return (
        f"{title}, {absent:.1f} % absent, "
        f"{patterns} distinct pattern{'s' * (patterns != 1)} of absence"
    )


def _bar(share: float) -> str:
    """Return a bar of HTML, full for a share of one."""
    frame = "display:inline-block;height:0.7em;"
    return (
        f'<span style="{frame}width:8em;border:1px solid #8888;vertical-align:middle">'
        f'<span style="{frame}width:{100 * share:.1f}%;background:#3b8fc4;float:left"></span>'
        "</span>"
    )


def _patterns_html(names: Sequence[str], observed: Bools) -> str:
    """Return the most frequent patterns of presence, if there are several and few views."""
    patterns, counts = np.unique(observed, axis=0, return_counts=True)
    if len(patterns) < 2 or len(names) > SHOWN:
        return ""
    order = np.lexsort((*~patterns.T[::-1], -counts))
    lines = []
    for pattern, count in zip(patterns[order][:SHOWN], counts[order], strict=False):
        own = [name for name, has in zip(names, pattern, strict=True) if has]
        dots = "".join("\u25cf" if has else "\u25cb" for has in pattern)
        what = escape(", ".join(own) or "nothing")
        lines.append(f'<div><code style="background:none">{dots}</code> {count} have {what}</div>')
    rest = int(counts[order][SHOWN:].sum())
    if rest:
        lines.append(f"<div>{rest} have one of {len(patterns) - SHOWN} other patterns</div>")
    return f"<details><summary>patterns</summary>{''.join(lines)}</details>"
