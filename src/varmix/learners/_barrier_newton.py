"""BarrierNewton: the paper's online Newton step made free of scales.  The default."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, as_count, as_fraction, as_positive
from varmix.learners._base import Learner, check_curvature, half_uniform, set_frozen
from varmix.learners._kernels import barrier_newton


class BarrierNewtonState(NamedTuple):
    """The mixture, the tempered curvature R, and the sums behind the mean cost s: of costs and of rounds."""

    mixture: FloatArray
    curvature: FloatArray
    cost: float
    rounds: float


@dataclass(frozen=True)
class BarrierNewton(Learner[BarrierNewtonState]):
    """Newton steps with the curvature of the cost and a barrier that keeps mixtures away from the border.

    With g and f~ the gradient and value of the evidence at w_t, s the running mean of f~, and W = diag(w_t):

        R_t     = R_{t-1} + 2 W^(1/2) g g' W^(1/2) / f~      (the curvature of one sample, tempered)
        w_{t+1} = argmin <g, w> + 1/2 |w - w_t|^2  in the metric  beta W^(-1/2) R_t W^(-1/2) + eps s W^-1 B W^-1

    over the restricted simplex (entries of W below 1e-3/k count as that).  B is the identity, except that the k - 1
    components before the uniform component count as one when they move together, `(k - 2) / (k - 1)^2` less in their
    block.  No weight above that floor loses more than half in one round.  Every term scales with the losses, so
    multiplying them changes nothing, and the defaults need no tuning.

    It is not the algorithm of the paper's theorems, which is `ONS` with the settings of `varmix.theory`.  No regret
    bound is proven for it; its regret was measured (docs/results/regret.md).

    The paper sums g g' itself, which remembers for ever the huge curvature of every bad mixture it visits, and so
    recovers slowly.  Tempered by the root of the mixture, old curvature fades as the mixture gets better
    (docs/decisions/0002).

    Parameters
    ----------
    gamma
        Least share of the uniform component; no weight exceeds 1 / gamma.
    beta
        Weight of the curvature.
    eps
        Weight of the barrier; None is 40 / sqrt(k), because each of many components meets few of the rounds.
    window
        Forget R and s over about so many rounds; None remembers all.  For training whose gradients shrink by
        decades; rare events pay for it.

    Examples
    --------
    >>> learner = BarrierNewton()
    >>> state = learner.init(k=3)
    >>> state.mixture
    array([0.25, 0.25, 0.5 ])
    >>> evidence = Evidence(ratios=[[3.0, 0.0, 1.0]], coefficients=[2.0])
    >>> bool(learner.step(state, evidence).mixture[0] > 0.25)
    True
    """

    gamma: float = 0.1
    beta: float = 0.25
    eps: float | None = None
    window: int | None = None
    needs_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        set_frozen(self, gamma=as_fraction(self.gamma, "gamma"), beta=as_positive(self.beta, "beta"))
        if self.eps is not None:
            set_frozen(self, eps=as_positive(self.eps, "eps"))
        if self.window is not None:
            set_frozen(self, window=as_count(self.window, "window", least=2))

    def init(self, k: int) -> BarrierNewtonState:
        """Start with half of the mass on the uniform component."""
        return BarrierNewtonState(half_uniform(k, self.gamma), np.zeros((k, k)), 0.0, 0.0)

    def check_state(self, state: BarrierNewtonState) -> None:
        """Raise `CheckpointError` if no rounds of feedback can have led to this state."""
        check_curvature(state.curvature, "curvature")
        if state.cost < 0.0 or state.rounds < 0.0 or (state.rounds == 0.0 and (state.cost or state.curvature.any())):
            raise CheckpointError(
                f"The saved learner has seen a cost of {state.cost:.3g} in {state.rounds:.3g} rounds: it is damaged."
            )

    def step(self, state: BarrierNewtonState, evidence: Evidence) -> BarrierNewtonState:
        """Take one Newton step; a round without any loss moves nothing, but counts towards s and the window."""
        k = len(state.mixture)
        mixture, curvature = np.empty(k), np.empty((k, k))
        decay = 1.0 if self.window is None else 1.0 - 1.0 / self.window
        cost, rounds = barrier_newton(
            evidence.ratios,
            evidence.coefficients,
            state.mixture,
            state.curvature,
            state.cost,
            state.rounds,
            self.gamma,
            self.beta,
            40.0 / math.sqrt(k) if self.eps is None else self.eps,
            decay,
            mixture,
            curvature,
        )
        if not math.isfinite(cost):
            raise ValueError(
                f"The cost of this round, or its gradient, is not finite at {state.mixture}: an atom that was drawn "
                f"has next to no density there. Mix in the uniform law by varmix.components.with_uniform, or raise "
                f"gamma = {self.gamma:g}."
            )
        return BarrierNewtonState(mixture, curvature, cost, rounds)
