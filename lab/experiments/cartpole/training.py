"""One run of an agent, with rewards, mixtures and second moments over time."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lab.experiments.cartpole.dqn import Agent, Settings, Vector
from lab.experiments.cartpole.protocol import ARMS, Arm
from lab.reproduce.records import Config, Result
from varmix.hindsight import best_mixture
from varmix.learners import Evidence
from varmix.meter import GainMeter
from varmix.rl import ReplayBuffer

ENVIRONMENT = "CartPole-v1"
Look: TypeAlias = Callable[[int, Agent, ReplayBuffer], None]
Environment: TypeAlias = Any  # Gymnasium's


class Course(NamedTuple):
    """A finished run.

    Attributes
    ----------
    rewards
        Sum of the rewards of every episode.
    steps
        Steps in the environment.
    gain
        Gain measured by the meter.
    seconds, buffer_seconds
        CPU seconds of the run, and those inside the buffer.
    """

    rewards: list[float]
    steps: int
    gain: float
    seconds: float
    buffer_seconds: float


class Player:
    """An agent that plays in an environment and learns from a buffer, with a clock for the work of the buffer."""

    def __init__(
        self, agent: Agent, environment: Environment, buffer: ReplayBuffer, seed: np.random.SeedSequence
    ) -> None:
        self._agent, self._environment, self._buffer = agent, environment, buffer
        self._settings = agent.settings
        first, chances = seed.spawn(2)
        self._seed: int | None = int(first.generate_state(1)[0])  # the environment's, for the first episode only
        self._rng = np.random.default_rng(chances)
        self.meter = GainMeter()
        self.steps = 0
        self.buffer_seconds = 0.0

    def episode(self) -> float:
        """Play an episode, learn after every step, and return the sum of the rewards."""
        observation, _ = self._environment.reset(seed=self._seed)
        self._seed, total, over = None, 0.0, False
        while not over:
            action = self._action(observation)
            after, reward, terminated, truncated, _ = self._environment.step(action)
            begun = time.thread_time()
            self._buffer.add(observation, action, reward, after, terminated, truncated)
            self.buffer_seconds += time.thread_time() - begun
            observation, over = after, terminated or truncated
            total += float(reward)
            self.steps += 1
            if self.steps >= self._settings.warm_up:
                self._learn()
        return total

    def _action(self, observation: Vector) -> int:
        if self._rng.random() < self._settings.chance(self.steps):
            return int(self._rng.integers(self._environment.action_space.n))
        return self._agent.act(observation)

    def _learn(self) -> None:
        begun = time.thread_time()
        batch, draw = self._buffer.sample(self._settings.batch)
        drawn = time.thread_time()
        errors = self._agent.learn(batch, draw.weights)
        self.meter.update(draw, np.abs(errors))
        learned = time.thread_time()
        self._buffer.update(draw, errors)
        self.buffer_seconds += (drawn - begun) + (time.thread_time() - learned)


def play_episodes(
    settings: Settings,
    make: Callable[[Environment, np.random.SeedSequence], ReplayBuffer],
    seed: np.random.SeedSequence,
    episodes: int,
    look: Look = lambda episode, agent, buffer: None,
) -> Course:
    """Play some episodes; `make` builds the buffer of an environment, and `look` is called after every episode.

    Seconds are CPU time of this thread without the looks, so other work on the machine does not count.
    """
    import gymnasium
    import torch

    torch.set_num_threads(1)
    environment = gymnasium.make(ENVIRONMENT, disable_env_checker=True)
    first, playing, drawing = seed.spawn(3)
    agent = Agent(
        environment.observation_space.shape[0], int(environment.action_space.n), settings, np.random.default_rng(first)
    )
    _compile_buffer(make(environment, np.random.SeedSequence(0)), environment, settings)
    buffer = make(environment, drawing)
    player = Player(agent, environment, buffer, playing)
    rewards, seconds = [], 0.0
    for episode in range(1, episodes + 1):
        begun = time.thread_time()
        rewards.append(player.episode())
        seconds += time.thread_time() - begun
        look(episode, agent, buffer)
    environment.close()
    return Course(rewards, player.steps, player.meter.gain.value, seconds, player.buffer_seconds)


def _compile_buffer(buffer: ReplayBuffer, environment: Environment, settings: Settings) -> None:
    """Use a buffer once, to compile everything before the clock runs."""
    observation, _ = environment.reset(seed=0)
    for _ in range(settings.batch):
        buffer.add(observation, 0, 1.0, observation, False, False)
    _, draw = buffer.sample(settings.batch)
    GainMeter().update(draw, np.ones(settings.batch))
    buffer.update(draw, np.ones(settings.batch))


COST_TOLERANCE = 1e-3  # of the best mixture's cost: far below the precision of the claims


class Costs(NamedTuple):
    """Second moments of a weighted error, drawn from the present buffer with the present networks.

    Attributes
    ----------
    components
        f_j = mean( delta^2 / q_j ) of every component alone; mean( delta^2 ) of the uniform one, which is last.
    mixture
        Second moment of the present mixture.
    best
        Second moment of the best mixture of these components.
    ideal
        mean( |delta| )^2, the lowest that any distribution could have.
    """

    components: list[float]
    mixture: float
    best: float
    ideal: float


def measure_costs(agent: Agent, buffer: ReplayBuffer) -> Costs:
    """Compute second moments from the errors of all transitions, without feedback to the sampler."""
    everything = buffer.sampler.draw_all()
    norms = np.abs(agent.errors(buffer.transitions(everything.indices)))
    squares, ratios = norms**2, everything.ratios
    return Costs(
        np.mean(squares[:, None] / ratios, axis=0).tolist(),
        float(np.mean(squares / (ratios @ buffer.sampler.mixture))),
        best_mixture(Evidence(ratios, squares), tolerance=COST_TOLERANCE).cost,
        float(norms.mean() ** 2),
    )


EPISODES_PER_LOOK = 5  # between two evaluations of the whole buffer


def run(config: Config) -> Result:
    """Play and record rewards, mixtures and second moments."""
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
    return {**play_episodes(settings, make, seed, config["episodes"], looks)._asdict(), **looks.seen}


class Looks:
    """Records of the buffer: the mixture after every episode, and from time to time all second moments."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self.seen: dict[str, list[Any]] = {}
        if arm.looked:
            self.seen = {name: [] for name in ("mixtures", "looks", "components", "mixture", "best", "ideal")}

    def __call__(self, episode: int, agent: Agent, buffer: ReplayBuffer) -> None:
        """Record the buffer after an episode, if the arm asks for it."""
        if not self._arm.looked:
            return
        self.seen["mixtures"].append(np.round(buffer.sampler.mixture, 5).tolist())
        if episode % EPISODES_PER_LOOK == 0:
            self.seen["looks"].append(episode)
            for name, value in measure_costs(agent, buffer)._asdict().items():
                self.seen[name].append(value)
