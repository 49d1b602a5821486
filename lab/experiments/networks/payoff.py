"""What is said of the tasks that were tried in search of one where it pays."""

from collections.abc import Sequence

from lab.experiments.networks.table import Table
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
from lab.experiments.networks.wording import describe_settings, format_interval, format_noise, join_entries
from lab.reproduce.findings import Claim, Verdict
from lab.statistics import geometric_mean
from varmix.meter import Interval

MAX_CLEAR_RATIO = 0.8  # a ratio of losses that is worth the trouble
MIN_RARE_SEEDS = 8  # that the claim about the rare class asks for


def judge_payoff(table: Table) -> list[Claim]:
    """Give the claims about the other tasks, as far as there are runs."""
    tasks = [name for name in OTHER_TASKS if name in table.tasks]
    found = []
    if RARE in tasks and table.relative(RARE, CROSS, "test") is not None:
        found += [_judge_rare(table), _judge_worth(table)]
    if tasks:
        found.append(_report_tasks(table, tasks))
    if table.tasks:
        found.append(_report_chance(table))
    return [claim for claim in found if claim.measured]


def _judge_rare(table: Table) -> Claim:
    """One class of a hundred, many points, few epochs: here variance is what limits."""
    beside = table.relative(RARE, CROSS, "test")
    usual = table.relative(RARE, CROSS, "test", beside=(BALANCED,))
    assert beside is not None  # asked before
    good = beside.value <= MAX_CLEAR_RATIO and beside.high < 1
    ahead = usual is not None and usual.high < 1
    verdict: Verdict = "holds" if good and ahead else "holds in part" if good or ahead else "does not hold"
    each = {arm: _describe_losses(table, arm) for arm in table.arms(RARE) if arm not in (*BASELINES, LARGER)}
    return Claim(
        f"A rare class (covtype: 1 point in 100, 228,839 points, an MLP with Adam): the mixture with resplit by norms "
        f"has at most {MAX_CLEAR_RATIO} of reshuffling's held-out loss, and less than class-balanced draws.",
        f"Beside class-balanced draws {format_interval(usual)}. Beside reshuffling: {join_entries(each)}.",
        verdict if table.seeds(RARE, CROSS) >= MIN_RARE_SEEDS else "too few runs",
        describe_settings(table, [RARE], MIXTURES),
        beyond=True,
    )


def _describe_losses(table: Table, arm: str) -> str:
    held, train, missed = table.relative(RARE, arm, "test"), table.relative(RARE, arm, "train"), table.missed(RARE, arm)
    return (
        f"held-out {format_interval(held)}, training {format_interval(train)}, 1 - average precision "
        f"{format_interval(missed)}"
    )


def _judge_worth(table: Table) -> Claim:
    """How many gradients it saves: half as many, and batches of a quarter of the size."""
    half = table.relative(RARE, CROSS, "test", half=True)
    larger = table.relative(RARE, CROSS, "test", beside=(LARGER,))
    saved = half is not None and half.high <= 1
    noise = ", ".join(format_noise(value) for value in table.noise(RARE, *BASELINES))
    return Claim(
        "There, with half as many gradients it is not worse than reshuffling.",
        f"Held-out loss after half as many gradients {format_interval(half)}{_describe_short_runs(table)}. Within "
        f"runs of full length the "
        f"training loss that reshuffling ends with is reached with {format_interval(table.sooner(RARE, CROSS))} "
        f"times fewer. "
        "Beside reshuffling in batches of four times the size, for as many steps and four times the gradients, "
        f"{format_interval(larger)}; these have {format_interval(table.relative(RARE, LARGER, 'test'))} of "
        f"reshuffling's. "
        f"Gain {table.gain(RARE, CROSS):.3g} over the last three fifths; noise of reshuffling's batches by fifths of a "
        f"run {noise}.",
        ("holds" if saved else "does not hold")
        if half is not None and table.seeds(RARE, CROSS) >= MIN_RARE_SEEDS
        else "too few runs",
        f"{describe_settings(table, [RARE], (CROSS,))}, runs of half the length with a step of their own",
        beyond=True,
    )


def _describe_short_runs(table: Table) -> str:
    """Say how many of the short runs end below the mean of reshuffling: one that fails makes a wide interval."""
    ends, theirs = table.ends(RARE, CROSS, what="test", half=True), table.ends(RARE, *BASELINES, what="test")
    if not ends or not theirs:
        return ""
    return (
        f", below reshuffling's mean in {sum(end < geometric_mean(theirs).value for end in ends)} of {len(ends)} runs"
    )


def _report_tasks(table: Table, tasks: Sequence[str]) -> Claim:
    pays = [task for task in tasks if any(_is_clear(table.relative(task, arm, "test")) for arm in MIXTURES)]
    loses = [
        f"{arm} ({task})"
        for task in tasks
        for arm in MIXTURES
        if (beside := table.relative(task, arm, "test")) is not None and beside.low > 1
    ]
    return Claim(
        "All tasks that were tried in search of one where it pays: losses beside reshuffling.",
        f"Held-out loss at most {MAX_CLEAR_RATIO}, interval below one: {'; '.join(pays) or 'none'} (of "
        f"{len(tasks)}); above one "
        f"for sure: {'; '.join(loses) or 'none'}. "
        f"{join_entries({task: _describe_task(table, task) for task in tasks})}.",
        "measured",
        describe_settings(table, tasks, MIXTURES),
        beyond=True,
    )


def _is_clear(beside: Interval | None) -> bool:
    return beside is not None and beside.value <= MAX_CLEAR_RATIO and beside.high < 1


def _describe_task(table: Table, task: str) -> str:
    arms = [arm for arm in table.arms(task) if arm not in (*BASELINES, LARGER, STATIC)]
    said = []
    for arm in arms:
        held, train = table.relative(task, arm, "test"), table.relative(task, arm, "train")
        gain = f" (gain {table.gain(task, arm):.3g})" if arm in (*MIXTURES, *ALWAYS_ON) else ""
        said.append(f"{arm}{gain} held-out {format_interval(held)}, training {format_interval(train)}")
    noise = table.noise(task, *BASELINES)
    return "; ".join([*said, f"noise {format_noise(noise[0])} to {format_noise(noise[-1])}"] if noise else said)


def _report_chance(table: Table) -> Claim:
    found = {task: table.relative(task, AGAIN, "test") for task in table.tasks}
    said = {task: format_interval(interval) for task, interval in found.items() if interval is not None}
    return Claim(
        "Reshuffling against itself: how far chance alone goes.",
        f"Held-out loss, {join_entries(said)}." if said else "",
        "measured",
        describe_settings(table, table.tasks, (AGAIN,)),
        beyond=True,
    )
