"""What the runs of section 6.3 came to, run by run."""

from collections.abc import Sequence

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.cartpole.protocol import ARMS, BASELINES, EPISODE_COUNTS, EVEN, SINGLES, VRM
from lab.reproduce.records import Record, Result

LAST_EPISODES = 50  # episodes at the end that are told apart
MIN_SEEDS = 20  # seeds, below which nothing is judged


class Table:
    """The runs by arm.

    The baseline is pooled: two independent arms of uniform draws, so that no arm is compared with one lucky set of
    runs.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self.episodes = max((int(r.config["episodes"]) for r in records), default=0)
        whole = [r for r in records if r.config["episodes"] == self.episodes]
        found = {arm: [r.result for r in whole if r.config["arm"] == arm] for arm in ARMS}
        self._results = {arm: results for arm, results in found.items() if results}
        self.arms = list(self._results)
        self.last = min(LAST_EPISODES, self.episodes)

    @property
    def is_full_length(self) -> bool:
        """Whether runs are as long as those of full mode: of shorter ones less is known than what is asked."""
        return self.episodes >= EPISODE_COUNTS["full"]

    def results(self, *arms: str) -> list[Result]:
        """Give what was recorded of these arms together."""
        return [result for arm in arms for result in self._results.get(arm, [])]

    def rewards(self, *arms: str) -> FloatArray:
        """Give the reward of every episode, a row per run."""
        return np.array([result["rewards"] for result in self.results(*arms)], dtype=float).reshape(-1, self.episodes)

    def scores(self, *arms: str, last: int | None = None) -> list[float]:
        """Give the mean reward of every run, over all episodes or the last ones."""
        rows = self.rewards(*arms)
        return np.mean(rows if last is None else rows[:, -last:], axis=1).tolist() if len(rows) else []

    def single(self, *, worst: bool = False) -> str | None:
        """Give the setting with the highest mean reward over all episodes, or the lowest; None if none ran."""
        means = {arm: float(np.mean(self.scores(arm))) for arm in SINGLES if arm in self._results}
        if not means:
            return None
        return min(means, key=lambda arm: means[arm]) if worst else max(means, key=lambda arm: means[arm])

    def mixtures(self) -> FloatArray:
        """Give the mixtures of VRM: runs, episodes, components."""
        return np.array([result["mixtures"] for result in self.results(VRM)])

    def looks(self) -> list[int]:
        """Give the episodes after which buffers were looked at."""
        return list(next((result["looks"] for result in self.results(VRM, EVEN)), []))

    def moments(self, arm: str, what: str = "mixture") -> FloatArray:
        """Give second moments beside uniform's on the same buffers: runs, looks, and for "components" each of them."""
        rows = []
        for result in self.results(arm):
            uniform = np.array(result["components"])[:, -1]
            rows.append(np.array(result[what]) / (uniform[:, None] if what == "components" else uniform))
        return np.array(rows)


def pool_arms(arm: str) -> tuple[str, ...]:
    """Give both arms of uniform draws for the first of them, and any other arm alone."""
    return BASELINES if arm == BASELINES[0] else (arm,)
