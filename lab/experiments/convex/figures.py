"""The figures of the convex experiment."""

from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.convex.arms import AGAIN, CROSS, DEFAULT, MIXTURE, ONCE, RESHUFFLING
from lab.experiments.convex.comparison import ConvexComparison
from lab.reproduce.findings import Picture
from varmix.meter import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vP"
SHOWN_TASKS = {
    "california_housing": "house prices\n(california_housing)",
    "kdd_bio": "rare proteins\n(kdd_bio)",
    "adult": "income above 50,000\n(adult)",
}
COMPARED_ARMS = {DEFAULT: "by default", MIXTURE: "always on", CROSS: "groups by norms", AGAIN: "shuffling again"}


def list_pictures(comparison: ConvexComparison) -> list[Picture]:
    """Return three pictures: loss curves, final losses by problem, and the mean of every arm with the meter's gain."""
    return [
        Picture(
            "convex-losses",
            "Excess training loss against gradients, mean and 95 % band over seeds, each method at its own best step. "
            "The paper compares with uniform draws; the baseline here is plain shuffling.",
            "Panels with falling lines, one panel a problem: varmix beside plain shuffling.",
            lambda: draw_losses(comparison),
        ),
        Picture(
            "convex-ratios",
            "Final excess loss beside that of plain shuffling, by problem, batch 32, 95 % intervals. Left of one is "
            "better. The paper has no such figure.",
            "Dots with intervals, a row a problem, around a line at one.",
            lambda: draw_ratios(comparison),
        ),
        Picture(
            "convex-arms",
            "Left: the mean of every sampler. Right: what the gain meter read early, and how much lower the excess was "
            "in the end; the dashed line is improvement = gain.",
            "A panel of dots with intervals around one, and a scatter of improvement against early gain.",
            lambda: draw_arms(comparison),
        ),
    ]


def draw_losses(comparison: ConvexComparison) -> "Figure":
    """Draw excess loss against gradients, on real data if any was run, else on the first problems."""
    from lab.plots import make_panels

    tasks = {task: title for task, title in SHOWN_TASKS.items() if task in comparison.tasks}
    tasks = tasks or {task: task for task in comparison.tasks[:3]}
    drawn, panels = make_panels(len(tasks), width=2.9, height=3.1)
    for panel, (task, title) in zip(panels, tasks.items(), strict=True):
        for index, (name, arms) in enumerate(
            {"plain shuffling": (RESHUFFLING, AGAIN), "varmix": (DEFAULT,), "shuffling once": (ONCE,)}.items()
        ):
            _plot_losses(panel, *comparison.curve(task, arms), name, index)
        panel.set(title=title, xlabel="gradients, thousands", yscale="log")
    panels[0].set_ylabel("excess training loss")
    lines, names = panels[0].get_legend_handles_labels()
    drawn.legend(lines, names, loc="outside upper center", ncols=len(names))
    return drawn


def _plot_losses(panel: "Axes", x: list[float], rows: list[list[float]], name: str, index: int) -> None:
    from lab.plots import COLORS, DASHES
    from lab.statistics import compute_band

    if not rows:
        return
    thousands = np.array(x) / 1000
    middle, low, high = (10.0 ** np.array(line) for line in compute_band(np.log10(rows).tolist()))
    color = COLORS[index]
    panel.plot(thousands, middle, color=color, linestyle=DASHES[index], label=name)
    if len(rows) > 2:
        panel.fill_between(thousands, low, high, color=color, alpha=0.2, linewidth=0)


def draw_ratios(comparison: ConvexComparison) -> "Figure":
    """Draw final excess relative to reshuffling, by problem."""
    from lab.plots import format_axis, make_panels

    drawn, (panel,) = make_panels(1, width=6.4, height=1.2 + 0.3 * len(comparison.tasks))
    arms = [arm for arm in COMPARED_ARMS if arm in comparison.arms]
    for index, arm in enumerate(arms):
        places = [-row + 0.18 * ((len(arms) - 1) / 2 - index) for row in range(len(comparison.tasks))]
        ratios = [comparison.relative(task, 32, arm) for task in comparison.tasks]
        _plot_ratios(panel, places, ratios, index, COMPARED_ARMS[arm])
    panel.set_yticks([-row for row in range(len(comparison.tasks))], comparison.tasks)
    panel.set(xlabel="final excess loss / that of plain shuffling", xscale="log")
    panel.axvline(1.0, color="black", linewidth=0.8)
    drawn.legend(loc="outside upper center", ncols=len(arms))
    format_axis(panel.xaxis)
    return drawn


def draw_arms(comparison: ConvexComparison) -> "Figure":
    """Draw the mean of every arm, and improvement against the gain that the meter read."""
    from lab.plots import format_axis, make_panels

    drawn, (left, right) = make_panels(2, width=4.2, height=3.6)
    tasks = comparison.six or comparison.tasks
    others = [arm for arm in comparison.arms if arm not in (RESHUFFLING, AGAIN)]
    _plot_ratios(left, [-row for row in range(len(others))], [comparison.over(tasks, 32, arm) for arm in others], 0)
    left.set_yticks([-row for row in range(len(others))], [_label_arm(comparison, arm, tasks) for arm in others])
    left.set(xlabel="final excess loss / that of plain shuffling", xscale="log")
    left.set(title=f"mean of {len(tasks)} problem{'s' * (len(tasks) != 1)}")
    left.axvline(1.0, color="black", linewidth=0.8)
    _plot_gains(right, comparison)
    for axis in (left.xaxis, right.xaxis, right.yaxis):
        format_axis(axis)
    return drawn


def _label_arm(comparison: ConvexComparison, arm: str, tasks: list[str]) -> str:
    """Write the name of an arm, with the number of tasks if its mean is over fewer than all."""
    ran = sum(comparison.relative(task, 32, arm) is not None for task in tasks)
    return arm if ran == len(tasks) else f"{arm} (of {ran})"


def _plot_ratios(panel: "Axes", places: list[float], ratios: list[Interval | None], index: int, name: str = "") -> None:
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


def _plot_gains(panel: "Axes", comparison: ConvexComparison) -> None:
    from lab.plots import COLORS

    pairs = [pair for pair in comparison.pairs() if np.isfinite(pair[-1].value)]
    for index, arm in enumerate(dict.fromkeys(arm for arm, *_ in pairs)):
        mine = [(gain, 1 / beside.value) for other, _, _, gain, beside in pairs if other == arm]
        x, y = zip(*mine, strict=True)
        marker = MARKERS[index % len(MARKERS)]
        panel.plot(x, y, marker, color=COLORS[index % len(COLORS)], markersize=4, label=arm)
    if pairs:
        ends = np.array([1.0, max(gain for *_, gain, _ in pairs)])
        panel.plot(ends, ends, "--", color="black", linewidth=0.8)
        panel.legend(loc="upper left", fontsize=7)
    panel.set(title="what the meter read", xlabel="early gain", ylabel="excess of shuffling / of the sampler")
    panel.set(xscale="log", yscale="log")
