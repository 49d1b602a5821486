"""The figures: losses during training, and improvement against gain and noise."""

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from lab.experiments.networks.comparison import NetworkComparison
from lab.experiments.networks.tasks import (
    ALWAYS_CROSS,
    ALWAYS_ON,
    BALANCED,
    BASELINES,
    CROSS,
    LABELS,
    LARGER,
    MIXTURES,
    MNIST_TASKS,
    RARE,
    STATIC,
)
from lab.reproduce.records import Result
from varmix.meter import QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN_ARMS = {"reshuffling": BASELINES, LABELS: (LABELS,), CROSS: (CROSS,), ALWAYS_CROSS: (ALWAYS_CROSS,)}
RARE_SHOWN_ARMS = {**SHOWN_ARMS, BALANCED: (BALANCED,), STATIC: (STATIC,)}
MARKERS = "osD^v"
TICKS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0)


def draw_curves(comparison: NetworkComparison, part: Literal["losses", "held"]) -> "Figure":
    """Draw training or held-out loss against gradients, one panel per task."""
    from lab.plots import make_panels

    tasks = [task for task in MNIST_TASKS if task in comparison.tasks]
    columns = min(len(tasks), 4)
    drawn, places = make_panels(columns, -(-len(tasks) // columns), width=3.0, height=2.6)
    for panel, task in zip(places, tasks, strict=False):
        _plot_losses(panel, comparison, task, SHOWN_ARMS, part)
        panel.set(title=task)
    places[0].legend(fontsize=7)
    for panel in places[::columns]:
        panel.set(ylabel="training loss" if part == "losses" else "held-out loss")
    return drawn


def draw_rare(comparison: NetworkComparison) -> "Figure":
    """Draw training and held-out loss of all arms on the task with a rare class."""
    from lab.plots import COLORS, make_panels

    drawn, (left, right) = make_panels(2, width=4.4, height=3.2)
    for panel, part, title in ((left, "losses", "training loss"), (right, "held", "held-out loss")):
        _plot_losses(panel, comparison, RARE, RARE_SHOWN_ARMS, part)
        panel.set(title=title)
    short = _select_finished(comparison.results(RARE, CROSS, half=True))
    for panel, part in ((left, "losses"), (right, "held")):
        if short:
            ends = float(np.mean([run[part][-1] for run in short]))
            panel.plot(short[0]["evaluations"][-1] / 1e3, ends, "o", color=COLORS[2], label=f"{CROSS}, half a run")
    left.legend(fontsize=7)
    return drawn


def _select_finished(runs: list[Result]) -> list[Result]:
    return [run for run in runs if run["train"] is not None]


def _plot_losses(
    panel: "Axes", comparison: NetworkComparison, task: str, arms: dict[str, tuple[str, ...]], part: str
) -> None:
    from lab.plots import format_axis, plot_band

    for index, (name, members) in enumerate(arms.items()):
        runs = _select_finished(comparison.results(task, *members))
        if runs:
            x = [count / 1e3 for count in runs[0]["evaluations"]]
            plot_band(panel, x, [run[part] for run in runs], name, index)
    panel.set(xlabel="thousand gradients", yscale="log")
    format_axis(panel.yaxis)


def draw_comparison(comparison: NetworkComparison) -> "Figure":
    """Draw held-out losses by task, improvement against gain, and noise."""
    from lab.plots import format_axis, make_panels

    drawn, (left, middle, right) = make_panels(3, width=4.4, height=4.4)
    _plot_ratios(left, comparison)
    _plot_gains(middle, comparison)
    _plot_noise(right, comparison)
    for axis in (middle.xaxis, middle.yaxis, right.yaxis):
        format_axis(axis)
    return drawn


def _plot_ratios(panel: "Axes", comparison: NetworkComparison) -> None:
    from lab.plots import COLORS

    for index, arm in enumerate((LABELS, CROSS, ALWAYS_CROSS, LARGER, BALANCED)):
        label: str | None = arm
        for row, task in enumerate(comparison.tasks):
            ratio = comparison.relative(task, arm, "test")
            if ratio is None or not math.isfinite(ratio.value):
                continue
            y = -row + 0.16 * (2 - index)
            if ratio.low > 0 and math.isfinite(ratio.high):
                panel.plot([ratio.low, ratio.high], [y, y], color=COLORS[index], linewidth=1.2)
            panel.plot([ratio.value], [y], MARKERS[index], color=COLORS[index], markersize=4, label=label)
            label = None
    panel.set_yticks([-row for row in range(len(comparison.tasks))], comparison.tasks)
    panel.axvline(1.0, color="black", linewidth=0.8)
    panel.set(title="held-out loss", xlabel="loss / that of reshuffling", xscale="log")
    low, high = panel.get_xlim()
    panel.set_xticks(shown := [tick for tick in TICKS if low <= tick <= high], [f"{tick:g}" for tick in shown])
    panel.minorticks_off()
    panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(-0.2, -0.12), ncols=2)


def _plot_gains(panel: "Axes", comparison: NetworkComparison) -> None:
    from lab.plots import COLORS

    highest = 1.0
    for index, arm in enumerate((*MIXTURES, *ALWAYS_ON)):
        for images in (True, False):
            found = [
                (comparison.gain(task, arm), comparison.relative(task, arm, "train"))
                for task in comparison.tasks
                if (task in MNIST_TASKS) == images
            ]
            pairs = [(gain, 1 / r.value) for gain, r in found if r is not None and math.isfinite(r.value) and gain > 0]
            if pairs:
                x, y = zip(*pairs, strict=True)
                filled = "full" if images else "none"
                label = arm if arm not in panel.get_legend_handles_labels()[1] else None
                panel.plot(
                    x,
                    y,
                    MARKERS[index],
                    color=COLORS[index],
                    fillstyle=filled,
                    markersize=5,
                    label=label,
                    linestyle="",
                )
                highest = max(highest, *x)
    panel.plot([1.0, highest], [1.0, highest], "--", color="black", linewidth=0.8)
    panel.set(title="gain, and what came of it", xlabel="gain", ylabel="training loss of reshuffling / of the mixture")
    panel.set(xscale="log", yscale="log")
    panel.legend(fontsize=7)


def _plot_noise(panel: "Axes", comparison: NetworkComparison) -> None:
    from lab.plots import COLORS, DASHES

    for index, task in enumerate(comparison.tasks):
        noise = comparison.noise(task, *BASELINES)
        x = (np.arange(len(noise)) + 0.5) / max(len(noise), 1)
        dash = DASHES[index // len(COLORS) * 2]
        panel.plot(x, noise, color=COLORS[index % len(COLORS)], linestyle=dash, linewidth=1.2, label=task)
    panel.axhline(QUIET, color="black", linewidth=0.8, linestyle=":")
    panel.set(
        title="noise of reshuffling", xlabel="part of the run", ylabel="variance / squared gradient", yscale="log"
    )
    panel.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
