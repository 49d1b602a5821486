"""The figures of section 6.4."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from lab.experiments.kmeans.arms import BASELINES
from lab.experiments.kmeans.arms import DEFAULT
from lab.experiments.kmeans.arms import DEFAULTS
from lab.experiments.kmeans.arms import PUBLISHED
from lab.experiments.kmeans.arms import RESHUFFLING
from lab.experiments.kmeans.arms import UNIFORM
from lab.experiments.kmeans.arms import VRB
from lab.experiments.kmeans.arms import VRB_SEEDED
from lab.experiments.kmeans.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Some of the arms, so that lines can be told apart; the table has all of them.
DRAWN = (DEFAULT, UNIFORM, PUBLISHED, VRB, DEFAULTS, VRB_SEEDED, RESHUFFLING)
Against = Literal["time", "iterations"]


def figure(table: Table, against: Against) -> "Figure":
    """Draw the relative error, a panel per set, mean and 95 % band over seedings."""
    from lab.plots import panels

    drawn, axes = panels(max(len(table.sets), 1), width=4.0, height=3.4)
    for panel, name in zip(axes, table.sets, strict=False):
        for index, arm in enumerate(DRAWN):
            _line(panel, table, name, arm, index, against)
        panel.set(title=name, xscale="log", xlabel=_label(against), ylabel="relative error, %")
        _frame(panel)
    if table.sets:
        axes[0].legend(loc="lower left", fontsize=7)
    return drawn


def _frame(panel: "Axes") -> None:
    """Show the means whole, and of the bands what fits; a logarithm where all means are positive."""
    from lab.plots import plain

    heights = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in panel.get_lines()] or [np.ones(1)])
    low, high = float(heights.min()), float(heights.max())
    if low > 0:
        panel.set(yscale="log", ylim=(low / 1.5, high * 1.5))
        plain(panel.yaxis)
    else:
        panel.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    plain(panel.xaxis)


def _label(against: Against) -> str:
    return "milliseconds, set-up included" if against == "time" else "iterations"


def _line(panel: "Axes", table: Table, name: str, arm: str, index: int, against: Against) -> None:
    from lab.plots import lines

    arms = BASELINES if arm == UNIFORM else (arm,)
    errors, seconds = table.means(name, arms, "errors"), table.means(name, arms, "seconds")
    if errors:
        x = 1e3 * np.mean(seconds, axis=0) if against == "time" else np.array(table.marks, dtype=float)
        first = 1 if against == "iterations" or x[0] < 0.1 * x[1] else 0  # a logarithm has no room for zero
        lines(panel, x[first:].tolist(), [(100 * e[first:]).tolist() for e in errors], arm, index)
