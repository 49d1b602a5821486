"""Transitions: the rows of a buffer, kept as one array per field."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varmix._core.validation import AnyArray
from varmix._core.validation import BoolArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.validation import State
from varmix._core.validation import first
from varmix.rl._transitions__checks import LARGEST
from varmix.rl._storage import Leaf
from varmix.rl._storage import layout
from varmix._core.state import CheckpointError
from varmix._core.state import describe
from varmix._core.state import is_array
from varmix._core.state import require

SINGLE = np.finfo(np.float32)


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

    Only `write` and `load_rows` change anything; what they get has been checked by `split` and `checked_state`.
    """

    def __init__(self, room: int, observation_space: object, action_space: object) -> None:
        #: How many rows there are.
        self.room = room
        self._before = layout(observation_space, "observation")
        self._action = layout(action_space, "action")
        self._after = layout(observation_space, "next_observation")
        self._final = layout(observation_space, "final_observation")
        #: The leaves of what is known when an action has been chosen.
        self.chosen = self._before.leaves + self._action.leaves
        numbers = [Leaf("reward", (), np.dtype(np.float32)), Leaf("terminated", (), np.dtype(np.bool_))]
        numbers.append(Leaf("discount", (), np.dtype(np.float32)))
        self._leaves = self.chosen + self._after.leaves + numbers
        self._columns = [np.zeros((room, *leaf.shape), dtype=leaf.dtype) for leaf in self._leaves]
        self._take = [column.take for column in self._columns]

    def split(self, observation: object, action: object, after: object, lead: tuple[int, ...]) -> list[Any]:
        """Check a transition, or as many as `lead` says, and give its arrays: all columns but the three numbers."""
        arrays: list[Any] = []
        self._before.split(observation, lead, arrays)
        self._action.split(action, lead, arrays)
        self._after.split(after, lead, arrays)
        return arrays

    def with_finals(self, values: Sequence[Any], finals: object, environments: IntArray, number: int) -> list[Any]:
        """Return the arrays of a step with the next observations of these environments replaced by their final ones.

        `finals` is one observation per environment in an array of objects, as in Gymnasium's `infos["final_obs"]`, or
        a batch of observations.
        """
        arrays = list(values)
        after = slice(len(self.chosen), len(arrays))
        arrays[after] = [value.copy() for value in arrays[after]]
        if isinstance(finals, np.ndarray) and finals.dtype == np.object_:
            if finals.shape != (number,):
                raise ValueError(f"final_observations must be one per environment, ({number},), got {finals.shape}.")
            for i in environments.tolist():
                if finals[i] is None:
                    raise ValueError(f"final_observations[{i}] is None, though the episode of environment {i} ended.")
                self._put_final(arrays[after], finals[i], i, ())
        else:
            self._put_final(arrays[after], finals, environments, (number,))
        return arrays

    def _put_final(self, after: Sequence[AnyArray], value: object, at: int | IntArray, lead: tuple[int, ...]) -> None:
        finals: list[Any] = []
        self._final.split(value, lead, finals)
        for column, final in zip(after, finals, strict=True):
            column[at] = final[at] if lead else final

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

    def state_dict(self, slots: IntArray) -> State:
        """Return these rows of every column, by its name."""
        return {leaf.name: take(slots, 0) for leaf, take in zip(self._leaves, self._take, strict=True)}

    def load_rows(self, slots: IntArray, rows: Sequence[AnyArray]) -> None:
        """Write rows that `checked_state` has returned."""
        self.write(slots, rows)

    def checked_state(self, state: State, most: int, powers: FloatArray) -> list[AnyArray]:
        """Return the columns of a saved state, after checking that they are what adding steps can have left.

        There are at most `most` rows; `powers` are those of the discount, from 0 to the number of steps.
        """
        columns = checked_columns(state, self._leaves, most)
        rewards, terminated, discounts = columns[-3:]
        check_sums(rewards, powers, "reward")
        _check_discounts(discounts, terminated, powers)
        return columns


def discount_powers(discount: float, n_steps: int) -> FloatArray:
    """Return discount^0 to discount^n_steps."""
    return np.asarray(discount ** np.arange(n_steps + 1), dtype=np.float64)


def checked_columns(state: State, leaves: Sequence[Leaf], most: int) -> list[AnyArray]:
    """Return a column for every leaf, after checking its rows, of which all have the same number of at most `most`."""
    require(state, {leaf.name for leaf in leaves}, "a buffer of these spaces")
    columns = [_checked_column(state[leaf.name], leaf) for leaf in leaves]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or max(lengths) > most:
        raise CheckpointError(
            f"The saved transitions are damaged: columns of {sorted(lengths)} rows, where all have the same number "
            f"of at most {most}."
        )
    for leaf, column in zip(leaves, columns, strict=True):  # now that it is known how long they are
        if column.dtype == np.bool_ and (column.view(np.uint8) > 1).any():
            raise CheckpointError(f"The saved transitions are damaged: {leaf.name} has bytes that are neither 0 nor 1.")
    return columns


def _checked_column(column: object, leaf: Leaf) -> AnyArray:
    if not is_array(column) or column.ndim < 1:
        raise CheckpointError(f"Saved {leaf.name} must be an array with a row per transition, got {describe(column)}.")
    if column.shape[1:] != leaf.shape or column.dtype != leaf.dtype:
        raise CheckpointError(
            f"The saved transitions do not fit: {leaf.name} was {column.dtype} of shape {column.shape[1:]}, and "
            f"is {leaf.dtype} of shape {leaf.shape} here. Build the buffer with the spaces it was saved with."
        )
    return column


def check_sums(rewards: AnyArray, powers: FloatArray, name: str) -> None:
    """Raise `CheckpointError` for sums of discounted rewards that steps of allowed rewards cannot have."""
    largest = LARGEST * float(powers[:-1].sum()) * 1.000001  # as far as single precision rounds
    good = np.abs(rewards) <= min(largest, float(SINGLE.max))
    if not good.all():
        i = first(~good)
        raise CheckpointError(
            f"The saved transitions are damaged: {name} {rewards[i]:g} in row {i} is not finite, or larger than "
            f"rewards of at most {LARGEST:g} sum to."
        )


def _check_discounts(discounts: AnyArray, terminated: BoolArray, powers: FloatArray) -> None:
    """Raise `CheckpointError` for discounts other than zero where terminated, and a power of the discount elsewhere."""
    known = np.sort(powers[1:])
    place = np.searchsorted(known, discounts).clip(1, len(known)) - 1
    near = np.stack([known[place], known[np.minimum(place + 1, len(known) - 1)]])
    close = np.abs(discounts - near) <= 1e-6 * near + float(SINGLE.tiny)
    good = np.where(terminated, discounts == 0.0, close.any(axis=0))
    if not good.all():
        i = first(~good)
        raise CheckpointError(
            f"The saved transitions are damaged: discount {discounts[i]:g} in row {i}. It is 0 where an episode "
            f"terminated, and elsewhere the discount of the buffer, {powers[1]:g}, to a power of 1 to {len(known)}."
        )
