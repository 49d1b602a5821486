"""Cumulative: points by the root of the squared norms seen so far, the law of VRB."""

import math
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, read_array, read_count, read_number
from varmix._core.validation import FloatArray, IntArray, State, as_positive, as_vector, same
from varmix.components._literature import kernels
from varmix.components._literature.weighted_points import WeightedPoints

MAX_SQUARE_SUM = 1e300


@final
class Cumulative(WeightedPoints):
    """Points by the root of their cumulative squared norms: the law of VRB, Borsos, Levy and Krause (2018).

        p(i) proportional to sqrt( S_i + gamma ),     S_i = sum over the draws of i of l^2 / d

    Without gamma this is the best fixed law in hindsight, as estimated from the draws. gamma keeps the law close to
    uniform while little is known. Mix the law with the uniform distribution, which keeps the density `d` away from
    zero: `varmix.literature.vrb` does so.

    Deviations from the paper:

    * Every row of a batch is a round, so a point that was drawn twice counts twice. `d` is the density at draw time, so
      feedback may come late.
    * The paper divides by probabilities, varmix by densities, so the paper's sums and its gamma are n times ours. Its
      `n L / theta` is `L / theta` here, where L bounds the squared norms.
    * The default gamma is an unbiased estimate of the mean squared norm so far, as if every point had been drawn once
      with an average norm. It needs no bound, works at any scale of the norms, and learns within a few epochs where
      `L / theta` takes tens of epochs. It changes only when the mean has changed by a factor of two; then the tree is
      built again.

    Under a target the scores are sqrt( S_i / (n target_i) + gamma ) and the law is target times score.

    Parameters
    ----------
    space : int or Points
        Number of points, or points with a target.
    gamma : float or array-like of shape (n,), optional
        Positive number added to every sum, in units of squared norms, or one number per point. Default: None, the mean
        of the squared norms so far.

    Raises
    ------
    ValueError
        If gamma is not above zero for every point.

    Examples
    --------
    >>> from varmix.literature import vrb
    >>> sampler = vrb(4, gamma=1.0, theta=0.2, rng=0)
    >>> draw = sampler.draw(1)
    >>> sampler.update(draw, [math.sqrt(3.0)])
    >>> sampler.components.ratios(draw.indices)[0, 0].round(6) == round(4 * 2 / (2 + 3 * 1), 6)
    np.True_
    """

    def __init__(self, space: Points | int, *, gamma: float | ArrayLike | None = None) -> None:
        super().__init__(space)
        n = self.space.n
        self._squares = np.zeros(n)
        self._given = gamma is not None
        self._gamma: FloatArray = np.empty(0)
        self._level = 1.0  # gamma of all points; while all sums are zero, any positive number makes the same law
        if gamma is not None and np.ndim(gamma) == 0:
            self._level = as_positive(gamma, "gamma")  # type: ignore[arg-type]
        elif gamma is not None:
            self._gamma = np.array(as_vector(gamma, "gamma", n))
            if self._gamma.min() <= 0:
                raise ValueError(
                    f"gamma must be above zero for every point, because other points would never be drawn; point "
                    f"{int(self._gamma.argmin())} has {self._gamma.min():.3g}."
                )
        self._total, self._count = 0.0, 0  # sum of l^2 / d, number of rows
        self._rebuild()

    @property
    def gamma(self) -> float | FloatArray:
        """Present gamma: one number, or an array with one number per point."""
        return self._gamma.copy() if len(self._gamma) else self._level

    def _scores(self, atoms: IntArray) -> FloatArray:
        scores = np.empty(len(atoms))
        kernels.root_scores(self._squares, self._gamma, self._level, self._masses, atoms, scores)
        return scores

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Add the squared norms over their densities to the sums of the drawn points."""
        atoms = draw.indices
        first = self._total == 0.0
        self._total += kernels.add_squares(self._squares, atoms, norms, draw.density, self._masses)
        self._count += len(atoms)
        mean = self._total / self._count
        if not self._given and mean > 0.0 and (first or not 0.5 <= mean / self._level <= 2.0):
            self._level = mean
            self._rebuild()
        else:
            self._refresh(atoms)

    def state_dict(self) -> State:
        """Return the sums and the settings of gamma."""
        own = {"squares": self._squares.copy(), "gamma": self._gamma.copy(), "level": self._level}
        return super().state_dict() | own | {"given": self._given, "total": self._total, "count": self._count}

    def load_state_dict(self, state: State) -> None:
        """Check the saved sums, and build the tree from them."""
        self._check_state(state)
        given = {"given": self._given, "gamma": self._gamma} | ({"level": self._level} if self._given else {})
        if not same({name: state[name] for name in given}, given):
            raise CheckpointError(
                "The saved Cumulative has another gamma: build this one with the gamma that was saved."
            )
        squares = read_array(state, "squares", np.float64, self._squares.shape, least=0.0, most=MAX_SQUARE_SUM)
        count = read_count(state, "count")
        level, total = (
            read_number(state, "level", least=1 / MAX_SQUARE_SUM, most=MAX_SQUARE_SUM),
            read_number(state, "total"),
        )
        added = float(squares.sum() if not len(self._masses) else squares @ self._masses)
        if not math.isclose(added, total, rel_tol=1e-6) or (count == 0 and total > 0.0):
            raise CheckpointError(
                f"The saved squared norms of {count} rows add up to {added:.6g}, but their saved sum is {total:.6g}: "
                f"the state is damaged."
            )
        if not self._given and not (level == 1.0 if total == 0.0 else 0.49 <= total / count / level <= 2.01):
            raise CheckpointError(f"The saved level {level:.3g} does not fit the saved norms: the state is damaged.")
        self._take_over(_squares=squares, _level=level, _total=total, _count=count)
