"""OGD: online gradient descent, the appendix's alternative."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, as_fraction, as_positive
from varmix._kernels.simplex import clip_to_simplex, project_restricted
from varmix.learners._base import Learner, half_uniform, set_frozen

SIMPLEX_DIAMETER = 2**0.5


class OGDState(NamedTuple):
    """The mixture and the root of the sum of squared gradient norms."""

    mixture: FloatArray
    length: float


@dataclass(frozen=True)
class OGD(Learner[OGDState]):
    """Gradient steps projected onto the restricted simplex by Algorithm 3.

    Parameters
    ----------
    gamma
        Least share of the uniform component.
    step_size
        A fixed step, in units of one over the cost; None takes AdaGrad-norm steps
        `sqrt(2) / sqrt(sum of squared gradient norms)`, which are free of scales.

    Examples
    --------
    >>> learner = OGD()
    >>> evidence = Evidence(ratios=[[3.0, 0.0, 1.0]], coefficients=[2.0])
    >>> bool(learner.step(learner.init(k=3), evidence).mixture[0] > 0.25)
    True
    """

    gamma: float = 0.1
    step_size: float | None = None
    needs_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        set_frozen(self, gamma=as_fraction(self.gamma, "gamma"))
        if self.step_size is not None:
            set_frozen(self, step_size=as_positive(self.step_size, "step_size"))

    def init(self, k: int) -> OGDState:
        """Start with half of the mass on the uniform component."""
        return OGDState(half_uniform(k, self.gamma), 0.0)

    def check_state(self, state: OGDState) -> None:
        """Raise `CheckpointError` if the length of all gradients is negative."""
        if state.length < 0.0:
            raise CheckpointError(f"The saved length of the gradients is {state.length:.3g}: it cannot be negative.")

    def step(self, state: OGDState, evidence: Evidence) -> OGDState:
        """Take one projected gradient step; a round without any loss changes nothing.

        However long a fixed step is, it ends in the simplex: far enough, all mass is on the steepest components.
        """
        g = evidence.gradient(state.mixture)
        if not g.any():
            return state
        # By hypot, and kept as a root, so that losses of any size neither overflow nor vanish when squared.
        with np.errstate(all="ignore"):
            length = float(np.hypot(state.length, np.hypot.reduce(g)))
            # The sum is fixed, so only differences matter: from the steepest one they may be infinite, never undefined.
            move = SIMPLEX_DIAMETER * (g / length) if self.step_size is None else self.step_size * (g - g.min())
        if not math.isfinite(length):
            raise ValueError(
                f"The gradient of the cost is not finite at {state.mixture}: an atom that was drawn has next to no "
                f"density there. Mix in the uniform law by varmix.components.with_uniform, or raise gamma = "
                f"{self.gamma:g}."
            )
        mixture = np.empty(len(g))
        project_restricted(state.mixture - move, self.gamma, mixture)
        clip_to_simplex(mixture, self.gamma)
        return OGDState(mixture, length)
