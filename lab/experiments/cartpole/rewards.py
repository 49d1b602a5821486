"""What is said of rewards and times in section 6.3: wins, ties and losses alike."""

import math

import numpy as np

from lab.experiments.cartpole.protocol import AGAIN, BASELINES, EPISODE_COUNTS, SINGLES, UNIFORM, VRM
from lab.experiments.cartpole.table import MIN_SEEDS, Table
from lab.reproduce.findings import Claim, Details, Verdict, format_number
from lab.statistics import estimate_difference, mean, median
from varmix.meter import Interval

MIN_LOSS_POINTS = 20.0  # points of reward that count as a loss
MAX_RUN_SECONDS = 60.0  # seconds
POWER_STANDARD_ERRORS = 1.96 + 0.84  # standard errors between nothing and what is found in four of five experiments


def judge_rewards(table: Table) -> list[Claim]:
    """Give the claims about rewards and times that the runs allow."""
    found = [_no_loss(table), _beside_uniform(table), _report_chance(table), _report_arms(table), _report_times(table)]
    return [claim for claim in found if claim is not None]


def _no_loss(table: Table) -> Claim | None:
    best = table.single()
    if best is None or VRM not in table.arms:
        return None
    beside, late = _compare_rewards(table, (VRM,), (best,))
    rows = [(f"{best}: best by these seeds", str(beside), str(late))]
    if (held := _held_out(table)) is not None:
        rows.append(("best on one half of the seeds, compared on the other", str(held), "-"))
    return Claim(
        "Replay: no loss beside the best",
        "VRM performs hyperparameter selection in a single run without loss of performance compared to the best "
        "setting.",
        format_number(beside, "{value} {bounds} pts"),
        _without_loss(table, best, beside),
        f"{_count_seeds(table, VRM)} seeds; asked: surely less than {MIN_LOSS_POINTS:g} points below the best, over "
        "all episodes",
        details=Details(("VRM less", *_name_columns(table)), rows),
        note=f"The best of nine was chosen by these same seeds, so it looks better than it is.{_estimate_seeds(table)}",
    )


def _name_columns(table: Table) -> tuple[str, str]:
    return "points, all episodes", f"points, last {table.last}"


def _held_out(table: Table) -> Interval | None:
    """Give VRM less the best setting, where that is chosen on every other run and compared on those between."""
    scores = {arm: table.scores(arm) for arm in SINGLES if _count_seeds(table, arm) > 1}
    if not scores:
        return None
    theirs: list[float] = []
    for chosen_on, compared_on in ((0, 1), (1, 0)):
        best = max(scores, key=lambda arm: float(np.mean(scores[arm][chosen_on::2])))
        theirs += scores[best][compared_on::2]
    return estimate_difference(table.scores(VRM), theirs)


def _without_loss(table: Table, best: str, beside: Interval) -> Verdict:
    """A loss is more than so many points; one that is sure and smaller is a loss in part."""
    if min(_count_seeds(table, VRM), _count_seeds(table, best)) < MIN_SEEDS or not table.is_full_length:
        return "too few runs"
    if beside.low > -MIN_LOSS_POINTS:
        return "holds" if beside.high >= 0 else "holds in part"
    return "does not hold" if beside.high < 0 else "too few runs"


def _estimate_seeds(table: Table) -> str:
    """Say how many seeds would show a difference of that size."""
    spreads = [np.var(table.scores(arm), ddof=1) for arm in table.arms if _count_seeds(table, arm) > 1]
    if not spreads:
        return ""
    seeds = math.ceil(2 * POWER_STANDARD_ERRORS**2 * float(np.mean(spreads)) / MIN_LOSS_POINTS**2)
    return f" To find a difference of {MIN_LOSS_POINTS:g} points takes about {seeds} seeds an arm."


def _beside_uniform(table: Table) -> Claim | None:
    if VRM not in table.arms or not table.results(*BASELINES):
        return None
    beside, late = _compare_rewards(table, (VRM,), BASELINES)
    return Claim(
        "Replay: VRM beside uniform",
        "Points of reward that VRM has above uniform replay.",
        format_number(beside, "{value} {bounds} pts"),
        "measured",
        f"{_count_seeds(table, VRM)} seeds against {len(table.results(*BASELINES))} runs of both uniform arms; not "
        f"paired",
        beyond=True,
        details=Details(("VRM less", *_name_columns(table)), [("uniform replay", str(beside), str(late))]),
    )


def _report_chance(table: Table) -> Claim | None:
    if UNIFORM not in table.arms or AGAIN not in table.arms:
        return None
    beside, late = _compare_rewards(table, (AGAIN,), (UNIFORM,))
    return Claim(
        "Replay: uniform beside itself",
        "How far chance alone goes: two arms of uniform replay that differ in nothing but random numbers.",
        format_number(beside, "{value} {bounds} pts"),
        "measured",
        f"{_count_seeds(table, UNIFORM)} seeds each, all random numbers different",
        beyond=True,
        details=Details(("the second less", *_name_columns(table)), [("the first", str(beside), str(late))]),
    )


def _compare_rewards(table: Table, mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[Interval, Interval]:
    """Give the difference in reward over all episodes, and over the last ones."""
    first, second = (
        estimate_difference(table.scores(*mine, last=last), table.scores(*theirs, last=last))
        for last in (None, table.last)
    )
    return first, second


def _report_arms(table: Table) -> Claim | None:
    rows = []
    for arm in table.arms:
        whole, late = mean(table.scores(arm)), mean(table.scores(arm, last=table.last))
        rows.append((arm, str(whole), str(late), f"{_average_results(table, arm, 'gain'):.3g}"))
    if not rows:
        return None
    return Claim(
        "Replay: all arms",
        "Mean reward of every arm over all episodes and over the last ones, and the gain.",
        f"{len(rows)} arms",
        "measured",
        f"{min(_count_seeds(table, arm) for arm in table.arms)} seeds an arm, {table.episodes} episodes",
        beyond=True,
        details=Details(("arm", "reward, all episodes", f"reward, last {table.last}", "gain"), rows),
        note="The gain is the second moment of uniform draws over that of the arm's own, by the meter.",
    )


def _report_times(table: Table) -> Claim | None:
    rows = []
    for arm in (UNIFORM, VRM):
        results = table.results(arm)
        if results:
            parts = median([r["buffer_seconds"] / r["seconds"] for r in results])
            each = median([1e6 * r["buffer_seconds"] / r["steps"] for r in results])
            whole = median([r["seconds"] for r in results])
            rows.append((arm, str(whole), str(parts), f"{each.value:.3g}"))
    if not rows:
        return None
    longest = max(r["seconds"] for r in table.results(*table.arms))
    return Claim(
        "Replay: the longest run",
        f"A run of all {EPISODE_COUNTS['full']} episodes takes at most {MAX_RUN_SECONDS:g} s on one core.",
        f"{longest:.3g} s",
        _soon_enough(table, longest),
        f"one thread, a batch of 64 after every step, {table.episodes} episodes; medians over seeds",
        beyond=True,
        details=Details(("arm", "s a run", "share in the buffer", "us a step in the buffer"), rows),
        note="In the buffer: adding, sampling and updating.",
    )


def _soon_enough(table: Table, longest: float) -> Verdict:
    if longest > MAX_RUN_SECONDS:
        return "does not hold"
    seeds = max(_count_seeds(table, arm) for arm in (UNIFORM, VRM))
    return "holds" if seeds >= MIN_SEEDS and table.is_full_length else "too few runs"


def _average_results(table: Table, arm: str, what: str) -> float:
    return float(np.mean([result[what] for result in table.results(arm)]))


def _count_seeds(table: Table, arm: str) -> int:
    return len(table.results(arm))
