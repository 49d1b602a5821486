"""The runs of the convex experiment, compared with plain shuffling."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from lab.arrays import FloatArray
from lab.comparison import Comparison, Run, find_lasting, read_run
from lab.experiments.convex.arms import ADAPTIVE_ARMS, AGAIN, ARMS, ONCE, RESHUFFLING
from lab.experiments.convex.protocol import BATCH_SIZES, SMALLEST_EXCESS
from lab.experiments.convex.tasks import SIX_TASKS, TASKS
from lab.reproduce.records import Record, Result
from lab.statistics import Rows, bootstrap_interval, combine_ratios, geometric_mean, times_sooner
from varmix.meter import Interval


class ConvexComparison(Comparison[tuple[str, int]]):
    """The test runs; a case is a task and a batch size, a length is a number of epochs."""

    def __init__(self, records: Sequence[Record]) -> None:
        super().__init__(
            (
                read_run(record, (record.config["task"], record.config["batch"]), record.config["epochs"])
                for record in records
                if record.config["part"] == "test"
            ),
            ARMS,
            (RESHUFFLING, AGAIN),
            {case: TASKS[case[0]].epochs for case in product(TASKS, BATCH_SIZES)},
        )
        self.tasks = [name for name in TASKS if any(task == name for task, _ in self.cases)]
        self.batches = [batch for batch in BATCH_SIZES if any(other == batch for _, other in self.cases)]

    @property
    def six(self) -> list[str]:
        """The tasks with runs, among the six that the claims are about."""
        return [task for task in SIX_TASKS if task in self.tasks]

    def results(self, task: str, batch: int, *arms: str) -> list[Result]:
        """Return the results of these arms together, of runs of full length."""
        return [run.result for run in self.select((task, batch), *arms)]

    def curve(self, task: str, arms: Sequence[str]) -> tuple[list[float], list[list[float]]]:
        """Return the evaluations of these arms at batch 32 and the excess there, one row per run.

        Runs that diverged are left out. Only evaluations that all other runs have are kept.
        """
        results = [result for result in self.results(task, 32, *arms) if result["excess"] is not None]
        length = min((len(result["excesses"]) for result in results), default=0)
        rows = [result["excesses"][:length] for result in results]
        return (list(results[0]["evaluations"][:length]), rows) if results else ([], [])

    def ends(self, task: str, batch: int, *arms: str) -> list[float]:
        """Return the final excess of the runs of these arms; infinite for runs that diverged."""
        return [_read_excess(run) for run in self.select((task, batch), *arms)]

    def baseline(self, task: str, batch: int) -> list[float]:
        """Return the final excess of both arms of reshuffling."""
        return self.ends(task, batch, RESHUFFLING, AGAIN)

    def relative(self, task: str, batch: int, arm: str) -> Interval | None:
        """Return the final excess relative to that of reshuffling; None if one of them has no runs."""
        return self.ratio((task, batch), arm, _read_excess)

    def relative_to_once(self, task: str, batch: int, arm: str) -> Interval | None:
        """Return the final excess relative to that of shuffling once; None if one of them has no runs."""
        return self.ratio((task, batch), arm, _read_excess, than=(ONCE,))

    def over(self, tasks: Sequence[str], batch: int, arm: str) -> Interval | None:
        """Return the geometric mean of `relative` over tasks."""
        found = {task: self.relative(task, batch, arm) for task in tasks}
        present = {task: interval for task, interval in found.items() if interval is not None}
        return combine_tasks(present) if present else None

    def loses(self, task: str, batch: int, arm: str) -> bool:
        """Return whether an arm surely ends above reshuffling, or a run of it diverged."""
        ratio = self.relative(task, batch, arm)
        return ratio is not None and (ratio.low > 1 or ratio.value == math.inf)

    def worst(self, tasks: Sequence[str], batch: int, arm: str) -> float:
        """Return the largest excess of any run relative to the mean of reshuffling on its task; 0 without runs."""
        ratios = [
            max(ends) / geometric_mean(theirs).value
            for task in tasks
            if (ends := self.ends(task, batch, arm)) and (theirs := self.baseline(task, batch))
        ]
        return max(ratios, default=0.0)

    def diverged(self, arm: str) -> int:
        """Return how many runs of an arm diverged, of all lengths."""
        return sum(run.result["excess"] is None for run in self.select_all(arm))

    def saved(self, task: str, arm: str) -> Interval | None:
        """Return how many times fewer draws an arm needs for the final excess of reshuffling at batch 32.

        Runs of several lengths, each with its own decay and best step, give the excess as a function of the length. The
        length needed is interpolated between their geometric means, on logarithmic scales. A longer run that ends above
        a shorter one counts against the arm. The result is 0 if the arm never gets there. The interval comes from the
        bootstrap over the seeds of both sides.
        """
        case, full = (task, 32), TASKS[task].epochs
        lengths = self.lengths(case, arm)
        runs = [{run.seed: run for run in self.select(case, arm, length=length)} for length in lengths]
        seeds = sorted(set.intersection(*map(set, runs))) if runs else []  # a seed may lack some of the lengths
        theirs = np.log(self.baseline(task, 32))
        if len(lengths) < 2 or full not in lengths or min(len(seeds), len(theirs)) < 2 or not np.isfinite(theirs).all():
            return None
        ends = np.log([[_read_excess(by_seed[seed]) for seed in seeds] for by_seed in runs])

        def measure_saving(mine: Rows, other: Rows) -> float:
            return full / _interpolate_epochs(lengths, ends[:, mine].mean(axis=1), theirs[other].mean())

        return bootstrap_interval(measure_saving, len(seeds), len(theirs))

    def within(self, task: str, batch: int, arm: str) -> Interval | None:
        """Return the length of a full run over the time from which it stays below the final excess of reshuffling.

        The result is the median over runs, and 0 for never. The step decays over the whole run, so even a run that
        ends far below arrives only shortly before its end.
        """
        results, theirs = self.results(task, batch, arm), self.baseline(task, batch)
        if not results or not theirs or not np.isfinite(theirs).all():
            return None
        goal, times = geometric_mean(theirs).value, []
        for result in results:
            first = find_lasting(np.array([math.inf if e is None else e for e in result["excesses"]]), goal)
            never = first is None or result["excess"] is None
            times.append(None if never else float(max(result["evaluations"][first], 1)))
        ends = [float(result["evaluations"][-1]) for result in results]
        return times_sooner(times, ends, ends)

    def pairs(self) -> list[tuple[str, str, int, float, Interval]]:
        """Return arm, task, batch, early gain and relative excess of every adaptive arm without replacement.

        Runs that diverged are included: their relative excess is infinite.
        """
        found = []
        for arm in self.arms:
            for task in self.tasks if arm in ADAPTIVE_ARMS else ():
                for batch in self.batches:
                    results, ratio = self.results(task, batch, arm), self.relative(task, batch, arm)
                    if results and ratio is not None and not math.isnan(ratio.value):
                        gain = geometric_mean([result["early_gain"] for result in results]).value
                        found.append((arm, task, batch, gain, ratio))
        return found


def combine_tasks(ratios: Mapping[str, Interval]) -> Interval:
    """Return the geometric mean of ratios over tasks.

    Tasks on the same data share the order in which points are visited, so their errors may be alike. Their intervals
    therefore add up, instead of averaging out as those of independent tasks do.
    """
    whole = combine_ratios(list(ratios.values()))
    if not (math.isfinite(whole.value) and whole.low > 0 and math.isfinite(whole.high)):
        return whole
    halves: dict[str, float] = {}
    for task, ratio in ratios.items():
        halves[TASKS[task].data] = halves.get(TASKS[task].data, 0.0) + math.log(ratio.high / ratio.low) / 2
    half = math.hypot(*halves.values()) / len(ratios)
    return Interval(whole.value, whole.value * math.exp(-half), whole.value * math.exp(half))


def _read_excess(run: Run[tuple[str, int]]) -> float:
    excess = run.result["excess"]
    return math.inf if excess is None else max(float(excess), SMALLEST_EXCESS)


def _interpolate_epochs(lengths: Sequence[float], ends: FloatArray, goal: float) -> float:
    """Return the number of epochs from which on runs end at or below `goal`, interpolated between the lengths."""
    kept = np.maximum.accumulate(ends[::-1])[::-1]  # the worst end of all runs that are at least as long
    if kept[0] <= goal:
        return float(lengths[0])
    if kept[-1] > goal:
        return math.inf
    return float(np.exp(np.interp(-goal, -kept, np.log(lengths))))
