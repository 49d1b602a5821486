"""How numbers of this experiment are said."""

import math
from collections.abc import Iterable, Mapping

from lab.experiments.networks.table import Table
from varmix.meter import Interval


def format_interval(interval: Interval | None) -> str:
    """Give an interval for people; a run that diverged leaves no number to give.

    Examples
    --------
    >>> format_interval(Interval(0.5, 0.4, 0.6)), format_interval(None)
    ('0.5 [0.4, 0.6]', 'not run')
    >>> format_interval(Interval(math.inf, 0.0, math.inf))
    'diverged'
    """
    if interval is None:
        return "not run"
    return str(interval) if math.isfinite(interval.value) else "diverged"


def join_entries(entries: Mapping[str, str]) -> str:
    """Give names with what is said of each."""
    return "; ".join(f"{name}: {said}" for name, said in entries.items())


def format_noise(value: float) -> str:
    """Say a noise.

    Examples
    --------
    >>> format_noise(12.34), format_noise(math.inf)
    ('12', 'all noise')
    """
    return "all noise" if math.isinf(value) else f"{value:.2g}"


def describe_settings(table: Table, tasks: Iterable[str], arms: Iterable[str]) -> str:
    """Say how many seeds are behind a number, and how steps were chosen.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> table = SimpleNamespace(seeds=lambda task, arm: {"a": 16, "b": 32}[task], tuned=False)
    >>> describe_settings(table, ["a", "b"], ["x"]), describe_settings(table, ["b"], ["x"])
    ('16 to 32 seeds, one step for all', '32 seeds, one step for all')
    """
    seeds = [table.seeds(task, arm) for task in tasks for arm in arms if table.seeds(task, arm)]
    least, most = min(seeds, default=0), max(seeds, default=0)
    step = "own best step on other seeds, by the other half of the held-out points"
    many = f"{least} to {most}" if least < most else f"{least}"
    return f"{many} seeds, {step if table.tuned else 'one step for all'}"
