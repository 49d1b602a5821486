"""What the runs of the convex experiment came to, beside reshuffling."""

import math
from collections.abc import Sequence

import numpy as np

from varmix.arrays import FloatArray
from varmix.experiments.convex.arms import AGAIN, ARMS, CURSORS, RESHUFFLING
from varmix.experiments.convex.protocol import BATCHES, SMALLEST
from varmix.experiments.convex.tasks import TASKS
from varmix.experiments.records import Record
from varmix.experiments.statistics import combined, geometric_mean, ratio
from varmix.meter import Interval


class Table:
    """The test runs by task, batch, arm and epochs.

    The baseline is pooled: two independent arms of reshuffling, so that no arm is compared with one lucky set of runs.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._runs: dict[tuple[str, int, str, int], list[Record]] = {}
        for record in records:
            if record.config["part"] == "test":
                key = (record.config["task"], record.config["batch"], record.config["arm"], record.config["epochs"])
                self._runs.setdefault(key, []).append(record)
        self.tasks = [name for name in TASKS if any(key[0] == name for key in self._runs)]
        self.arms = [name for name in ARMS if any(key[2] == name for key in self._runs)]
        self.batches = [batch for batch in BATCHES if any(key[1] == batch for key in self._runs)]

    def runs(self, task: str, batch: int, arm: str, epochs: int | None = None) -> list[Record]:
        """Give the runs of an arm, full length unless told."""
        return self._runs.get((task, batch, arm, TASKS[task].epochs if epochs is None else epochs), [])

    def ends(self, task: str, batch: int, arm: str, epochs: int | None = None) -> list[float]:
        """Give the final excess of these runs; what diverged is infinite."""
        found = [r.result["excess"] for r in self.runs(task, batch, arm, epochs)]
        return [math.inf if end is None else max(end, SMALLEST) for end in found]

    def baseline(self, task: str, batch: int) -> list[float]:
        """Give the final excess of reshuffling, both arms of it."""
        return self.ends(task, batch, RESHUFFLING) + self.ends(task, batch, AGAIN)

    def relative(self, task: str, batch: int, arm: str) -> Interval | None:
        """Give the final excess relative to reshuffling's; None where there is nothing to compare."""
        mine = self.ends(task, batch, arm)
        theirs = self.ends(task, batch, RESHUFFLING) if arm == AGAIN else self.baseline(task, batch)
        return ratio(mine, theirs) if mine and theirs else None

    def over(self, tasks: Sequence[str], batch: int, arm: str) -> Interval | None:
        """Give the geometric mean of `relative` over tasks."""
        found = [self.relative(task, batch, arm) for task in tasks]
        present = [interval for interval in found if interval is not None]
        return combined(present) if present else None

    def worst(self, tasks: Sequence[str], batch: int, arm: str) -> float:
        """Give the largest excess of any run, beside the mean of reshuffling on its task."""
        return max(
            max(self.ends(task, batch, arm)) / geometric_mean(self.baseline(task, batch)).value
            for task in tasks
            if self.ends(task, batch, arm)
        )

    def diverged(self, arm: str) -> int:
        """Give how many runs of an arm diverged, of all lengths."""
        return sum(r.result["excess"] is None for key, rows in self._runs.items() for r in rows if key[2] == arm)

    def saved(self, task: str, arm: str) -> Interval | None:
        """Give how many times fewer draws an arm needs for the final excess of reshuffling, batch 32.

        Runs of several lengths, each with its own decay and best step; the number needed is interpolated, seed by
        seed, on logarithmic scales.  A longer run that ends above a shorter one counts against it.
        """
        full = TASKS[task].epochs
        lengths = sorted(key[3] for key in self._runs if key[:3] == (task, 32, arm))
        theirs = self.baseline(task, 32)
        if len(lengths) < 2 or not theirs:
            return None
        goal = math.log(geometric_mean(theirs).value)
        seeds = min(len(self.ends(task, 32, arm, epochs)) for epochs in lengths)
        ends = np.log([self.ends(task, 32, arm, epochs)[:seeds] for epochs in lengths])
        return geometric_mean([full / _needed(lengths, ends[:, seed], goal) for seed in range(seeds)])

    def pairs(self) -> list[tuple[str, str, int, float, Interval]]:
        """Give arm, task, batch, early gain and relative excess of everything that adapts without replacement."""
        found = []
        for arm in self.arms:
            for task in self.tasks if arm in CURSORS else ():
                for batch in self.batches:
                    runs, beside = self.runs(task, batch, arm), self.relative(task, batch, arm)
                    if runs and beside is not None and math.isfinite(beside.value):
                        gain = geometric_mean([r.result["early_gain"] for r in runs]).value
                        found.append((arm, task, batch, gain, beside))
        return found


def _needed(lengths: Sequence[int], ends: FloatArray, goal: float) -> float:
    """Give the number of epochs from which on runs end at `goal`, between the lengths that were run."""
    kept = np.maximum.accumulate(ends[::-1])[::-1]  # falling with the length
    if kept[0] <= goal:
        return float(lengths[0])
    if kept[-1] > goal:
        return math.inf
    return float(np.exp(np.interp(-goal, -kept, np.log(lengths))))
