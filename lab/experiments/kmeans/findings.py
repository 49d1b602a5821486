"""What the k-means runs show: claims, figures and their words."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from lab.experiments.kmeans.arms import (
    AGAIN,
    BASELINES,
    DEFAULT,
    DEFAULTS,
    PUBLISHED,
    RESHUFFLING,
    UNIFORM,
    VRB,
    VRB_SEEDED,
)
from lab.experiments.kmeans.course import MOMENT_ITERATION
from lab.experiments.kmeans.data import CHEST, GENERATED, KDD, MNIST, REAL_SETS
from lab.experiments.kmeans.table import Table
from lab.reproduce.findings import Claim, Findings, Picture, Verdict
from lab.reproduce.records import Record
from varmix.meter import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Some of the arms, so that lines can be told apart; the table has all of them.
PLOTTED_ARMS = (DEFAULT, UNIFORM, PUBLISHED, VRB, DEFAULTS, VRB_SEEDED, RESHUFFLING)
Against = Literal["time", "iterations"]


def draw_figure(table: Table, against: Against) -> "Figure":
    """Draw the relative error, a panel per set, mean and 95 % band over seedings."""
    from lab.plots import make_panels

    drawn, axes = make_panels(max(len(table.sets), 1), width=4.0, height=3.4)
    for panel, name in zip(axes, table.sets, strict=False):
        for index, arm in enumerate(PLOTTED_ARMS):
            _plot_arm(panel, table, name, arm, index, against)
        panel.set(title=name, xscale="log", xlabel=_format_label(against), ylabel="relative error, %")
        _frame_panel(panel)
    if table.sets:
        axes[0].legend(loc="lower left", fontsize=7)
    return drawn


def _frame_panel(panel: "Axes") -> None:
    """Show the means whole, and of the bands what fits; a logarithm where all means are positive."""
    from lab.plots import format_axis

    heights = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in panel.get_lines()] or [np.ones(1)])
    low, high = float(heights.min()), float(heights.max())
    if low > 0:
        panel.set(yscale="log", ylim=(low / 1.5, high * 1.5))
        format_axis(panel.yaxis)
    else:
        panel.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    format_axis(panel.xaxis)


def _format_label(against: Against) -> str:
    return "milliseconds, set-up included" if against == "time" else "iterations"


def _plot_arm(panel: "Axes", table: Table, name: str, arm: str, index: int, against: Against) -> None:
    from lab.plots import plot_band

    arms = BASELINES if arm == UNIFORM else (arm,)
    errors, seconds = table.means(name, arms, "errors"), table.means(name, arms, "seconds")
    if errors:
        x = 1e3 * np.mean(seconds, axis=0) if against == "time" else np.array(table.marks, dtype=float)
        first = 1 if against == "iterations" or x[0] < 0.1 * x[1] else 0  # a logarithm has no room for zero
        plot_band(panel, x[first:].tolist(), [(100 * e[first:]).tolist() for e in errors], arm, index)


MIN_SEEDINGS = 8  # seedings, below which nothing is judged
LEVEL_ITERATIONS = (100, 500)  # iterations of uniform draws whose error is to be reached


def describe_settings(table: Table) -> str:
    """Say how many seedings and runs there were."""
    seedings = min(len(table.results(name)) for name in table.sets)
    return f"{seedings} seedings x {table.runs} runs, 100 clusters, batch 100"


def decide_verdict(table: Table, met: dict[str, bool | None]) -> Verdict:
    """Judge what is asked of several sets; None is what did not run, and too few seedings say nothing."""
    if any(good is None or len(table.results(name)) < MIN_SEEDINGS for name, good in met.items()):
        return "too few runs"
    if all(met.values()):
        return "holds"
    return "holds in part" if any(met.values()) else "does not hold"


def describe_sets(table: Table, text: Callable[[str], str | None]) -> str:
    """Say something of every set that ran."""
    found = {name: text(name) for name in table.sets}
    told = [f"{name} {said}" for name, said in found.items() if said]
    return f"{'; '.join(told)}." if told else ""


def format_interval(interval: Interval | None) -> str | None:
    """Say an interval, if there is one."""
    return None if interval is None else str(interval)


def compare_levels(table: Table, name: str, arm: str, than: Sequence[str] = BASELINES) -> list[Interval]:
    """Give how many times sooner an arm is at each level that is known."""
    found = [table.faster(name, arm, level, than) for level in LEVEL_ITERATIONS]
    return [interval for interval in found if interval is not None]


def describe_levels(table: Table, name: str, arm: str, than: Sequence[str] = BASELINES) -> str | None:
    """Say how many times sooner an arm is at the levels."""
    return " and ".join(map(str, compare_levels(table, name, arm, than))) or None


def explain_times(who: str, told: str) -> str:
    """Say what times are about."""
    marks = " and ".join(map(str, LEVEL_ITERATIONS))
    return f"{who}, times sooner at the error that uniform draws have after {marks} iterations: {told}" if told else ""


def describe_limits(asked: dict[str, float]) -> str:
    """Say what is asked for on each set."""
    return ", ".join(f"{limit:g} on {name}" for name, limit in asked.items())


MAX_MOMENTS = {KDD: 0.87, CHEST: 0.46, MNIST: 0.99}  # at most
MIN_POINTS_BELOW = {KDD: 1.5, CHEST: 6.0}  # percentage points, at least
MAX_TIE_POINTS = 0.5  # percentage points either way on mnist
MIN_SPEEDUPS = {KDD: 1.3, CHEST: 2.0, MNIST: 0.9}  # at least


def findings(records: Sequence[Record]) -> Findings:
    """Compare the arms."""
    table = Table(records)
    absent = [name for name in REAL_SETS if name not in table.sets]
    return Findings(
        experiment="kmeans",
        title="Section 6.4: minibatch k-means",
        claims=_judge_claims(table) if table.sets else [],
        pictures=_make_pictures(table) if table.sets else [],
        notes=[
            "The error is the loss on the test part relative to batch k-means from the same seeding, less one, in "
            "percent. Runs from one seeding are averaged and intervals are over seedings. Uniform draws are two arms "
            "of independent runs, pooled; the second beside the first shows how far chance goes. Times are of one "
            "thread, for the sampler's set-up, sampling, stepping and learning; every run is made twice on the same "
            "path and the lesser time of each stretch counts. Beta (in units of one over the mean squared distance at "
            "the seeding) and gamma of the published arm were chosen on an inner split of the training part, on other "
            "seedings. The paper's CSN is not public; chest_accel is another set of that size.",
            *([f"Not run here, because data are missing or the mode is quick: {', '.join(absent)}."] if absent else []),
            *(["The points named generated are made up: they show that everything runs."] * (GENERATED in table.sets)),
            *_describe_tuning(records),
        ],
    )


def _describe_tuning(records: Sequence[Record]) -> list[str]:
    found = {r.config["data"]: r.result["best"] for r in records if r.config["part"] == "tune"}
    texts = [f"{name} beta {best['beta']:g}, gamma {best['gamma']:g}" for name, best in found.items()]
    return [f"Chosen for the published arm: {'; '.join(texts)}."] if texts else []


def _make_pictures(table: Table) -> list[Picture]:
    band = " and 95 % band" if any(len(table.results(name)) > 2 for name in table.sets) else ""
    said = f"Error on the test part relative to batch k-means, mean over seedings{band}, a panel per data set"
    return [
        Picture(
            "kmeans-time",
            f"{said}, against the time of the sampler's set-up, sampling and stepping. The shared seeding is left out, "
            "as in the paper.",
            "A panel per data set with falling error curves of seven arms over milliseconds.",
            lambda: draw_figure(table, "time"),
        ),
        Picture(
            "kmeans-iterations",
            f"{said}, against iterations: what the sampling gives when it costs nothing.",
            "A panel per data set with falling error curves of seven arms over iterations.",
            lambda: draw_figure(table, "iterations"),
        ),
    ]


def _judge_claims(table: Table) -> list[Claim]:
    claims = [
        _judge_late_lead(table),
        _no_advantage(table),
        _report_constant(table),
        _judge_moments(table),
        _judge_errors(table),
        _judge_times(table),
        _judge_vrb(table),
        *(_report_arms(table, name) for name in table.sets),
        _report_total(table),
        _report_chance(table),
    ]
    return [claim for claim in claims if claim.measured]


def _judge_late_lead(table: Table) -> Claim:
    """Whether the published arm is ahead in time at the later level, of uniform draws and of VRB."""

    def ahead(name: str) -> bool | None:
        beside = [table.faster(name, PUBLISHED, LEVEL_ITERATIONS[-1], than) for than in (BASELINES, (VRB,))]
        known = [interval for interval in beside if interval is not None]
        return all(interval.low > 1 for interval in known) if len(known) == 2 else None

    def text(name: str) -> str | None:
        if (uniform := describe_levels(table, name, PUBLISHED)) is None:
            return None
        return f"{uniform} than uniform draws, {describe_levels(table, name, PUBLISHED, [VRB]) or 'unknown'} than VRB"

    return Claim(
        "VRM suffers initially from a high set-up time, but eventually outperforms uniform sampling and VRB in time.",
        explain_times("VRM as published", describe_sets(table, text)),
        decide_verdict(table, {name: ahead(name) for name in (KDD, CHEST)}),
        f"{describe_settings(table)}; judged at the later level, on kdd_bio and chest_accel; median over seedings",
    )


def _no_advantage(table: Table) -> Claim:
    below = [table.below(MNIST, PUBLISHED, level) for level in LEVEL_ITERATIONS]
    known = [interval for interval in below if interval is not None]
    none = None if not known else all(abs(interval.value) <= MAX_TIE_POINTS for interval in known)
    return Claim(
        "No advantage on MNIST.",
        f"VRM as published, percentage points below uniform draws after {' and '.join(map(str, LEVEL_ITERATIONS))} "
        f"iterations: "
        f"{' and '.join(map(str, known))}."
        if known
        else "",
        decide_verdict(table, {MNIST: none}),
        f"{describe_settings(table)}; none is less than {MAX_TIE_POINTS} either way",
    )


def _report_constant(table: Table) -> Claim:
    def text(name: str) -> str:
        values = [float(result["c"]) for result in table.results(name)]
        paper = REAL_SETS[name].paper_c if name in REAL_SETS else None
        return f"{sum(values) / len(values):.3g} (the paper: {paper or 'none'})"

    return Claim(
        "Table 1: c is 48.18 on KDD and 3.09 on MNIST.",
        f"c of the ten components, mean over seedings and choices of centres: {describe_sets(table, text)}",
        "measured",
        f"{describe_settings(table)}; distances over their sum: what the paper prints does not sum to one",
    )


def _judge_moments(table: Table) -> Claim:
    met: dict[str, bool | None] = {}
    for name, limit in MAX_MOMENTS.items():
        moment = table.moment(name, DEFAULT)
        met[name] = None if moment is None else moment.value <= limit

    def text(name: str) -> str | None:
        moment, ideal = table.moment(name, DEFAULT), table.moment(name, DEFAULT, "ideal")
        return None if moment is None or ideal is None else f"{moment} (ideal {ideal.value:.3g})"

    return Claim(
        f"Second moment against uniform after {MOMENT_ITERATION} iterations: at most {describe_limits(MAX_MOMENTS)}.",
        describe_sets(table, text),
        decide_verdict(table, met),
        f'components="seeding"; {describe_settings(table)}; over all points',
        beyond=True,
    )


def _judge_errors(table: Table) -> Claim:
    met: dict[str, bool | None] = {}
    for name in (*MIN_POINTS_BELOW, MNIST):
        below = table.below(name, DEFAULT, 100)
        if below is None:
            met[name] = None
        else:
            met[name] = (
                abs(below.value) <= MAX_TIE_POINTS
                if name == MNIST
                else below.value >= MIN_POINTS_BELOW[name] and below.low > 0
            )
    return Claim(
        f"Relative error after 100 iterations, percentage points below uniform draws: at least "
        f"{describe_limits(MIN_POINTS_BELOW)}; on "
        f"mnist within {MAX_TIE_POINTS} either way.",
        describe_sets(table, lambda name: _describe_error(table, name, 100)),
        decide_verdict(table, met),
        f'components="seeding"; {describe_settings(table)}',
        beyond=True,
    )


def _describe_error(table: Table, name: str, mark: int) -> str | None:
    below = table.below(name, DEFAULT, mark)
    mine, theirs = table.error(name, [DEFAULT], mark), table.error(name, BASELINES, mark)
    if below is None or mine is None or theirs is None:
        return None
    return f"{below} ({mine.value:.3g} % for {theirs.value:.3g} %)"


def _judge_times(table: Table) -> Claim:
    met: dict[str, bool | None] = {}
    for name, limit in MIN_SPEEDUPS.items():
        found = compare_levels(table, name, DEFAULT)
        met[name] = all(interval.value >= limit for interval in found) if len(found) == len(LEVEL_ITERATIONS) else None
    return Claim(
        f"Time with set-up to the error of uniform draws, times faster: at least {describe_limits(MIN_SPEEDUPS)}.",
        explain_times("The default", describe_sets(table, lambda name: describe_levels(table, name, DEFAULT))),
        decide_verdict(table, met),
        f"{describe_settings(table)}; median over seedings",
        beyond=True,
    )


def _judge_vrb(table: Table) -> Claim:
    def ahead(name: str) -> bool | None:
        found = [interval for form in (VRB, VRB_SEEDED) for interval in compare_levels(table, name, DEFAULT, [form])]
        return all(interval.value > 1 for interval in found) if len(found) == 2 * len(LEVEL_ITERATIONS) else None

    def text(name: str) -> str | None:
        forms = [(form, describe_levels(table, name, DEFAULT, [form])) for form in (VRB, VRB_SEEDED)]
        return ", ".join(f"{said} than {form}" for form, said in forms if said) or None

    return Claim(
        "Ahead of both forms of VRB in time with set-up.",
        explain_times("The default", describe_sets(table, text)),
        decide_verdict(table, {name: ahead(name) for name in MIN_SPEEDUPS}),
        f"{describe_settings(table)}; median over seedings",
        beyond=True,
    )


def _report_arms(table: Table, name: str) -> Claim:
    """Everything of every arm on a set: wins, ties and losses alike."""
    texts = []
    for arm in table.arms(name):
        below, moment, gain = table.below(name, arm, 100), table.moment(name, arm), table.moment(name, arm, "gain")
        times, each = describe_levels(table, name, arm), table.seconds(name, arm)
        if below is None or moment is None or gain is None or each is None:
            continue
        points = "" if arm == UNIFORM else f"{below} points below uniform, {times or 'no'} times faster, "
        texts.append(
            f"{arm}: {points}second moment {moment.value:.3g}, gain read {gain.value:.3g}, set-up "
            f"{1e3 * each[0].value:.3g} ms, iteration {1e6 * each[1].value:.3g} us"
        )
    levels = " and ".join(map(str, LEVEL_ITERATIONS))
    return Claim(
        f"All arms on {name}: error after 100 iterations, time to uniform's after {levels}, second moment, costs.",
        f"{'; '.join(texts)}." if texts else "",
        "measured",
        describe_settings(table),
        beyond=True,
    )


def _report_total(table: Table) -> Claim:
    def text(name: str) -> str | None:
        found = [table.total(name, DEFAULT, level) for level in LEVEL_ITERATIONS]
        times = " and ".join(str(interval) for interval in found if interval is not None)
        first = [float(result["seeding_seconds"]) for result in table.results(name)]
        return f"{times} (seeding {sum(first) / len(first):.3g} s)" if times else None

    return Claim(
        "The same with the time of the shared seeding in it.",
        explain_times("The default", describe_sets(table, text)),
        "measured",
        f"{describe_settings(table)}; full k-means++ on all points of the training part",
        beyond=True,
    )


def _report_chance(table: Table) -> Claim:
    def text(name: str) -> str | None:
        below, times = table.below(name, AGAIN, 100), table.faster(name, AGAIN, 100, [UNIFORM])
        return None if below is None else f"{below} points, {format_interval(times) or 'unknown'} times"

    return Claim(
        "Uniform draws against themselves: how far chance alone goes.",
        describe_sets(table, text),
        "measured",
        f"{describe_settings(table)}; error after 100 iterations, and time to it",
        beyond=True,
    )
