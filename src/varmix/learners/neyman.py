"""Neyman: the closed form for disjoint groups."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import FloatArray, as_count, as_fraction, as_mixture
from varmix.evidence import Evidence
from varmix.kernels import learners as kernels
from varmix.learners.base import checked


class NeymanState(NamedTuple):
    """The mixture, and per group the moving sums of squared norms and of draws."""

    mixture: FloatArray
    squares: FloatArray
    counts: FloatArray


@runtime_checkable
class HasMasses(Protocol):
    """A family of disjoint groups that knows their masses."""

    @property
    def masses(self) -> FloatArray:
        """The part of the target that each group holds."""
        ...


@dataclass(frozen=True, eq=False)
class Neyman:
    """Neyman allocation: group j gets `W_j sqrt(mean of l^2 in j)`, after `gamma` for the uniform component.

    For disjoint groups that is the best mixture, if the means are known.  Here they are moving averages over about
    `window` draws of each group, so groups that are rarely drawn are judged by few draws.  Groups not seen yet are
    taken to be average.  Rows count alike: give it draws, not a census under a target that varies inside groups.

    Parameters
    ----------
    masses
        W, the part of the target that each group holds, or the groups themselves.
    gamma
        Share of the uniform component.
    window
        Draws of a group after which old ones are mostly forgotten.

    Examples
    --------
    >>> learner = Neyman([0.5, 0.5])
    >>> learner.init(k=3).mixture.round(3).tolist()
    [0.45, 0.45, 0.1]
    >>> from varmix import Groups, vrm
    >>> groups = Groups([0, 1, 1, 1])
    >>> vrm(groups, learner=Neyman(groups)).mixture.round(3).tolist()
    [0.225, 0.675, 0.1]
    """

    masses: ArrayLike | HasMasses
    gamma: float = 0.1
    window: int = 200
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        masses = self.masses.masses if isinstance(self.masses, HasMasses) else self.masses
        object.__setattr__(self, "masses", as_mixture(masses, "masses"))
        checked(self, gamma=as_fraction(self.gamma, "gamma"), window=as_count(self.window, "window", least=2))

    def init(self, k: int) -> NeymanState:
        """Start in proportion to the masses."""
        masses = np.asarray(self.masses)
        if k != len(masses) + 1:
            raise ValueError(
                f"Neyman needs one mass per group: {len(masses)} masses fit {len(masses) + 1} components "
                f"(the last is uniform), got {k}."
            )
        nothing = np.zeros(len(masses))
        return NeymanState(self._mix(masses), nothing, nothing)

    def step(self, state: NeymanState, evidence: Evidence) -> NeymanState:
        """Average the squared norms group by group, and allocate."""
        squares, counts = state.squares.copy(), state.counts.copy()
        mixture = np.empty(len(state.mixture))
        kernels.neyman(
            evidence.ratios,
            evidence.norms,
            np.asarray(self.masses),
            state.mixture,
            self.gamma,
            1.0 - 1.0 / self.window,
            squares,
            counts,
            mixture,
        )
        return NeymanState(mixture, squares, counts)

    def _mix(self, allocation: FloatArray) -> FloatArray:
        return np.append((1.0 - self.gamma) * allocation, self.gamma)
