"""Groups: one component per class, cluster or data source.

`Cursors` visits the points of every group in shuffled order, and `NormSplit` splits groups by norms.
"""

from collections import Counter
from collections.abc import Hashable
from copy import copy
from functools import partial
from typing import Literal, Self, final
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.allocation import Allocation
from varmix._core.draw import Draw, Rows
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, describe_value, require_entries, restore_array
from varmix._core.validation import AnyArray, FloatArray, IntArray, State, as_atoms, as_fraction, same
from varmix._kernels.cost import weigh_groups
from varmix.components import _groups_kernels as kernels
from varmix.components._base import Family, Sample
from varmix.components._labels import choose_dtype, encode_labels

LATEST_TURN = 2**62  # of a saved state, so that later turns still fit 64 bits

# Sizes of the sub-groups of a group as fractions, smallest norms first. Norms usually have a tail. Compared with
# thirds, a small last part costs almost nothing for light tails and gains much for heavy ones (docs/decisions/0006).
SUB_GROUP_FRACTIONS = (1 / 2, 3 / 8, 1 / 8)


@final
class Groups(Family):
    """One component per group: component j draws the points with label j.

    A uniform draw is a draw from group j with probability W_j, the mass of the group: its share of the points, or of
    the target. So the uniform component needs no lane of its own, and the lanes are always the groups. With a mixture
    w, whose last entry w_u is that of the uniform component, the share of the draws that come from group j is

        pi_j = (1 - smoothing) w_j + W_j (w_u + smoothing (1 - w_u)),

    and the density of its points is `pi_j / W_j`.

    With `replacement=False` every group is visited in shuffled order, and shuffled again when it is used up. This is
    what `Sampler(labels)` does. Like plain reshuffling it is unbiased over an epoch if the mixture is fixed. Otherwise
    it is approximately unbiased: "What the weights promise" in docs/quickstart.md has the figures.

    With `resplit="norms"` every group is split into three sub-groups, which become the components: half of its points,
    three eighths, and one eighth. (Groups of one or two points have one or two sub-groups.) `end_epoch` splits the
    groups again by the norms last seen, so that the sub-groups hold the smallest, middle and largest norms. Sizes,
    masses and ratios stay, so what a learner knows about a sub-group keeps its meaning.

    A point takes at most 12 bytes, 8 more for a target (16 if it varies inside groups), and 4 more with resplit.

    Parameters
    ----------
    labels : array-like of shape (n,)
        One label per point: integers, strings or booleans.
    smoothing : float, default 0.0
        Share of the target mixed into every component.
    replacement : bool, default True
        Whether a point may be drawn again before its group is used up.
    target : array-like of shape (n,), optional
        The distribution to be unbiased for. Without replacement, and with resplit, it must be constant inside each
        group. Default: uniform.
    resplit : None or "norms", default None
        Whether to split groups by the norms last seen.

    Attributes
    ----------
    labels : array of shape (k,)
        The distinct labels, sorted: component j belongs to `labels[j]`. With resplit, the label of every sub-group:
        each comes up to three times in a row, smallest norms first.
    masses : array of shape (k,)
        The masses W of the groups or sub-groups. They never change.

    Raises
    ------
    TypeError
        If labels are not integers, strings or booleans.
    ValueError
        If labels are not one per point, the target of a group is zero, or settings exclude each other.

    Examples
    --------
    >>> family = Groups(["cat", "dog", "dog", "dog"])
    >>> family.labels.tolist(), family.masses.tolist()
    (['cat', 'dog'], [0.25, 0.75])
    >>> family.ratios(np.array([0, 1])).round(3)
    array([[4.   , 0.   ],
           [0.   , 1.333]])
    >>> family = Groups(np.repeat(["cat", "dog"], [8, 24]), replacement=False, resplit="norms")
    >>> (family.masses * 32).tolist()
    [4.0, 3.0, 1.0, 12.0, 9.0, 3.0]
    """

    space: Points
    masses: FloatArray

    def __init__(
        self,
        labels: ArrayLike,
        *,
        smoothing: float = 0.0,
        replacement: bool = True,
        target: ArrayLike | None = None,
        resplit: Literal["norms"] | None = None,
    ) -> None:
        self.smoothing = as_fraction(smoothing, "smoothing", zero=True, one=False)
        if not isinstance(replacement, (bool, np.bool_)):
            raise TypeError(f"replacement must be True or False, got {replacement!r}.")
        self.replacement = bool(replacement)
        if not replacement and smoothing:
            raise ValueError(
                f"smoothing works with replacement=True only, got {smoothing} without replacement. Leave it out: the "
                f"uniform component does the same."
            )
        if resplit is not None and resplit != "norms":
            raise ValueError(f"resplit must be None or 'norms', got {resplit!r}.")
        self.resplit = resplit
        self.labels, self._codes = encode_labels(labels)
        self._build(target)

    @classmethod
    def numbered(cls, codes: AnyArray, counts: IntArray, *, replacement: bool = True) -> Self:
        """Build groups from points that are already numbered by group, without checking them again.

        Parameters
        ----------
        codes : unsigned integer array of shape (n,)
            The group of each point, 0 to k - 1.
        counts : integer array of shape (k,)
            Number of points in each group.
        replacement : bool, default True
            Whether a point may be drawn again before its group is used up.

        Returns
        -------
        Groups
            The groups, labelled 0 to k - 1.

        Examples
        --------
        >>> Groups.numbered(np.array([0, 1, 1], dtype=np.uint8), np.array([1, 2])).masses.round(3).tolist()
        [0.333, 0.667]
        """
        groups = cls.__new__(cls)
        groups.smoothing, groups.replacement, groups.resplit = 0.0, replacement, None
        groups.labels, groups._codes = np.arange(len(counts)), codes
        groups._build(None, counts)
        return groups

    def _build(self, target: ArrayLike | None, counts: IntArray | None = None) -> None:
        """Set up everything that follows from labels and settings. `counts`: points per group, if they are known."""
        self.space = Points(len(self._codes), target)
        self._checksum = crc32(self._codes)  # type: ignore[arg-type]
        self._list_members(counts)
        self._cumulative = self._accumulate_target()
        self._split = None if self.resplit is None else self._split_groups()
        # The ratio of component j inside group j; outside it is `smoothing`.
        self._inside = (1 - self.smoothing) / self.masses + self.smoothing
        self._has_uniform = False
        self.k = len(self.labels)
        self.c = float(self._inside.max())
        self._cursors = Cursors(self._start)

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the target."""
        return self._has_uniform

    @property
    def reshuffles(self) -> bool:
        """Whether every group is visited in a shuffled order."""
        return not self.replacement

    @property
    def names(self) -> list[Hashable]:
        """The label of every group. Sub-groups are numbered from the smallest norms to the largest."""
        labels: list[Hashable] = self.labels.tolist()
        if self._split is None:
            return labels
        counts, seen = Counter(labels), Counter[Hashable]()
        names: list[Hashable] = []
        for label in labels:
            seen[label] += 1
            names.append(label if counts[label] == 1 else f"{label}, norms {seen[label]}/{counts[label]}")
        return names

    @property
    def parents(self) -> IntArray | None:
        """The group that each sub-group is a part of; None without resplit."""
        return None if self._split is None else self._split.groups.copy()

    @property
    def _target(self) -> FloatArray:
        """The target as kernels take it: an empty array if it is uniform."""
        return np.empty(0) if self.space.target is None else self.space.target

    def _list_members(self, counts: IntArray | None = None) -> None:
        """Compute the masses of the groups, and list their points; raise `ValueError` for a group without any."""
        if counts is None:
            counts, self.masses = np.zeros(len(self.labels), dtype=np.int64), np.zeros(len(self.labels))
            kernels.sum_masses(self._codes, self._target, counts, self.masses)
        else:
            self.masses = counts / len(self._codes)
        self.masses.setflags(write=False)
        if counts.min() == 0:
            label = self.labels[np.argmin(counts)].item()
            raise ValueError(
                f"Group {label!r} has no points to draw: its target is zero everywhere. Remove its points."
            )
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._members: AnyArray = np.empty(int(self._start[-1]), dtype=np.int32 if self.space.n < 2**31 else np.int64)
        kernels.sort_by_group(self._codes, self._target, self._start, self._members)

    def _accumulate_target(self) -> FloatArray | None:
        """Return the cumulative sums of the target inside groups, or None if it is constant there.

        Raise `ValueError` for groups that need a constant target and have none.
        """
        uneven = kernels.first_uneven(self._target, self._start, self._members) if len(self._target) else -1
        if uneven < 0:
            return None
        if not self.replacement or self.resplit is not None:
            raise ValueError(
                f"Without replacement, and with resplit, the target must be constant inside each group; it is not in "
                f"group {self.labels[uneven].item()!r}. Use replacement=True and resplit=None, or split the group."
            )
        cumulative = np.empty(len(self._members))
        kernels.accumulate_groups(self._target, self._start, self._members, cumulative)
        return cumulative

    def _split_groups(self) -> "NormSplit":
        """Split every group into its sub-groups, before any norm was seen."""
        split = NormSplit(np.diff(self._start), self.space.n)
        self.labels = self.labels[split.groups]
        self._codes = split.first.astype(choose_dtype(len(self.labels)))[self._codes]
        split.split(self._members, self._codes)
        self._list_members()
        return split

    def with_uniform(self) -> Family:
        """Return the family with the target as one more component. It needs no lane of its own."""
        family = copy(self)
        family._has_uniform = True
        family.k = len(self.labels) + 1
        family._cursors = self._cursors.copy()
        if self._split is not None:  # end_epoch changes these in place
            family._split = self._split.copy()
            family._members, family._codes = self._members.copy(), self._codes.copy()
        return family

    def lanes(self, w: FloatArray) -> FloatArray:
        """Return the share of every group: its own weight, and its part of the uniform component and smoothing."""
        if not self._has_uniform and not self.smoothing:
            return w
        shares = np.empty(len(self.masses))
        kernels.group_lanes(w, self.masses, self.smoothing, shares)
        return shares

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a point of each slot's group, and compute its ratios, which depend on the group alone."""
        return self._draw_points(lanes, uniforms), self.group_rows(lanes)

    def sample(
        self,
        mixture: FloatArray,
        m: int,
        batches: int,
        allocation: Allocation,
        allocation_state: FloatArray,
        uniforms: Uniforms,
    ) -> Sample:
        """Draw one or several batches. Ratios follow from the groups, and are computed when they are first read."""
        shares = self.lanes(mixture)
        groups, allocation_state = allocation.assign_batches(allocation_state, shares, m, batches, uniforms)
        atoms = self._draw_points(groups, uniforms)
        density, weights = np.empty(len(groups)), np.empty(len(groups))
        weigh_groups(groups, shares, self.masses, density, weights)
        return atoms, self.group_rows, density, weights, groups, allocation_state

    def _draw_points(self, groups: IntArray, uniforms: Uniforms) -> IntArray:
        m = len(groups)
        points = np.empty(m, np.int64)
        if not self.replacement:
            self._cursors.draw(self._members, groups, uniforms, points)
        elif self._cumulative is None:
            kernels.draw_members(groups, uniforms.take(m), self._start, self._members, points)
        else:
            kernels.draw_weighted(groups, uniforms.take(m), self._start, self._members, self._cumulative, points)
        return points

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the ratios of these points: they depend on the group alone."""
        return self.group_rows(self.groups_of(as_atoms(atoms, self.space.n)))

    def groups_of(self, points: IntArray) -> IntArray:
        """Return the group of each point; with resplit, its present sub-group."""
        return self._codes[points].astype(np.int64)

    @property
    def group_rows(self) -> Rows:
        """Function from groups to their rows of ratios. It always returns the same rows, also after resplits."""
        return partial(_build_rows, self._inside, self.smoothing, self.k)

    @property
    def observes(self) -> bool:
        """Whether groups are split by the norms."""
        return self._split is not None

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Remember the norms, with resplit; otherwise do nothing."""
        if self._split is not None:
            self._split.observe(draw, norms)

    def end_epoch(self) -> None:
        """Split the groups by the norms last seen, with resplit; otherwise do nothing.

        A sub-group that is drawn rarely is not used up after an epoch. It continues with the points that are left, and
        with a random part of the points that have moved into it. Starting anew would draw points as if with
        replacement, and lose the advantage of reshuffling.
        """
        if self._split is not None:
            old = self._codes.copy()
            self._split.split(self._members, self._codes)
            # Members in ascending order again, as in a state that is loaded.
            kernels.sort_by_group(self._codes, self._target, self._start, self._members)
            self._cursors.restart(self._members, old, self._codes)

    def identity(self) -> State:
        """Return what identifies the groups: number, masses, smoothing and a checksum of their members.

        States are compared by it, and stacks recognise a family that is passed twice.

        Returns
        -------
        dict
            Numbers and arrays.
        """
        return super().state_dict() | {
            "smoothing": self.smoothing,
            "masses": self.masses.copy(),
            "mark": self._checksum,
        }

    def state_dict(self) -> State:
        """Return what identifies the groups, the cursors, and with resplit the norms and the present sub-groups."""
        state = self.identity()
        if not self.replacement:
            state |= self._cursors.state_dict()
        if self._split is not None:
            state |= self._split.state_dict(self._codes) | {"due": self._cursors.due(self.space.n)}
        return state

    def load_state_dict(self, state: State) -> None:
        """Check that the state is of the same groups, and load cursors and sub-groups."""
        require_entries(state, set(self.state_dict()), "Groups")
        self.check_identity(state)
        if not same(state["smoothing"], self.smoothing) or not same(state["masses"], self.masses):
            raise CheckpointError(
                "The saved groups have other masses or another smoothing: build them as they were when they were saved."
            )
        if not same(state["mark"], self._checksum):
            raise CheckpointError("The saved groups have other members: pass the same labels, in the same order.")
        due = None
        split, codes, members, cursors = self._split, self._codes, self._members, self._cursors
        if split is not None:
            split, codes = split.loaded(state, members, codes)
            due = restore_array(state["due"], np.empty(self.space.n, dtype=np.bool_), "due")
            members = np.empty_like(members)
            kernels.sort_by_group(codes, self._target, self._start, members)
        if not self.replacement:
            cursors = cursors.loaded(state, members, due)
        self._split, self._codes, self._members, self._cursors = split, codes, members, cursors


def _build_rows(inside: FloatArray, outside: float, k: int, groups: IntArray) -> FloatArray:
    rows = np.empty((len(groups), k))
    kernels.group_rows(groups, inside, outside, rows)
    return rows


class Cursors:
    """Draws without replacement: every point of a group once per turn, in an order determined by (seed, group, turn).

    A turn is one pass through the shuffled order of a group. The saved state is one seed, and a position and a turn per
    group, without a list of points. The first turn after a restart is shortened: it serves only the points that are
    due, those not served yet and some that have moved in. Its order also depends on these points.

    Parameters
    ----------
    start : array of shape (groups + 1,)
        Place of the first member of each group in the list of members, then the number of members.
    """

    def __init__(self, start: IntArray) -> None:
        groups = len(start) - 1
        self._start = start
        self._seed: int | None = None  # drawn at the first draw
        self._order: AnyArray | None = None
        self._position = np.zeros(groups, dtype=np.int64)
        self._turn = np.zeros(groups, dtype=np.int64)
        self._due = np.zeros(groups, dtype=np.int64)  # number of points in the shortened turn of each group

    def copy(self) -> "Cursors":
        """Return independent cursors at the same positions."""
        other = copy(self)
        other._position, other._turn, other._due = self._position.copy(), self._turn.copy(), self._due.copy()
        other._order = None if self._order is None else self._order.copy()
        return other

    def draw(self, members: AnyArray, lanes: IntArray, uniforms: Uniforms, atoms: IntArray) -> None:
        """Write the next point of each slot's group."""
        if self._seed is None:
            self._seed = uniforms.seed()
        if self._order is None:
            self._order = members.copy()
        kernels.draw_cursor(
            lanes,
            np.uint64(self._seed),
            self._start,
            members,
            self._order,
            self._position,
            self._turn,
            self._due,
            atoms,
        )

    def restart(self, members: AnyArray, old: AnyArray, new: AnyArray) -> None:
        """Start new turns after points moved from their `old` to their `new` sub-groups, whose sizes did not change.

        A sub-group continues with the points that it has not served yet. Each point from another sub-group joins them
        with a probability equal to the unserved share of its new one, so that it is served as often as the others
        (docs/decisions/0006).
        """
        if self._seed is None or self._order is None:  # nothing was drawn yet
            return
        marks, shares = np.zeros(len(new), dtype=np.bool_), np.empty(len(self._turn))
        kernels.mark_waiting(self._start, self._order, self._position, self._due, marks, shares)
        kernels.deal_in(np.uint64(self._seed), self._turn, old, new, shares, marks)
        self._position[:] = 0
        self._turn += 1
        kernels.due_first(self._start, members, marks, self._order, self._due)

    def due(self, n: int) -> AnyArray:
        """Return a mask that marks the points of shortened turns among n points."""
        marks = np.zeros(n, dtype=np.bool_)
        if self._order is not None:
            kernels.mark_due(self._start, self._order, self._due, marks)
        return marks

    def state_dict(self) -> State:
        """Return the seed, and a position and a turn per group."""
        return {"seed": self._seed, "position": self._position.copy(), "turn": self._turn.copy()}

    def loaded(self, state: State, members: AnyArray, marks: AnyArray | None = None) -> "Cursors":
        """Check a saved state and return cursors at its position. `marks` marks the points of shortened turns."""
        position = restore_array(state["position"], self._position, "position")
        turn = restore_array(state["turn"], self._turn, "turn")
        sizes = np.diff(self._start)
        if (position < 0).any() or (position > sizes).any() or (turn < 0).any() or (turn > LATEST_TURN).any():
            raise CheckpointError("The saved cursors lie outside their groups: the state belongs to other groups.")
        seed = state["seed"]
        if seed is None and (position.any() or turn.any()):
            raise CheckpointError("The saved cursors have moved, but their seed is missing: the state is damaged.")
        if seed is not None and not (type(seed) is int and 0 <= seed < 2**64):
            raise CheckpointError(
                f"The seed of the saved cursors must be 64 bits, got {describe_value(seed)}: the state is damaged."
            )
        other = copy(self)
        other._position, other._turn, other._seed, other._order = position, turn, seed, None
        other._due = np.zeros_like(self._due)
        if seed is not None:
            other._order = members.copy()
            if marks is not None:
                kernels.due_first(self._start, members, marks, other._order, other._due)
                if (position > np.where(other._due > 0, other._due, sizes)).any():
                    raise CheckpointError("The saved cursors lie beyond the points that are due: the state is damaged.")
            kernels.replay_cursors(np.uint64(seed), self._start, other._order, position, turn, other._due)
        return other


class NormSplit:
    """Latest norm of every point, and the split of every group by these norms.

    Every group has three sub-groups; groups of two points and of one point have that many. Sizes follow from the size
    of the group and never change; only the members do. Points without feedback get the median norm of their group,
    because only their label is known. A fixed pseudo-random order, which does not follow the order of the data, breaks
    ties. Before any feedback all points are tied (docs/decisions/0006).

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
        First sub-group of each group, then the total number of sub-groups.
    start : array of shape (sub-groups + 1,)
        Place of the first member of each sub-group in the list of members, then the number of members.

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
        self._seen = np.full(n, -1.0, dtype=np.float32)  # -1: no norm yet

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
        bits = self._seen.view(np.uint32)  # floats that are not negative sort like their bits
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
    parts = len(SUB_GROUP_FRACTIONS)
    ends = np.zeros((len(sizes), parts + 1), dtype=np.int64)
    for j, part in enumerate(np.cumsum(SUB_GROUP_FRACTIONS), start=1):
        most = np.maximum(sizes - (parts - j), 0)  # leave a point for each of the other parts
        ends[:, j] = np.clip(np.rint(part * sizes).astype(np.int64), ends[:, j - 1] + 1, most)
    ends[:, -1] = sizes
    return np.diff(ends, axis=1)
