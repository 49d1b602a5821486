"""n-step returns: a transition is pending until the rewards of n steps are known, or the episode has ended."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from varmix._core.state import CheckpointError, require_entries, restore_array, wrap_load_errors
from varmix._core.validation import AnyArray, BoolArray, FloatArray, IntArray, State
from varmix._kernels.jit import kernel
from varmix.rl._transitions import Leaf, check_sums, discount_powers, read_columns


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
    """Add one transition in each of m environments, and return how many pending transitions this completes.

    Every pending transition of an environment gets the new reward, discounted.  `powers` (n + 1,) are the powers of the
    discount.  `returns` (environments * n,) holds one ring per environment, with `count` places in use and the oldest
    at `head`.  The call writes the places of the new transitions into `newest` (m,).  It writes row, place and number
    of steps of the completed ones into `ready` (3, m * n), sorted by row, the oldest first.
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
    """Transitions that a step completes, sorted by environment, the oldest first."""

    row: IntArray
    """Row of the step that completes each transition: its next observation belongs to the transition."""
    inputs: list[AnyArray]
    """Observations and actions that were pushed when the transitions began."""
    returns: FloatArray
    """Sums of `discount**i` times the i-th reward."""
    discounts: FloatArray
    """`discount**steps`, where `steps` is the number of rewards in the sum."""


class PendingSteps:
    """Pending transitions: one ring of `n_steps` places per environment, all in the same arrays.

    `push` does not change the object.  It returns a new one that shares the columns, and writes only to places that
    the old one does not use.  Until the next push both are valid, so an interrupt leaves no half-pushed step.

    Parameters
    ----------
    n_steps : int
        Number of steps that a transition spans.
    discount : float
        Discount per step.
    environments : int
        Number of environments.
    leaves : sequence of Leaf
        Leaves of observation and action, which are stored while a transition is pending.

    Examples
    --------
    >>> pending = PendingSteps(3, 0.5, 1, [Leaf("action", (), np.dtype(np.int64))])
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
        #: Number of pending transitions of each environment.
        self.count = np.zeros(environments, dtype=np.int64)
        self._powers = discount_powers(discount, n_steps)

    def _replace_ring(self, returns: FloatArray, head: IntArray, count: IntArray) -> "PendingSteps":
        """Return a new object with the same columns."""
        other = PendingSteps.__new__(PendingSteps)
        other._n, other._leaves, other._columns, other._powers = self._n, self._leaves, self._columns, self._powers
        other._returns, other._head, other.count = returns, head, count
        return other

    def push(
        self, environments: IntArray, inputs: Sequence[AnyArray], rewards: FloatArray, ended: BoolArray
    ) -> tuple[FinishedSteps, "PendingSteps"]:
        """Return the transitions that a step of these environments completes, and the pending ones after it."""
        newest, ready = np.empty(len(environments), np.int64), np.empty((3, len(environments) * self._n), np.int64)
        ring = self._returns.copy(), self._head.copy(), self.count.copy()
        found = push_transitions(environments, np.array(rewards), np.array(ended), self._powers, *ring, newest, ready)
        row, places, steps = ready[:, :found]
        for column, values in zip(self._columns, inputs, strict=True):
            column[newest] = values  # free places: fewer than n_steps are in use
        done = [column.take(places, 0) for column in self._columns]
        return FinishedSteps(row, done, ring[0].take(places), self._powers.take(steps)), self._replace_ring(*ring)

    def state_dict(self) -> State:
        """Return the rings and their columns."""
        columns = {leaf.name: column.copy() for leaf, column in zip(self._leaves, self._columns, strict=True)}
        return {
            "columns": columns,
            "returns": self._returns.copy(),
            "head": self._head.copy(),
            "count": self.count.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Resume with saved rings.

        Raises
        ------
        CheckpointError
            If the state is damaged or belongs to another buffer. The rings are then unchanged.
        """
        with wrap_load_errors("pending transitions"):
            require_entries(state, {"columns", "returns", "head", "count"}, "pending transitions")
            checked = read_columns(state["columns"], self._leaves, len(self._returns))
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
