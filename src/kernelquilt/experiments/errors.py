"""Errors that the user is told about, in one line."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """What is wrong with what the user gave."""


def remedy(name: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """Return which names may have been meant instead of one that is not known."""
    near = get_close_matches(name, list(known), n=3, cutoff=cutoff)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
