"""Leader: follow the leader over a window of rows, without a step size."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, as_count, as_fraction
from varmix.learners._base import Learner, half_uniform, set_frozen
from varmix.learners._kernels import leader


class LeaderState(NamedTuple):
    """The mixture, the rows of evidence in the window (a ring buffer), and the number of rows seen."""

    mixture: FloatArray
    ratios: FloatArray
    coefficients: FloatArray
    seen: int


@dataclass(frozen=True)
class Leader(Learner[LeaderState]):
    """Multiplicative steps towards the best mixture for the last `window` rows of evidence.

    Use it for disjoint groups or data sources. It has no step size and works at any scale of the losses. A round takes
    time in proportion to window * k for k components.

    A step is `w_j <- w_j sqrt( sum_s c_s q_j(s) / (w.q_s)^2 )` over the rows s of the window. Then w is normalised,
    raised to at least 1e-6/k (a weight of zero could never grow again), and mixed with `gamma` of the uniform
    component. Fixed points of the step minimise the cost of the window.

    Parameters
    ----------
    gamma : float, default 0.1
        Smallest share of the uniform component. No importance weight exceeds `1 / gamma`.
    window : int, default 1000
        Number of rows remembered. A batch of m draws adds m rows.
    steps : int, default 1
        Multiplicative steps per round.

    Examples
    --------
    >>> learner = Leader()
    >>> evidence = Evidence(ratios=[[3.0, 0.0, 1.0]], coefficients=[2.0])
    >>> bool(learner.step(learner.init(k=3), evidence).mixture[0] > 0.25)
    True
    """

    gamma: float = 0.1
    window: int = 1000
    steps: int = 1
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_frozen(self, gamma=as_fraction(self.gamma, "gamma"))
        set_frozen(self, window=as_count(self.window, "window"), steps=as_count(self.steps, "steps"))

    def init(self, k: int) -> LeaderState:
        """Return the first state: half of the mass on the uniform component, and an empty window."""
        return LeaderState(half_uniform(k, self.gamma), np.zeros((self.window, k)), np.zeros(self.window), 0)

    def check_state(self, state: LeaderState) -> None:
        """Raise `CheckpointError` if the window cannot hold rows of evidence."""
        filled = min(state.seen, self.window)
        rows, coefficients = state.ratios, state.coefficients
        if min(rows.min(), coefficients.min()) < 0.0 or rows[filled:].any() or coefficients[filled:].any():
            raise CheckpointError(
                "The saved window of a Leader has negative entries, or rows beyond those it has seen."
            )
        if (np.abs(rows[:filled, -1] - 1.0) > 1e-6).any():
            raise CheckpointError(
                "The saved window of a Leader has rows whose last ratio, the uniform component's, is not one."
            )

    def step(self, state: LeaderState, evidence: Evidence) -> LeaderState:
        """Return the state after new rows replaced the oldest and the mixture moved towards the window's best."""
        rows, coefficients = evidence.ratios[-self.window :], evidence.coefficients[-self.window :]
        places = (state.seen + np.arange(len(rows))) % self.window
        ratios, kept = state.ratios.copy(), state.coefficients.copy()
        ratios[places], kept[places] = rows, coefficients
        seen = state.seen + len(rows)
        filled = min(seen, self.window)
        mixture = np.empty(len(state.mixture))
        leader(ratios[:filled], kept[:filled], state.mixture, self.gamma, self.steps, mixture)
        return LeaderState(mixture, ratios, kept, seen)
