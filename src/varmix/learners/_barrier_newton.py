"""BarrierNewton: the default learner, an online Newton step that works at any scale of the losses."""

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
    """The mixture, the tempered curvature R, and the sums of costs and of rounds, whose ratio is the mean cost s."""

    mixture: FloatArray
    curvature: FloatArray
    cost: float
    rounds: float


@dataclass(frozen=True)
class BarrierNewton(Learner[BarrierNewtonState]):
    """Newton steps on the mixture that work at any scale of the losses. The default learner of most samplers.

    Use it if nothing is known about the losses: the defaults need no tuning, and multiplying all losses by a constant
    changes nothing. Set `window` if losses shrink by orders of magnitude during training.

    With `g` and `f~` for the gradient and the value of the evidence at `w_t`, `s` for the running mean of `f~`, and
    `W = diag(w_t)`, a round computes, over the restricted simplex,

        R_t     = R_{t-1} + 2 W^(1/2) g g' W^(1/2) / f~      (the curvature of one sample, tempered)
        w_{t+1} = argmin <g, w> + 1/2 |w - w_t|^2  in the metric  beta W^(-1/2) R_t W^(-1/2) + eps s W^-1 B W^-1

    The last term is a barrier that keeps mixtures away from the border. B is the identity minus `(k - 2) / (k - 1)^2`
    in every entry of the block of the first k - 1 components: when these move together they count as one. Entries of W
    below 1e-3/k count as 1e-3/k. No weight above that loses more than half in one round.

    Deviation from the paper: this is not the algorithm of the paper's theorems, which is `ONS` with the settings of
    `varmix.theory`. The paper sums g g' itself, which never forgets the large curvature of a bad mixture; here old
    curvature fades as the mixture improves (docs/decisions/0002). No regret bound is proven; the regret was measured
    (docs/results/regret.md).

    Parameters
    ----------
    gamma : float, default 0.1
        Smallest share of the uniform component. No importance weight exceeds `1 / gamma`.
    beta : float, default 0.25
        Factor of the curvature. Larger values make smaller steps.
    eps : float, optional
        Factor of the barrier. Default: `40 / sqrt(k)`.
    window : int, optional
        Number of rounds, at least 2, after which R and s are mostly forgotten. It helps if gradients shrink by orders
        of magnitude, and makes rare large losses harder to learn. Default: None, which forgets nothing.

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
        """Return the first state: half of the mass on the uniform component, the rest spread evenly."""
        return BarrierNewtonState(half_uniform(k, self.gamma), np.zeros((k, k)), 0.0, 0.0)

    def check_state(self, state: BarrierNewtonState) -> None:
        """Raise `CheckpointError` if no feedback can lead to this state."""
        check_curvature(state.curvature, "curvature")
        if state.cost < 0.0 or state.rounds < 0.0 or (state.rounds == 0.0 and (state.cost or state.curvature.any())):
            raise CheckpointError(
                f"The saved learner has a cost of {state.cost:.3g} over {state.rounds:.3g} rounds, which is "
                f"impossible: the state is damaged."
            )

    def step(self, state: BarrierNewtonState, evidence: Evidence) -> BarrierNewtonState:
        """Return the state after one Newton step.

        If all losses are zero the mixture stays, but the round counts towards s and the window.
        """
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
                f"The cost of this round or its gradient is not finite at the mixture {state.mixture}: a drawn atom "
                f"has almost no density there. Add a uniform component with varmix.components.with_uniform, or "
                f"raise gamma = {self.gamma:g}."
            )
        return BarrierNewtonState(mixture, curvature, cost, rounds)
