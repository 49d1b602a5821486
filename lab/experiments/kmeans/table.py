"""What the runs of section 6.4 came to, seeding by seeding.

Runs from one seeding are alike, so they are averaged, and seedings are what intervals are made of.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.kmeans.arms import AGAIN, ARMS, BASELINES, UNIFORM
from lab.experiments.kmeans.data import SETS
from lab.reproduce.records import Record, Result
from lab.statistics import mean, median, times_sooner
from varmix.meter import Interval

Recorded = Literal["errors", "seconds", "moment", "ideal", "gain"]


class Table:
    """The test runs by set and arm.

    The baseline is pooled: two independent arms of uniform draws, so that no arm is compared with one lucky set of
    runs.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        tests = [r for r in records if r.config["part"] == "test"]
        self._results = {name: [r.result for r in tests if r.config["data"] == name] for name in SETS}
        self.sets = [name for name, results in self._results.items() if results]
        self.runs = min((r.config["runs"] for r in tests), default=0)
        self.marks: list[int] = min((list(r.result["marks"]) for r in tests), key=len, default=[])

    def results(self, name: str) -> list[Result]:
        """Give what was recorded of a set, seeding by seeding."""
        return self._results.get(name, [])

    def arms(self, name: str) -> list[str]:
        """Give the arms that ran on a set."""
        return [arm for arm in ARMS if all(arm in result["arms"] for result in self.results(name))]

    def means(self, name: str, arms: Sequence[str], what: Recorded) -> list[FloatArray]:
        """Give the mean over the runs of these arms together, for every seeding; as far as all runs went."""
        found = []
        for result in self.results(name):
            runs = [row for arm in arms for row in result["arms"].get(arm, {}).get(what, [])]
            if not runs:
                return []
            found.append(np.asarray(np.mean(np.asarray(runs, dtype=float)[..., : len(self.marks)], axis=0)))
        return found

    def baseline(self, arm: str) -> Sequence[str]:
        """Give what an arm is compared with: both arms of uniform draws, or for the second of them the first."""
        return (UNIFORM,) if arm == AGAIN else BASELINES

    def below(self, name: str, arm: str, mark: int) -> Interval | None:
        """Give how many percentage points the relative error is below that of uniform draws, after so many steps."""
        if mark not in self.marks:
            return None
        at = self.marks.index(mark)
        mine, theirs = self.means(name, [arm], "errors"), self.means(name, self.baseline(arm), "errors")
        if not mine or not theirs:
            return None
        return mean([100 * float(b[at] - a[at]) for a, b in zip(mine, theirs, strict=True)])

    def error(self, name: str, arms: Sequence[str], mark: int) -> Interval | None:
        """Give the relative error of these arms together, in percent, after so many steps."""
        if mark not in self.marks:
            return None
        curves = self.means(name, arms, "errors")
        return mean([100 * float(curve[self.marks.index(mark)]) for curve in curves]) if curves else None

    def moment(self, name: str, arm: str, what: Recorded = "moment") -> Interval | None:
        """Give the second moment against uniform draws, the ideal of it, or the gain that the meter read."""
        found = self.means(name, [arm], what)
        return mean([float(value) for value in found]) if found else None

    def faster(self, name: str, arm: str, mark: int, than: Sequence[str] = BASELINES) -> Interval | None:
        """Give how many times sooner an arm has the error that uniform draws have after so many steps; 0 for never.

        Times are with set-up.  The median over seedings; the curves are means over the runs of a seeding, and between
        marks they are straight, which makes no arm faster than it is.  What the others never reach counts as reached
        at their end.
        """
        mine, theirs = self._arrivals(name, [arm], mark), self._arrivals(name, than, mark)
        if not mine or not theirs:
            return None
        ends = [float(seconds[-1]) for seconds in self.means(name, than, "seconds")]
        return times_sooner(mine, theirs, ends)

    def _arrivals(self, name: str, arms: Sequence[str], mark: int) -> list[float | None]:
        """Give the seconds from which on the error is for good what uniform draws have after so many steps."""
        goals = self.means(name, BASELINES, "errors")
        errors, seconds = self.means(name, arms, "errors"), self.means(name, arms, "seconds")
        if mark not in self.marks or not goals or not errors:
            return []
        at = self.marks.index(mark)
        return [find_arrival(s, e, float(g[at])) for s, e, g in zip(seconds, errors, goals, strict=True)]

    def total(self, name: str, arm: str, mark: int) -> Interval | None:
        """Give what `faster` gives, with the seeding in both times."""
        mine, theirs = self._arrivals(name, [arm], mark), self._arrivals(name, BASELINES, mark)
        if not mine or None in theirs:
            return None
        first = [float(result["seeding_seconds"]) for result in self.results(name)]
        return times_sooner(
            [None if a is None else a + s for a, s in zip(mine, first, strict=True)],
            [b + s for b, s in zip(theirs, first, strict=True) if b is not None],
            1.0,
        )

    def seconds(self, name: str, arm: str) -> tuple[Interval, Interval] | None:
        """Give the seconds of a set-up, and of an iteration after it."""
        found = self.means(name, [arm], "seconds")
        if not found:
            return None
        steps = self.marks[-1] - self.marks[0]
        return median([float(s[0]) for s in found]), median([float(s[-1] - s[0]) / steps for s in found])


def find_arrival(seconds: FloatArray, errors: FloatArray, goal: float) -> float | None:
    """Give the time from which on errors are at most `goal`, between the looks along a straight line; None for never.

    Examples
    --------
    >>> find_arrival(np.array([1.0, 2.0, 3.0]), np.array([9.0, 5.0, 1.0]), 3.0)
    2.5
    """
    above = np.flatnonzero(errors > goal)
    if not len(above):
        return float(seconds[0])
    last = int(above[-1])
    if last + 1 == len(errors):
        return None
    part = (errors[last] - goal) / (errors[last] - errors[last + 1])
    return float(seconds[last] + part * (seconds[last + 1] - seconds[last]))
