"""ONS: the paper's online Newton step, Algorithms 1 and 2."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, as_count, as_fraction, as_positive
from varmix.learners._base import Learner, check_curvature, make_even_mixture, set_frozen
from varmix.simplex import RestrictedSimplex

MAX_HESSIAN_ENTRY = 1e300  # so that products of H with mixtures stay finite


class ONSState(NamedTuple):
    """The mixture, H, its inverse (empty with the exact projection) and the number of rounds."""

    mixture: FloatArray
    hessian: FloatArray
    inverse: FloatArray
    rounds: int


@dataclass(frozen=True)
class ONS(Learner[ONSState]):
    """Online Newton step of the paper: Algorithm 1 if fed with `draw_all`, Algorithm 2 (VRM) if fed with draws.

    Use it to reproduce the paper or to have its regret bounds. Its settings depend on the scale of the losses: with the
    authors' settings, which are the defaults here, it can be many times worse than uniform sampling. `varmix.theory`
    computes the settings of the theorems. `BarrierNewton` needs no settings.

    With g for the gradient of the evidence at w_t, a round computes `H += g g'` (line 5) and `w' = w_t - H^-1 g / beta`
    (line 6), and projects w' onto the restricted simplex in the metric of H (line 7). Costs are in units of `f / n^2`,
    as everywhere in varmix.

    Parameters
    ----------
    gamma : float, default 0.01
        Smallest share of the uniform component. No importance weight exceeds `1 / gamma`.
    beta : float, default 10.0
        Inverse step size, in units of one over the cost.
    eps : float, default 0.1
        Diagonal of the first H, in units of the cost squared.
    projection : {"exact", "pgd"}, default "exact"
        How line 7 is computed. "exact" solves lines 6 and 7 as one quadratic program, which needs no inverse of H.
        "pgd" takes `steps` projected gradient steps with Algorithm 3 and updates the inverse by the Sherman-Morrison
        formula.
    steps : int, default 10
        Number of projected gradient steps. Only for "pgd".
    refactor : int, default 1000
        Number of rounds after which the inverse is computed from scratch, because errors of the formula add up. It is
        also recomputed as soon as these errors show. Only for "pgd".

    Raises
    ------
    ValueError
        If a setting is out of range, or `projection` is not known.

    Examples
    --------
    >>> state = ONS().init(k=4)
    >>> state.mixture
    array([0.25, 0.25, 0.25, 0.25])
    """

    gamma: float = 0.01
    beta: float = 10.0
    eps: float = 0.1
    projection: Literal["exact", "pgd"] = "exact"
    steps: int = 10
    refactor: int = 1000
    needs_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        set_frozen(self, gamma=as_fraction(self.gamma, "gamma"), beta=as_positive(self.beta, "beta"))
        set_frozen(self, eps=as_positive(self.eps, "eps"), steps=as_count(self.steps, "steps"))
        set_frozen(self, refactor=as_count(self.refactor, "refactor"))
        if not 1.0 / MAX_HESSIAN_ENTRY <= self.eps <= MAX_HESSIAN_ENTRY:
            raise ValueError(
                f"eps must lie in [{1.0 / MAX_HESSIAN_ENTRY:g}, {MAX_HESSIAN_ENTRY:g}], so that H has an inverse, got "
                f"{self.eps:g}."
            )
        if self.projection not in ("exact", "pgd"):
            raise ValueError(f"projection must be 'exact' or 'pgd', got {self.projection!r}.")

    def init(self, k: int) -> ONSState:
        """Return the first state: w_1 = 1/k (line 1) and H_0 = eps I (line 2)."""
        inverse = np.eye(k) / self.eps if self.projection == "pgd" else np.empty((0, 0))
        return ONSState(make_even_mixture(k, self.gamma), self.eps * np.eye(k), inverse, 0)

    def check_state(self, state: ONSState) -> None:
        """Raise `CheckpointError` if H is not eps I plus squared gradients, or the inverse belongs to another H."""
        check_curvature(state.hessian, "hessian", least=self.eps)
        check_curvature(state.inverse, "inverse")
        if state.rounds == 0 and not np.array_equal(state.hessian, self.eps * np.eye(len(state.mixture))):
            raise CheckpointError("The saved hessian differs from eps I before the first round: the state is damaged.")
        if len(state.inverse):
            with np.errstate(over="ignore", invalid="ignore"):
                product = state.hessian @ state.inverse @ state.hessian
            # The formula drifts, but never this far: the inverse is recomputed as soon as the drift shows.
            if not np.abs(product - state.hessian).max() <= 0.5 * np.abs(state.hessian).max():
                raise CheckpointError("The saved inverse does not belong to the saved hessian: the state is damaged.")

    def step(self, state: ONSState, evidence: Evidence) -> ONSState:
        """Return the state after lines 5, 6 and 7."""
        simplex = RestrictedSimplex(self.gamma)
        w = state.mixture
        g = evidence.gradient(w)
        with np.errstate(over="ignore", invalid="ignore"):
            H = state.hessian + np.outer(g, g)  # line 5
        if not np.abs(H).max() <= MAX_HESSIAN_ENTRY:  # also when it is not a number
            raise ValueError(
                f"The losses are too large for ONS: H holds squared gradients, and a gradient of {np.abs(g).max():.3g} "
                f"overflows there. Divide the losses by their scale, or use BarrierNewton, which works at any scale."
            )
        if self.projection == "exact":
            # Lines 6 and 7 in one: minimise (x - w')' H (x - w') with w' = w - H^-1 g / beta. It needs no inverse.
            with np.errstate(over="ignore"):
                slope = self._finite(g / self.beta)
            return ONSState(simplex.step(w, slope, H), H, state.inverse, state.rounds + 1)
        inverse = self._invert(state, g, H)
        with np.errstate(over="ignore", invalid="ignore"):
            target = w - inverse @ g / self.beta  # line 6
            slope = self._finite(H @ (w - target))
        mixture = simplex.pgd(w, slope, H, self.steps)  # line 7
        return ONSState(mixture, H, inverse, state.rounds + 1)

    def _finite(self, slope: FloatArray) -> FloatArray:
        """Return the slope, or raise ValueError if it is not finite."""
        if not np.isfinite(slope).all():
            raise ValueError(
                f"beta = {self.beta:g} is too small for these losses: a gradient divided by beta overflows. Raise "
                f"beta, or use BarrierNewton, which needs no settings."
            )
        return slope

    def _invert(self, state: ONSState, g: FloatArray, H: FloatArray) -> FloatArray:
        """Return the inverse of H by the Sherman-Morrison formula, or from scratch every `refactor` rounds."""
        updated = self._sherman_morrison(state.inverse, g)
        with np.errstate(all="ignore"):
            drift = np.abs(H @ (updated @ g) - g).max() / np.abs(g).max(initial=1e-300)
        if (state.rounds + 1) % self.refactor == 0 or not drift < 1e-6:
            # With huge losses eps I is lost to rounding and H is singular, hence the pseudo-inverse.
            return np.asarray(np.linalg.pinv(H, hermitian=True), dtype=np.float64)
        return updated

    @staticmethod
    def _sherman_morrison(inverse: FloatArray, g: FloatArray) -> FloatArray:
        """Return the inverse of H + g g', given the inverse of H."""
        with np.errstate(all="ignore"):
            column = inverse @ g
            return np.asarray(inverse - np.outer(column, column) / (1.0 + g @ column))
