"""Groups: one component per class, cluster or data source."""

from collections import Counter
from collections.abc import Hashable
from copy import copy
from functools import partial
from typing import Literal, Self, final
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw, Rows
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, require_entries, restore_array
from varmix._core.validation import AnyArray, FloatArray, IntArray, State, as_atoms, as_fraction, same
from varmix.components import _groups_kernels as kernels
from varmix.components._base import Components, Family
from varmix.components._groups_cursors import Cursors
from varmix.components._groups_norm_split import NormSplit
from varmix.components._labels import choose_dtype, encode_labels


@final
class Groups(Family):
    """Component j draws the points labelled j: `p_j = (1 - smoothing) * (target inside j) + smoothing * target`.

    The uniform law, and so the smoothing and the uniform component, is a mixture of the groups by their masses W, the
    parts of the target that they hold.  So the lanes are always the groups.  Lane j serves the share
    `pi_j = (1 - smoothing) w_j + W_j (w_u + smoothing (1 - w_u))`, and the density of a point is `pi_j / W_j`.

    With `replacement=False` every group is visited in a shuffled order and reshuffled when it runs out: the reshuffled
    mixture, to be used with round-robin allocation (`varmix.vrm` chooses it) or shuffled.  With a fixed mixture it is
    unbiased over an epoch, as plain reshuffling is.  Round-robin slots are not so draw by draw: a batch may hold up to
    two points of a group too many or too few, made up for in the next.  While the mixture moves an epoch is not exact
    either: on small data a point whose norm moves the mixture is weighted too much in that epoch (docs/quickstart.md,
    "What the weights promise").

    With `resplit="norms"` every group is cut into three sub-groups (fewer where it has fewer points), and these are the
    components: half of the points, then three eighths, then one eighth.  `end_epoch` cuts anew, by the norms last seen
    of the points, which feedback brings: the smallest norms into the first, the largest into the last.  The sizes stay,
    and with them masses and ratios, so that what a learner knows of a sub-group keeps its meaning; points never leave
    the group of their label.  Cursors go on with the points that were still to come.  Receipts from before
    `end_epoch` keep their ratios, and feedback for them is about the sub-groups as they were.

    A point costs at most 12 bytes, 8 more for a target (16 where that varies inside groups), 4 more with resplit.

    Parameters
    ----------
    labels
        (n,) one label per point: integers, strings or booleans.
    smoothing
        Share of the target mixed into every component.
    replacement
        Whether a point may come again before its group is through.
    target
        (n,) law to be unbiased for, if not uniform.  Without replacement, and with resplit, it must be constant inside
        each group.
    resplit
        None, or "norms": sub-groups by the norms last seen, renewed by `end_epoch`.

    Attributes
    ----------
    labels
        The distinct labels, sorted; component j belongs to `labels[j]`.  With resplit, the label of every sub-group:
        each comes up to three times in a row, smallest norms first.
    masses
        The masses W of the groups, or of the sub-groups; they never change.

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
                f"Without replacement the groups themselves are drawn, so smoothing must be 0, got {smoothing}."
            )
        if resplit is not None and resplit != "norms":
            raise ValueError(f"resplit must be None or 'norms', got {resplit!r}.")
        self.resplit = resplit
        self.labels, self._codes = encode_labels(labels)
        self._build(target)

    @classmethod
    def numbered(cls, codes: AnyArray, counts: IntArray, *, replacement: bool = True) -> Self:
        """Give groups whose points are numbered already, 0 to k - 1, and counted: nothing is looked at again.

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
        self.space = Points(len(self._codes), target)
        self._mark = crc32(self._codes)  # type: ignore[arg-type]
        self._sort(counts)
        self._cumulative = self._running_sums()
        self._split = None if self.resplit is None else self._cut()
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
        """The label of every group; sub-groups by norms are numbered from the smallest norms to the largest."""
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
        """For every sub-group the group that it is a part of; None without resplit."""
        return None if self._split is None else self._split.groups.copy()

    @property
    def _target(self) -> FloatArray:
        """The target as kernels take it: empty when uniform."""
        return np.empty(0) if self.space.target is None else self.space.target

    def _sort(self, counts: IntArray | None = None) -> None:
        """Weigh the groups, unless their points are counted, and list the points with a target group by group."""
        if counts is None:
            counts, self.masses = np.zeros(len(self.labels), dtype=np.int64), np.zeros(len(self.labels))
            kernels.weigh_groups(self._codes, self._target, counts, self.masses)
        else:
            self.masses = counts / len(self._codes)
        self.masses.setflags(write=False)
        if counts.min() == 0:
            label = self.labels[np.argmin(counts)].item()
            raise ValueError(f"Group {label!r} is empty: its target is zero everywhere. Remove its points.")
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._members: AnyArray = np.empty(int(self._start[-1]), dtype=np.int32 if self.space.n < 2**31 else np.int64)
        kernels.sort_by_group(self._codes, self._target, self._start, self._members)

    def _running_sums(self) -> FloatArray | None:
        """Give the running sums of the target inside groups, or None where it is constant there."""
        uneven = kernels.first_uneven(self._target, self._start, self._members) if len(self._target) else -1
        if uneven < 0:
            return None
        if not self.replacement or self.resplit is not None:
            raise ValueError(
                f"{'With resplit' if self.replacement else 'Without replacement'} the target must be constant inside "
                f"each group; it is not in group {self.labels[uneven].item()!r}. Use "
                f"{'resplit=None' if self.replacement else 'replacement=True'}, or split the group."
            )
        cumulative = np.empty(len(self._members))
        kernels.accumulate_groups(self._target, self._start, self._members, cumulative)
        return cumulative

    def _cut(self) -> NormSplit:
        """Turn every group into its sub-groups, as they are before any norm was seen."""
        split = NormSplit(np.diff(self._start), self.space.n)
        self.labels = self.labels[split.groups]
        self._codes = split.first.astype(choose_dtype(len(self.labels)))[self._codes]
        split.split(self._members, self._codes)
        self._sort()
        return split

    def with_uniform(self) -> Components:
        """Give the family with the target as one more component, and no more lanes; what never changes is shared."""
        family = copy(self)
        family._has_uniform = True
        family.k = len(self.labels) + 1
        family._cursors = self._cursors.copy()
        if self._split is not None:
            family._split = self._split.copy()
            family._members, family._codes = self._members.copy(), self._codes.copy()
        return family

    def lanes(self, w: FloatArray) -> FloatArray:
        """Give the share of every group: its own weight, and its part of all that is spread uniformly."""
        if not self._has_uniform and not self.smoothing:
            return w
        shares = np.empty(len(self.masses))
        kernels.group_lanes(w, self.masses, self.smoothing, shares)
        return shares

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a point of the group of each lane; the lane says all about its ratios."""
        return self.draw_atoms(lanes, uniforms), self.rows(lanes)

    def draw_atoms(self, lanes: IntArray, uniforms: Uniforms) -> IntArray:
        """Draw a point of the group of each lane."""
        m = len(lanes)
        atoms = np.empty(m, np.int64)
        if not self.replacement:
            self._cursors.draw(self._members, lanes, uniforms, atoms)
        elif self._cumulative is None:
            kernels.draw_members(lanes, uniforms.take(m), self._start, self._members, atoms)
        else:
            kernels.draw_weighted(lanes, uniforms.take(m), self._start, self._members, self._cumulative, atoms)
        return atoms

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the rows of these atoms: they depend on the group alone."""
        return self.rows(self.groups_of(as_atoms(atoms, self.space.n)))

    def groups_of(self, points: IntArray) -> IntArray:
        """Return the group of each point, unchecked; with resplit the present sub-group."""
        return self._codes[points].astype(np.int64)

    @property
    def rows(self) -> Rows:
        """From groups to their rows of ratios: what never changes, so that a receipt may ask at any time."""
        return partial(_build_rows, self._inside, self.smoothing, self.k)

    @property
    def observes(self) -> bool:
        """Whether sub-groups are cut by the norms."""
        return self._split is not None

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """With resplit, remember the norms; else learn nothing."""
        if self._split is not None:
            self._split.observe(draw, norms)

    def end_epoch(self) -> None:
        """With resplit, cut the groups by the norms last seen; else do nothing.

        A sub-group that is drawn seldom is not through after an epoch.  It goes on with what was left, or its points
        would come as if with replacement, and reshuffling's advantage would be gone.
        """
        if self._split is not None:
            old = self._codes.copy()
            self._split.split(self._members, self._codes)
            kernels.sort_by_group(self._codes, self._target, self._start, self._members)
            self._cursors.restart(self._members, old, self._codes)

    def description(self) -> State:
        """Return what the groups are: their number and masses, smoothing, and a checksum of their members."""
        return super().state_dict() | {"smoothing": self.smoothing, "masses": self.masses.copy(), "mark": self._mark}

    def state_dict(self) -> State:
        """Return what the groups are, the cursors, and with resplit the norms last seen and the present sub-groups."""
        state = self.description()
        if not self.replacement:
            state |= self._cursors.state_dict()
        if self._split is not None:
            state |= self._split.state_dict(self._codes) | {"due": self._cursors.due(self.space.n)}
        return state

    def load_state_dict(self, state: State) -> None:
        """Check that these are the groups that were saved, and bring cursors and sub-groups to where they were."""
        require_entries(state, set(self.state_dict()), "Groups")
        self.check_shape(state)
        if not same(state["smoothing"], self.smoothing) or not same(state["masses"], self.masses):
            raise CheckpointError(
                "The saved groups have other masses or another smoothing: rebuild those that were saved."
            )
        if not same(state["mark"], self._mark):
            raise CheckpointError(
                "The saved groups have other members: give the labels that they had, in the same order."
            )
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
