"""Transitions: the rows of a buffer, kept as one array per field."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varmix.arrays import AnyArray, BoolArray, IntArray, State
from varmix.rl.storage import Leaf, layout
from varmix.states import require


class Batch(NamedTuple):
    """Transitions of a sample, one in a row: the target is `rewards + discounts * value(next_observations)`.

    Attributes
    ----------
    observations, actions, next_observations
        As their spaces say: arrays, or dictionaries and tuples of arrays.
    rewards
        Sums of discounted rewards over the steps of a transition, (m,) in single precision.
    terminated
        Whether the episode ended in a terminal state.
    discounts
        discount^steps, and zero where terminated (not where truncated), in single precision.
    """

    observations: Any
    actions: Any
    rewards: NDArray[np.float32]
    next_observations: Any
    terminated: BoolArray
    discounts: NDArray[np.float32]


class Transitions:
    """Rows of transitions as a list of arrays: leaves of observation, action and next observation, then three numbers.

    Only `write` changes anything; what it gets has been checked by `split`.
    """

    def __init__(self, capacity: int, observation_space: object, action_space: object) -> None:
        self._before = layout(observation_space, "observation")
        self._action = layout(action_space, "action")
        self._after = layout(observation_space, "next_observation")
        #: The leaves of what is known when an action has been chosen.
        self.chosen = self._before.leaves + self._action.leaves
        numbers = [Leaf("reward", (), np.dtype(np.float32)), Leaf("terminated", (), np.dtype(np.bool_))]
        numbers.append(Leaf("discount", (), np.dtype(np.float32)))
        self._leaves = self.chosen + self._after.leaves + numbers
        self._columns = [np.zeros((capacity, *leaf.shape), dtype=leaf.dtype) for leaf in self._leaves]
        self._take = [column.take for column in self._columns]

    def split(self, observation: object, action: object, after: object, lead: tuple[int, ...]) -> list[Any]:
        """Check a transition, or as many as `lead` says, and give its arrays: all columns but the three numbers."""
        arrays: list[Any] = []
        self._before.split(observation, lead, arrays)
        self._action.split(action, lead, arrays)
        self._after.split(after, lead, arrays)
        return arrays

    def write(self, slots: int | IntArray, values: Sequence[Any]) -> None:
        """Write one row, or many."""
        for column, value in zip(self._columns, values, strict=True):
            column[slots] = value

    def gather(self, slots: IntArray) -> Batch:
        """Copy rows into a batch."""
        arrays = iter([take(slots, 0) for take in self._take])  # three times as fast as column[slots] in two dimensions
        observations, actions, after = (part.join(arrays) for part in (self._before, self._action, self._after))
        rewards, terminated, discounts = arrays
        return Batch(observations, actions, rewards, after, terminated, discounts)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self._columns)

    def state_dict(self, rows: int) -> State:
        """Give the first `rows` rows of every column, by its name."""
        return {leaf.name: column[:rows].copy() for leaf, column in zip(self._leaves, self._columns, strict=True)}

    def load_rows(self, rows: Sequence[AnyArray]) -> None:
        """Take over rows that `checked_columns` has passed."""
        for column, saved in zip(self._columns, rows, strict=True):
            column[: len(saved)] = saved

    def checked_state(self, state: State) -> list[AnyArray]:
        """Check the columns of a saved state; nothing is changed."""
        columns = checked_columns(state, self._leaves)
        lengths = {len(column) for column in columns}
        if len(lengths) != 1 or max(lengths) > len(self._columns[0]):
            raise ValueError(f"The saved transitions are damaged: columns of {sorted(lengths)} rows.")
        return columns


def checked_columns(state: State, leaves: Sequence[Leaf]) -> list[AnyArray]:
    """Check that a saved state has a column for every leaf, with rows of its shape and dtype."""
    require(state, {leaf.name for leaf in leaves}, "a buffer of these spaces")
    columns = [np.asarray(state[leaf.name]) for leaf in leaves]
    for leaf, column in zip(leaves, columns, strict=True):
        if column.ndim < 1 or column.shape[1:] != leaf.shape or column.dtype != leaf.dtype:
            raise ValueError(
                f"The saved transitions do not fit: {leaf.name} was {column.dtype} of shape {column.shape[1:]}, and "
                f"is {leaf.dtype} of shape {leaf.shape} here. Build the buffer with the spaces it was saved with."
            )
    return columns
