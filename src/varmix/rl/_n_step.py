"""n-step returns: transitions are pending until the rewards of n steps are known, or the episode has ended."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from varmix._core.state import CheckpointError, require_entries, restore_array, wrap_load_errors
from varmix._core.validation import AnyArray, BoolArray, FloatArray, IntArray, State
from varmix._kernels.jit import kernel
from varmix.rl._storage import Leaf
from varmix.rl._transitions import check_sums, checked_columns, discount_powers


@kernel
def push_transitions(
    environments: IntArray,
    rewards: FloatArray,
    ended: BoolArray,
    powers: FloatArray,
    returns: FloatArray,
    head: IntArray,
    count: IntArray,
    newest: IntArray,
    ready: IntArray,
) -> int:
    """Add one transition of each of m environments, reward all that are pending there, and list those that are done.

    `powers` (n + 1,) are those of the discount.  The rings are in `returns` (environments * n,), the oldest of each at
    its `head`, `count` of them.  `newest` (m,) gets the places of the new ones.  `ready` (3, m * n) gets the row, place
    and number of steps of the transitions that are done, by row and then the oldest first; their number is given.
    """
    n, found = len(powers) - 1, 0
    for row in range(len(environments)):
        environment = environments[row]
        base, first = environment * n, head[environment]
        pending = count[environment] + 1
        newest[row] = base + (first + pending - 1) % n
        returns[newest[row]] = 0.0
        gone = pending if ended[row] else int(pending == n)
        for position in range(pending):
            place = base + (first + position) % n
            steps = pending - position
            returns[place] += powers[steps - 1] * rewards[row]
            if position < gone:
                ready[0, found], ready[1, found], ready[2, found] = row, place, steps
                found += 1
        head[environment], count[environment] = (first + gone) % n, pending - gone
    return found


class FinishedSteps(NamedTuple):
    """Transitions that are pending no more, by environment and then the oldest first."""

    row: IntArray
    """Which row of the step that was pushed was the last one for them; its next observation is theirs."""
    chosen: list[AnyArray]
    """Observations and actions, as they were pushed."""
    returns: FloatArray
    """Sums of discount^i times the i-th reward."""
    discounts: FloatArray
    """discount^steps, of as many steps as there are rewards in the sum."""


class OpenSteps:
    """The pending transitions of every environment: a ring of `n_steps` places each, all in the same arrays.

    A step leaves the object valid as it was, and returns another one that shares its columns.  Whoever holds them
    can go on from either until the next step: an interrupt in between leaves nothing half pushed.

    Parameters
    ----------
    n_steps, discount, environments
        As of the buffer.
    leaves
        What is kept of a transition while it is pending: its observation and action.

    Examples
    --------
    >>> pending = OpenSteps(3, 0.5, 1, [Leaf("action", (), np.dtype(np.int64))])
    >>> for action in range(4):
    ...     ready, pending = pending.push(np.array([0]), [[action]], np.array([8.0]), np.array([action == 3]))
    ...     print(ready.returns, pending.count)
    [] [1]
    [] [2]
    [14.] [2]
    [14. 12.  8.] [0]
    """

    def __init__(self, n_steps: int, discount: float, environments: int, leaves: Sequence[Leaf]) -> None:
        self._n = n_steps
        self._leaves = leaves
        self._columns = [np.zeros((environments * n_steps, *leaf.shape), dtype=leaf.dtype) for leaf in leaves]
        self._returns = np.zeros(environments * n_steps)
        self._head = np.zeros(environments, dtype=np.int64)
        #: How many transitions of each environment are pending.
        self.count = np.zeros(environments, dtype=np.int64)
        self._powers = discount_powers(discount, n_steps)

    def _with(self, returns: FloatArray, head: IntArray, count: IntArray) -> "OpenSteps":
        """Return another object with the same columns."""
        other = OpenSteps.__new__(OpenSteps)
        other._n, other._leaves, other._columns, other._powers = self._n, self._leaves, self._columns, self._powers
        other._returns, other._head, other.count = returns, head, count
        return other

    def push(
        self, environments: IntArray, chosen: Sequence[AnyArray], rewards: FloatArray, ended: BoolArray
    ) -> tuple[FinishedSteps, "OpenSteps"]:
        """Return the transitions that a step of these environments completes, and what is pending after it."""
        newest, ready = np.empty(len(environments), np.int64), np.empty((3, len(environments) * self._n), np.int64)
        ring = self._returns.copy(), self._head.copy(), self.count.copy()
        found = push_transitions(environments, np.array(rewards), np.array(ended), self._powers, *ring, newest, ready)
        row, places, steps = ready[:, :found]
        for column, values in zip(self._columns, chosen, strict=True):
            column[newest] = values  # places that are free here: fewer than n_steps are taken
        done = [column.take(places, 0) for column in self._columns]
        return FinishedSteps(row, done, ring[0].take(places), self._powers.take(steps)), self._with(*ring)

    def state_dict(self) -> State:
        """Return the ring."""
        columns = {leaf.name: column.copy() for leaf, column in zip(self._leaves, self._columns, strict=True)}
        return {
            "columns": columns,
            "returns": self._returns.copy(),
            "head": self._head.copy(),
            "count": self.count.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Resume with a saved ring, after checking that steps can have left it.

        Raises
        ------
        CheckpointError
            If the state is damaged or of another buffer.  The ring is then unchanged.
        """
        with wrap_load_errors("pending transitions"):
            require_entries(state, {"columns", "returns", "head", "count"}, "pending transitions")
            checked = checked_columns(state["columns"], self._leaves, len(self._returns))
            columns = [column.copy() for column in checked]
            returns = restore_array(state["returns"], self._returns, "returns")
            head, count = (
                restore_array(state["head"], self._head, "head"),
                restore_array(state["count"], self.count, "count"),
            )
            sizes = {len(column) for column in columns} - {len(returns)}
            if sizes or min(head.min(), count.min()) < 0 or max(head.max(), count.max()) >= self._n:
                raise CheckpointError("The saved pending transitions are damaged: places or counts outside the ring.")
            check_sums(returns, self._powers, "pending return")
        self._columns, self._returns, self._head, self.count = columns, returns, head, count
