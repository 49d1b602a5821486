"""Groups: one component per class, cluster or data source."""

from copy import copy
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import AnyArray, FloatArray, IntArray, State, as_atoms, as_fraction, require, restored, same
from varmix.components.base import Components, Family
from varmix.components.labels import encode
from varmix.kernels import groups as kernels
from varmix.spaces import Points
from varmix.uniforms import Uniforms


@final
class Groups(Family):
    """Component j draws the points labelled j: `p_j = (1 - smoothing) * (target inside j) + smoothing * target`.

    The uniform law, and so the smoothing and the anchor, is a mixture of the groups by their masses W, the parts of the
    target that they hold.  So the lanes are always the groups: lane j serves the share
    `pi_j = (1 - smoothing) w_j + W_j (w_u + smoothing (1 - w_u))`, and the density of a point is `pi_j / W_j`.

    With `replacement=False` every group is visited in a shuffled order and reshuffled when it runs out: the reshuffled
    mixture, to be used with carried allocation (`varmix.vrm` chooses it).  Like plain reshuffling it is unbiased over a
    pass, not draw by draw: a batch may hold up to two points of a group too many or too few, made up for in the next.

    A point costs at most 12 bytes, and 8 more for a target (16 where that varies inside groups).

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
    masses
        The masses W of the groups.

    Examples
    --------
    >>> family = Groups(["cat", "dog", "dog", "dog"])
    >>> family.labels.tolist(), family.masses.tolist()
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
        self.labels, self._codes = encode(labels)
        self.space = Points(len(self._codes), target)
        self._sort()
        self._inside = (1 - self.smoothing) / self.masses + self.smoothing
        self._anchored = False
        self.k = len(self.labels)
        self.c = float(self._inside.max())
        self._seed: int | None = None
        self._order: AnyArray | None = None  # of the cursors, once there is a seed
        self._position = np.zeros(self.k, dtype=np.int64)
        self._turn = np.zeros(self.k, dtype=np.int64)

    def _sort(self) -> None:
        """List the points with a target group by group, and the running sums of the target where it varies inside."""
        n, target = self.space.n, np.empty(0) if self.space.target is None else self.space.target
        counts, self.masses = np.zeros(len(self.labels), dtype=np.int64), np.zeros(len(self.labels))
        kernels.weigh_groups(self._codes, target, counts, self.masses)
        if counts.min() == 0:
            label = self.labels[int(np.argmin(counts))]
            raise ValueError(f"Group {label!r} is empty: its target is zero everywhere. Remove its points.")
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._members: AnyArray = np.empty(int(self._start[-1]), dtype=np.int32 if n < 2**31 else np.int64)
        kernels.sort_by_group(self._codes, target, self._start, self._members)
        self._cumulative: FloatArray | None = None
        uneven = kernels.first_uneven(target, self._start, self._members) if len(target) else -1
        if uneven >= 0 and not self.replacement:
            raise ValueError(
                f"Without replacement the target must be constant inside each group; it is not in group "
                f"{self.labels[uneven]!r}. Use replacement=True, or split the group."
            )
        if uneven >= 0:
            self._cumulative = np.empty(len(self._members))
            kernels.accumulate_groups(target, self._start, self._members, self._cumulative)

    def anchored(self) -> Components:
        """Give the family with the target as one more component, and no more lanes; the tables are shared."""
        family = copy(self)
        family._anchored = True
        family.k = len(self.labels) + 1
        family._position, family._turn = self._position.copy(), self._turn.copy()
        family._order = None if self._order is None else self._order.copy()
        return family

    def lanes(self, w: FloatArray) -> FloatArray:
        """Give the share of every group: its own weight, and its part of all that is spread uniformly."""
        if not self._anchored and not self.smoothing:
            return w
        shares = np.empty(len(self.masses))
        kernels.group_lanes(w, self.masses, self.smoothing, shares)
        return shares

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a point of the group of each lane; the lane says all about its ratios."""
        m = len(lanes)
        atoms, rows = np.empty(m, np.int64), np.empty((m, self.k))
        if not self.replacement:
            self._draw_cursors(lanes, uniforms, atoms)
        elif self._cumulative is None:
            kernels.draw_members(lanes, uniforms.take(m), self._start, self._members, atoms)
        else:
            kernels.draw_weighted(lanes, uniforms.take(m), self._start, self._members, self._cumulative, atoms)
        kernels.group_rows(lanes, self._inside, self.smoothing, rows)
        return atoms, rows

    def _draw_cursors(self, lanes: IntArray, uniforms: Uniforms, atoms: IntArray) -> None:
        if self._seed is None or self._order is None:
            self._seed, self._order = uniforms.seed(), self._members.copy()
        kernels.draw_cursor(
            lanes,
            np.uint64(self._seed),
            self._start,
            self._members,
            self._order,
            self._position,
            self._turn,
            atoms,
        )

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the rows of these atoms: they depend on the group alone."""
        groups = self._codes[as_atoms(atoms, self.space.n)].astype(np.int64)
        rows = np.empty((len(groups), self.k))
        kernels.group_rows(groups, self._inside, self.smoothing, rows)
        return rows

    def state_dict(self) -> State:
        """Give what the groups are, and the cursors: a seed, and a position and a turn per group."""
        state = super().state_dict() | {"smoothing": self.smoothing, "masses": self.masses.copy()}
        if not self.replacement:
            state |= {"seed": self._seed, "position": self._position.copy(), "turn": self._turn.copy()}
        return state

    def load_state_dict(self, state: State) -> None:
        """Check that these are the groups that were saved, and bring the cursors to where they were."""
        require(state, set(self.state_dict()), "Groups")
        self.check_shape(state)
        if not same(state["smoothing"], self.smoothing) or not same(state["masses"], self.masses):
            raise ValueError("The saved groups have other masses or another smoothing: rebuild those that were saved.")
        if not self.replacement:
            self._load_cursors(state)

    def _load_cursors(self, state: State) -> None:
        position = restored(state["position"], self._position, "position")
        turn = restored(state["turn"], self._turn, "turn")
        if (position < 0).any() or (position > np.diff(self._start)).any() or (turn < 0).any():
            raise ValueError("The saved cursors lie outside their groups: these are not the groups that were saved.")
        seed = state["seed"]
        if seed is None and (position.any() or turn.any()):
            raise ValueError("The saved cursors have moved, but their seed is missing: the state is damaged.")
        if seed is not None and not (type(seed) is int and 0 <= seed < 2**64):
            raise ValueError(f"The seed of the saved cursors must be 64 bits, got {seed!r}: the state is damaged.")
        self._position, self._turn, self._seed, self._order = position, turn, seed, None
        if seed is not None:
            self._order = self._members.copy()
            kernels.replay_cursors(np.uint64(seed), self._start, self._order, position, turn)
