"""Neyman: the best mixture for disjoint groups, in closed form."""

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
LARGEST_SQUARE = 1e250  # square of the largest norm allowed as feedback, with room for small densities
LARGEST_SUM = 1e300


class NeymanState(NamedTuple):
    """The mixture, and moving sums of squared norms and of draws per group."""

    mixture: FloatArray
    squares: FloatArray
    counts: FloatArray


class HasMasses(Protocol):
    """Family of disjoint groups with `masses`; it may also have `parents`."""

    @property
    def masses(self) -> FloatArray:
        """Part of the target that each group holds."""
        ...


@dataclass(frozen=True, eq=False)
class Neyman(Learner[NeymanState]):
    """Neyman allocation for disjoint groups: group j gets a share in proportion to `W_j sqrt(mean of l^2 in j)`.

    Use it instead of a general learner if the components are disjoint groups (`Groups`, `Sources`): the formula is the
    best mixture if the means are known, so there is no step size. Here the means are moving averages over about
    `window` draws of each group. A group without draws gets the average of the others. `gamma` goes to the uniform
    component.

    Rows of feedback count equally, so pass feedback about draws. Do not pass `draw_all` if the target varies inside
    groups.

    A small group that looks quiet is rarely drawn, so a change in it is noticed late. If small groups are parts of
    larger ones, name the larger ones in `parents`. Half of a share then follows the mean of the parent, so every part
    is drawn at least half as often as if all parts had the mean of their parent.

    Parameters
    ----------
    masses : array-like of shape (groups,) or family
        Part of the target that each group holds, or the family of groups itself.
    gamma : float, default 0.1
        Share of the uniform component.
    window : int, default 200
        Number of draws of a group, at least 2, after which old ones are mostly forgotten.
    prior : array-like of shape (groups,), optional
        Expected mean squared norm of each group. It counts as `window` draws. Default: None, which starts in proportion
        to the masses.
    parents : array-like of shape (groups,), optional
        Label of the larger group that each group is a part of. Default: `parents` of the family if one is passed and
        has them, otherwise None.

    Raises
    ------
    ValueError
        If masses, prior or parents do not fit each other, or are out of range.

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
                    f"parents must have one label for each of the {len(masses)} groups, got shape {labels.shape}."
                )
            object.__setattr__(self, "parents", _number_labels(labels))

    def init(self, k: int) -> NeymanState:
        """Return the first state: shares in proportion to the masses, or the shares that follow from the prior."""
        masses = np.asarray(self.masses)
        if k != len(masses) + 1:
            raise ValueError(
                f"Neyman needs one mass per group: {len(masses)} masses fit {len(masses) + 1} components "
                f"(the last is uniform), but there are {k}."
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
            raise CheckpointError(f"The saved sums of Neyman are negative, or cover more than {self.window} draws.")
        if ((counts > 0.0) & (counts < 1.0)).any():  # the latest draw counts as one and is not discounted
            raise CheckpointError(
                "The saved counts of Neyman have a group with a count between 0 and 1, which no draw can cause."
            )
        if squares[counts == 0.0].any() or squares.max() > LARGEST_SUM:
            raise CheckpointError("The saved sums of Neyman are too large, or belong to groups that were never drawn.")
        if abs(state.mixture[-1] - self.gamma) > 1e-9:
            raise CheckpointError(
                f"The saved mixture has a uniform share of {state.mixture[-1]:.3g}, but gamma is {self.gamma:g}."
            )

    def step(self, state: NeymanState, evidence: Evidence) -> NeymanState:
        """Return the state after adding the squared norms of each group."""
        groups = evidence.groups
        if groups is None:
            groups = np.empty(len(evidence.norms), dtype=np.int64)
            kernels.group_of_rows(evidence.ratios, groups)
        squares, counts = state.squares.copy(), state.counts.copy()
        kernels.average_groups(groups, evidence.norms, 1.0 - 1.0 / self.window, squares, counts)
        return self._allocated(state.mixture, squares, counts)

    def _allocated(self, old: FloatArray, squares: FloatArray, counts: FloatArray) -> NeymanState:
        """Return the state with these sums and the mixture that follows from them."""
        mixture = np.empty(len(old))
        parents = NO_PARENTS if self.parents is None else np.asarray(self.parents)
        kernels.neyman(squares, counts, np.asarray(self.masses), parents, old, self.gamma, mixture)
        return NeymanState(mixture, squares, counts)


def _number_labels(labels: AnyArray) -> IntArray:
    """Return labels as numbers from zero; small non-negative integers are kept, even with gaps."""
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < 8 * len(labels):
        return labels.astype(np.int64)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
