"""Neyman: the closed form for disjoint groups."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import AnyArray, FloatArray, IntArray, as_count, as_fraction, as_mixture, as_vector
from varmix.learners import _kernels as kernels
from varmix.learners._base import Learner, set_frozen

NO_PARENTS = np.empty(0, dtype=np.int64)
LARGEST_SQUARE = 1e250  # what the largest norm of feedback comes to, with room for the smallest density
LARGEST_SUM = 1e300


class NeymanState(NamedTuple):
    """The mixture, and per group the moving sums of squared norms and of draws."""

    mixture: FloatArray
    squares: FloatArray
    counts: FloatArray


class HasMasses(Protocol):
    """A family of disjoint groups that knows their masses; it may also know their `parents`."""

    @property
    def masses(self) -> FloatArray:
        """The part of the target that each group holds."""
        ...


@dataclass(frozen=True, eq=False)
class Neyman(Learner[NeymanState]):
    """Neyman allocation: group j gets `W_j sqrt(mean of l^2 in j)`, after `gamma` for the uniform component.

    For disjoint groups that is the best mixture, if the means are known.  Here they are moving averages over about
    `window` draws of each group, so groups that are rarely drawn are judged by few draws.  Groups not seen yet are
    taken to be average.  Rows count alike: give it draws, not `draw_all` under a target that varies inside groups.

    Small groups are judged late: one that looks quiet is drawn seldom, and what it hides is found out even later.  With
    `parents`, the larger groups that they are parts of, half of a share follows the mean of the parent, so that no part
    is drawn less than half as often as its parent asks for.

    Parameters
    ----------
    masses
        W, the part of the target that each group holds, or the groups themselves.
    gamma
        Share of the uniform component.
    window
        Draws of a group after which old ones are mostly forgotten.
    prior
        The mean squared norm that each group is taken to have at first, if something is known; it counts as `window`
        draws.
    parents
        For each group the larger one that it is a part of, by any labels; groups that are given for their masses say so
        themselves.

    Examples
    --------
    >>> learner = Neyman([0.5, 0.5])
    >>> learner.init(k=3).mixture.round(3).tolist()
    [0.45, 0.45, 0.1]
    >>> from varmix import Groups, vrm
    >>> groups = Groups([0, 1, 1, 1])
    >>> vrm(groups, learner=Neyman(groups)).mixture.round(3).tolist()
    [0.225, 0.675, 0.1]
    >>> Neyman([0.5, 0.5], prior=[9.0, 1.0]).init(k=3).mixture.round(3).tolist()
    [0.675, 0.225, 0.1]
    """

    masses: ArrayLike | HasMasses
    gamma: float = 0.1
    window: int = 200
    prior: ArrayLike | None = None
    parents: ArrayLike | None = None
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        family: Any = self.masses if hasattr(self.masses, "masses") and not isinstance(self.masses, type) else None
        masses = as_mixture(self.masses if family is None else family.masses, "masses")  # type: ignore[arg-type]
        object.__setattr__(self, "masses", masses)
        if self.parents is None and getattr(family, "parents", None) is not None:
            object.__setattr__(self, "parents", family.parents)
        set_frozen(self, gamma=as_fraction(self.gamma, "gamma"), window=as_count(self.window, "window", least=2))
        if self.prior is not None:
            prior = as_vector(self.prior, "prior", len(masses)).copy()
            if not (prior.min() >= 0.0 and prior.max() <= LARGEST_SQUARE):
                raise ValueError(
                    f"prior must be squared norms, from 0 to {LARGEST_SQUARE:g}, got {prior.min():.3g} to "
                    f"{prior.max():.3g}."
                )
            object.__setattr__(self, "prior", prior)
        if self.parents is not None:
            labels = np.asarray(self.parents)
            if labels.shape != masses.shape:
                raise ValueError(
                    f"parents must be one label for each of the {len(masses)} groups, got shape {labels.shape}."
                )
            object.__setattr__(self, "parents", _number_labels(labels))

    def init(self, k: int) -> NeymanState:
        """Start in proportion to the masses, or as the prior asks for."""
        masses = np.asarray(self.masses)
        if k != len(masses) + 1:
            raise ValueError(
                f"Neyman needs one mass per group: {len(masses)} masses fit {len(masses) + 1} components "
                f"(the last is uniform), got {k}."
            )
        even, nothing = np.append((1.0 - self.gamma) * masses, self.gamma), np.zeros(len(masses))
        if self.prior is None:
            return NeymanState(even, nothing, nothing.copy())
        counts = np.full(len(masses), float(self.window))
        return self._allocated(even, self.window * np.asarray(self.prior), counts)

    def check_state(self, state: NeymanState) -> None:
        """Raise `CheckpointError` if these cannot be moving sums over `window` draws of each group."""
        squares, counts = state.squares, state.counts
        if min(squares.min(), counts.min()) < 0.0 or counts.max() > self.window * (1.0 + 1e-9):
            raise CheckpointError(f"The saved sums of Neyman are negative, or of more than {self.window} draws.")
        if ((counts > 0.0) & (counts < 1.0)).any():  # a draw counts one, and what is forgotten makes room for it
            raise CheckpointError("The saved counts of Neyman have a group that was drawn, but less than once.")
        if squares[counts == 0.0].any() or squares.max() > LARGEST_SUM:
            raise CheckpointError("The saved sums of Neyman are too large, or of groups that were never drawn.")
        if abs(state.mixture[-1] - self.gamma) > 1e-9:
            raise CheckpointError(f"The saved mixture is {state.mixture[-1]:.3g} uniform, and gamma is {self.gamma:g}.")

    def step(self, state: NeymanState, evidence: Evidence) -> NeymanState:
        """Average the squared norms group by group, and allocate."""
        groups = evidence.groups
        if groups is None:
            groups = np.empty(len(evidence.norms), dtype=np.int64)
            kernels.group_of_rows(evidence.ratios, groups)
        squares, counts = state.squares.copy(), state.counts.copy()
        kernels.average_groups(groups, evidence.norms, 1.0 - 1.0 / self.window, squares, counts)
        return self._allocated(state.mixture, squares, counts)

    def _allocated(self, old: FloatArray, squares: FloatArray, counts: FloatArray) -> NeymanState:
        mixture = np.empty(len(old))
        parents = NO_PARENTS if self.parents is None else np.asarray(self.parents)
        kernels.neyman(squares, counts, np.asarray(self.masses), parents, old, self.gamma, mixture)
        return NeymanState(mixture, squares, counts)


def _number_labels(labels: AnyArray) -> IntArray:
    """Give labels as numbers from zero on; small ones are that already, and some may be missing."""
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < 8 * len(labels):
        return labels.astype(np.int64)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
