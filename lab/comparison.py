"""Comparison: the runs of several arms, and how each arm does against a pooled baseline.

Every experiment reads its records into runs. Grouping runs, pooling the baseline and comparing arms happens here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from lab.arrays import AnyArray
from lab.reproduce.records import Record, Result
from lab.statistics import estimate_ratio
from varmix.meter import Interval

Case = TypeVar("Case")


@dataclass(frozen=True)
class Run(Generic[Case]):
    """A finished run.

    Attributes
    ----------
    case
        The problem that arms are compared on: a task, a data set, or a task and a batch size.
    arm
        Name of the arm.
    seed
        Seed of the run.
    result
        Values that the run recorded.
    length
        Epochs or episodes. Default: 1, for experiments whose runs all have one length.
    """

    case: Case
    arm: str
    seed: int
    result: Result
    length: float = 1


def read_run(record: Record, case: Case, length: float) -> Run[Case]:
    """Return the run of a record whose configuration has an arm and a seed."""
    return Run(case, record.config["arm"], record.config["seed"], record.result, length)


class Comparison(Generic[Case]):
    """Runs by case, arm and length.

    The baseline is two independent arms, pooled, so that no arm is compared with one lucky set of runs. Comparing the
    second of them with the first shows how large differences by chance are.

    Parameters
    ----------
    runs
        The finished runs.
    arms
        All arms of the experiment, in the order in which they are shown.
    baselines
        The two arms of the baseline.
    lengths
        Full length of the runs of every case. Default: that of its longest run.

    Attributes
    ----------
    arms : list of str
        Arms that have runs, of any length.
    cases : list
        Cases that have runs.

    Examples
    --------
    >>> runs = [Run("w8a", "plain", 0, {"loss": 2.0}), Run("w8a", "plain again", 0, {"loss": 8.0})]
    >>> runs.append(Run("w8a", "mixture", 0, {"loss": 1.0}))
    >>> comparison = Comparison(runs, ["plain", "plain again", "mixture"], ("plain", "plain again"))
    >>> for arm in comparison.arms_of("w8a")[1:]:
    ...     print(arm, round(comparison.ratio("w8a", arm, lambda run: run.result["loss"]).value, 6))
    plain again 4.0
    mixture 0.25
    """

    def __init__(
        self,
        runs: Iterable[Run[Case]],
        arms: Iterable[str],
        baselines: tuple[str, str],
        lengths: Mapping[Case, float] | None = None,
    ) -> None:
        self._runs: dict[tuple[Case, str, float], list[Run[Case]]] = {}
        for run in runs:
            self._runs.setdefault((run.case, run.arm, run.length), []).append(run)
        self._baselines = baselines
        self.arms = [arm for arm in arms if any(arm == other for _, other, _ in self._runs)]
        self.cases = list(dict.fromkeys(case for case, _, _ in self._runs))
        self._full_lengths = lengths or {
            case: max(length for other, _, length in self._runs if other == case) for case in self.cases
        }

    def full_length(self, case: Case) -> float:
        """Return the full length of the runs of a case; 0 if it has no runs."""
        return self._full_lengths.get(case, 0.0)

    def lengths(self, case: Case, arm: str) -> list[float]:
        """Return the lengths of the runs of an arm, from short to long."""
        return sorted(length for other, name, length in self._runs if (other, name) == (case, arm))

    def select(self, case: Case, *arms: str, length: float | None = None) -> list[Run[Case]]:
        """Return the runs of these arms together, by default those of full length."""
        length = self.full_length(case) if length is None else length
        return [run for arm in arms for run in self._runs.get((case, arm, length), [])]

    def select_all(self, arm: str) -> list[Run[Case]]:
        """Return the runs of an arm on all cases and of all lengths."""
        return [run for (_, other, _), runs in self._runs.items() for run in runs if other == arm]

    def count(self, case: Case, *arms: str) -> int:
        """Return how many runs of full length these arms have together."""
        return len(self.select(case, *arms))

    def arms_of(self, case: Case) -> list[str]:
        """Return the arms that have runs of full length on a case."""
        return [arm for arm in self.arms if self.select(case, arm)]

    def by_seed(self, case: Case, *arms: str) -> dict[int, list[Run[Case]]]:
        """Return the runs of full length of these arms by seed; an empty list for a seed without such runs."""
        length = self.full_length(case)
        found: dict[int, list[Run[Case]]] = {
            run.seed: []
            for (other, _, long), runs in self._runs.items()
            if (other, long) == (case, length)
            for run in runs
        }
        for run in self.select(case, *arms):
            found[run.seed].append(run)
        return found

    def pool(self, arm: str) -> tuple[str, ...]:
        """Return the arms to pool: both of the baseline for its first arm, and any other arm alone."""
        return self._baselines if arm == self._baselines[0] else (arm,)

    def others(self, arm: str) -> tuple[str, ...]:
        """Return the arms to compare an arm with: both of the baseline, or the first of them for the second."""
        return self._baselines[:1] if arm == self._baselines[1] else self._baselines

    def ratio(
        self,
        case: Case,
        arm: str,
        read: Callable[[Run[Case]], float | None],
        *,
        than: Sequence[str] | None = None,
        length: float | None = None,
    ) -> Interval | None:
        """Return the geometric mean of an arm over that of others, with an interval.

        Parameters
        ----------
        case
            Case to compare on.
        arm
            Arm to compare.
        read
            Function from a run to the positive number that is compared; runs for which it returns None are left out.
        than
            Arms to compare with, pooled; their runs have full length. Default: the baseline.
        length
            Length of the runs of `arm`. Default: full length.

        Returns
        -------
        Interval or None
            The ratio; None where one side has no runs.
        """
        mine, theirs = (
            [value for run in runs if (value := read(run)) is not None]
            for runs in (
                self.select(case, arm, length=length),
                self.select(case, *(self.others(arm) if than is None else than)),
            )
        )
        return estimate_ratio(mine, theirs) if mine and theirs else None


def find_lasting(values: AnyArray, level: float) -> int | None:
    """Return the index from which on values stay at or below a level; None if the last one is above it.

    Examples
    --------
    >>> find_lasting(np.array([1.0, 0.5, 0.005, 0.02, 0.01]), 0.01)
    4
    """
    above = np.flatnonzero(~(values <= level))
    first = int(above[-1]) + 1 if len(above) else 0
    return None if first == len(values) else first


def find_arrival(times: Sequence[float] | AnyArray, values: AnyArray, level: float) -> float | None:
    """Return the time from which on values stay at or below a level, interpolated linearly; None for never.

    Examples
    --------
    >>> find_arrival([1.0, 2.0, 3.0], np.array([9.0, 5.0, 1.0]), 3.0)
    2.5
    """
    first = find_lasting(values, level)
    if first is None or first == 0:
        return None if first is None else float(times[0])
    before = first - 1
    part: Any = (values[before] - level) / (values[before] - values[first])
    return float(times[before] + part * (times[first] - times[before]))
