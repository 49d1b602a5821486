"""The figures of section 6.2."""

from typing import TYPE_CHECKING

import numpy as np

from lab.reproduce.findings import Evolution
from lab.experiments.kdpp.fair import Fair
from lab.experiments.kdpp.printed import printed_arm
from lab.experiments.kdpp.protocol import PRINTED
from lab.experiments.kdpp.regression import LEVELS
from lab.experiments.kdpp.regression import MEANS
from lab.experiments.kdpp.regression import RIDGES
from lab.reproduce.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def evolution(records: list[Record]) -> Evolution:
    """Give the mean mixture over time."""
    average = np.mean([r.result["mixtures"] for r in records], axis=0)
    names = [*(f"ridge {ridge:g}" for ridge in RIDGES), "uniform"]
    return Evolution(
        "kdpp-mixture",
        f"The mixture of k-DPPs, small means, mean of {len(records)} seeds",
        "iterations",
        "weight",
        records[0].result["iterations"],
        {name: average[:, j].tolist() for j, name in enumerate(names)},
    )


def printed_figure(records: list[Record]) -> "Figure":
    """Draw the errors with the printed step."""
    from lab.plots import lines
    from lab.plots import panels

    kinds = [means for means in MEANS if any(r.config["means"] == means for r in records)]
    figure, axes = panels(len(kinds), width=4.2)
    for panel, means in zip(axes, kinds, strict=True):
        for index, (arm, longer) in enumerate(PRINTED):
            mine = printed_arm([r for r in records if r.config["means"] == means], arm, longer)
            mine = [r for r in mine if None not in r.result["excess"]]  # what diverged has no mean
            rows = [np.log10(r.result["excess"]).tolist() for r in mine]
            name = arm if longer == 1 else f"{arm}, {longer:g} times the step"
            if rows:
                lines(panel, mine[0].result["iterations"], rows, name, index)
        panel.set(title=means, xlabel="iterations", ylabel="log10 of relative excess error")
        panel.locator_params(axis="x", nbins=4)
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(loc="lower left")
    return figure


def fair_figure(fair: Fair) -> "Figure":
    """Draw how many iterations every arm saves, level by level."""
    from lab.plots import panels

    figure, axes = panels(len(fair.means), width=4.0, height=3.6)
    for panel, means in zip(axes, fair.means, strict=True):
        _dots(panel, fair, means)
        panel.set(title=means, xlabel="times fewer iterations than uniform sets", xscale="log")
        panel.axvline(1.0, color="black", linewidth=0.8)
        panel.tick_params(labelleft=panel is axes[0])
    axes[0].legend(loc="best")
    return figure


def _dots(panel: "Axes", fair: Fair, means: str) -> None:
    from lab.plots import COLORS

    arms = [arm for arm in fair.arms if arm != "uniform"]
    for level, share in enumerate(LEVELS):
        for row, arm in enumerate(arms):
            if len(fair.at(arm, means, level)) < 2 or not fair.at("uniform", means, level):
                continue
            ratio = fair.speed_up(arm, means, level)
            y = -row - 0.22 * (level - 1)
            label = f"to {100 * share:g} %" if row == 0 else None
            panel.plot([ratio.low, ratio.high], [y, y], color=COLORS[level], linewidth=1.2)
            panel.plot([ratio.value], [y], "osD"[level], color=COLORS[level], markersize=4, label=label)
    panel.set_yticks([-row for row in range(len(arms))], arms)
