"""Neyman: the closed form for disjoint groups."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import FloatArray, as_count, as_fraction, as_mixture
from varmix.evidence import Evidence
from varmix.learners.base import checked


class NeymanState(NamedTuple):
    """The mixture, and per group the moving sum of squared norms and of its weights."""

    mixture: FloatArray
    squares: FloatArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Neyman:
    """Neyman allocation: group j gets `W_j sqrt(mean of l^2 in j)`, after `gamma` for the uniform component.

    For disjoint groups that is the best mixture, if the means are known.  Here they are moving averages over about
    `window` draws of each group, so groups that are rarely drawn are judged by few draws.  Groups not seen yet are
    taken to be average.  Rows count alike: give it draws, not a census under a target that varies inside groups.

    Parameters
    ----------
    shares
        W, the share of each group in the target: `Groups.shares`.
    gamma
        Share of the uniform component.
    window
        Draws of a group after which old ones are mostly forgotten.

    Examples
    --------
    >>> learner = Neyman([0.5, 0.5])
    >>> learner.init(k=3).mixture.round(3).tolist()
    [0.45, 0.45, 0.1]
    """

    shares: ArrayLike
    gamma: float = 0.1
    window: int = 200
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", as_mixture(self.shares, "shares"))
        checked(self, gamma=as_fraction(self.gamma, "gamma"), window=as_count(self.window, "window", least=2))

    def init(self, k: int) -> NeymanState:
        """Start in proportion to the shares."""
        shares = np.asarray(self.shares)
        if k != len(shares) + 1:
            raise ValueError(
                f"Neyman needs one share per group: {len(shares)} shares fit {len(shares) + 1} components "
                f"(the last is uniform), got {k}."
            )
        nothing = np.zeros(len(shares))
        return NeymanState(self._mix(shares), nothing, nothing)

    def step(self, state: NeymanState, evidence: Evidence) -> NeymanState:
        """Average the squared norms group by group, and allocate."""
        groups = np.argmax(evidence.ratios[:, :-1], axis=1)
        squares, weights = state.squares.copy(), state.weights.copy()
        decay = 1.0 - 1.0 / self.window
        for group, square in zip(groups, evidence.norms**2, strict=True):
            squares[group] = decay * squares[group] + square
            weights[group] = decay * weights[group] + 1.0
        seen = weights > 0
        means = np.divide(squares, weights, out=np.zeros_like(squares), where=seen)
        shares = np.asarray(self.shares)
        means[~seen] = (shares * means)[seen].sum() / shares[seen].sum()
        total = shares * np.sqrt(means)
        mixture = self._mix(total / total.sum()) if total.sum() > 0 else state.mixture
        return NeymanState(mixture, squares, weights)

    def _mix(self, allocation: FloatArray) -> FloatArray:
        return np.append((1.0 - self.gamma) * allocation, self.gamma)
