"""Wording of numbers and tables in the claims of this experiment."""

import math
from collections.abc import Iterable, Mapping, Sequence

from lab.experiments.networks.comparison import NetworkComparison
from lab.reproduce.findings import Details, format_number
from varmix.meter import Interval

MISSING = "-"  # in a cell without a number


def format_interval(interval: Interval | None) -> str:
    """Write an interval; "diverged" if it is infinite, "not run" for None.

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


def format_ratio(interval: Interval | None) -> str:
    """Write a ratio as the number of a claim.

    Examples
    --------
    >>> format_ratio(Interval(0.5, 0.4, 0.6)), format_ratio(None)
    ('0.5x [0.4, 0.6]', 'not run')
    """
    if interval is None or not math.isfinite(interval.value):
        return format_interval(interval)
    return format_number(interval, "{value}x {bounds}")


def format_range(intervals: Iterable[Interval]) -> str:
    """Write the range of some ratios.

    Examples
    --------
    >>> format_range([Interval(0.5, 0.4, 0.6), Interval(1.2, 1.0, 1.4)])
    '0.5x to 1.2x'
    >>> format_range([Interval(0.5, 0.4, 0.6), Interval(math.inf, 0.0, math.inf)])
    '0.5x to diverged'
    """
    values = [interval.value for interval in intervals]
    finite = sorted(value for value in values if math.isfinite(value))
    ends = [f"{value:.3g}x" for value in (finite[:1] + finite[-1:])]
    if len(finite) < len(values):
        ends[1:] = ["diverged"]
    return " to ".join(dict.fromkeys(ends))


def format_noise(value: float) -> str:
    """Write the noise of gradients.

    Examples
    --------
    >>> format_noise(12.34), format_noise(math.inf)
    ('12', 'all noise')
    """
    return "all noise" if math.isinf(value) else f"{value:.2g}"


def tabulate(columns: Mapping[str, Mapping[str, str]], first: str = "network") -> Details:
    """Return a table with one row for every name in any column, in order of appearance.

    Examples
    --------
    >>> tabulate({"a": {"x": "1", "y": "2"}, "b": {"y": "3"}})
    Details(columns=('network', 'a', 'b'), rows=[('x', '1', '-'), ('y', '2', '3')])
    """
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    return Details(
        (first, *columns), [(name, *(column.get(name, MISSING) for column in columns.values())) for name in names]
    )


def join_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    """List arms with their tasks.

    Examples
    --------
    >>> join_pairs([("next word", "mixture")]), join_pairs([])
    ('mixture (next word)', 'none')
    """
    return "; ".join(f"{arm} ({task})" for task, arm in pairs) or "none"


def describe_settings(comparison: NetworkComparison, tasks: Iterable[str], arms: Iterable[str]) -> str:
    """Describe how many seeds are behind a number.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> comparison = SimpleNamespace(count=lambda task, arm: {"a": 16, "b": 32}[task])
    >>> describe_settings(comparison, ["a", "b"], ["x"]), describe_settings(comparison, ["b"], ["x"])
    ('16 to 32 seeds, own best step on other seeds', '32 seeds, own best step on other seeds')
    """
    seeds = [comparison.count(task, arm) for task in tasks for arm in arms if comparison.count(task, arm)]
    least, most = min(seeds, default=0), max(seeds, default=0)
    many = f"{least} to {most}" if least < most else f"{least}"
    return f"{many} seeds, own best step on other seeds"
