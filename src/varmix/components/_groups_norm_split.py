"""Resplit groups: every group in parts, cut by the norms last seen of its points."""

from copy import copy

import numpy as np

from varmix._core.draw import Draw
from varmix._core.state import CheckpointError, restore_array
from varmix._core.validation import AnyArray, FloatArray, IntArray, State
from varmix.components import _groups_kernels as kernels

# The parts of a group, smallest norms first.  Norms usually have a tail: beside thirds, a small last part costs light
# tails next to nothing (second moment 0.71 and 0.70 of uniform's for half-normal norms) and catches heavy ones (0.15
# and 0.34 for lognormal norms of deviation 2).
PART_SHARES = (1 / 2, 3 / 8, 1 / 8)


class NormSplit:
    """The norm last seen of every point, and the cut of every group by them.

    A group of three points or more has three sub-groups, one of two has two, one of one has one.  Their sizes follow
    from that of the group and never change; only who belongs to them does.  Points not seen yet rank with the median
    of their group: all that is known of them is their label.  Equal norms are ranked by chance, the same every time,
    and never by the order of the file; before anything is seen, all are equal.

    Parameters
    ----------
    sizes
        The sizes of the groups.
    n
        The number of points.

    Attributes
    ----------
    groups
        The group that each sub-group is a part of.
    first
        The first sub-group of each group, and behind them the number of sub-groups.
    start
        The place of each sub-group among the members, which are listed one sub-group behind the other, and their end.

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
        """Give one that remembers on its own."""
        other = copy(self)
        other._seen = self._seen.copy()
        return other

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Remember the norms of the points that were drawn."""
        kernels.remember_norms(draw.indices, norms, self._seen)

    def split(self, members: AnyArray, codes: AnyArray) -> None:
        """Write the sub-group of every member into `codes`; `members` are reordered inside their groups."""
        bits = self._seen.view(np.uint32)
        kernels.split_groups(self.first, self.start, self._seen, bits, members, codes)

    def state_dict(self, codes: AnyArray) -> State:
        """Give the norms last seen, and who belongs to which sub-group."""
        return {"seen": self._seen.copy(), "split": codes.copy()}

    def loaded(self, state: State, members: AnyArray, codes: AnyArray) -> tuple["NormSplit", AnyArray]:
        """Give what was saved, after checking that it splits the groups that `members` and `codes` are a split of."""
        seen = restore_array(state["seen"], self._seen, "seen")
        if (np.signbit(seen) & (seen != -1.0)).any():
            raise CheckpointError("The norms last seen that were saved must not be negative: the state is damaged.")
        split = restore_array(state["split"], codes, "split")
        within = split.max() < len(self.groups) and (self.groups[split] == self.groups[codes]).all()
        sizes = np.bincount(split[members], minlength=len(self.groups))
        if not within or not np.array_equal(sizes, np.diff(self.start)):
            raise CheckpointError("The saved split is not one of these groups: rebuild those that were saved.")
        other = copy(self)
        other._seen = seen
        return other, split


def _split_sizes(sizes: IntArray) -> IntArray:
    """Give the sizes of the parts of groups of these sizes: nothing where a group has not a point for each."""
    parts = len(PART_SHARES)
    ends = np.zeros((len(sizes), parts + 1), dtype=np.int64)
    for j, part in enumerate(np.cumsum(PART_SHARES), start=1):
        most = np.maximum(sizes - (parts - j), 0)  # a point is left for each of the others
        ends[:, j] = np.clip(np.rint(part * sizes).astype(np.int64), ends[:, j - 1] + 1, most)
    ends[:, -1] = sizes
    return np.diff(ends, axis=1)
