"""What the networks show on images, and why a lower variance does or does not help."""

from collections.abc import Sequence

from lab.experiments.networks.table import MIN_SEEDS, Table, What
from lab.experiments.networks.tasks import (
    AGAIN,
    ALWAYS_CROSS,
    ALWAYS_ON,
    BASELINES,
    LARGER,
    MIXTURES,
    MNIST_TASKS,
    RARE,
)
from lab.experiments.networks.wording import describe_settings, format_interval, format_noise, join_entries
from lab.reproduce.findings import Claim, Verdict
from lab.statistics import CONFIDENCE_LEVEL, combine_ratios, widen_interval
from varmix.meter import QUIET, Interval

MAX_LOSS_RATIO = 1.1  # upper bound of a ratio of losses that counts as not worse
MIN_TIE_RATIO = 0.9  # a ratio of losses from which on nobody would care
MAX_LOSS_GAP = 2.0  # the training loss: a held-out loss above that wants more points, not less noise


def noise_claims(table: Table, tasks: Sequence[str]) -> list[Claim]:
    """Give the claims about noise, and about batches with a quarter of it where there are any."""
    found = [_judge_noise(table, tasks)]
    return [*found, _judge_noise_check(table, tasks), _judge_prediction(table, tasks)] if _find_larger(table) else found


def has_enough_seeds(table: Table) -> bool:
    """Whether both mixtures and both arms of reshuffling have runs enough on all of MNIST to be judged."""
    return all(table.seeds(task, arm) >= MIN_SEEDS for task in MNIST_TASKS for arm in (*BASELINES, *MIXTURES))


def _find_larger(table: Table) -> list[str]:
    """Give the tasks with larger batches: less noise by brute force, and what that cannot do no sampling can."""
    return [task for task in (*MNIST_TASKS, RARE) if table.seeds(task, LARGER)]


def _judge_noise(table: Table, tasks: Sequence[str]) -> Claim:
    found = {task: table.noise(task, *BASELINES) for task in tasks}
    quiet = [task for task, noise in found.items() if noise and noise[-1] < QUIET]
    verdict: Verdict = "holds" if len(quiet) == len(tasks) else "holds in part" if quiet else "does not hold"
    said = {task: f"{format_noise(noise[0])} and {format_noise(noise[-1])}" for task, noise in found.items() if noise}
    return Claim(
        f"The noise check alone tells why: on MNIST the noise of a batch is below {QUIET} of the squared gradient, "
        "where the meter says that less of it hardly shows.",
        f"In the first and in the last fifth of reshuffling's runs: {join_entries(said)}.",
        verdict if has_enough_seeds(table) else "too few runs",
        f"{describe_settings(table, tasks, BASELINES)}; pairs of successive steps, two of five",
        beyond=True,
    )


def _judge_noise_check(table: Table, tasks: Sequence[str]) -> Claim:
    """Noise says whether less of it lowers the training loss; the held-out loss has to be near enough to follow."""
    known = _find_larger(table)
    said, right = {}, []
    for task in known:
        held, train = (table.relative(task, LARGER, what) for what in ("test", "train"))
        noise, gap = table.noise(task, *BASELINES), table.gap(task)
        if held is None or train is None or gap is None or not noise:
            continue
        loud, near = noise[-1] >= QUIET, gap < MAX_LOSS_GAP
        right.append((train.high < 1) == loud and (held.high < 1) == (loud and near))
        said[task] = (
            f"noise {format_noise(noise[-1])}, held-out loss {gap:.2g} times the training loss; with a quarter of "
            f"the noise "
            f"training {format_interval(train)}, held-out {format_interval(held)}"
        )
    verdict: Verdict = "holds" if all(right) else "holds in part" if any(right) else "does not hold"
    return Claim(
        f"The noise check tells why where the held-out loss is looked at beside it. Noise above {QUIET}: less of it, "
        f"by batches of four times the size, lowers the training loss for sure. The held-out loss is lower for sure "
        f"only where it was less than {MAX_LOSS_GAP:g} times the training loss; elsewhere points are missing.",
        f"{join_entries(said)}." if said else "",
        verdict if len(right) > len(MNIST_TASKS) and _enough_larger(table) else "too few runs",
        f"{describe_settings(table, known, (LARGER,))}; as many steps, four times the gradients",
        beyond=True,
    )


def _enough_larger(table: Table) -> bool:
    return has_enough_seeds(table) and all(table.seeds(task, LARGER) >= MIN_SEEDS for task in (*MNIST_TASKS, RARE))


def _judge_prediction(table: Table, tasks: Sequence[str]) -> Claim:
    """Why it is a tie: little noise to take away, or none that held-out points would notice."""
    found = {(task, arm): table.expected(task, arm) for task in (*tasks, RARE) for arm in ALWAYS_ON}
    known = {pair: value for pair, value in found.items() if value is not None}
    right = [MIN_TIE_RATIO <= value <= MAX_LOSS_RATIO for (task, _), value in known.items() if task != RARE]
    right += [known[RARE, ALWAYS_CROSS] < MIN_TIE_RATIO] if (RARE, ALWAYS_CROSS) in known else []
    verdict: Verdict = "holds" if all(right) else "holds in part" if any(right) else "does not hold"
    rows: dict[str, list[str]] = {}
    for (task, arm), value in known.items():
        rows.setdefault(task, []).append(
            f"{arm} {value:.3g}, observed {format_interval(table.relative(task, arm, 'test'))}"
        )
    return Claim(
        f"Gain and larger batches tell why instead, for mixtures that are always on: with the gain G, and L the "
        f"held-out loss with a quarter of the noise, L^(log G / log 4) is within {MIN_TIE_RATIO} to "
        f"{MAX_LOSS_RATIO} on MNIST for "
        f"both, and below {MIN_TIE_RATIO} for the one with resplit by norms where it pays.",
        f"{join_entries({task: ', '.join(said) for task, said in rows.items()})}." if rows else "",
        verdict if _enough_larger(table) else "too few runs",
        f"{describe_settings(table, [*tasks, RARE], (LARGER, *ALWAYS_ON))}; the gain over the last three fifths of "
        f"a run",
        beyond=True,
    )


MIN_PLAYED_GAIN = 1.01  # a gain above that of uniform draws, which is one


def judge_images(table: Table) -> list[Claim]:
    """Give the claims about MNIST, as far as there are runs."""
    tasks = [name for name in MNIST_TASKS if name in table.tasks]
    if not tasks:
        return []
    found = [
        _not_worse(table, tasks),
        _report_training(table, tasks),
        _report_gains(table, tasks),
        _report_always_on(table, tasks),
    ]
    found += noise_claims(table, tasks)
    return [claim for claim in found if claim.measured]


def _compare_losses(
    table: Table, tasks: Sequence[str], what: What, arms: Sequence[str] = MIXTURES
) -> dict[tuple[str, str], Interval]:
    found = {(task, arm): table.relative(task, arm, what) for task in tasks for arm in arms}
    return {pair: interval for pair, interval in found.items() if interval is not None}


def _by_task(entries: dict[tuple[str, str], Interval]) -> str:
    rows: dict[str, list[str]] = {}
    for (task, arm), interval in entries.items():
        rows.setdefault(task, []).append(f"{arm} {format_interval(interval)}")
    return join_entries({task: ", ".join(said) for task, said in rows.items()})


def _describe_means(entries: dict[tuple[str, str], Interval]) -> str:
    return f"Geometric mean over tasks: {_combine_by_arm(entries)}"


def _not_worse(table: Table, tasks: Sequence[str]) -> Claim:
    found = _compare_losses(table, tasks, "test")
    fine, alone, worse = _find_fine(found), _find_worse_alone(found), _find_worse(found)
    # Within the limit, and yet worse for sure: that is not "not worse".  Of many arms one seems so by chance alone.
    verdict: Verdict = "holds in part" if fine else "does not hold"
    if len(fine) == len(found) and not worse:
        verdict = "holds"
    return Claim(
        f"On MNIST, balanced or not, with SGD and with Adam, the mixtures are not worse than reshuffling: held-out "
        f"loss at most {MAX_LOSS_RATIO} times its own, upper bounds.",
        f"{len(fine)} of {len(found)} upper bounds are{_by_chance(table, tasks)}; worse for sure, all of them looked "
        f"at together: {_join_pairs(worse)}; lower bounds above one, each for itself, of which chance alone makes "
        f"{(1 - CONFIDENCE_LEVEL) / 2 * len(found):.1g}: {_join_pairs(alone)}. {_describe_advice(table, found)} "
        f"{_describe_means(found)}. "
        f"{_by_task(found)}."
        if found
        else "",
        verdict if has_enough_seeds(table) else "too few runs",
        describe_settings(table, tasks, MIXTURES),
        beyond=True,
    )


def _find_fine(found: dict[tuple[str, str], Interval]) -> list[tuple[str, str]]:
    return [pair for pair, interval in found.items() if interval.high <= MAX_LOSS_RATIO]


def _find_worse_alone(found: dict[tuple[str, str], Interval]) -> list[tuple[str, str]]:
    return [pair for pair, interval in found.items() if interval.low > 1]


def _find_worse(found: dict[tuple[str, str], Interval]) -> list[tuple[str, str]]:
    return [pair for pair in _find_worse_alone(found) if widen_interval(found[pair], len(found)).low > 1]


def _join_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{arm} ({task})" for task, arm in pairs) or "none"


def _describe_advice(table: Table, found: dict[tuple[str, str], Interval]) -> str:
    """Say what comes of it where the mixture does not stand aside all the time."""
    played = {pair: interval for pair, interval in found.items() if table.gain(*pair) >= MIN_PLAYED_GAIN}
    fine = f"{len(_find_fine(played))} of {len(played)}"
    return (
        f"Where the mixture does not stand aside from beginning to end, and has a gain above {MIN_PLAYED_GAIN}: {fine}."
    )


def _by_chance(table: Table, tasks: Sequence[str]) -> str:
    """Say how often reshuffling would pass beside itself: intervals are as wide as runs differ."""
    found = [interval for task in tasks if (interval := table.relative(task, AGAIN, "test")) is not None]
    fine = sum(interval.high <= MAX_LOSS_RATIO for interval in found)
    return (
        f" (of reshuffling beside itself, with half the runs to compare with, {fine} of {len(found)})" if found else ""
    )


def _report_training(table: Table, tasks: Sequence[str]) -> Claim:
    found = _compare_losses(table, tasks, "train")
    return Claim(
        "Training loss of the same runs beside that of reshuffling.",
        f"{_by_task(found)}." if found else "",
        "measured",
        describe_settings(table, tasks, MIXTURES),
        beyond=True,
    )


def _report_gains(table: Table, tasks: Sequence[str]) -> Claim:
    found = {(task, arm): table.sooner(task, arm) for task in tasks for arm in MIXTURES}
    rows: dict[str, list[str]] = {}
    for (task, arm), interval in found.items():
        if interval is not None:
            rows.setdefault(task, []).append(
                f"{arm} gain {table.gain(task, arm):.3g}, {format_interval(interval)} times"
            )
    return Claim(
        "The gain over the last three fifths of a run, and how many times fewer gradients reach the training loss that "
        "reshuffling ends with (0: never).",
        f"{join_entries({task: '; '.join(said) for task, said in rows.items()})}." if rows else "",
        "measured",
        f"{describe_settings(table, tasks, MIXTURES)}; within a run, of mean curves, bootstrap over seeds",
        beyond=True,
    )


def _report_always_on(table: Table, tasks: Sequence[str]) -> Claim:
    """What the mixtures would do if they did not stand aside."""
    held, train = (_compare_losses(table, tasks, what, ALWAYS_ON) for what in ("test", "train"))
    return Claim(
        "Mixtures that are always on, from the first batch, and in even batches "
        "(`learner=varmix.learners.BarrierNewton()`): losses beside reshuffling.",
        f"Held-out: {len(_find_fine(held))} of {len(held)} upper bounds are at most {MAX_LOSS_RATIO}; worse for "
        f"sure, all of them "
        f"looked at together: {_join_pairs(_find_worse(held))}. {_describe_means(held)}. {_by_task(held)}. "
        f"Training: {_describe_means(train)}. "
        f"{_by_task(train)}."
        if held
        else "",
        "measured",
        describe_settings(table, tasks, ALWAYS_ON),
        beyond=True,
    )


def _combine_by_arm(entries: dict[tuple[str, str], Interval]) -> str:
    rows: dict[str, list[Interval]] = {}
    for (_, arm), interval in entries.items():
        rows.setdefault(arm, []).append(interval)
    return ", ".join(f"{arm} {format_interval(combine_ratios(each))}" for arm, each in rows.items())
