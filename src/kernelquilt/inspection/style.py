"""One style for all figures: colours, markers and dashes."""

from typing import Any

# Okabe and Ito's palette without its yellow: colour-blind readers can tell these apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "os^DvPX<>p*hd8H"
DASHES = ("-", "--", ":", "-.")


def line_style(position: int) -> dict[str, Any]:
    """Return how the line at a position is drawn: by more than its colour, for print in grey."""
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "linestyle": DASHES[position // len(COLOURS) % len(DASHES)],
    }
