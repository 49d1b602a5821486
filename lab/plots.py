"""Plots: one look for all figures, made for print and for colour-blind readers.

Figures are built without pyplot, so there is no global state and no window.
"""

from collections.abc import Sequence
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

# Okabe and Ito's colours, dark enough on white; lines differ by dashes as well, for print in grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#7A5195", "#B8860B", "#56B4E9", "#4D4D4D")
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
    """Make a figure in the common look."""
    with rc_context(STYLE):
        return picture.plot()


def make_panels(columns: int, rows: int = 1, width: float = 3.4, height: float = 2.8) -> tuple[Figure, list[Axes]]:
    """Give a figure with a row (or rows) of panels, and its panels from left to right."""
    figure = Figure(figsize=(width * columns, height * rows))
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def plot_band(axes: Axes, x: Sequence[float], rows: Sequence[Sequence[float]], name: str, index: int) -> None:
    """Draw the mean of several runs with its 95 % band; that of two would cover the figure and tell nothing."""
    middle, low, high = compute_band(rows)
    color, dash = COLORS[index % len(COLORS)], DASHES[index % len(DASHES)]
    axes.plot(x, middle, color=color, linestyle=dash, label=name)
    if len(rows) > 2:
        axes.fill_between(np.asarray(x, float), low, high, color=color, alpha=0.15, linewidth=0)


def format_axis(axis: Axis) -> None:
    """Write 0.2 and 5 on a logarithmic axis, and no powers of ten that run into one another."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, folder: Path, name: str, kinds: Sequence[str] = ("png", "svg"), dpi: int = 200) -> list[Path]:
    """Write a figure as PNG and as SVG; each is written aside and renamed."""
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
