"""What the runs came to, beside reshuffling."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.networks.protocol import Key, make_key
from lab.experiments.networks.tasks import AGAIN, BASELINES, LARGER, LARGER_BATCH_FACTOR, RESHUFFLING, TASKS
from lab.reproduce.records import Record, Result
from lab.statistics import estimate_ratio, geometric_mean
from varmix.meter import Interval

MIN_SEEDS = 5  # seeds, below which nothing is judged
RESAMPLE_COUNT = 1000  # of the bootstrap
What = Literal["train", "test"]


class Table:
    """The test runs by task, arm and epochs.

    The baseline is pooled: two independent arms of reshuffling, so that no arm is compared with one lucky set of runs.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._runs: dict[Key, list[Result]] = {}
        for record in records:
            if record.config["part"] == "test":
                self._runs.setdefault(make_key(record.config), []).append(record.result)
        self.tasks = [name for name in TASKS if any(task == name for task, *_ in self._runs)]
        self._longest = {name: max(e for task, _, e in self._runs if task == name) for name in self.tasks}

    def arms(self, task: str) -> list[str]:
        """Give the arms of a task that have runs of full length."""
        return [arm for arm in TASKS[task].arms if self.runs(task, arm)]

    def runs(self, task: str, *arms: str, half: bool = False) -> list[Result]:
        """Give the runs of these arms together, of full length unless told."""
        epochs = self._longest.get(task, 0.0) / (2 if half else 1)
        return [result for arm in arms for result in self._runs.get((task, arm, epochs), [])]

    def ends(self, task: str, *arms: str, what: What, half: bool = False) -> list[float]:
        """Give the final losses of these arms; what diverged is infinite."""
        found = [result[what] for result in self.runs(task, *arms, half=half)]
        return [math.inf if end is None else float(end) for end in found]

    def relative(
        self, task: str, arm: str, what: What, *, beside: Sequence[str] = BASELINES, half: bool = False
    ) -> Interval | None:
        """Give the final loss beside that of reshuffling or of others; None where there is nothing to compare."""
        others = (RESHUFFLING,) if arm == AGAIN else beside
        mine, theirs = self.ends(task, arm, what=what, half=half), self.ends(task, *others, what=what)
        return estimate_ratio(mine, theirs) if mine and theirs else None

    def seeds(self, task: str, arm: str) -> int:
        """Give how many runs of full length an arm has."""
        return len(self.runs(task, arm))

    def missed(self, task: str, arm: str) -> Interval | None:
        """Give 1 - average precision beside reshuffling's: how much of the rare class is not found, or wrongly."""
        mine, theirs = (
            [1.0 - result["precision"] for result in self.runs(task, *arms) if result["precision"] is not None]
            for arms in ((arm,), BASELINES)
        )
        return estimate_ratio(mine, theirs) if mine and theirs else None

    def gap(self, task: str) -> float | None:
        """Give reshuffling's held-out loss over its training loss."""
        held, train = (self.ends(task, *BASELINES, what=what) for what in ("test", "train"))
        return geometric_mean(held).value / geometric_mean(train).value if held and np.isfinite(held).all() else None

    def gains(self, task: str, arm: str) -> FloatArray:
        """Give the gain in every stretch of a run, geometric mean over seeds."""
        rows = [result["gains"] for result in self.runs(task, arm) if result["train"] is not None]
        return np.exp(np.log(np.array(rows, dtype=float)).mean(axis=0)) if rows else np.empty(0)

    def gain(self, task: str, arm: str) -> float:
        """Give the gain over the last three fifths of a run: before that, little is known and nothing was cut."""
        gains = self.gains(task, arm)
        return float(np.exp(np.log(gains[-3:]).mean())) if len(gains) else math.nan

    def expected(self, task: str, arm: str) -> float | None:
        """Give the held-out loss beside reshuffling's that the gain and larger batches let expect.

        These have a quarter of the noise: what an arm with the gain G has of it, 1 / G, lies on the way there.
        """
        larger, gain = self.relative(task, LARGER, "test"), self.gain(task, arm)
        if larger is None or not (math.isfinite(larger.value) and gain > 0):
            return None
        return float(larger.value ** (math.log(gain) / math.log(LARGER_BATCH_FACTOR)))

    def noise(self, task: str, *arms: str) -> list[float]:
        """Give the noise of the batches' mean gradients in every stretch of a run.

        The part that is not noise is averaged over runs, because of a single run the noise itself may be infinite.
        """
        rows = [result["signals"] for result in self.runs(task, *arms) if result["train"] is not None]
        columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
        means = [float(np.mean(column)) if column else math.nan for column in columns]
        return [math.inf if mean == 0 else 1.0 / mean - 1.0 for mean in means]

    def sooner(self, task: str, arm: str) -> Interval | None:
        """Give with how many times fewer gradients than a whole run an arm is where reshuffling ends; 0 for never.

        Of the geometric mean of training losses at the looks, within runs of full length, whose decay is that of the
        whole run; the interval is of the bootstrap over seeds, those of reshuffling included.
        """
        runs = [result for result in self.runs(task, arm) if result["train"] is not None]
        last = [result["losses"][-1] for result in self.runs(task, *BASELINES) if result["train"] is not None]
        if min(len(runs), len(last)) < 2:
            return None
        logs, goals, evaluations = np.log([r["losses"] for r in runs]), np.log(last), runs[0]["evaluations"]
        rng, times = np.random.default_rng(0), [_measure_saving(evaluations, logs.mean(axis=0), float(goals.mean()))]
        for _ in range(RESAMPLE_COUNT):
            mine, theirs = rng.integers(len(logs), size=len(logs)), rng.integers(len(goals), size=len(goals))
            times.append(_measure_saving(evaluations, logs[mine].mean(axis=0), float(goals[theirs].mean())))
        low, high = np.quantile(times[1:], [0.025, 0.975])
        return Interval(times[0], float(low), float(high))


def _measure_saving(evaluations: Sequence[int], logs: FloatArray, goal: float) -> float:
    """Give all gradients over those at which the loss is at a goal for good, between the looks; 0 for never.

    Examples
    --------
    >>> [_measure_saving([10, 20, 30], np.array([4.0, 2.0, 1.0]), goal) for goal in (9.0, 2.0, 1.5, 0.5)]
    [3.0, 1.5, 1.2, 0.0]
    """
    above = np.flatnonzero(logs > goal)
    if not len(above):
        return evaluations[-1] / evaluations[0]
    before = int(above[-1])
    if before == len(logs) - 1:
        return 0.0
    part = (logs[before] - goal) / (logs[before] - logs[before + 1])
    return float(evaluations[-1] / (evaluations[before] + part * (evaluations[before + 1] - evaluations[before])))
