"""What a batch costs by every component, exactly: from the errors of all transitions in the buffer."""

from typing import NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from lab.experiments.cartpole.dqn import Agent
from varmix.hindsight import best_mixture
from varmix.rl import ReplayBuffer

TOLERANCE = 1e-3  # of the best mixture's cost: far below what is told of it


class Costs(NamedTuple):
    """Second moments of a weighted error drawn from the buffer as it is, with the networks as they are.

    Attributes
    ----------
    components
        f_j = mean( delta^2 / q_j ) of every component alone, the uniform one last: mean( delta^2 ).
    mixture
        That of the present mixture.
    best
        That of the best mixture of these components.
    ideal
        mean( |delta| )^2, the least that any law could have.
    """

    components: list[float]
    mixture: float
    best: float
    ideal: float


def costs(agent: Agent, buffer: ReplayBuffer) -> Costs:
    """Ask for the errors of all transitions, and tell nobody."""
    everything = buffer.sampler.census()
    norms = np.abs(agent.errors(buffer.transitions(everything.indices)))
    squares, ratios = norms**2, everything.ratios
    return Costs(
        np.mean(squares[:, None] / ratios, axis=0).tolist(),
        float(np.mean(squares / (ratios @ buffer.sampler.mixture))),
        best_mixture(Evidence(ratios, squares), tolerance=TOLERANCE).cost,
        float(norms.mean() ** 2),
    )
