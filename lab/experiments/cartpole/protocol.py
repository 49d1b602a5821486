"""The arms of the CartPole experiment, and its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Result
from varmix.components import PAPER_SETTINGS
from varmix.learners import BarrierNewton, Fixed, Learner

UNIFORM, AGAIN, EVEN, VRM = "uniform", "uniform again", "fixed mixture", "VRM"


def format_setting(setting: tuple[float, float]) -> str:
    """Say a setting of prioritised replay.

    Examples
    --------
    >>> format_setting((0.01, 0.9))
    'epsilon 0.01, alpha 0.9'
    """
    return "epsilon {:g}, alpha {:g}".format(*setting)


@dataclass(frozen=True)
class Arm:
    """What a replay buffer is given: the settings of its components and the learner of the mixture.

    The last component is uniform.  An arm with another `stream` has other random numbers for everything: first network,
    environment, actions and draws.  The buffer of an arm that is `looked` at is gone through from time to time.
    """

    settings: Sequence[tuple[float, float]]
    learner: Learner[Any]
    stream: int = 0
    looked: bool = False


_ONLY_COMPONENT, _ONLY_UNIFORM = Fixed([1.0, 0.0]), Fixed([0.0, 1.0])
SINGLES = {format_setting(setting): setting for setting in PAPER_SETTINGS}
COMPONENTS = (*SINGLES, UNIFORM)
ARMS = {
    UNIFORM: Arm(PAPER_SETTINGS[:1], _ONLY_UNIFORM),
    AGAIN: Arm(PAPER_SETTINGS[:1], _ONLY_UNIFORM, stream=1),
    **{single: Arm([setting], _ONLY_COMPONENT) for single, setting in SINGLES.items()},
    EVEN: Arm(PAPER_SETTINGS, Fixed([1 / len(COMPONENTS)] * len(COMPONENTS)), looked=True),
    VRM: Arm(PAPER_SETTINGS, BarrierNewton(eps=0.3), looked=True),
}
BASELINES = (UNIFORM, AGAIN)  # pooled: no arm is compared with one lucky set of runs
STRONGEST_ALPHA = max(alpha for _, alpha in PAPER_SETTINGS)


SEED_COUNTS, EPISODE_COUNTS = {"quick": 20, "full": 50}, {"quick": 25, "full": 200}


def plan(mode: Mode) -> list[Config]:
    """All arms on 50 seeds; in quick mode two arms on 20 seeds, as long as it takes to see which component leads.

    Seeds 900 to 907 are those that the agent's settings were chosen on.
    """
    arms = ARMS if mode == "full" else (UNIFORM, VRM)
    return [
        {"arm": arm, "seed": seed, "episodes": EPISODE_COUNTS[mode]}
        for seed in range(SEED_COUNTS[mode])
        for arm in arms
    ]


def run(config: Config) -> Result:
    """Play, and write down rewards, mixtures and costs."""
    from lab.experiments.cartpole import training as runs  # it imports PyTorch, which plans and findings do without

    return runs.run(config)


def seconds(config: Config) -> float:
    """About 0.7 ms a step; how many steps there are depends on how well it learns."""
    if config["episodes"] < EPISODE_COUNTS["full"]:
        return float(0.2 + 0.7e-3 * config["episodes"] * 25)
    return float(3.0 + 0.7e-3 * config["episodes"] * 220)
