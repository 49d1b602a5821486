"""Findings of the k-DPP experiment: claims and figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.commands import format_install
from lab.experiments.kdpp.fair import Fair, fair_claims
from lab.experiments.kdpp.kinds import describe_kinds, find_worst, tabulate_kinds
from lab.experiments.kdpp.printed import printed_arm, printed_claims
from lab.experiments.kdpp.protocol import BEST_ARM, PRINTED_ARMS, best_paces
from lab.experiments.kdpp.regression import ERROR_LEVELS, MEANS, RIDGES
from lab.reproduce.findings import Claim, Evolution, Findings, Picture, Verdict, combine_verdicts, format_number
from lab.reproduce.records import Record
from lab.statistics import format_times, times_sooner
from varmix.meter import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def make_evolution(records: list[Record]) -> Evolution:
    """Return the mean mixture over time."""
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
    from lab.plots import make_panels, plot_band

    kinds = [means for means in MEANS if any(r.config["means"] == means for r in records)]
    figure, axes = make_panels(len(kinds), width=4.2)
    for panel, means in zip(axes, kinds, strict=True):
        for index, (arm, longer) in enumerate(PRINTED_ARMS):
            mine = printed_arm([r for r in records if r.config["means"] == means], arm, longer)
            mine = [r for r in mine if None not in r.result["excess"]]  # a run that diverged has no mean
            rows = [np.log10(r.result["excess"]).tolist() for r in mine]
            name = arm if longer == 1 else f"{arm}, {longer:g} times the step"
            if rows:
                plot_band(panel, mine[0].result["iterations"], rows, name, index)
        panel.set(title=means, xlabel="iterations", ylabel="log10 of relative excess error")
        panel.locator_params(axis="x", nbins=4)
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(loc="lower left")
    return figure


def fair_figure(fair: Fair) -> "Figure":
    """Draw how many iterations every arm saves, level by level."""
    from lab.plots import make_panels

    figure, axes = make_panels(len(fair.means), width=4.0, height=3.6)
    for panel, means in zip(axes, fair.means, strict=True):
        _plot_ratios(panel, fair, means)
        panel.set(title=means, xlabel="times fewer iterations than uniform sets", xscale="log")
        panel.axvline(1.0, color="black", linewidth=0.8)
        panel.tick_params(labelleft=panel is axes[0])
    axes[0].legend(loc="best")
    return figure


def _plot_ratios(panel: "Axes", fair: Fair, means: str) -> None:
    from lab.plots import COLORS

    arms = [arm for arm in fair.arms if arm != "uniform"]
    for level, share in enumerate(ERROR_LEVELS):
        for row, arm in enumerate(arms):
            if len(fair.at(arm, means, level)) < 2 or not fair.at("uniform", means, level):
                continue
            ratio = fair.speed_up(arm, means, level)
            y = -row - 0.22 * (level - 1)
            label = f"to {100 * share:g} %" if row == 0 else None
            panel.plot([ratio.low, ratio.high], [y, y], color=COLORS[level], linewidth=1.2)
            panel.plot([ratio.value], [y], "osD"[level], color=COLORS[level], markersize=4, label=label)
    panel.set_yticks([-row for row in range(len(arms))], arms)


def findings(records: Sequence[Record]) -> Findings:
    """Compare the arms as printed, then fairly."""
    parts: dict[str, list[Record]] = {part: [] for part in ("printed", "tune", "fair", "timed")}
    for record in records:
        parts[record.config["part"]].append(record)
    fair = Fair(parts["fair"], best_paces(parts["tune"]))
    learned = [r for r in fair.at(BEST_ARM, "small means", 1) if r.result["mixtures"]]
    pictures = []
    if parts["printed"]:
        pictures.append(
            Picture(
                "kdpp",
                "Squared error above the least possible, with the step that the paper prints (mean of the logarithm, "
                "95 % band). The paper's Figure 2, right, shows the mixture with soft truncation below uniform sets; "
                "look for the curve of unbiased weights beside it.",
                "Curves of falling error; soft truncation and the longer step lie below uniform sets and unbiased VRM.",
                lambda: printed_figure(parts["printed"]),
            )
        )
    if parts["fair"]:
        pictures.append(
            Picture(
                "kdpp-fair",
                "How many times fewer iterations than uniform sets each sampler needs, each with its own best step "
                "(median, 95 % interval). The paper has no such figure: right of one is better.",
                "Dots with intervals for every method, level and kind of data.",
                lambda: fair_figure(fair),
            )
        )
    return Findings(
        experiment="kdpp",
        title="Section 6.2: sets from k-DPPs",
        claims=[*printed_claims(parts["printed"]), *fair_claims(fair), _judge_overhead(parts["timed"])],
        pictures=pictures,
        evolutions=[make_evolution(learned)] if learned else [],
        notes=[
            "Linear regression by stochastic gradient descent on sets of five points. VRM, the paper's sampler, mixes "
            "uniform sets and three k-DPPs, which prefer sets of points that differ.",
            "The paper does not print how large the means of the features are, so there are three kinds of data: "
            "small means N(0, 1), normal means 5 N(0, 1), uniform means U(0, 10).",
            "As printed: one step size for all, and soft truncation, which biases the weights.",
            "Fair comparison: unbiased weights, and the best step of every sampler, chosen on other seeds. What counts "
            "is the iteration from which an error is never exceeded again.",
            "Point weights are Horvitz-Thompson weights: each point of a set has its own.",
            "Importance by point draws single points by their squared length, half mixed with uniform draws.",
            "Where most runs missed a level, the median is zero, and the dot lies beyond the left edge of the figure.",
            *([f"Best at an edge of the steps that were tried: {'; '.join(fair.edges())}."] if fair.edges() else []),
        ],
    )


def _judge_overhead(records: list[Record]) -> Claim:
    name = "k-DPP overhead outweighs its benefit"
    said = "With exact k-DPP sampling, the computational overhead outweighs the practical benefits."
    columns: dict[str, tuple[str, ...]] = {}
    verdicts: list[Verdict] = []
    found: list[Interval] = []
    count = 0
    for means in MEANS:
        runs = {arm: _by_seed(records, means, arm) for arm in ("uniform", BEST_ARM)}
        seeds = sorted(set(runs[BEST_ARM]) & set(runs["uniform"]))
        if not seeds:
            continue
        times = {arm: [r[s].result["seconds"][1] for s in seeds] for arm, r in runs.items()}
        each = {arm: 1e6 * float(np.median([r[s].result["each"] for s in seeds])) for arm, r in runs.items()}
        faster = times_sooner(times[BEST_ARM], times["uniform"], [runs["uniform"][s].result["all"] for s in seeds])
        verdicts.append("does not hold" if faster.low > 1 else "holds" if faster.high < 1 else "too few runs")
        found.append(faster)
        count = max(count, len(seeds))
        columns[means] = (
            format_times(faster),
            *(f"{each[arm]:.0f} us" for arm in ("uniform", BEST_ARM)),
            *(f"{sum(t is None for t in times[arm])} of {len(seeds)}" for arm in ("uniform", BEST_ARM)),
            verdicts[-1],
        )
    if not found:
        note = f"It takes full mode and PyTorch ({format_install('torch')})."
        return Claim(name, said, "not measured", "too few runs", "0 runs", note=note)
    return Claim(
        name,
        said,
        format_number(find_worst(found), "{value}x {bounds} sooner"),
        combine_verdicts(verdicts),
        f"{count} seeds, median, a PyTorch step, one thread, other runs beside it{describe_kinds(found)}",
        details=tabulate_kinds(
            (
                "sooner in time, to 1 %",
                "an iteration, uniform",
                "an iteration, mixture",
                "missed by uniform",
                "missed by the mixture",
                "verdict",
            ),
            columns,
        ),
        note=(
            "How many times sooner than uniform sets, in time and set-up included, the mixture keeps the error below "
            "1 % of the initial one. Above one, the benefits outweigh the overhead."
        ),
    )


def _by_seed(records: list[Record], means: str, arm: str) -> dict[int, Record]:
    return {r.config["seed"]: r for r in records if (r.config["means"], r.config["arm"]) == (means, arm)}
