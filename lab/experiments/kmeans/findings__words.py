"""How what was measured of section 6.4 is said and judged."""

from collections.abc import Callable, Sequence

from lab.reproduce.findings import Verdict
from lab.experiments.kmeans.arms import BASELINES
from lab.experiments.kmeans.table import Table
from varmix.meter import Interval

ENOUGH = 8  # seedings, below which nothing is judged
LEVELS = (100, 500)  # iterations of uniform draws whose error is to be reached


def settings(table: Table) -> str:
    """Say how many seedings and runs there were."""
    seedings = min(len(table.results(name)) for name in table.sets)
    return f"{seedings} seedings x {table.runs} runs, 100 clusters, batch 100"


def verdict(table: Table, met: dict[str, bool | None]) -> Verdict:
    """Judge what is asked of several sets; None is what did not run, and too few seedings say nothing."""
    if any(good is None or len(table.results(name)) < ENOUGH for name, good in met.items()):
        return "too few runs"
    if all(met.values()):
        return "holds"
    return "holds in part" if any(met.values()) else "does not hold"


def each(table: Table, text: Callable[[str], str | None]) -> str:
    """Say something of every set that ran."""
    found = {name: text(name) for name in table.sets}
    told = [f"{name} {said}" for name, said in found.items() if said]
    return f"{'; '.join(told)}." if told else ""


def said(interval: Interval | None) -> str | None:
    """Say an interval, if there is one."""
    return None if interval is None else str(interval)


def levels(table: Table, name: str, arm: str, than: Sequence[str] = BASELINES) -> list[Interval]:
    """Give how many times sooner an arm is at each level that is known."""
    found = [table.faster(name, arm, level, than) for level in LEVELS]
    return [interval for interval in found if interval is not None]


def both(table: Table, name: str, arm: str, than: Sequence[str] = BASELINES) -> str | None:
    """Say how many times sooner an arm is at the levels."""
    return " and ".join(map(str, levels(table, name, arm, than))) or None


def reached(who: str, told: str) -> str:
    """Say what times are about."""
    marks = " and ".join(map(str, LEVELS))
    return f"{who}, times sooner at the error that uniform draws have after {marks} iterations: {told}" if told else ""


def limits(asked: dict[str, float]) -> str:
    """Say what is asked for on each set."""
    return ", ".join(f"{limit:g} on {name}" for name, limit in asked.items())
