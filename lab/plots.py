"""Plots: one style for all figures, readable in print and by colour-blind readers.

Figures are built without pyplot, so there is no global state and no window.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from lab.reproduce.findings import Picture
from lab.statistics import compute_band
from varmix.meter import Interval

# Okabe and Ito's colours, darkened for a white page. Lines also differ by dashes, for print in grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#7A5195", "#B8860B", "#56B4E9", "#4D4D4D")
MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1)), "-.", ":")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "svg.hashsalt": "varmix",
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
}


def render_picture(picture: Picture) -> Figure:
    """Draw a picture in the common style."""
    with rc_context(STYLE):
        return picture.plot()


def make_panels(columns: int, rows: int = 1, width: float = 3.4, height: float = 2.8) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of panels, and its panels from left to right, top to bottom."""
    figure = Figure(figsize=(width * columns, height * rows))
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def plot_band(axes: Axes, x: Sequence[float], rows: Sequence[Sequence[float]], name: str, index: int) -> None:
    """Draw the mean of several runs, with a 95 % band if there are at least three: that of two would be too wide."""
    middle, low, high = compute_band(rows)
    color, dash = COLORS[index % len(COLORS)], DASHES[index % len(DASHES)]
    axes.plot(x, middle, color=color, linestyle=dash, label=name)
    if len(rows) > 2:
        axes.fill_between(np.asarray(x, float), low, high, color=color, alpha=0.15, linewidth=0)


def draw_dots(
    rows: Mapping[str, Mapping[str, Interval]], x_label: str, line: float | None = None, log: bool = False
) -> Figure:
    """Draw values as dots with intervals, one row per label.

    Parameters
    ----------
    rows : mapping of str to mapping of str to Interval
        Intervals by row and arm, from top to bottom. A row may lack some arms.
    x_label : str
        Label of the horizontal axis.
    line : float, optional
        Position of a vertical line, such as 1 for ratios. Default: no line.
    log : bool, default False
        Whether the axis is logarithmic.

    Returns
    -------
    matplotlib.figure.Figure
        A figure 6.4 inches wide, as high as the rows need. Every arm has its own colour and shape.

    Raises
    ------
    ValueError
        If there is no row, if there are more arms than shapes, or if a logarithmic axis cannot show a value.

    Examples
    --------
    >>> drawn = draw_dots({"adult": {"mixture": Interval(0.7, 0.6, 0.8)}}, "loss / that of shuffling", line=1.0)
    >>> [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    ['adult']
    """
    arms = list(dict.fromkeys(arm for row in rows.values() for arm in row))
    if not 0 < len(arms) <= len(MARKERS):
        raise ValueError(f"A dot figure needs 1 to {len(MARKERS)} arms, got {len(arms)}. Choose some of {arms}.")
    most = max(map(len, rows.values()))
    with rc_context(STYLE):
        figure, (panel,) = make_panels(1, width=6.4, height=1.0 + len(rows) * (0.12 + 0.14 * most))
        for index, arm in enumerate(arms):
            places = {_place_dot(-number, list(row), arm, most): row[arm] for number, row in _list_rows(rows, arm)}
            _plot_dots(panel, places, index, arm, log)
        panel.set_yticks([-number for number in range(len(rows))], list(rows))
        panel.set_ylim(0.5 - len(rows), 0.5)
        panel.grid(visible=False, axis="y")
        for number in range(0, len(rows), 2):  # a grey band shows which dots belong to one row
            panel.axhspan(-number - 0.5, -number + 0.5, color="0.95", linewidth=0, zorder=0)
        panel.set(xlabel=x_label, xscale="log" if log else "linear")
        if log:
            format_axis(panel.xaxis)
        if line is not None:
            panel.axvline(line, color="black", linewidth=0.8, zorder=1)
        if len(arms) > 1:
            figure.legend(loc="outside upper center", ncols=min(len(arms), 4))
    return figure


def _list_rows(rows: Mapping[str, Mapping[str, Interval]], arm: str) -> list[tuple[int, Mapping[str, Interval]]]:
    return [(number, row) for number, row in enumerate(rows.values()) if arm in row]


def _place_dot(middle: float, arms: Sequence[str], arm: str, most: int) -> float:
    """Return the height of an arm's dot; the dots of a row are centred on it, with the same spacing in all rows."""
    return middle + 0.75 / most * ((len(arms) - 1) / 2 - arms.index(arm))


def _plot_dots(panel: Axes, places: Mapping[float, Interval], index: int, name: str, log: bool) -> None:
    for interval in places.values():
        if log and interval.low <= 0:
            raise ValueError(
                f"A logarithmic axis shows positive values, got {interval} for {name}. Draw it with log=False."
            )
    color, (values, lows, highs) = COLORS[index], zip(*places.values(), strict=True)
    panel.hlines(list(places), lows, highs, color=color, linewidth=1.2)
    panel.plot(values, list(places), MARKERS[index], color=color, markersize=4.5, label=name)


def format_axis(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers such as 0.2 and 5; powers of ten would overlap."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, folder: Path, name: str, kinds: Sequence[str] = ("png", "svg"), dpi: int = 200) -> list[Path]:
    """Write a figure as PNG and SVG, each atomically, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with rc_context(STYLE):
        for kind in kinds:
            path = folder / f"{name}.{kind}"
            aside = folder / f".{name}.part.{kind}"
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(aside, dpi=dpi, metadata=metadata)
            aside.replace(path)
            written.append(path)
    return written


def render_png(figure: Figure, dpi: int = 140) -> bytes:
    """Return a figure as PNG bytes without date or version, so that equal figures give equal bytes."""
    buffer = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
