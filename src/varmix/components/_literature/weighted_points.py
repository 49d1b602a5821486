"""WeightedPoints: base class of families with one law over points whose weights change with feedback."""

from abc import abstractmethod
from copy import copy, deepcopy

import numpy as np

from varmix._core.rng import Uniforms
from varmix._core.spaces import Points, refuse_window
from varmix._core.state import CheckpointError, require_entries
from varmix._core.validation import FloatArray, IntArray, State, as_atoms
from varmix.components._base import Family
from varmix.components._literature import kernels
from varmix.components._stack import Stack
from varmix.components._uniform import Uniform

MIN_TOTAL_WEIGHT, MAX_TOTAL_WEIGHT = 1e-290, 1e290  # so that ratios of weights neither overflow nor vanish


def as_points(space: Points | int, owner: str) -> Points:
    """Return `space` as `Points`; a number is the number of points."""
    refuse_window(space, owner)
    if isinstance(space, Points):
        return space
    if isinstance(space, (bool, np.bool_)) or not isinstance(space, (int, np.integer)):
        raise TypeError(f"{owner} needs a number of points or a Points, got {space!r}.")
    return Points(space)


class WeightedPoints(Family):
    """Base class for one component over points, with probabilities in proportion to target times score.

    Use it for a sampling law of your own whose scores change with feedback. Weights are kept in a sum tree: a draw and
    an update of a point each take time in proportion to log n.

    A subclass stores the scores in arrays of its own and returns mass times score in `_scores(atoms)`. The mass is n
    times the target. Call `_rebuild()` at the end of `__init__` and after changing all scores, and `_refresh(atoms)`
    after changing some. The scores determine the tree exactly, so it is not saved.

    Parameters
    ----------
    space : int or Points
        Number of points, or points with a target.

    Examples
    --------
    >>> class ByNumber(WeightedPoints):
    ...     def __init__(self, n):
    ...         super().__init__(n)
    ...         self._rebuild()
    ...     def _scores(self, atoms):
    ...         return 1.0 + atoms
    >>> ByNumber(3).ratios(np.array([0, 1, 2]))[:, 0].tolist()
    [0.5, 1.0, 1.5]
    """

    space: Points

    def __init__(self, space: Points | int) -> None:
        self.space = as_points(space, type(self).__name__)
        self.k = 1
        target = self.space.target
        self._masses: FloatArray = np.empty(0) if target is None else self.space.n * target
        self._tree: FloatArray = np.zeros(2 * self.space.n)

    @abstractmethod
    def _scores(self, atoms: IntArray) -> FloatArray:
        """Return mass times score of these points; the mass is n times the target."""

    def _refresh(self, atoms: IntArray) -> None:
        """Update the tree after the scores of these points changed."""
        kernels.set_leaves(self._tree, atoms, self._scores(atoms))

    def _rebuild(self) -> None:
        """Build the tree from all scores."""
        self._tree[self.space.n :] = self._scores(np.arange(self.space.n))
        kernels.build_tree(self._tree)

    def _take_over(self, **fields: object) -> None:
        """Set saved fields and build the tree; raise `CheckpointError` and change nothing if no draw is possible.

        Sums of finite scores may overflow, and then every weight would be nan.
        """
        other = copy(self)
        vars(other).update(fields)
        other._tree = np.zeros_like(self._tree)
        with np.errstate(all="ignore"):
            other._rebuild()
        leaves = other._tree[self.space.n :]
        if not (
            np.isfinite(other._tree).all()
            and leaves.min() >= 0.0
            and MIN_TOTAL_WEIGHT <= leaves.sum() <= MAX_TOTAL_WEIGHT
        ):
            raise CheckpointError(
                f"The saved {type(self).__name__} cannot be drawn from: its weights sum to {leaves.sum():.3g}."
            )
        vars(self).update(vars(other))

    @property
    def c(self) -> float:  # type: ignore[override]
        """Largest ratio at present; takes time in proportion to n."""
        return float(self.ratios(np.arange(self.space.n)).max())

    def with_uniform(self) -> Family:
        """Return a copy with the target as one more component, the last."""
        if len(self._masses):
            return Stack(deepcopy(self), Uniform(self.space))
        family = deepcopy(self)
        family.k = 2
        return family

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw by descent from the root of the tree; a lane beyond the first is uniform."""
        atoms = np.empty(len(lanes), dtype=np.int64)
        kernels.draw_tree(lanes, uniforms.take(len(lanes)), self._tree, atoms)
        return atoms, self._rows(atoms)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the present ratios of these points."""
        return self._rows(as_atoms(atoms, self.space.n))

    def _rows(self, atoms: IntArray) -> FloatArray:
        rows = np.empty((len(atoms), self.k))
        kernels.tree_rows(self._tree, self._masses, atoms, rows)
        return rows

    def _check_state(self, state: State) -> None:
        """Raise `CheckpointError` if the state has other entries or belongs to another kind of family."""
        require_entries(state, set(self.state_dict()), type(self).__name__)
        self.check_identity(state)
