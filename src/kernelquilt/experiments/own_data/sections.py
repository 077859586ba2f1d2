"""Pages of texts, tables and figures about one thing, as HTML that needs nothing else or Markdown.

Figures are drawn when a page is written that shows them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelquilt.experiments.reporting.figures import to_svg
from kernelquilt.experiments.reporting.page import as_address, load_template
from kernelquilt.inspection.style import figure_of

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


@dataclass(frozen=True)
class Image:
    """A figure of the page, which Markdown leaves out."""

    display: Any
    caption: str
    alternative: str

    @property
    def address(self) -> str:
        """The drawn figure, as an address."""
        return as_address(to_svg(figure_of(self.display)))


@dataclass(frozen=True)
class Table:
    """A table of the page, its cells as text."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    texts: Sequence[str] = ()
    images: Sequence[Image] = ()
    tables: Sequence[Table] = ()


def write_page(
    output: str | Path, title: str, facts: Mapping[str, str], sections: Sequence[Section]
) -> Path:
    """Write a page.

    Parameters
    ----------
    output : path-like
        The file; Markdown if it ends with ``.md``, HTML otherwise.
    title : str
    facts : mapping of str to str
        What stands on top.
    sections : sequence of Section

    Returns
    -------
    page : Path
    """
    path = Path(output)
    if path.suffix.lower() == ".md":
        text = as_markdown(title, facts, sections)
    else:
        text = load_template("explain.html").render(title=title, facts=facts, sections=sections)
    path.write_text(text, encoding="utf-8")
    return path


def as_markdown(title: str, facts: Mapping[str, str], sections: Sequence[Section]) -> str:
    """Return a page as Markdown, without its figures."""
    blocks = [f"# {_text(title)}"]
    blocks.append("\n".join(f"* **{_text(name)}**: {_text(fact)}" for name, fact in facts.items()))
    for section in sections:
        blocks.append(f"## {_text(section.title)}")
        blocks += [_text(text) for text in section.texts]
        for table in section.tables:
            lines = [table.head, ["---"] * len(table.head), *table.rows]
            rows = [f"| {' | '.join(map(_text, line))} |" for line in lines]
            rows[1] = "|" + "---|" * len(table.head)
            blocks += [f"{_text(table.caption)}:", "\n".join(rows)]
    return "\n\n".join(blocks) + "\n"


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
