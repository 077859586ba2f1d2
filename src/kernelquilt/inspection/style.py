"""One style for all figures: colours, markers, dashes, names, axes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow: colour-blind readers can tell these apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
PRESENT, ABSENT, BAND, RULE = COLOURS[0], "#D9D9D9", "#F5F5F5", "#444444"
FAINT, BEHIND = "#777777", "#9A9A9A"  # text of what is absent, lines that others are drawn over
MARKERS = "os^DvPX<>p*hd8H"
DASHES = ("-", "--", ":", "-.")
LONGEST_NAME = 24  # characters


def line_style(position: int) -> dict[str, Any]:
    """Return how the line at a position is drawn: by more than its colour, for print in grey."""
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "linestyle": DASHES[position // len(COLOURS) % len(DASHES)],
    }


def literal(text: str) -> str:
    """Return a text that matplotlib shows as it is: $ would begin a formula."""
    return text.replace("$", r"\$")


def label(name: Any) -> str:
    """Return a name for a figure: not too long, without mathematics, shown in legends."""
    text = str(name)
    if len(text) > LONGEST_NAME:
        half = LONGEST_NAME // 2
        text = f"{text[: half - 1]}…{text[-half:]}"
    # matplotlib leaves a leading underscore out of legends
    return (" " if text.startswith("_") else "") + literal(text)


def plain(ax: Any, *, grid: str = "both") -> None:
    """Give axes a grid and no frame."""
    ax.grid(alpha=0.3, axis=grid)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def rows_of_names(ax: Any, names: Any) -> None:
    """Make the vertical axis a list of names, the first on top."""
    ax.set_yticks(range(len(names)), [label(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def axes_for(ax: Any, figsize: tuple[float, float]) -> Any:
    """Return axes to draw in, those of a new figure if None are given."""
    return _pyplot().subplots(figsize=figsize, layout="constrained")[1] if ax is None else ax


def grid_for(
    ax: Any, figsize: tuple[float, float], n_rows: int, n_columns: int, **ratios: Any
) -> tuple[Any, Any]:
    """Return a figure and a grid of panels in it, in the place of axes if these are given.

    Parameters
    ----------
    ax : matplotlib Axes or None
        Made by ``subplots``; its place is taken.
    figsize : pair of float
        Of a new figure.
    n_rows, n_columns : int
    **ratios : dict
        ``width_ratios`` and ``height_ratios``.
    """
    if ax is None:
        figure = _pyplot().figure(figsize=figsize, layout="constrained")
        return figure, figure.add_gridspec(n_rows, n_columns, **ratios)
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError("ax must be made by subplots: its place is divided into several panels")
    ax.set_axis_off()
    return ax.figure, place.subgridspec(n_rows, n_columns, **ratios)


def figure_of(display: Any, *, title: str | None = None) -> "Figure":
    """Return a display drawn in a figure of its own, without the state of pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=display.figsize, layout="constrained")
    display.plot(figure.subplots())
    if title is not None:
        figure.suptitle(literal(title), fontsize=11)
    return figure


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'figures need matplotlib: pip install "kernelquilt[plot]"'
        ) from error
    return plt
