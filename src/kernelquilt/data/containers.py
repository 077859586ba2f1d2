"""What all containers share: names, rows, masks of presence, and how they are shown."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Indices

SHOWN = 12  # views or kernels of a container, and patterns of presence


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


def check_observed_values(contradiction: Bools, names: tuple[str, ...]) -> None:
    """Refuse samples (n, V) that are marked as observed although they have no values."""
    for name, rows in zip(names, contradiction.T, strict=True):
        if rows.any():
            raise ValueError(
                f"view {name!r} is marked as observed but entirely NaN for {rows.sum()} of "
                f"{len(rows)} samples; mark these samples as absent"
            )


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
