"""One run of section 6.3: an arm's buffer, the agent at play, and what is seen of the buffer on the way."""

from typing import Any

import numpy as np

from lab.experiments.cartpole.protocol import ARMS
from lab.experiments.cartpole.protocol import Arm
from lab.experiments.cartpole.training__census import costs
from lab.experiments.cartpole.training import Environment
from lab.experiments.cartpole.training import play
from lab.experiments.cartpole.dqn import Agent
from lab.experiments.cartpole.dqn import Settings
from lab.reproduce.records import Config
from lab.reproduce.records import Result
from varmix.rl import ReplayBuffer

EVERY = 5  # episodes between two looks at all of the buffer


def run(config: Config) -> Result:
    """Play, and write down rewards, mixtures and costs."""
    arm, settings = ARMS[config["arm"]], Settings()
    looks = Looks(arm)

    def make(environment: Environment, seed: np.random.SeedSequence) -> ReplayBuffer:
        return ReplayBuffer(
            settings.capacity,
            environment.observation_space,
            environment.action_space,
            settings=arm.settings,
            discount=settings.discount,
            learner=arm.learner,
            rng=np.random.default_rng(seed),
        )

    seed = np.random.SeedSequence([config["seed"], arm.stream])
    return {**play(settings, make, seed, config["episodes"], looks)._asdict(), **looks.seen}


class Looks:
    """What is seen of the buffer after episodes: the mixture, and from time to time all costs."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self.seen: dict[str, list[Any]] = {}
        if arm.looked:
            self.seen = {name: [] for name in ("mixtures", "looks", "components", "mixture", "best", "ideal")}

    def __call__(self, episode: int, agent: Agent, buffer: ReplayBuffer) -> None:
        """Look."""
        if not self._arm.looked:
            return
        self.seen["mixtures"].append(np.round(buffer.sampler.mixture, 5).tolist())
        if episode % EVERY == 0:
            self.seen["looks"].append(episode)
            for name, value in costs(agent, buffer)._asdict().items():
                self.seen[name].append(value)
