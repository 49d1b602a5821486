"""n-step returns: transitions are pending until the rewards of n steps are known, or the episode has ended."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from varmix.arrays import AnyArray, BoolArray, FloatArray, IntArray, State
from varmix.kernels import pending as kernels
from varmix.rl.storage import Leaf
from varmix.rl.transitions import checked_columns
from varmix.states import require, restored


class Ready(NamedTuple):
    """Transitions that are pending no more, by environment and then the oldest first."""

    row: IntArray
    """Which row of the step that was pushed was the last one for them; its next observation is theirs."""
    chosen: list[AnyArray]
    """Observations and actions, as they were pushed."""
    returns: FloatArray
    """Sums of discount^i times the i-th reward."""
    discounts: FloatArray
    """discount^steps, of as many steps as there are rewards in the sum."""


class Pending:
    """The pending transitions of every environment: a ring of `n_steps` places each, all in the same arrays.

    Parameters
    ----------
    n_steps, discount, environments
        As of the buffer.
    leaves
        What is kept of a transition while it is pending: its observation and action.

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
        #: How many transitions of each environment are pending.
        self.count = np.zeros(environments, dtype=np.int64)
        self._powers = np.asarray(discount ** np.arange(n_steps + 1), dtype=np.float64)

    def push(self, environments: IntArray, chosen: Sequence[AnyArray], rewards: FloatArray, ended: BoolArray) -> Ready:
        """Take a step of these environments, and give the transitions that are complete by it."""
        newest, ready = np.empty(len(environments), np.int64), np.empty((3, len(environments) * self._n), np.int64)
        ring = self._powers, self._returns, self._head, self.count
        found = kernels.push(environments, np.array(rewards), np.array(ended), *ring, newest, ready)
        row, places, steps = ready[:, :found]
        for column, values in zip(self._columns, chosen, strict=True):
            column[newest] = values
        done = [column.take(places, 0) for column in self._columns]
        return Ready(row, done, self._returns.take(places), self._powers.take(steps))

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
        require(state, {"columns", "returns", "head", "count"}, "pending transitions")
        columns = [column.copy() for column in checked_columns(state["columns"], self._leaves)]
        returns = restored(state["returns"], self._returns, "returns")
        head, count = restored(state["head"], self._head, "head"), restored(state["count"], self.count, "count")
        sizes = {len(column) for column in columns} - {len(returns)}
        if sizes or min(head.min(), count.min()) < 0 or max(head.max(), count.max()) >= self._n:
            raise ValueError("The saved pending transitions are damaged: places or counts outside the ring.")
        self._columns, self._returns, self._head, self.count = columns, returns, head, count
