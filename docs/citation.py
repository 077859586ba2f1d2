"""BibTeX entries of the package and of the papers behind it, from CITATION.cff."""

from pathlib import Path
from typing import Any

import yaml

CITATION = Path(__file__).resolve().parents[1] / "CITATION.cff"
KINDS = {"software": "software", "article": "article", "conference-paper": "inproceedings"}
# what CITATION.cff and BibTeX call the same
FIELDS = {
    "journal": "journal",
    "collection-title": "booktitle",
    "volume": "volume",
    "issue": "number",
    "year": "year",
    "version": "version",
    "license": "license",
}


def entry(key: str, work: dict[str, Any]) -> str:
    """Return the BibTeX entry of a work."""
    names = [
        f"{each['family-names']}, {each['given-names']}"
        if "family-names" in each
        # braces keep the name of a group in one piece
        else f"{{{each['name']}}}"
        for each in work["authors"]
    ]
    fields = {"author": " and ".join(names), "title": f"{{{work['title']}}}"}
    fields |= {name: work[ours] for ours, name in FIELDS.items() if ours in work}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@{KINDS[work['type']]}{{{key},\n{lines}}}\n"


def entries() -> tuple[str, str]:
    """Return the entry of the package, and those of the papers."""
    package = yaml.safe_load(CITATION.read_text())
    papers = [
        entry(f"{each['authors'][0]['family-names'].lower()}{each['year']}", each)
        for each in package["references"]
    ]
    return entry("kernelquilt", package), "\n".join(papers)


def write(folder: Path) -> None:
    """Write both to files that the page includes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(("kernelquilt.bib", "papers.bib"), entries(), strict=True):
        (folder / name).write_text(text)
