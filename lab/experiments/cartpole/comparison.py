"""The runs of section 6.3, compared with uniform replay."""

from collections.abc import Sequence

import numpy as np

from lab.arrays import FloatArray
from lab.comparison import Comparison, read_run
from lab.experiments.cartpole.protocol import ARMS, BASELINES, EPISODE_COUNTS, EVEN, SINGLES, VRM
from lab.reproduce.records import Record, Result
from lab.statistics import estimate_difference
from varmix.meter import Interval

CASE = "CartPole-v1"  # all runs are of this environment
LAST_EPISODES = 50  # at the end of a run; their rewards are also shown separately
MIN_SEEDS = 20  # with fewer seeds nothing is judged


class CartPoleComparison(Comparison[str]):
    """The longest runs; a length is a number of episodes."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.episodes = max((int(record.config["episodes"]) for record in records), default=0)
        longest = [record for record in records if record.config["episodes"] == self.episodes]
        super().__init__((read_run(record, CASE, self.episodes) for record in longest), ARMS, BASELINES)
        self.last = min(LAST_EPISODES, self.episodes)

    @property
    def is_full_length(self) -> bool:
        """Whether runs are as long as those of full mode; claims about whole runs need that."""
        return self.episodes >= EPISODE_COUNTS["full"]

    def results(self, *arms: str) -> list[Result]:
        """Return the results of these arms together."""
        return [run.result for run in self.select(CASE, *arms)]

    def rewards(self, *arms: str) -> FloatArray:
        """Return the reward of every episode, one row per run."""
        return np.array([result["rewards"] for result in self.results(*arms)], dtype=float).reshape(-1, self.episodes)

    def scores(self, *arms: str, last: int | None = None) -> list[float]:
        """Return the mean reward of every run, over all episodes or the last ones."""
        rows = self.rewards(*arms)
        return np.mean(rows if last is None else rows[:, -last:], axis=1).tolist() if len(rows) else []

    def difference(self, arm: str, than: Sequence[str] | None = None, *, last: int | None = None) -> Interval:
        """Return the mean reward of an arm minus that of uniform replay or of others; runs are not paired."""
        others = self.others(arm) if than is None else than
        return estimate_difference(self.scores(arm, last=last), self.scores(*others, last=last))

    def single(self, *, worst: bool = False) -> str | None:
        """Return the setting with the highest mean reward over all episodes, or the lowest; None if none ran."""
        means = {arm: float(np.mean(self.scores(arm))) for arm in SINGLES if arm in self.arms}
        if not means:
            return None
        return min(means, key=lambda arm: means[arm]) if worst else max(means, key=lambda arm: means[arm])

    def mixtures(self) -> FloatArray:
        """Return the mixtures of VRM: runs, episodes, components."""
        return np.array([result["mixtures"] for result in self.results(VRM)])

    def looks(self) -> list[int]:
        """Return the episodes after which the whole buffer was evaluated."""
        return list(next((result["looks"] for result in self.results(VRM, EVEN)), []))

    def moments(self, arm: str, what: str = "mixture") -> FloatArray:
        """Return second moments relative to uniform draws from the same buffers: runs, looks, and components if asked.

        `what` is a field of the record: "mixture", "best", "ideal", or "components" for each component alone.
        """
        rows = []
        for result in self.results(arm):
            uniform = np.array(result["components"])[:, -1]
            rows.append(np.array(result[what]) / (uniform[:, None] if what == "components" else uniform))
        return np.array(rows)
