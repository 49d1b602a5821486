"""ONS: the online Newton step of Algorithms 1 and 2, literally."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, as_count, as_fraction, as_positive
from varmix.learners._base import Learner, check_curvature, make_even_mixture, set_frozen
from varmix.simplex import RestrictedSimplex

MAX_HESSIAN_ENTRY = 1e300  # entry of H, so that products with mixtures stay finite


class ONSState(NamedTuple):
    """The mixture, H, its inverse (empty where the exact projection needs none) and the number of rounds."""

    mixture: FloatArray
    hessian: FloatArray
    inverse: FloatArray
    rounds: int


@dataclass(frozen=True)
class ONS(Learner[ONSState]):
    """The paper's learner.  Fed with `draw_all` it is Algorithm 1, with draws Algorithm 2 (VRM).

    Its settings depend on the scale of the losses: with the authors' (the defaults here) it can be many times
    worse than uniform sampling.  `varmix.theory` has those of the theorems; `BarrierNewton` needs none.
    In units of `f / n^2`, as everywhere in varmix.

    Parameters
    ----------
    gamma, beta, eps
        The parameters of the algorithm.
    projection
        "exact" solves line 7 as a quadratic program, which needs no inverse; "pgd" takes `steps` projected gradient
        steps with Algorithm 3, and keeps the inverse for line 6 by the Sherman-Morrison formula.
    steps
        Number of projected gradient steps.
    refactor
        The inverse is computed afresh every so many rounds, and when it has drifted, because the formula does.

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
                f"eps must lie in [{1.0 / MAX_HESSIAN_ENTRY:g}, {MAX_HESSIAN_ENTRY:g}], where H has an inverse, got "
                f"{self.eps:g}."
            )
        if self.projection not in ("exact", "pgd"):
            raise ValueError(f"projection must be 'exact' or 'pgd', got {self.projection!r}.")

    def init(self, k: int) -> ONSState:
        """Start at w_1 = 1/k (line 1) with H_0 = eps I (line 2)."""
        inverse = np.eye(k) / self.eps if self.projection == "pgd" else np.empty((0, 0))
        return ONSState(make_even_mixture(k, self.gamma), self.eps * np.eye(k), inverse, 0)

    def check_state(self, state: ONSState) -> None:
        """Raise `CheckpointError` if H is not eps I with squares of gradients added to it, or has another inverse."""
        check_curvature(state.hessian, "hessian", least=self.eps)
        check_curvature(state.inverse, "inverse")
        if state.rounds == 0 and not np.array_equal(state.hessian, self.eps * np.eye(len(state.mixture))):
            raise CheckpointError("The saved hessian has changed in no round: it is damaged.")
        if len(state.inverse):
            with np.errstate(over="ignore", invalid="ignore"):
                product = state.hessian @ state.inverse @ state.hessian
            # The formula drifts, and is refactored when that shows: only another matrix is this far off.
            if not np.abs(product - state.hessian).max() <= 0.5 * np.abs(state.hessian).max():
                raise CheckpointError("The saved inverse is not that of the saved hessian: it is damaged.")

    def step(self, state: ONSState, evidence: Evidence) -> ONSState:
        """Play lines 5, 6 and 7."""
        simplex = RestrictedSimplex(self.gamma)
        w = state.mixture
        g = evidence.gradient(w)
        with np.errstate(over="ignore", invalid="ignore"):
            H = state.hessian + np.outer(g, g)  # line 5
        if not np.abs(H).max() <= MAX_HESSIAN_ENTRY:  # also when it is not a number
            raise ValueError(
                f"The losses are too large for ONS, whose H holds squared gradients: one of {np.abs(g).max():.3g} "
                f"overflows. Divide the losses by their scale, or use BarrierNewton, which has none."
            )
        if self.projection == "exact":
            # Lines 6 and 7 as one program: (x - w')' H (x - w') with w' = w - H^-1 g / beta, without the inverse.
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
        if not np.isfinite(slope).all():
            raise ValueError(
                f"beta = {self.beta:g} is too small for these losses: a gradient over beta overflows. Raise beta, or "
                f"use BarrierNewton, which needs no settings."
            )
        return slope

    def _invert(self, state: ONSState, g: FloatArray, H: FloatArray) -> FloatArray:
        updated = self._sherman_morrison(state.inverse, g)
        with np.errstate(all="ignore"):
            drift = np.abs(H @ (updated @ g) - g).max() / np.abs(g).max(initial=1e-300)
        if (state.rounds + 1) % self.refactor == 0 or not drift < 1e-6:
            # The pseudo-inverse: beside huge losses eps I is lost to rounding and H is singular.
            return np.asarray(np.linalg.pinv(H, hermitian=True), dtype=np.float64)
        return updated

    @staticmethod
    def _sherman_morrison(inverse: FloatArray, g: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            column = inverse @ g
            return np.asarray(inverse - np.outer(column, column) / (1.0 + g @ column))
