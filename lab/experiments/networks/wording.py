"""How numbers of this experiment are said."""

import math
from collections.abc import Iterable, Mapping

from lab.experiments.networks.table import Table
from varmix.meter import Interval


def text(interval: Interval | None) -> str:
    """Give an interval for people; a run that diverged leaves no number to give.

    Examples
    --------
    >>> text(Interval(0.5, 0.4, 0.6)), text(Interval(math.inf, 0.0, math.inf)), text(None)
    ('0.5 [0.4, 0.6]', 'diverged', 'not run')
    """
    if interval is None:
        return "not run"
    return str(interval) if math.isfinite(interval.value) else "diverged"


def listing(entries: Mapping[str, str]) -> str:
    """Give names with what is said of each."""
    return "; ".join(f"{name}: {said}" for name, said in entries.items())


def number(value: float) -> str:
    """Say a noise.

    Examples
    --------
    >>> number(12.34), number(math.inf)
    ('12', 'all noise')
    """
    return "all noise" if math.isinf(value) else f"{value:.2g}"


def settings(table: Table, tasks: Iterable[str], arms: Iterable[str]) -> str:
    """Say how many seeds are behind a number, and how steps were chosen.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> table = SimpleNamespace(seeds=lambda task, arm: {"a": 16, "b": 32}[task], tuned=False)
    >>> settings(table, ["a", "b"], ["x"]), settings(table, ["b"], ["x"])
    ('16 to 32 seeds, one step for all', '32 seeds, one step for all')
    """
    seeds = [table.seeds(task, arm) for task in tasks for arm in arms if table.seeds(task, arm)]
    least, most = min(seeds, default=0), max(seeds, default=0)
    step = "own best step on other seeds, by the other half of the held-out points"
    many = f"{least} to {most}" if least < most else f"{least}"
    return f"{many} seeds, {step if table.tuned else 'one step for all'}"
