"""From the parts of a chunk to a MultiView, and from MultiViews to one below the other."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse, vstack

from kernelquilt.data.blocks import is_frame
from kernelquilt.data.views import MultiView


class Assembly(NamedTuple):
    """How the parts of a chunk become a MultiView: names, and what is given beside the parts."""

    names: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...] | None]
    has_mask: bool = False
    has_index: bool = False


def assembled(parts: Sequence[Any], *rest: Any) -> MultiView:
    """Return a chunk as a MultiView: the parts, the rows beside them, and an `Assembly`."""
    *beside, how = rest
    observed = beside[0] if how.has_mask else None
    index = beside[-1] if how.has_index else None
    blocks = dict(zip(how.names, parts, strict=True))
    columns = {
        name: columns
        for name, columns in how.columns.items()
        if columns is not None and not is_frame(blocks[name])
    }
    return MultiView(blocks, observed, index=index, columns=columns)


def joined_views(parts: Sequence[MultiView]) -> MultiView:
    """Return samples one below the other.

    Parameters
    ----------
    parts : sequence of MultiView
        With the same views.

    Returns
    -------
    views : MultiView
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    blocks = {name: _below([part.given(name) for part in parts]) for name in first.names}
    names = [part.index for part in parts]
    return MultiView._build(
        blocks,
        np.concatenate([part.observed for part in parts]),
        None if any(each is None for each in names) else np.concatenate(names),
        first.columns,
    )


def _below(blocks: Sequence[Any]) -> Any:
    if is_frame(blocks[0]):
        library = import_module(type(blocks[0]).__module__.partition(".")[0])
        return library.concat(blocks)
    return vstack(blocks, format="csr") if issparse(blocks[0]) else np.concatenate(blocks)
