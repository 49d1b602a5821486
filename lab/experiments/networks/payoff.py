"""Claims about the tasks that were tried in search of one where adaptive sampling pays."""

import math
from collections.abc import Sequence

from lab.experiments.networks.comparison import NetworkComparison
from lab.experiments.networks.tasks import (
    AGAIN,
    ALWAYS_ON,
    BALANCED,
    BASELINES,
    CROSS,
    LARGER,
    MIXTURES,
    OTHER_TASKS,
    RARE,
    STATIC,
)
from lab.experiments.networks.wording import (
    MISSING,
    describe_settings,
    format_interval,
    format_noise,
    format_ratio,
    join_pairs,
)
from lab.reproduce.findings import Claim, Details, Verdict
from lab.statistics import geometric_mean
from varmix.meter import Interval

MAX_CLEAR_RATIO = 0.8  # highest ratio of losses that counts as paying
MIN_RARE_SEEDS = 8  # with fewer seeds the claims about the rare class are not judged


def judge_payoff(comparison: NetworkComparison) -> list[Claim]:
    """Return the claims about the other tasks that the runs allow."""
    tasks = [name for name in OTHER_TASKS if name in comparison.tasks]
    found: list[Claim | None] = []
    if RARE in tasks and comparison.relative(RARE, CROSS, "test") is not None:
        found += [_judge_rare(comparison), _judge_worth(comparison)]
    if tasks:
        found.append(_report_tasks(comparison, tasks))
    if comparison.tasks:
        found.append(_report_chance(comparison))
    return [claim for claim in found if claim is not None]


def _judge_rare(comparison: NetworkComparison) -> Claim:
    """Judge the rare class: with one point in 100 and few epochs, variance is the limit."""
    beside = comparison.relative(RARE, CROSS, "test")
    usual = comparison.relative(RARE, CROSS, "test", than=(BALANCED,))
    assert beside is not None  # `judge_payoff` checks it
    good = beside.value <= MAX_CLEAR_RATIO and beside.high < 1
    ahead = usual is not None and usual.high < 1
    verdict: Verdict = "holds" if good and ahead else "holds in part" if good or ahead else "does not hold"
    rows = [
        (arm, *_list_losses(comparison, arm)) for arm in comparison.arms_of(RARE) if arm not in (*BASELINES, LARGER)
    ]
    return Claim(
        "Rare class: beats reshuffling",
        f"On covtype, one point in 100, the mixture has at most {MAX_CLEAR_RATIO} of reshuffling's held-out loss, and "
        "beats balanced draws.",
        format_ratio(beside),
        verdict if comparison.count(RARE, CROSS) >= MIN_RARE_SEEDS else "too few runs",
        describe_settings(comparison, [RARE], MIXTURES),
        beyond=True,
        details=Details(
            ("beside reshuffling", "held-out loss", "training loss", "1 - average precision"),
            [*rows, (f"{CROSS}, beside {BALANCED}", format_interval(usual), MISSING, MISSING)],
        ),
        note=f"228,839 points, an MLP with Adam; judged is '{CROSS}', the mixture with resplit by norms. The held-out "
        "points were in view when the task was chosen, the seeds were not.",
    )


def _list_losses(comparison: NetworkComparison, arm: str) -> list[str]:
    found = (
        comparison.relative(RARE, arm, "test"),
        comparison.relative(RARE, arm, "train"),
        comparison.missed(RARE, arm),
    )
    return [format_interval(interval) for interval in found]


def _judge_worth(comparison: NetworkComparison) -> Claim:
    """Judge how many gradients are saved: runs of half the length, and batches of a quarter of the size."""
    half = comparison.relative(RARE, CROSS, "test", half=True)
    larger = comparison.relative(RARE, CROSS, "test", than=(LARGER,))
    saved = half is not None and half.high <= 1
    noise = ", ".join(format_noise(value) for value in comparison.noise(RARE, *BASELINES))
    return Claim(
        "Rare class: half the run is enough",
        "There, with half as many gradients, the held-out loss is not worse than reshuffling's.",
        format_ratio(half),
        ("holds" if saved else "does not hold")
        if half is not None and comparison.count(RARE, CROSS) >= MIN_RARE_SEEDS
        else "too few runs",
        f"{describe_settings(comparison, [RARE], (CROSS,))}, runs of half the length with a step of their own",
        beyond=True,
        details=Details(
            (CROSS, "number"),
            [
                ("held-out loss after half as many gradients", format_interval(half)),
                ("of these runs below reshuffling's mean", _describe_short_runs(comparison)),
                (
                    "times fewer gradients until reshuffling's final training loss, in runs of full length",
                    format_interval(comparison.sooner(RARE, CROSS)),
                ),
                (
                    "held-out loss beside batches of four times the size, four times the gradients",
                    format_interval(larger),
                ),
                (
                    "held-out loss of these larger batches beside reshuffling's",
                    format_interval(comparison.relative(RARE, LARGER, "test")),
                ),
                ("gain over the last three fifths of a run", f"{comparison.gain(RARE, CROSS):.3g}"),
                ("noise of reshuffling's batches, by fifths of a run", noise),
            ],
        ),
        note="One run that fails makes a wide interval.",
    )


def _describe_short_runs(comparison: NetworkComparison) -> str:
    """Count the short runs that end below the mean of reshuffling: one that fails widens the interval a lot."""
    ends, theirs = comparison.ends(RARE, CROSS, what="test", half=True), comparison.ends(RARE, *BASELINES, what="test")
    if not ends or not theirs:
        return MISSING
    return f"{sum(end < geometric_mean(theirs).value for end in ends)} of {len(ends)}"


def _report_tasks(comparison: NetworkComparison, tasks: Sequence[str]) -> Claim:
    pays = [task for task in tasks if any(_is_clear(comparison.relative(task, arm, "test")) for arm in MIXTURES)]
    loses = [
        (task, arm)
        for task in tasks
        for arm in MIXTURES
        if (beside := comparison.relative(task, arm, "test")) is not None and beside.low > 1
    ]
    return Claim(
        "Other networks: where it pays",
        f"All tasks that were tried; it pays where held-out loss is at most {MAX_CLEAR_RATIO}, and surely below one.",
        f"{len(pays)} of {len(tasks)} tasks",
        "measured",
        describe_settings(comparison, tasks, MIXTURES),
        beyond=True,
        details=Details(
            ("task", "arm", "gain", "held-out loss", "training loss", "noise, first to last fifth"),
            [row for task in tasks for row in _list_arms(comparison, task)],
        ),
        note=f"Losses are beside reshuffling's. Pays: {'; '.join(pays) or 'none'}. Above one for sure: "
        f"{join_pairs(loses)}.",
    )


def _is_clear(beside: Interval | None) -> bool:
    return beside is not None and beside.value <= MAX_CLEAR_RATIO and beside.high < 1


def _list_arms(comparison: NetworkComparison, task: str) -> Sequence[Sequence[str]]:
    noise = comparison.noise(task, *BASELINES)
    told = f"{format_noise(noise[0])} to {format_noise(noise[-1])}" if noise else MISSING
    rows = []
    for arm in comparison.arms_of(task):
        if arm not in (*BASELINES, LARGER, STATIC):
            gain = f"{comparison.gain(task, arm):.3g}" if arm in (*MIXTURES, *ALWAYS_ON) else MISSING
            held, train = (format_interval(comparison.relative(task, arm, what)) for what in ("test", "train"))
            rows.append((task, arm, gain, held, train, told))
    return rows


def _report_chance(comparison: NetworkComparison) -> Claim | None:
    found = {task: comparison.relative(task, AGAIN, "test") for task in comparison.tasks}
    known = {task: interval for task, interval in found.items() if interval is not None}
    if not known:
        return None
    return Claim(
        "Networks: reshuffling beside itself",
        "How far chance alone goes: held-out loss of the second arm beside that of the first.",
        format_ratio(max(known.values(), key=lambda interval: abs(math.log(interval.value)))),
        "measured",
        describe_settings(comparison, comparison.tasks, (AGAIN,)),
        beyond=True,
        details=Details(
            ("task", "held-out loss"), [(task, format_interval(interval)) for task, interval in known.items()]
        ),
        note="The number is the one farthest from one.",
    )
