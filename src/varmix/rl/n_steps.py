"""n-step returns: transitions that wait until the rewards of n steps are known, or the episode has ended."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from varmix.arrays import AnyArray, BoolArray, FloatArray, IntArray, State, require, restored
from varmix.rl.storage import Leaf
from varmix.rl.transitions import checked_columns


class Ready(NamedTuple):
    """Transitions whose waiting is over, by environment and then the oldest first."""

    row: IntArray
    """Which row of the step that was pushed ended the waiting; its next observation is theirs."""
    chosen: list[AnyArray]
    """Observations and actions, as they were pushed."""
    returns: FloatArray
    """Sums of discount^i times the i-th reward."""
    steps: IntArray
    """How many rewards are in the sum."""


class Pending:
    """The waiting transitions of every environment: a ring of `n_steps` places each, all in the same arrays.

    Parameters
    ----------
    n_steps, discount, environments
        As of the buffer.
    leaves
        What is kept of a transition while it waits: its observation and action.

    Examples
    --------
    >>> pending = Pending(3, 0.5, 1, [Leaf("action", (), np.dtype(np.int64))])
    >>> step = lambda action, ended: pending.push(np.array([0]), [[action]], np.array([8.0]), np.array([ended]))
    >>> step(0, False).returns, step(1, False).returns
    (array([], dtype=float64), array([], dtype=float64))
    >>> step(2, False).returns
    array([14.])
    >>> step(3, True).returns, pending.count
    (array([14., 12.,  8.]), array([0]))
    """

    def __init__(self, n_steps: int, discount: float, environments: int, leaves: Sequence[Leaf]) -> None:
        self._n = n_steps
        self._leaves = leaves
        self._columns = [np.zeros((environments * n_steps, *leaf.shape), dtype=leaf.dtype) for leaf in leaves]
        self._returns = np.zeros(environments * n_steps)
        self._head = np.zeros(environments, dtype=np.int64)
        #: How many transitions of each environment wait.
        self.count = np.zeros(environments, dtype=np.int64)
        self._powers = discount ** np.arange(n_steps)
        self._positions = np.arange(n_steps)

    def push(self, environments: IntArray, chosen: Sequence[AnyArray], rewards: FloatArray, ended: BoolArray) -> Ready:
        """Let a step of these environments begin to wait, and give those whose waiting is over by it."""
        head, count = self._head[environments], self.count[environments] + 1
        base = environments * self._n
        newest = base + (head + count - 1) % self._n
        for column, values in zip(self._columns, chosen, strict=True):
            column[newest] = values
        self._returns[newest] = 0.0
        # One row per environment, the oldest first: places in the ring, and steps including this one.
        places = base[:, None] + (head[:, None] + self._positions) % self._n
        steps = count[:, None] - self._positions
        waiting = steps > 0
        self._returns[places[waiting]] += (self._powers[steps - 1] * rewards[:, None])[waiting]
        ready = waiting & (ended[:, None] | (steps == self._n))
        gone = ready.sum(axis=1)
        self._head[environments], self.count[environments] = (head + gone) % self._n, count - gone
        return self._given(ready, places[ready], steps[ready])

    def _given(self, ready: BoolArray, places: IntArray, steps: IntArray) -> Ready:
        chosen = [column.take(places, 0) for column in self._columns]
        return Ready(ready.nonzero()[0], chosen, self._returns[places], steps)

    def state_dict(self) -> State:
        """Give the ring."""
        columns = {leaf.name: column.copy() for leaf, column in zip(self._leaves, self._columns, strict=True)}
        return {
            "columns": columns,
            "returns": self._returns.copy(),
            "head": self._head.copy(),
            "count": self.count.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over a saved ring, or refuse it and stay as before."""
        require(state, {"columns", "returns", "head", "count"}, "waiting transitions")
        columns = [column.copy() for column in checked_columns(state["columns"], self._leaves)]
        returns = restored(state["returns"], self._returns, "returns")
        head, count = restored(state["head"], self._head, "head"), restored(state["count"], self.count, "count")
        sizes = {len(column) for column in columns} - {len(returns)}
        if sizes or min(head.min(), count.min()) < 0 or max(head.max(), count.max()) >= self._n:
            raise ValueError("The saved transitions that wait are damaged: places or counts outside the ring.")
        self._columns, self._returns, self._head, self.count = columns, returns, head, count
