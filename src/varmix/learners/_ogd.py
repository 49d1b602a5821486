"""OGD: online gradient descent on the mixture, from the paper's appendix."""

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
    """The mixture, and the square root of the sum of squared gradient norms."""

    mixture: FloatArray
    length: float


@dataclass(frozen=True)
class OGD(Learner[OGDState]):
    """Gradient steps on the mixture, projected onto the restricted simplex by Algorithm 3.

    A round takes time in proportion to m k for m rows and k components, and the state holds no matrix.

    Parameters
    ----------
    gamma : float, default 0.1
        Smallest share of the uniform component. No importance weight exceeds `1 / gamma`.
    step_size : float, optional
        Fixed step size, in units of one over the cost. Default: None, which takes AdaGrad-norm steps
        `sqrt(2) / sqrt(sum of squared gradient norms)`; these work at any scale of the losses.

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
        """Return the first state: half of the mass on the uniform component, the rest spread evenly."""
        return OGDState(half_uniform(k, self.gamma), 0.0)

    def check_state(self, state: OGDState) -> None:
        """Raise `CheckpointError` if the length of the gradients is negative."""
        if state.length < 0.0:
            raise CheckpointError(f"The saved length of the gradients must not be negative, got {state.length:.3g}.")

    def step(self, state: OGDState, evidence: Evidence) -> OGDState:
        """Return the state after one projected gradient step.

        If all losses are zero nothing changes. A very long step ends with all free mass on the components with the
        steepest gradient.
        """
        g = evidence.gradient(state.mixture)
        if not g.any():
            return state
        # hypot and a stored root avoid overflow and underflow of squares.
        with np.errstate(all="ignore"):
            length = float(np.hypot(state.length, np.hypot.reduce(g)))
            # The sum of w is fixed, so only differences matter. Differences to the least entry may be infinite, but not
            # nan.
            move = SIMPLEX_DIAMETER * (g / length) if self.step_size is None else self.step_size * (g - g.min())
        if not math.isfinite(length):
            raise ValueError(
                f"The gradient of the cost is not finite at the mixture {state.mixture}: a drawn atom has almost no "
                f"density there. Add a uniform component with varmix.components.with_uniform, or raise gamma = "
                f"{self.gamma:g}."
            )
        mixture = np.empty(len(g))
        project_restricted(state.mixture - move, self.gamma, mixture)
        clip_to_simplex(mixture, self.gamma)
        return OGDState(mixture, length)
