"""The arms of section 6.3: one agent and one buffer, only settings and learner of the buffer differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from varmix.components._replay import SETTINGS
from varmix.learners import Fixed, Learner
from varmix.rl._replay_buffer import LEARNER

UNIFORM, AGAIN, EVEN, VRM = "uniform", "uniform again", "fixed mixture", "VRM"


def name(setting: tuple[float, float]) -> str:
    """Say a setting of prioritised replay.

    Examples
    --------
    >>> name((0.01, 0.9))
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


_ALONE, _NEVER = Fixed([1.0, 0.0]), Fixed([0.0, 1.0])
SINGLES = {name(setting): setting for setting in SETTINGS}
COMPONENTS = (*SINGLES, UNIFORM)
ARMS = {
    UNIFORM: Arm(SETTINGS[:1], _NEVER),
    AGAIN: Arm(SETTINGS[:1], _NEVER, stream=1),
    **{single: Arm([setting], _ALONE) for single, setting in SINGLES.items()},
    EVEN: Arm(SETTINGS, Fixed([1 / len(COMPONENTS)] * len(COMPONENTS)), looked=True),
    VRM: Arm(SETTINGS, LEARNER, looked=True),
}
BASELINES = (UNIFORM, AGAIN)  # pooled: no arm is compared with one lucky set of runs
STRONGEST = max(alpha for _, alpha in SETTINGS)
