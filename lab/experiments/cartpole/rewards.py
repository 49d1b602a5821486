"""Claims about rewards and times in section 6.3: wins, ties and losses alike."""

import math
from collections.abc import Sequence

import numpy as np

from lab.experiments.cartpole.comparison import CASE, MIN_SEEDS, CartPoleComparison
from lab.experiments.cartpole.protocol import AGAIN, BASELINES, EPISODE_COUNTS, SINGLES, UNIFORM, VRM
from lab.reproduce.findings import Claim, Details, Verdict, format_number
from lab.statistics import estimate_difference, mean, median
from varmix.meter import Interval

MIN_LOSS_POINTS = 20.0  # points of reward; less does not count as a loss
MAX_RUN_SECONDS = 60.0
POWER_STANDARD_ERRORS = 1.96 + 0.84  # a difference of so many standard errors is found in four of five experiments


def judge_rewards(comparison: CartPoleComparison) -> list[Claim]:
    """Return the claims about rewards and times that the runs allow."""
    found = [
        _no_loss(comparison),
        _beside_uniform(comparison),
        _report_chance(comparison),
        _report_arms(comparison),
        _report_times(comparison),
    ]
    return [claim for claim in found if claim is not None]


def _no_loss(comparison: CartPoleComparison) -> Claim | None:
    best = comparison.single()
    if best is None or VRM not in comparison.arms:
        return None
    beside, late = _compare_rewards(comparison, VRM, (best,))
    rows = [(f"{best}: best by these seeds", str(beside), str(late))]
    if (held := _held_out(comparison)) is not None:
        rows.append(("best on one half of the seeds, compared on the other", str(held), "-"))
    return Claim(
        "Replay: no loss beside the best",
        "VRM performs hyperparameter selection in a single run without loss of performance compared to the best "
        "setting.",
        format_number(beside, "{value} {bounds} pts"),
        _without_loss(comparison, best, beside),
        f"{comparison.count(CASE, VRM)} seeds; asked: surely less than {MIN_LOSS_POINTS:g} points below the best, over "
        "all episodes",
        details=Details(("VRM less", *_name_columns(comparison)), rows),
        note="The best of nine was chosen by these same seeds, so it looks better than it is."
        f"{_estimate_seeds(comparison)}",
    )


def _name_columns(comparison: CartPoleComparison) -> tuple[str, str]:
    return "points, all episodes", f"points, last {comparison.last}"


def _held_out(comparison: CartPoleComparison) -> Interval | None:
    """Return VRM minus the best setting, which is chosen on one half of the runs and compared on the other half."""
    scores = {arm: comparison.scores(arm) for arm in SINGLES if comparison.count(CASE, arm) > 1}
    if not scores:
        return None
    theirs: list[float] = []
    for chosen_on, compared_on in ((0, 1), (1, 0)):
        best = max(scores, key=lambda arm: float(np.mean(scores[arm][chosen_on::2])))
        theirs += scores[best][compared_on::2]
    return estimate_difference(comparison.scores(VRM), theirs)


def _without_loss(comparison: CartPoleComparison, best: str, beside: Interval) -> Verdict:
    """Return the verdict on "no loss"; it holds in part if there is surely a loss, but less than `MIN_LOSS_POINTS`."""
    if min(comparison.count(CASE, VRM), comparison.count(CASE, best)) < MIN_SEEDS or not comparison.is_full_length:
        return "too few runs"
    if beside.low > -MIN_LOSS_POINTS:
        return "holds" if beside.high >= 0 else "holds in part"
    return "does not hold" if beside.high < 0 else "too few runs"


def _estimate_seeds(comparison: CartPoleComparison) -> str:
    """Write how many seeds would show a difference of `MIN_LOSS_POINTS`."""
    spreads = [np.var(comparison.scores(arm), ddof=1) for arm in comparison.arms if comparison.count(CASE, arm) > 1]
    if not spreads:
        return ""
    seeds = math.ceil(2 * POWER_STANDARD_ERRORS**2 * float(np.mean(spreads)) / MIN_LOSS_POINTS**2)
    return f" To find a difference of {MIN_LOSS_POINTS:g} points takes about {seeds} seeds an arm."


def _beside_uniform(comparison: CartPoleComparison) -> Claim | None:
    if VRM not in comparison.arms or not comparison.results(*BASELINES):
        return None
    beside, late = _compare_rewards(comparison, VRM)
    return Claim(
        "Replay: VRM beside uniform",
        "Points of reward that VRM has above uniform replay.",
        format_number(beside, "{value} {bounds} pts"),
        "measured",
        f"{comparison.count(CASE, VRM)} seeds against {comparison.count(CASE, *BASELINES)} runs of both uniform arms; "
        "not paired",
        beyond=True,
        details=Details(("VRM less", *_name_columns(comparison)), [("uniform replay", str(beside), str(late))]),
    )


def _report_chance(comparison: CartPoleComparison) -> Claim | None:
    if UNIFORM not in comparison.arms or AGAIN not in comparison.arms:
        return None
    beside, late = _compare_rewards(comparison, AGAIN)
    return Claim(
        "Replay: uniform beside itself",
        "How far chance alone goes: two arms of uniform replay that differ in nothing but random numbers.",
        format_number(beside, "{value} {bounds} pts"),
        "measured",
        f"{comparison.count(CASE, UNIFORM)} seeds each, all random numbers different",
        beyond=True,
        details=Details(("the second less", *_name_columns(comparison)), [("the first", str(beside), str(late))]),
    )


def _compare_rewards(
    comparison: CartPoleComparison, arm: str, than: Sequence[str] | None = None
) -> tuple[Interval, Interval]:
    """Return the difference in reward to uniform replay or others, over all episodes and over the last ones."""
    return comparison.difference(arm, than), comparison.difference(arm, than, last=comparison.last)


def _report_arms(comparison: CartPoleComparison) -> Claim | None:
    rows = []
    for arm in comparison.arms:
        whole, late = mean(comparison.scores(arm)), mean(comparison.scores(arm, last=comparison.last))
        rows.append((arm, str(whole), str(late), f"{_average_results(comparison, arm, 'gain'):.3g}"))
    if not rows:
        return None
    return Claim(
        "Replay: all arms",
        "Mean reward of every arm over all episodes and over the last ones, and the gain.",
        f"{len(rows)} arms",
        "measured",
        f"{min(comparison.count(CASE, arm) for arm in comparison.arms)} seeds an arm, {comparison.episodes} episodes",
        beyond=True,
        details=Details(("arm", "reward, all episodes", f"reward, last {comparison.last}", "gain"), rows),
        note="The gain is the second moment of uniform draws over that of the arm's own, by the meter.",
    )


def _report_times(comparison: CartPoleComparison) -> Claim | None:
    rows = []
    for arm in (UNIFORM, VRM):
        results = comparison.results(arm)
        if results:
            parts = median([r["buffer_seconds"] / r["seconds"] for r in results])
            each = median([1e6 * r["buffer_seconds"] / r["steps"] for r in results])
            whole = median([r["seconds"] for r in results])
            rows.append((arm, str(whole), str(parts), f"{each.value:.3g}"))
    if not rows:
        return None
    longest = max(r["seconds"] for r in comparison.results(*comparison.arms))
    return Claim(
        "Replay: the longest run",
        f"A run of all {EPISODE_COUNTS['full']} episodes takes at most {MAX_RUN_SECONDS:g} s on one core.",
        f"{longest:.3g} s",
        _soon_enough(comparison, longest),
        f"one thread, a batch of 64 after every step, {comparison.episodes} episodes; medians over seeds",
        beyond=True,
        details=Details(("arm", "s a run", "share in the buffer", "us a step in the buffer"), rows),
        note="In the buffer: adding, sampling and updating.",
    )


def _soon_enough(comparison: CartPoleComparison, longest: float) -> Verdict:
    if longest > MAX_RUN_SECONDS:
        return "does not hold"
    seeds = max(comparison.count(CASE, arm) for arm in (UNIFORM, VRM))
    return "holds" if seeds >= MIN_SEEDS and comparison.is_full_length else "too few runs"


def _average_results(comparison: CartPoleComparison, arm: str, what: str) -> float:
    return float(np.mean([result[what] for result in comparison.results(arm)]))
