"""NormSplit: the split of every group into sub-groups by the latest norms of its points."""

from copy import copy

import numpy as np

from varmix._core.draw import Draw
from varmix._core.state import CheckpointError, restore_array
from varmix._core.validation import AnyArray, FloatArray, IntArray, State
from varmix.components import _groups_kernels as kernels

# The parts of a group, smallest norms first. Norms usually have a tail. Compared with thirds, a small last part costs
# almost nothing for light tails and gains much for heavy ones (docs/decisions/0006).
PART_SHARES = (1 / 2, 3 / 8, 1 / 8)


class NormSplit:
    """Latest norm of every point, and the split of every group by these norms.

    A group with three points or more has three sub-groups, one with two points has two, one with one point has one.
    Sizes follow from the size of the group and never change; only the members do. Points without feedback get the
    median norm of their group, because only their label is known. A fixed pseudo-random order, which does not follow
    the order of the data, breaks ties. Before any feedback all points are tied (docs/decisions/0006).

    Parameters
    ----------
    sizes : array of shape (groups,)
        Sizes of the groups.
    n : int
        Number of points.

    Attributes
    ----------
    groups : array of shape (sub-groups,)
        Group of each sub-group.
    first : array of shape (groups + 1,)
        First sub-group of each group, then the number of sub-groups.
    start : array of shape (sub-groups + 1,)
        Start of each sub-group among the members, then their number.

    Examples
    --------
    >>> split = NormSplit(np.array([16, 2, 1]), 19)
    >>> np.diff(split.start).tolist(), split.groups.tolist()
    ([8, 6, 2, 1, 1, 1], [0, 0, 0, 1, 1, 2])
    """

    def __init__(self, sizes: IntArray, n: int) -> None:
        pieces = _split_sizes(sizes)
        occupied = pieces > 0
        self.groups: IntArray = np.nonzero(occupied)[0]
        self.first: IntArray = np.concatenate([[0], np.cumsum(occupied.sum(axis=1))])
        self.start: IntArray = np.concatenate([[0], np.cumsum(pieces[occupied])])
        self._seen = np.full(n, -1.0, dtype=np.float32)

    def copy(self) -> "NormSplit":
        """Return an independent copy."""
        other = copy(self)
        other._seen = self._seen.copy()
        return other

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Store the norms of the drawn points."""
        kernels.remember_norms(draw.indices, norms, self._seen)

    def split(self, members: AnyArray, codes: AnyArray) -> None:
        """Write the sub-group of every member to `codes`; `members` are reordered within their groups."""
        bits = self._seen.view(np.uint32)
        kernels.split_groups(self.first, self.start, self._seen, bits, members, codes)

    def state_dict(self, codes: AnyArray) -> State:
        """Return the latest norm and the sub-group of every point."""
        return {"seen": self._seen.copy(), "split": codes.copy()}

    def loaded(self, state: State, members: AnyArray, codes: AnyArray) -> tuple["NormSplit", AnyArray]:
        """Return a saved split and its codes, after checking that they split the same groups."""
        seen = restore_array(state["seen"], self._seen, "seen")
        if (np.signbit(seen) & (seen != -1.0)).any():
            raise CheckpointError("The saved norms must not be negative: the state is damaged.")
        split = restore_array(state["split"], codes, "split")
        within = split.max() < len(self.groups) and (self.groups[split] == self.groups[codes]).all()
        sizes = np.bincount(split[members], minlength=len(self.groups))
        if not within or not np.array_equal(sizes, np.diff(self.start)):
            raise CheckpointError("The saved split belongs to other groups. Rebuild the groups that were saved.")
        other = copy(self)
        other._seen = seen
        return other, split


def _split_sizes(sizes: IntArray) -> IntArray:
    """Return the sizes of the parts of groups of these sizes; zero if a group has too few points for a part."""
    parts = len(PART_SHARES)
    ends = np.zeros((len(sizes), parts + 1), dtype=np.int64)
    for j, part in enumerate(np.cumsum(PART_SHARES), start=1):
        most = np.maximum(sizes - (parts - j), 0)  # leave a point for each of the other parts
        ends[:, j] = np.clip(np.rint(part * sizes).astype(np.int64), ends[:, j - 1] + 1, most)
    ends[:, -1] = sizes
    return np.diff(ends, axis=1)
