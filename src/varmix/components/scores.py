"""Scores: one law in proportion to numbers that are at hand, without setting anything up."""

from copy import copy
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import FloatArray, IntArray, State, as_atoms, as_positive, as_real, require, same
from varmix.components.base import Components, Family
from varmix.kernels import rejection as kernels
from varmix.spaces import Points
from varmix.uniforms import Uniforms

LEAST = 0.1  # of the mean: what any score counts as


@final
class Scores(Family):
    """One component: points in proportion to scores, which count as a tenth to `cap` times their mean.

    Draws are by rejection: a uniform point is kept with the probability score / largest, so a draw takes some `cap`
    looks at scores, at most `10 cap`, and there is nothing to set up but two sums.  The scores are not copied, and must
    not change.  Where many draws follow, or scores have a long tail, use `Dense`, or `Groups` of similar scores.

    Parameters
    ----------
    scores
        (n,) non-negative numbers, such as distances or lengths, in any precision.
    cap
        The largest score, in units of the mean.

    Examples
    --------
    >>> family = Scores(np.array([1.0, 1.0, 4.0]), cap=9.0)
    >>> family.ratios(np.arange(3)).ravel().tolist()
    [0.5, 0.5, 2.0]
    """

    space: Points

    def __init__(self, scores: ArrayLike, *, cap: float = 5.0) -> None:
        values = as_real(scores, "scores")
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"scores must be one number per point, shape (n,) with n >= 1, got shape {values.shape}.")
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        cap = as_positive(cap, "cap")
        if cap < 1.0:
            raise ValueError(f"cap must be at least 1: no law is below its mean everywhere; got {cap}.")
        n = len(values)
        if not (values.min() >= 0.0 and values.max() < np.inf):
            raise ValueError("scores must be finite and not negative. Give lengths or distances, not signed numbers.")
        mean = kernels.total(values, 0.0, np.inf) / n
        self.space, self.k = Points(n), 1
        self._scores = values
        # Where all scores are zero every point counts alike.
        self._low, self._high = (LEAST * mean, cap * mean) if mean > 0.0 else (1.0, 1.0)
        self._mean = kernels.total(values, self._low, self._high) / n
        self.c = min(max(float(values.max()), self._low), self._high) / self._mean

    def anchored(self) -> Components:
        """Give the same law with the uniform one behind it; the scores are shared."""
        family = copy(self)
        family.k = 2
        return family

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw by rejection."""
        atoms = np.empty(len(lanes), dtype=np.int64)
        kernels.draw_kept(lanes, uniforms.take(2), self._scores, self._low, self._high, atoms)
        return atoms, self._rows(atoms)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give score over mean."""
        return self._rows(as_atoms(atoms, self.space.n))

    def _rows(self, atoms: IntArray) -> FloatArray:
        rows = np.empty((len(atoms), self.k))
        kernels.score_ratios(atoms, self._scores, self._low, self._high, self._mean, rows)
        return rows

    def state_dict(self) -> State:
        """Give what a checkpoint is compared with."""
        return super().state_dict() | {"low": self._low, "high": self._high, "mean": self._mean}

    def load_state_dict(self, state: State) -> None:
        """Check that these are the scores that were saved."""
        require(state, set(self.state_dict()), "Scores")
        self.check_shape(state)
        if not all(same(state[name], value) for name, value in self.state_dict().items()):
            raise ValueError("The saved scores are others, or were cut elsewhere: rebuild those that were saved.")
