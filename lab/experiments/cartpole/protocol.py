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
    """Write a setting of prioritised replay.

    Examples
    --------
    >>> format_setting((0.01, 0.9))
    'epsilon 0.01, alpha 0.9'
    """
    return "epsilon {:g}, alpha {:g}".format(*setting)


@dataclass(frozen=True)
class Arm:
    """An arm: how its replay buffer draws.

    Attributes
    ----------
    settings
        Epsilon and alpha of every component; a uniform component is added as the last one.
    learner
        Learner of the mixture.
    stream
        Arms with different streams have different random numbers for initial network, environment, actions and draws.
        Default: 0.
    looked
        Whether mixtures and second moments over the whole buffer are recorded. Default: False.
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
    """Plan all arms on 50 seeds; in quick mode two arms on 20 seeds, with enough episodes to see which component leads.

    The agent's settings were chosen on seeds 900 to 907, which are not among these.
    """
    arms = ARMS if mode == "full" else (UNIFORM, VRM)
    return [
        {"arm": arm, "seed": seed, "episodes": EPISODE_COUNTS[mode]}
        for seed in range(SEED_COUNTS[mode])
        for arm in arms
    ]


def run(config: Config) -> Result:
    """Play and record rewards, mixtures and second moments."""
    from lab.experiments.cartpole import training as runs  # imports PyTorch, which plans and findings do not need

    return runs.run(config)


def seconds(config: Config) -> float:
    """Estimate the seconds of a run: 0.7 ms a step; the number of steps depends on how well the agent learns."""
    if config["episodes"] < EPISODE_COUNTS["full"]:
        return float(0.2 + 0.7e-3 * config["episodes"] * 25)
    return float(3.0 + 0.7e-3 * config["episodes"] * 220)
