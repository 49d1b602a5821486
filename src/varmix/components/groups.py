"""Groups: one component per class, cluster or data source."""

from copy import copy
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import (
    AnyArray,
    FloatArray,
    IntArray,
    State,
    as_array,
    as_atoms,
    as_fraction,
    first,
    require,
    restored,
    same,
)
from varmix.components.base import Components, Family
from varmix.kernels import groups as kernels
from varmix.spaces import Points
from varmix.uniforms import Uniforms


@final
class Groups(Family):
    """Component j draws the points labelled j: `p_j = (1 - smoothing) * (target inside j) + smoothing * target`.

    The uniform law, and so the smoothing and the anchor, is a mixture of the groups by their sizes.  So the lanes
    are always the groups: lane j serves `pi_j = (1 - smoothing) w_j + W_j (w_u + smoothing (1 - w_u))`, where W_j
    is the share of group j in the target, and the density of a point is `pi_j / W_j`.

    With `replacement=False` every group is visited in a shuffled order and reshuffled when it runs out: the
    reshuffled mixture, to be used with carried allocation (`varmix.vrm` chooses it).  It is unbiased over a pass,
    as plain reshuffling is, not draw by draw.

    Parameters
    ----------
    labels
        (n,) one label per point: integers, strings or booleans.
    smoothing
        Share of the target mixed into every component.
    replacement
        Whether a point may come again before its group is through.
    target
        (n,) law to be unbiased for, if not uniform.  Without replacement it must be constant inside each group.

    Attributes
    ----------
    labels
        The distinct labels, sorted; component j belongs to `labels[j]`.
    shares
        The shares W of the groups in the target.

    Examples
    --------
    >>> family = Groups(["cat", "dog", "dog", "dog"])
    >>> family.labels.tolist(), family.shares.tolist()
    (['cat', 'dog'], [0.25, 0.75])
    >>> family.ratios(np.array([0, 1])).round(3)
    array([[4.   , 0.   ],
           [0.   , 1.333]])
    """

    space: Points

    def __init__(
        self,
        labels: ArrayLike,
        *,
        smoothing: float = 0.0,
        replacement: bool = True,
        target: ArrayLike | None = None,
    ) -> None:
        self.smoothing = as_fraction(smoothing, "smoothing", zero=True, one=False)
        if not isinstance(replacement, (bool, np.bool_)):
            raise TypeError(f"replacement must be True or False, got {replacement!r}.")
        self.replacement = bool(replacement)
        if not replacement and smoothing:
            raise ValueError(
                f"Without replacement the groups themselves are drawn, so smoothing must be 0, got {smoothing}."
            )
        self.labels, self._codes = _encode(labels)
        self.space = Points(len(self._codes), target)
        self._sort()
        if not replacement:
            self._check_constant_target()
        self._inside = (1 - self.smoothing) / self.shares + self.smoothing
        self._anchored = False
        self.k = len(self.labels)
        self.c = float(self._inside.max())
        self._seed: int | None = None
        if not replacement:
            self._order: AnyArray = self._members.copy()
            self._position = np.zeros(self.k, dtype=np.int64)
            self._turn = np.zeros(self.k, dtype=np.int64)

    def _sort(self) -> None:
        n, groups, target = len(self._codes), len(self.labels), self.space.target
        drawable = self._codes if target is None else self._codes[target > 0]
        counts = np.bincount(drawable, minlength=groups)
        if counts.min() == 0:
            label = self.labels[int(np.argmin(counts))]
            raise ValueError(f"Group {label!r} is empty: its target is zero everywhere. Remove its points.")
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._members: AnyArray = np.empty(int(self._start[-1]), dtype=np.int32 if n < 2**31 else np.int64)
        self._cumulative: FloatArray | None = None
        if target is None:
            kernels.sort_by_group(self._codes, self._start, self._members)
            self.shares: FloatArray = counts.astype(np.float64) / n
            return
        kernels.sort_by_group(drawable, self._start, self._members)
        self._members = np.flatnonzero(target > 0).astype(self._members.dtype)[self._members]
        self.shares = np.asarray(np.bincount(self._codes, weights=target, minlength=groups), dtype=np.float64)
        self._cumulative = np.empty(len(self._members))
        kernels.accumulate_groups(target, self._start, self._members, self._cumulative)

    def _check_constant_target(self) -> None:
        target = self.space.target
        if target is None:
            return
        expected = (self.shares / np.diff(self._start))[self._codes]
        off = np.abs(target - expected) > 1e-9 * expected
        if off.any():
            raise ValueError(
                f"Without replacement the target must be constant inside each group; it is not in group "
                f"{self.labels[self._codes[first(off)]]!r}. Use replacement=True, or split the group."
            )

    def anchored(self) -> Components:
        """Give the family with the target as one more component, and no more lanes; the tables are shared."""
        family = copy(self)
        family._anchored = True
        family.k = len(self.labels) + 1
        family.c = max(self.c, 1.0)
        if not self.replacement:
            family._order, family._position = self._order.copy(), self._position.copy()
            family._turn = self._turn.copy()
        return family

    def lanes(self, w: FloatArray) -> FloatArray:
        """Give the share of every group: its own weight, and its part of all that is spread uniformly."""
        if not self._anchored and not self.smoothing:
            return w
        shares = np.empty(len(self.shares))
        kernels.group_lanes(w, self.shares, self.smoothing, shares)
        return shares

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a point of the group of each lane; the lane says all about its ratios."""
        m = len(lanes)
        atoms, rows = np.empty(m, np.int64), np.empty((m, self.k))
        if not self.replacement:
            if self._seed is None:
                self._seed = uniforms.seed()
            seed = np.uint64(self._seed)
            kernels.draw_cursor(lanes, seed, self._start, self._members, self._order, self._position, self._turn, atoms)
        elif self._cumulative is None:
            kernels.draw_members(lanes, uniforms.take(m), self._start, self._members, atoms)
        else:
            kernels.draw_weighted(lanes, uniforms.take(m), self._start, self._members, self._cumulative, atoms)
        kernels.group_rows(lanes, self._inside, self.smoothing, rows)
        return atoms, rows

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the rows of these atoms: they depend on the group alone."""
        groups = self._codes[as_atoms(atoms, self.space.n)].astype(np.int64)
        rows = np.empty((len(groups), self.k))
        kernels.group_rows(groups, self._inside, self.smoothing, rows)
        return rows

    def state_dict(self) -> State:
        """Give what the groups are, and the cursors: a seed, and a position and a round per group."""
        state = super().state_dict() | {"smoothing": self.smoothing, "shares": self.shares.copy()}
        if not self.replacement:
            state |= {"seed": self._seed, "position": self._position.copy(), "turn": self._turn.copy()}
        return state

    def load_state_dict(self, state: State) -> None:
        """Check the shape, and bring the cursors to where they were."""
        require(state, set(self.state_dict()), "Groups")
        self.check_shape(state)
        if not same(state["smoothing"], self.smoothing) or not same(state["shares"], self.shares):
            raise ValueError(
                "The saved groups have other shares or another smoothing: rebuild the groups that were saved."
            )
        if self.replacement:
            return
        position = restored(state["position"], self._position, "position")
        turn = restored(state["turn"], self._turn, "turn")
        if (position < 0).any() or (position > np.diff(self._start)).any() or (turn < 0).any():
            raise ValueError("The saved cursors lie outside their groups: these are not the groups that were saved.")
        seed = state["seed"]
        if seed is None and (position.any() or turn.any()):
            raise ValueError("The saved cursors have moved, but their seed is missing: the state is damaged.")
        if seed is not None and not (type(seed) is int and 0 <= seed < 2**64):
            raise ValueError(f"The seed of the saved cursors must be 64 bits, got {seed!r}: the state is damaged.")
        self._position, self._turn, self._seed = position, turn, seed
        kernels.replay_cursors(np.uint64(seed or 0), self._start, self._members, self._order, position, turn)


def _encode(labels: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Give the distinct labels and the position of each point's label among them, in the smallest dtype."""
    values = as_array(labels, "labels")
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"labels must be one per point, shape (n,) with n >= 1, got shape {values.shape}.")
    if values.dtype.kind not in "iubUS":
        if values.dtype.kind != "O" or not all(isinstance(value, str) for value in values):
            raise TypeError(
                f"labels must be integers, booleans or strings, got dtype {values.dtype}. "
                f"Bin numbers first, for example with numpy.digitize."
            )
        values = values.astype(str)
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low < max(1024, len(values)):  # a table of what occurs is smaller than a sort
            return _encode_integers(values, low, high)
    distinct, inverse = np.unique(values, return_inverse=True)
    return distinct, inverse.astype(_smallest(len(distinct)))


def _encode_integers(values: AnyArray, low: int, high: int) -> tuple[AnyArray, AnyArray]:
    wide = np.dtype(np.uint64 if values.dtype.kind == "u" else np.int64)
    occurs = np.zeros(high - low + 1, dtype=bool)
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(values), _BLOCK)]
    for block in blocks:
        occurs[values[block].astype(wide) - wide.type(low)] = True
    distinct = np.flatnonzero(occurs)
    rank = (np.cumsum(occurs) - 1).astype(_smallest(len(distinct)))
    codes = np.empty(len(values), dtype=rank.dtype)
    for block in blocks:
        codes[block] = rank[values[block].astype(wide) - wide.type(low)]
    return distinct.astype(wide) + wide.type(low), codes


_BLOCK = 1 << 20  # points encoded at a time, so that a hundred million of them need no large temporary arrays


def _smallest(groups: int) -> type[np.unsignedinteger]:
    return np.uint8 if groups <= 2**8 else np.uint16 if groups <= 2**16 else np.uint32
