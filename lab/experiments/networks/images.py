"""What is said of MNIST: no loss, and little gain."""

from collections.abc import Sequence

from lab.reproduce.findings import Claim
from lab.reproduce.findings import Verdict
from lab.experiments.networks import images__why as why
from lab.experiments.networks.table import Table
from lab.experiments.networks.table import What
from lab.experiments.networks.tasks import AGAIN
from lab.experiments.networks.tasks import ALWAYS_ON
from lab.experiments.networks.tasks import MIXTURES
from lab.experiments.networks.tasks import MNIST
from lab.experiments.networks.images__why import LIMIT
from lab.experiments.networks.wording import listing
from lab.experiments.networks.wording import settings
from lab.experiments.networks.wording import text
from lab.statistics import CONFIDENCE
from lab.statistics import combined
from lab.statistics import sure
from varmix.meter import Interval

PLAYED = 1.01  # a gain above that of uniform draws, which is one


def claims(table: Table) -> list[Claim]:
    """Give the claims about MNIST, as far as there are runs."""
    tasks = [name for name in MNIST if name in table.tasks]
    if not tasks:
        return []
    found = [_not_worse(table, tasks), _training(table, tasks), _sooner(table, tasks), _always(table, tasks)]
    found += why.claims(table, tasks)
    return [claim for claim in found if claim.measured]


def _beside(
    table: Table, tasks: Sequence[str], what: What, arms: Sequence[str] = MIXTURES
) -> dict[tuple[str, str], Interval]:
    found = {(task, arm): table.relative(task, arm, what) for task in tasks for arm in arms}
    return {pair: interval for pair, interval in found.items() if interval is not None}


def _by_task(entries: dict[tuple[str, str], Interval]) -> str:
    rows: dict[str, list[str]] = {}
    for (task, arm), interval in entries.items():
        rows.setdefault(task, []).append(f"{arm} {text(interval)}")
    return listing({task: ", ".join(said) for task, said in rows.items()})


def _means(entries: dict[tuple[str, str], Interval]) -> str:
    return f"Geometric mean over tasks: {_together(entries)}"


def _not_worse(table: Table, tasks: Sequence[str]) -> Claim:
    found = _beside(table, tasks, "test")
    fine, alone, worse = _fine(found), _alone(found), _worse(found)
    # Within the limit, and yet worse for sure: that is not "not worse".  Of many arms one seems so by chance alone.
    verdict: Verdict = "holds in part" if fine else "does not hold"
    if len(fine) == len(found) and not worse:
        verdict = "holds"
    return Claim(
        f"On MNIST, balanced or not, with SGD and with Adam, the mixtures are not worse than reshuffling: held-out "
        f"loss at most {LIMIT} times its own, upper bounds.",
        f"{len(fine)} of {len(found)} upper bounds are{_by_chance(table, tasks)}; worse for sure, all of them looked "
        f"at together: {_named(worse)}; lower bounds above one, each for itself, of which chance alone makes "
        f"{(1 - CONFIDENCE) / 2 * len(found):.1g}: {_named(alone)}. {_advised(table, found)} {_means(found)}. "
        f"{_by_task(found)}."
        if found
        else "",
        verdict if why.enough(table) else "too few runs",
        settings(table, tasks, MIXTURES),
        beyond=True,
    )


def _fine(found: dict[tuple[str, str], Interval]) -> list[tuple[str, str]]:
    return [pair for pair, interval in found.items() if interval.high <= LIMIT]


def _alone(found: dict[tuple[str, str], Interval]) -> list[tuple[str, str]]:
    return [pair for pair, interval in found.items() if interval.low > 1]


def _worse(found: dict[tuple[str, str], Interval]) -> list[tuple[str, str]]:
    return [pair for pair in _alone(found) if sure(found[pair], len(found)).low > 1]


def _named(pairs: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{arm} ({task})" for task, arm in pairs) or "none"


def _advised(table: Table, found: dict[tuple[str, str], Interval]) -> str:
    """Say what comes of it where the mixture does not stand aside all the time."""
    played = {pair: interval for pair, interval in found.items() if table.gain(*pair) >= PLAYED}
    fine = f"{len(_fine(played))} of {len(played)}"
    return f"Where the mixture does not stand aside from beginning to end, and has a gain above {PLAYED}: {fine}."


def _by_chance(table: Table, tasks: Sequence[str]) -> str:
    """Say how often reshuffling would pass beside itself: intervals are as wide as runs differ."""
    found = [interval for task in tasks if (interval := table.relative(task, AGAIN, "test")) is not None]
    fine = sum(interval.high <= LIMIT for interval in found)
    return (
        f" (of reshuffling beside itself, with half the runs to compare with, {fine} of {len(found)})" if found else ""
    )


def _training(table: Table, tasks: Sequence[str]) -> Claim:
    found = _beside(table, tasks, "train")
    return Claim(
        "Training loss of the same runs beside that of reshuffling.",
        f"{_by_task(found)}." if found else "",
        "measured",
        settings(table, tasks, MIXTURES),
        beyond=True,
    )


def _sooner(table: Table, tasks: Sequence[str]) -> Claim:
    found = {(task, arm): table.sooner(task, arm) for task in tasks for arm in MIXTURES}
    rows: dict[str, list[str]] = {}
    for (task, arm), interval in found.items():
        if interval is not None:
            rows.setdefault(task, []).append(f"{arm} gain {table.gain(task, arm):.3g}, {text(interval)} times")
    return Claim(
        "The gain over the last three fifths of a run, and how many times fewer gradients reach the training loss that "
        "reshuffling ends with (0: never).",
        f"{listing({task: '; '.join(said) for task, said in rows.items()})}." if rows else "",
        "measured",
        f"{settings(table, tasks, MIXTURES)}; within a run, of mean curves, bootstrap over seeds",
        beyond=True,
    )


def _always(table: Table, tasks: Sequence[str]) -> Claim:
    """What the mixtures would do if they did not stand aside."""
    held, train = (_beside(table, tasks, what, ALWAYS_ON) for what in ("test", "train"))
    return Claim(
        "Mixtures that are always on, from the first batch, and in even batches (`learner=varmix.BarrierNewton()`): "
        "losses beside reshuffling.",
        f"Held-out: {len(_fine(held))} of {len(held)} upper bounds are at most {LIMIT}; worse for sure, all of them "
        f"looked at together: {_named(_worse(held))}. {_means(held)}. {_by_task(held)}. Training: {_means(train)}. "
        f"{_by_task(train)}."
        if held
        else "",
        "measured",
        settings(table, tasks, ALWAYS_ON),
        beyond=True,
    )


def _together(entries: dict[tuple[str, str], Interval]) -> str:
    rows: dict[str, list[Interval]] = {}
    for (_, arm), interval in entries.items():
        rows.setdefault(arm, []).append(interval)
    return ", ".join(f"{arm} {text(combined(each))}" for arm, each in rows.items())
