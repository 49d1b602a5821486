"""The figure of the convex experiment."""

from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.convex.arms import AGAIN
from lab.experiments.convex.arms import CROSS
from lab.experiments.convex.arms import CROSS_NEYMAN
from lab.experiments.convex.arms import MIXTURE
from lab.experiments.convex.arms import RESHUFFLING
from lab.experiments.convex.table import Table
from lab.experiments.convex.tasks import SIX
from varmix.meter import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vP"


def figure(table: Table) -> "Figure":
    """Draw relative excess by task and by arm, and what the meter said."""
    from lab.plots import panels
    from lab.plots import plain

    drawn, (left, middle, right) = panels(3, width=4.2, height=3.8)
    arms = [arm for arm in (MIXTURE, CROSS, CROSS_NEYMAN) if arm in table.arms]
    for index, arm in enumerate(arms):
        places = [-row + 0.2 * (index - (len(arms) - 1) / 2) for row in range(len(table.tasks))]
        _dots(left, places, [table.relative(task, 32, arm) for task in table.tasks], index, arm)
    left.set_yticks([-row for row in range(len(table.tasks))], table.tasks)
    left.legend(loc="upper left", bbox_to_anchor=(-0.1, -0.16))
    tasks = [task for task in SIX if task in table.tasks]
    others = [arm for arm in table.arms if arm not in (RESHUFFLING, AGAIN)]
    _dots(middle, [-row for row in range(len(others))], [table.over(tasks, 32, arm) for arm in others], 0)
    middle.set_yticks([-row for row in range(len(others))], [_named(table, arm, tasks) for arm in others])
    for panel, title in ((left, "by task"), (middle, f"mean of {len(tasks)} task{'s' * (len(tasks) != 1)}")):
        panel.set(title=title, xlabel="final excess / that of reshuffling", xscale="log")
        panel.axvline(1.0, color="black", linewidth=0.8)
    _scatter(right, table)
    for axis in (left.xaxis, middle.xaxis, right.xaxis, right.yaxis):
        plain(axis)
    return drawn


def _named(table: Table, arm: str, tasks: list[str]) -> str:
    """Say so where the mean of an arm is over fewer tasks than those beside it."""
    ran = sum(table.relative(task, 32, arm) is not None for task in tasks)
    return arm if ran == len(tasks) else f"{arm} (of {ran})"


def _dots(panel: "Axes", places: list[float], ratios: list[Interval | None], index: int, name: str = "") -> None:
    from lab.plots import COLORS

    label: str | None = name or None
    for y, ratio in zip(places, ratios, strict=True):
        if ratio is not None and np.isfinite(ratio.value):
            bounded = 0 < ratio.low and np.isfinite(ratio.high)
            panel.plot(
                [ratio.low, ratio.high] if bounded else [], [y, y] if bounded else [], color=COLORS[index], lw=1.2
            )
            panel.plot([ratio.value], [y], MARKERS[index], color=COLORS[index], markersize=4, label=label)
            label = None


def _scatter(panel: "Axes", table: Table) -> None:
    from lab.plots import COLORS

    pairs = [pair for pair in table.pairs() if np.isfinite(pair[-1].value)]
    for index, arm in enumerate(dict.fromkeys(arm for arm, *_ in pairs)):
        mine = [(gain, 1 / beside.value) for other, _, _, gain, beside in pairs if other == arm]
        x, y = zip(*mine, strict=True)
        marker = MARKERS[index % len(MARKERS)]
        panel.plot(x, y, marker, color=COLORS[index % len(COLORS)], markersize=4, label=arm)
    if pairs:
        ends = np.array([1.0, max(gain for *_, gain, _ in pairs)])
        panel.plot(ends, ends, "--", color="black", linewidth=0.8)
        panel.legend(loc="upper left", fontsize=7)
    panel.set(title="what the meter said", xlabel="early gain", ylabel="excess of reshuffling / of the arm")
    panel.set(xscale="log", yscale="log")
