"""The runs of the networks experiment, compared with plain reshuffling."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from lab.arrays import FloatArray
from lab.comparison import Comparison, Run, find_arrival, read_run
from lab.experiments.networks.tasks import ALL_ARMS, BASELINES, LARGER, LARGER_BATCH_FACTOR, TASKS
from lab.reproduce.records import Record, Result
from lab.statistics import Rows, bootstrap_interval, geometric_mean
from varmix.meter import Interval

MIN_SEEDS = 5  # with fewer seeds nothing is judged
Loss = Literal["train", "test"]


class NetworkComparison(Comparison[str]):
    """The test runs; a case is a task, a length is a number of epochs."""

    def __init__(self, records: Sequence[Record]) -> None:
        super().__init__(
            (
                read_run(record, record.config["task"], record.config["epochs"])
                for record in records
                if record.config["part"] == "test"
            ),
            ALL_ARMS,
            BASELINES,
        )
        self.tasks = [name for name in TASKS if name in self.cases]

    def results(self, task: str, *arms: str, half: bool = False) -> list[Result]:
        """Return the results of these arms together, of runs of full length by default."""
        return [run.result for run in self.select(task, *arms, length=self._choose_length(task, half))]

    def _choose_length(self, task: str, half: bool) -> float:
        return self.full_length(task) / (2 if half else 1)

    def ends(self, task: str, *arms: str, what: Loss, half: bool = False) -> list[float]:
        """Return the final losses of these arms; infinite for runs that diverged."""
        return [_read_loss(result, what) for result in self.results(task, *arms, half=half)]

    def relative(
        self, task: str, arm: str, what: Loss, *, than: Sequence[str] | None = None, half: bool = False
    ) -> Interval | None:
        """Return the final loss relative to that of reshuffling or of other arms; None if one side has no runs."""

        def read_loss(run: Run[str]) -> float:
            return _read_loss(run.result, what)

        return self.ratio(task, arm, read_loss, than=than, length=self._choose_length(task, half))

    def missed(self, task: str, arm: str) -> Interval | None:
        """Return 1 - average precision relative to reshuffling: errors in finding the rare class."""

        def read_miss(run: Run[str]) -> float | None:
            return None if run.result["precision"] is None else 1.0 - run.result["precision"]

        return self.ratio(task, arm, read_miss, than=BASELINES)

    def gap(self, task: str) -> float | None:
        """Return the held-out loss of reshuffling over its training loss."""
        held, train = (self.ends(task, *BASELINES, what=what) for what in ("test", "train"))
        return geometric_mean(held).value / geometric_mean(train).value if held and np.isfinite(held).all() else None

    def gains(self, task: str, arm: str) -> FloatArray:
        """Return the gain in every stretch of a run, as geometric mean over seeds."""
        rows = [result["gains"] for result in self.results(task, arm) if result["train"] is not None]
        return np.exp(np.log(np.array(rows, dtype=float)).mean(axis=0)) if rows else np.empty(0)

    def gain(self, task: str, arm: str) -> float:
        """Return the gain over the last three fifths of a run; earlier, little is learned and no group cut by norms."""
        gains = self.gains(task, arm)
        return float(np.exp(np.log(gains[-3:]).mean())) if len(gains) else math.nan

    def expected(self, task: str, arm: str) -> float | None:
        """Return the held-out loss relative to reshuffling that is predicted from the gain and from larger batches.

        Larger batches have a quarter of the noise. An arm with gain G has 1 / G of the noise, so its loss is
        interpolated between reshuffling and larger batches, on logarithmic scales.
        """
        larger, gain = self.relative(task, LARGER, "test"), self.gain(task, arm)
        if larger is None or not (math.isfinite(larger.value) and gain > 0):
            return None
        return float(larger.value ** (math.log(gain) / math.log(LARGER_BATCH_FACTOR)))

    def noise(self, task: str, *arms: str) -> list[float]:
        """Return the noise of the batches' mean gradients in every stretch of a run.

        The average over runs is that of 1 / (1 + noise), because the noise of a single run may be infinite.
        """
        rows = [result["signals"] for result in self.results(task, *arms) if result["train"] is not None]
        columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
        means = [float(np.mean(column)) if column else math.nan for column in columns]
        return [math.inf if mean == 0 else 1.0 / mean - 1.0 for mean in means]

    def sooner(self, task: str, arm: str) -> Interval | None:
        """Return how many times fewer gradients than a whole run an arm needs to reach the final loss of reshuffling.

        The result is 0 for never. It compares geometric means of training losses during runs of full length, whose step
        decays over the whole run. The interval comes from the bootstrap over the seeds of both sides.
        """
        results = [result for result in self.results(task, arm) if result["train"] is not None]
        last = [result["losses"][-1] for result in self.results(task, *BASELINES) if result["train"] is not None]
        if min(len(results), len(last)) < 2:
            return None
        logs, goals = np.log([result["losses"] for result in results]), np.log(last)
        evaluations = results[0]["evaluations"]

        def measure_saving(mine: Rows, theirs: Rows) -> float:
            return _measure_saving(evaluations, logs[mine].mean(axis=0), float(goals[theirs].mean()))

        return bootstrap_interval(measure_saving, len(logs), len(goals))


def _read_loss(result: Result, what: Loss) -> float:
    return math.inf if result[what] is None else float(result[what])


def _measure_saving(evaluations: Sequence[int], logs: FloatArray, goal: float) -> float:
    """Return all gradients over those from which on the loss stays at or below a goal; 0 for never.

    Examples
    --------
    >>> [_measure_saving([10, 20, 30], np.array([4.0, 2.0, 1.0]), goal) for goal in (9.0, 2.0, 1.5, 0.5)]
    [3.0, 1.5, 1.2, 0.0]
    """
    arrival = find_arrival(evaluations, logs, goal)
    return 0.0 if arrival is None else float(evaluations[-1] / arrival)
