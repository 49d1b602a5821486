"""Cursors: a shuffled order of every group, and the position in it."""

from copy import copy

import numpy as np

from varmix._core.rng import Uniforms
from varmix._core.state import CheckpointError, describe_value, restore_array
from varmix._core.validation import AnyArray, IntArray, State
from varmix.components import _groups_kernels as kernels

LATEST_TURN = 2**62


class Cursors:
    """Draws without replacement: every point of a group once per turn, in an order determined by (seed, group, turn).

    The saved state is one seed, and a position and a turn per group, without a list of points. The first turn after a
    restart is shortened: it serves only points that are due, because they were not served before. Its order also
    depends on these points.

    Parameters
    ----------
    start : array of shape (groups + 1,)
        Start of each group among the members, then their number.
    """

    def __init__(self, start: IntArray) -> None:
        groups = len(start) - 1
        self._start = start
        self._seed: int | None = None  # drawn at the first draw
        self._order: AnyArray | None = None
        self._position = np.zeros(groups, dtype=np.int64)
        self._turn = np.zeros(groups, dtype=np.int64)
        self._due = np.zeros(groups, dtype=np.int64)

    def copy(self) -> "Cursors":
        """Return independent cursors at the same positions."""
        other = copy(self)
        other._position, other._turn, other._due = self._position.copy(), self._turn.copy(), self._due.copy()
        other._order = None if self._order is None else self._order.copy()
        return other

    def draw(self, members: AnyArray, lanes: IntArray, uniforms: Uniforms, atoms: IntArray) -> None:
        """Write the next point of the group of each lane."""
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
        """Start new turns after points moved from their `old` to their `new` groups, whose sizes did not change.

        A group continues with the points that it has not served yet. Each point from another group joins them with a
        probability equal to the unserved share of the group, so that it is served as often as the others
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
