"""What the runs of the convex experiment came to, beside reshuffling."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.convex.arms import ADAPTIVE_ARMS, AGAIN, ARMS, ONCE, RESHUFFLING
from lab.experiments.convex.protocol import BATCH_SIZES, SMALLEST_EXCESS, Key, make_key
from lab.experiments.convex.tasks import SIX_TASKS, TASKS
from lab.reproduce.records import Record
from lab.statistics import combine_ratios, estimate_ratio, geometric_mean, times_sooner
from varmix.meter import Interval

RESAMPLE_COUNT = 1000  # of the bootstrap


class Table:
    """The test runs by task, batch, arm and epochs.

    The baseline is pooled: two independent arms of reshuffling, so that no arm is compared with one lucky set of runs.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._runs: dict[Key, list[Record]] = {}
        for record in records:
            if record.config["part"] == "test":
                self._runs.setdefault(make_key(record.config), []).append(record)
        self.tasks = [name for name in TASKS if any(task == name for task, *_ in self._runs)]
        self.arms = [name for name in ARMS if any(arm == name for _, _, arm, _ in self._runs)]
        self.batches = [batch for batch in BATCH_SIZES if any(b == batch for _, b, _, _ in self._runs)]

    @property
    def six(self) -> list[str]:
        """Those of the six tasks that claims are about that have runs."""
        return [task for task in SIX_TASKS if task in self.tasks]

    def curve(self, task: str, arms: Sequence[str]) -> tuple[list[float], list[list[float]]]:
        """Return where the runs of these arms were evaluated, batch 32, and the excess there; a run a row.

        Runs that diverged are left out, and so are evaluations that not all of the others have.
        """
        runs = [r for arm in arms for r in self.runs(task, 32, arm) if r.result["excess"] is not None]
        length = min((len(r.result["excesses"]) for r in runs), default=0)
        return list(runs[0].result["evaluations"][:length]) if runs else [], [
            r.result["excesses"][:length] for r in runs
        ]

    def runs(self, task: str, batch: int, arm: str, epochs: int | None = None) -> list[Record]:
        """Give the runs of an arm, full length unless told."""
        return self._runs.get((task, batch, arm, TASKS[task].epochs if epochs is None else epochs), [])

    def ends(self, task: str, batch: int, arm: str, epochs: int | None = None) -> list[float]:
        """Give the final excess of these runs; what diverged is infinite."""
        return [_read_excess(r) for r in self.runs(task, batch, arm, epochs)]

    def baseline(self, task: str, batch: int) -> list[float]:
        """Give the final excess of reshuffling, both arms of it."""
        return self.ends(task, batch, RESHUFFLING) + self.ends(task, batch, AGAIN)

    def relative(self, task: str, batch: int, arm: str) -> Interval | None:
        """Give the final excess relative to reshuffling's; None where there is nothing to compare."""
        mine = self.ends(task, batch, arm)
        theirs = self.ends(task, batch, RESHUFFLING) if arm == AGAIN else self.baseline(task, batch)
        return estimate_ratio(mine, theirs) if mine and theirs else None

    def beside_once(self, task: str, batch: int, arm: str) -> Interval | None:
        """Return the final excess relative to that of shuffling once."""
        mine, theirs = self.ends(task, batch, arm), self.ends(task, batch, ONCE)
        return estimate_ratio(mine, theirs) if mine and theirs else None

    def over(self, tasks: Sequence[str], batch: int, arm: str) -> Interval | None:
        """Return the geometric mean of `relative` over tasks."""
        found = {task: self.relative(task, batch, arm) for task in tasks}
        present = {task: interval for task, interval in found.items() if interval is not None}
        return combine_tasks(present) if present else None

    def loses(self, task: str, batch: int, arm: str) -> bool:
        """Whether an arm ends above reshuffling for sure, or some run of it diverged."""
        beside = self.relative(task, batch, arm)
        return beside is not None and (beside.low > 1 or beside.value == math.inf)

    def worst(self, tasks: Sequence[str], batch: int, arm: str) -> float:
        """Give the largest excess of any run, beside the mean of reshuffling on its task; 0 without runs."""
        beside = [
            max(ends) / geometric_mean(theirs).value
            for task in tasks
            if (ends := self.ends(task, batch, arm)) and (theirs := self.baseline(task, batch))
        ]
        return max(beside, default=0.0)

    def diverged(self, arm: str) -> int:
        """Give how many runs of an arm diverged, of all lengths."""
        return sum(r.result["excess"] is None for k, rows in self._runs.items() for r in rows if k[2] == arm)

    def saved(self, task: str, arm: str) -> Interval | None:
        """Give how many times fewer draws an arm needs for the final excess of reshuffling, batch 32.

        Runs of several lengths, each with its own decay and best step; the number needed is interpolated between their
        geometric means, on logarithmic scales.  A longer run that ends above a shorter one counts against it; 0 is an
        arm that never gets there.  The interval is of the bootstrap over seeds, those of reshuffling included.
        """
        full = TASKS[task].epochs
        lengths = sorted(k[3] for k in self._runs if k[:3] == (task, 32, arm))
        runs = [{r.config["seed"]: r for r in self.runs(task, 32, arm, epochs)} for epochs in lengths]
        seeds = sorted(set.intersection(*map(set, runs))) if runs else []  # a run may be missing, another not
        theirs = np.log(self.baseline(task, 32))
        if len(lengths) < 2 or full not in lengths or min(len(seeds), len(theirs)) < 2 or not np.isfinite(theirs).all():
            return None
        ends = np.log([[_read_excess(by_seed[seed]) for seed in seeds] for by_seed in runs])
        rng = np.random.default_rng(0)
        times = [full / _interpolate_epochs(lengths, ends.mean(axis=1), theirs.mean())]
        for _ in range(RESAMPLE_COUNT):
            mine, other = rng.integers(len(seeds), size=len(seeds)), rng.integers(len(theirs), size=len(theirs))
            times.append(full / _interpolate_epochs(lengths, ends[:, mine].mean(axis=1), theirs[other].mean()))
        low, high = np.quantile(times[1:], [0.025, 0.975])
        return Interval(times[0], float(low), float(high))

    def within(self, task: str, batch: int, arm: str) -> Interval | None:
        """Give how much sooner than at its end a full run is at the final excess of reshuffling for good; 0 for never.

        The decay is that of the full run, so even a run that ends far below is not there much before its end.
        """
        runs, theirs = self.runs(task, batch, arm), self.baseline(task, batch)
        if not runs or not theirs or not np.isfinite(theirs).all():
            return None
        goal, times = geometric_mean(theirs).value, []
        for r in runs:
            excesses = [math.inf if e is None else e for e in r.result["excesses"]]
            above = np.flatnonzero(np.array(excesses) > goal)
            first = int(above[-1]) + 1 if len(above) else 0
            done = r.result["excess"] is not None and first < len(excesses)
            times.append(float(max(r.result["evaluations"][first], 1)) if done else None)
        ends = [float(r.result["evaluations"][-1]) for r in runs]
        return times_sooner(times, ends, ends)

    def pairs(self) -> list[tuple[str, str, int, float, Interval]]:
        """Give arm, task, batch, early gain and relative excess of everything that adapts without replacement.

        What diverged is there too, with an excess that is infinite.
        """
        found = []
        for arm in self.arms:
            for task in self.tasks if arm in ADAPTIVE_ARMS else ():
                for batch in self.batches:
                    runs, beside = self.runs(task, batch, arm), self.relative(task, batch, arm)
                    if runs and beside is not None and not math.isnan(beside.value):
                        gain = geometric_mean([r.result["early_gain"] for r in runs]).value
                        found.append((arm, task, batch, gain, beside))
        return found


def combine_tasks(ratios: Mapping[str, Interval]) -> Interval:
    """Return the geometric mean over tasks.

    Tasks over the same data share the orders in which their points are visited, so they may err together: what is known
    of one data set is no surer than what is known of one of its tasks.
    """
    whole = combine_ratios(list(ratios.values()))
    if not (math.isfinite(whole.value) and whole.low > 0 and math.isfinite(whole.high)):
        return whole
    halves: dict[str, float] = {}
    for task, ratio in ratios.items():
        halves[TASKS[task].data] = halves.get(TASKS[task].data, 0.0) + math.log(ratio.high / ratio.low) / 2
    half = math.hypot(*halves.values()) / len(ratios)
    return Interval(whole.value, whole.value * math.exp(-half), whole.value * math.exp(half))


def _read_excess(record: Record) -> float:
    excess = record.result["excess"]
    return math.inf if excess is None else max(float(excess), SMALLEST_EXCESS)


def _interpolate_epochs(lengths: Sequence[int], ends: FloatArray, goal: float) -> float:
    """Give the number of epochs from which on runs end at `goal`, between the lengths that were run."""
    kept = np.maximum.accumulate(ends[::-1])[::-1]  # falling with the length
    if kept[0] <= goal:
        return float(lengths[0])
    if kept[-1] > goal:
        return math.inf
    return float(np.exp(np.interp(-goal, -kept, np.log(lengths))))
