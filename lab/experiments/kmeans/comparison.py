"""The runs of section 6.4, compared with uniform draws.

Runs from one seeding are alike. So they are averaged, arms are paired by seeding, and intervals are over seedings.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lab.arrays import FloatArray
from lab.comparison import Comparison, Run, find_arrival
from lab.experiments.kmeans.arms import ARMS, BASELINES
from lab.experiments.kmeans.data import SETS
from lab.reproduce.records import Record, Result
from lab.statistics import mean, median, times_sooner
from varmix.meter import Interval

Recorded = Literal["errors", "seconds", "moment", "ideal", "gain"]


class KMeansComparison(Comparison[str]):
    """The test runs; a case is a data set, a seed is a seeding."""

    def __init__(self, records: Sequence[Record]) -> None:
        tests = [record for record in records if record.config["part"] == "test"]
        super().__init__(
            (
                Run(record.config["data"], arm, record.config["seeding"], result)
                for record in tests
                for arm, result in record.result["arms"].items()
            ),
            ARMS,
            BASELINES,
        )
        self._results = {name: [r.result for r in tests if r.config["data"] == name] for name in SETS}
        self.sets = [name for name, results in self._results.items() if results]
        self.runs = min((r.config["runs"] for r in tests), default=0)
        self.marks: list[int] = min((list(r.result["marks"]) for r in tests), key=len, default=[])

    def results(self, name: str) -> list[Result]:
        """Return the results of all arms on a set, one per seeding."""
        return self._results.get(name, [])

    def means(self, name: str, arms: Sequence[str], what: Recorded) -> list[FloatArray]:
        """Return the mean over the runs of these arms together, for every seeding, up to the last mark of all runs."""
        found = []
        for runs in self.by_seed(name, *arms).values():
            rows = [row for run in runs for row in run.result.get(what, [])]
            if not rows:
                return []
            found.append(np.asarray(np.mean(np.asarray(rows, dtype=float)[..., : len(self.marks)], axis=0)))
        return found

    def below(self, name: str, arm: str, mark: int) -> Interval | None:
        """Return how many percentage points the relative error is below that of uniform draws, after `mark` steps."""
        if mark not in self.marks:
            return None
        at = self.marks.index(mark)
        mine, theirs = self.means(name, [arm], "errors"), self.means(name, self.others(arm), "errors")
        if not mine or not theirs:
            return None
        return mean([100 * float(b[at] - a[at]) for a, b in zip(mine, theirs, strict=True)])

    def error(self, name: str, arms: Sequence[str], mark: int) -> Interval | None:
        """Return the relative error of these arms together, in percent, after `mark` steps."""
        if mark not in self.marks:
            return None
        curves = self.means(name, arms, "errors")
        return mean([100 * float(curve[self.marks.index(mark)]) for curve in curves]) if curves else None

    def moment(self, name: str, arm: str, what: Recorded = "moment") -> Interval | None:
        """Return the second moment relative to uniform draws, its ideal value, or the gain measured by the meter."""
        found = self.means(name, [arm], what)
        return mean([float(value) for value in found]) if found else None

    def faster(self, name: str, arm: str, mark: int, than: Sequence[str] = BASELINES) -> Interval | None:
        """Return how many times sooner than others an arm reaches the error that uniform draws have after `mark` steps.

        The result is the median ratio over seedings, and 0 for never. Times include the set-up. Arrivals are
        interpolated linearly on mean curves, which does not make an arm look faster than it is. If the others never
        reach the error, the end of their runs counts.
        """
        mine, theirs = self._arrivals(name, [arm], mark), self._arrivals(name, than, mark)
        if not mine or not theirs:
            return None
        ends = [float(seconds[-1]) for seconds in self.means(name, than, "seconds")]
        return times_sooner(mine, theirs, ends)

    def _arrivals(self, name: str, arms: Sequence[str], mark: int) -> list[float | None]:
        """Return for every seeding the seconds until the error stays at that of uniform draws after `mark` steps."""
        goals = self.means(name, BASELINES, "errors")
        errors, seconds = self.means(name, arms, "errors"), self.means(name, arms, "seconds")
        if mark not in self.marks or not goals or not errors:
            return []
        at = self.marks.index(mark)
        return [find_arrival(s, e, float(g[at])) for s, e, g in zip(seconds, errors, goals, strict=True)]

    def total(self, name: str, arm: str, mark: int) -> Interval | None:
        """Return `faster` with the seconds of the seeding added to both times."""
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
        """Return the seconds of a set-up, and of an iteration after it."""
        found = self.means(name, [arm], "seconds")
        if not found:
            return None
        steps = self.marks[-1] - self.marks[0]
        return median([float(s[0]) for s in found]), median([float(s[-1] - s[0]) / steps for s in found])
