"""Transitions: arrays with one row per transition, built from spaces, and checks of added and loaded values.

A layout splits the values of a space (nested dictionaries and tuples) into a flat list of arrays, checks each of them,
and joins arrays into values again.  `Transitions` stores one column per array.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from varmix._core.state import CheckpointError, describe_value, is_array, require_entries
from varmix._core.validation import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    State,
    as_array,
    as_floats,
    find_first,
)

INT64_DTYPE, INT64_LIMIT = np.dtype(np.int64), 2**63
# Types that need no check beyond dtype and shape. Subclasses, such as masked arrays, need more.
PLAIN_TYPES = frozenset({np.ndarray, *(np.dtype(code).type for code in "?bhilqBHILQefd")})
MAX_REWARD = 1e30  # sums of rewards are kept in single precision, which ends at 3e38
SINGLE_LIMITS = np.finfo(np.float32)


class Leaf:
    """Layout of a space with one array: Box, Discrete, MultiDiscrete or MultiBinary."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype

    @property
    def leaves(self) -> list["Leaf"]:
        """List of this leaf alone."""
        return [self]

    def split(self, value: Any, lead: tuple[int, ...], into: list[Any]) -> None:  # noqa: ANN401
        """Check the dtype and the shape of a value, which begins with the axes `lead`, and append it to `into`."""
        if type(value) in PLAIN_TYPES and value.dtype is self.dtype and value.shape == lead + self.shape:
            into.append(value)
        elif (
            type(value) is int
            and self.dtype is INT64_DTYPE
            and lead + self.shape == ()
            and -INT64_LIMIT <= value < INT64_LIMIT
        ):
            into.append(value)  # the most common type of an action
        else:
            into.append(self._convert(value, lead + self.shape))

    def join(self, arrays: Iterator[AnyArray]) -> AnyArray:
        """Return the next array."""
        return next(arrays)

    def _convert(self, value: Any, shape: tuple[int, ...]) -> AnyArray:  # noqa: ANN401
        array = as_array(value, self.name)
        if array.shape != shape:
            raise ValueError(f"{self.name} must have shape {shape}, got {array.shape}.")
        whole = array.dtype.kind in "iu" and self.dtype.kind in "iu"
        if not (_is_in_range(self.dtype, array) if whole else np.can_cast(array.dtype, self.dtype, "same_kind")):
            raise TypeError(
                f"{self.name} must be {self.dtype}, as in the space; {array.dtype} cannot be cast to it without loss. "
                f"Convert the values, or build the buffer with a space of another dtype."
            )
        return array.astype(self.dtype)


def _is_in_range(dtype: np.dtype[Any], array: AnyArray) -> bool:
    """Return whether integers are within the range of `dtype`: casting others would wrap them silently."""
    if np.can_cast(array.dtype, dtype, "safe") or array.size == 0:
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= int(array.min()) and int(array.max()) <= limits.max)


class Branch:
    """Layout of a Dict or a Tuple: one layout per part.  `keys` is None for a Tuple."""

    __slots__ = ("keys", "name", "parts")

    def __init__(self, name: str, keys: Sequence[Any] | None, parts: Sequence["Layout"]) -> None:
        self.name, self.keys, self.parts = name, keys, parts

    @property
    def leaves(self) -> list[Leaf]:
        """Leaves of all parts, in order."""
        return [leaf for part in self.parts for leaf in part.leaves]

    def split(self, value: Any, lead: tuple[int, ...], into: list[Any]) -> None:  # noqa: ANN401
        """Append the arrays of all parts to `into`."""
        for part, entry in zip(self.parts, self._list_entries(value), strict=True):
            part.split(entry, lead, into)

    def join(self, arrays: Iterator[AnyArray]) -> dict[Any, Any] | tuple[Any, ...]:
        """Take one array per leaf, and nest them as in the space."""
        values = [part.join(arrays) for part in self.parts]
        return tuple(values) if self.keys is None else dict(zip(self.keys, values, strict=True))

    def _list_entries(self, value: Any) -> Iterable[Any]:  # noqa: ANN401
        if self.keys is None:
            if not isinstance(value, (tuple, list)) or len(value) != len(self.parts):
                self._refuse(value, f"a tuple of {len(self.parts)}")
            return value
        if not isinstance(value, Mapping) or len(value) != len(self.keys) or any(key not in value for key in self.keys):
            self._refuse(value, f"a dictionary with the keys {list(self.keys)}")
        return [value[key] for key in self.keys]

    def _refuse(self, value: object, expected: str) -> NoReturn:
        given = f"the keys {list(value)}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
        if isinstance(value, (tuple, list)):
            given += f" of {len(value)}"
        raise ValueError(f"{self.name} must be {expected}, got {given}.")


Layout: TypeAlias = Leaf | Branch


def make_layout(space: object, name: str) -> Layout:
    """Return the layout of a space's values.

    Examples
    --------
    >>> from types import SimpleNamespace as Space
    >>> box = Space(shape=(2,), dtype=np.float32)
    >>> arm = make_layout(Space(spaces={"angles": box, "grip": Space(shape=(), dtype=np.int64)}), "observation")
    >>> arrays = []
    >>> arm.split({"angles": [0.5, 1.0], "grip": 1}, (), arrays)
    >>> arrays
    [array([0.5, 1. ], dtype=float32), 1]
    >>> arm.join(iter(arrays))
    {'angles': array([0.5, 1. ], dtype=float32), 'grip': 1}
    """
    # Gymnasium is not a dependency, so its spaces are known by their attributes only.
    spaces = getattr(space, "spaces", None)
    if isinstance(spaces, Mapping):
        return Branch(name, tuple(spaces), [make_layout(part, f"{name}[{key!r}]") for key, part in spaces.items()])
    # A OneOf has `spaces` like a Tuple, but each of its values belongs to only one of them.
    if isinstance(spaces, Sequence) and type(space).__name__ != "OneOf":
        return Branch(name, None, [make_layout(part, f"{name}[{i}]") for i, part in enumerate(spaces)])
    leaf = _make_leaf(name, getattr(space, "shape", None), getattr(space, "dtype", None))
    if leaf is None:
        raise TypeError(
            f"The space of {name} must have values of one shape and dtype: Box, Discrete, MultiDiscrete, MultiBinary, "
            f"or Dict and Tuple of these. Got {space!r}: encode its values as one of them."
        )
    return leaf


def _make_leaf(name: str, shape: Any, dtype: Any) -> Leaf | None:  # noqa: ANN401
    """Return the leaf of this shape and dtype, or None if such arrays cannot be made and saved."""
    try:
        sizes, kind = tuple(int(size) for size in shape), np.dtype(dtype)
    except (TypeError, ValueError):
        return None
    if not kind.isnative:  # the dtype object of native arrays is unique, so `split` can compare it with `is`
        kind = kind.newbyteorder("=")
    good = dtype is not None and min(sizes, default=0) >= 0 and kind.kind in "biuf" and kind.itemsize <= 8
    return Leaf(name, sizes, kind) if good else None


def as_reward(value: float) -> float:
    """Return the reward of one step as a float, after checking it."""
    if not isinstance(value, (float, int)):
        value = float(_require_scalar(as_floats(value, "reward"), "reward"))
    if not -MAX_REWARD <= value <= MAX_REWARD:
        raise ValueError(
            f"reward must be finite and at most 1e30 in magnitude, got {value}: it would spoil every discounted sum."
        )
    return float(value)


def as_rewards(values: ArrayLike, environments: int) -> FloatArray:
    """Return one reward per environment. `check_rewards` checks their values later, for the rows that count."""
    rewards = as_floats(values, "rewards")
    if rewards.shape != (environments,):
        raise ValueError(f"rewards must have shape ({environments},), one per environment, got {rewards.shape}.")
    return rewards


def check_rewards(rewards: FloatArray) -> None:
    """Raise `ValueError` if a reward is not finite, or too large for discounted sums."""
    good = np.abs(rewards) <= MAX_REWARD
    if not good.all():
        bad = rewards[find_first(~good)]
        raise ValueError(
            f"rewards must be finite and at most 1e30 in magnitude, got {bad}: it would spoil every discounted sum."
        )


def as_flag(value: object, name: str) -> bool:
    """Return a value as a bool, or raise an error if it is neither True nor False."""
    if type(value) is bool or type(value) is np.bool_:
        return bool(value)
    array = _require_scalar(as_array(value, name), name)  # type: ignore[arg-type]
    if array.dtype != np.bool_:
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(array)


def as_flags(values: ArrayLike, name: str, environments: int) -> BoolArray:
    """Return an array with one boolean per environment."""
    flags = as_array(values, name)
    if flags.shape != (environments,) or flags.dtype != np.bool_:
        raise ValueError(
            f"{name} must be booleans of shape ({environments},), one per environment, got {flags.dtype} of shape "
            f"{flags.shape}."
        )
    return flags


def _require_scalar(array: AnyArray, name: str) -> AnyArray:
    if array.shape != ():
        raise ValueError(f"{name} must be one value, got shape {array.shape}. Use add_batch for many environments.")
    return array


class Batch(NamedTuple):
    """Transitions of a sample, one per row.

    The target of Q-learning is `rewards + discounts * value(next_observations)`.

    Parameters
    ----------
    observations : array, dict or tuple
        Observations before the first step, nested as in the observation space.
    actions : array, dict or tuple
        Actions of the first step, nested as in the action space.
    rewards : array of shape (m,), float32
        Sums of discounted rewards over the steps of each transition.
    next_observations : array, dict or tuple
        Observations after the last step.
    terminated : array of shape (m,), bool
        Whether the episode ended in a terminal state.
    discounts : array of shape (m,), float32
        `discount**steps`, or zero where `terminated` is True. A truncated episode keeps its discount.

    Examples
    --------
    >>> batch = Batch(np.zeros((2, 4)), np.array([0, 1]), np.ones(2), np.ones((2, 4)), np.array([False, True]),
    ...               np.array([0.99, 0.0]))
    >>> batch.rewards + batch.discounts * batch.next_observations[:, 0]
    array([1.99, 1.  ])
    """

    observations: Any
    actions: Any
    rewards: NDArray[np.float32]
    next_observations: Any
    terminated: BoolArray
    discounts: NDArray[np.float32]


class Transitions:
    """Rows of transitions, stored as one column per leaf of observation, action and next observation.

    Three more columns hold reward, terminated and discount.  `write` and `load_rows` expect values that `split` and
    `read_state` have checked; no other method changes the columns.
    """

    def __init__(self, room: int, observation_space: object, action_space: object) -> None:
        #: Number of rows.
        self.room = room
        self._observation = make_layout(observation_space, "observation")
        self._action = make_layout(action_space, "action")
        self._next_observation = make_layout(observation_space, "next_observation")
        self._final_observation = make_layout(observation_space, "final_observation")
        #: Leaves of observation and action, which are known before the step.
        self.inputs = self._observation.leaves + self._action.leaves
        numbers = [Leaf("reward", (), np.dtype(np.float32)), Leaf("terminated", (), np.dtype(np.bool_))]
        numbers.append(Leaf("discount", (), np.dtype(np.float32)))
        self._leaves = self.inputs + self._next_observation.leaves + numbers
        self._columns = [np.zeros((room, *leaf.shape), dtype=leaf.dtype) for leaf in self._leaves]
        self._take = [column.take for column in self._columns]

    def split(self, observation: object, action: object, next_observation: object, lead: tuple[int, ...]) -> list[Any]:
        """Check one transition, or a batch with the axes `lead`, and return its arrays without the three numbers."""
        arrays: list[Any] = []
        self._observation.split(observation, lead, arrays)
        self._action.split(action, lead, arrays)
        self._next_observation.split(next_observation, lead, arrays)
        return arrays

    def replace_finals(self, values: Sequence[Any], finals: object, environments: IntArray, number: int) -> list[Any]:
        """Return the arrays of a step, with final observations as next observations of these environments.

        `finals` is an array of objects with one observation per environment, as in Gymnasium's `infos["final_obs"]`,
        or a batch of observations.
        """
        arrays = list(values)
        after = slice(len(self.inputs), len(arrays))
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
        self._final_observation.split(value, lead, finals)
        for column, final in zip(after, finals, strict=True):
            column[at] = final[at] if lead else final

    def write(self, rows: int | IntArray, values: Sequence[Any]) -> None:
        """Write one row, or many."""
        for column, value in zip(self._columns, values, strict=True):
            column[rows] = value

    def gather(self, rows: IntArray) -> Batch:
        """Copy rows into a batch."""
        arrays = iter([take(rows, 0) for take in self._take])  # three times as fast as column[rows] in two dimensions
        layouts = self._observation, self._action, self._next_observation
        observations, actions, next_observations = (layout.join(arrays) for layout in layouts)
        rewards, terminated, discounts = arrays
        return Batch(observations, actions, rewards, next_observations, terminated, discounts)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self._columns)

    def state_dict(self, rows: IntArray) -> State:
        """Return these rows of every column, by the name of the column."""
        return {leaf.name: take(rows, 0) for leaf, take in zip(self._leaves, self._take, strict=True)}

    def load_rows(self, rows: IntArray, columns: Sequence[AnyArray]) -> None:
        """Write the columns that `read_state` has returned."""
        self.write(rows, columns)

    def read_state(self, state: State, most: int, powers: FloatArray) -> list[AnyArray]:
        """Return the columns of a saved state, or raise `CheckpointError` if `add` cannot have written them.

        There are at most `most` rows.  `powers` are the powers of the discount, from 0 to the number of steps.
        """
        columns = read_columns(state, self._leaves, most)
        rewards, terminated, discounts = columns[-3:]
        check_sums(rewards, powers, "reward")
        _check_discounts(discounts, terminated, powers)
        return columns


def discount_powers(discount: float, n_steps: int) -> FloatArray:
    """Return the powers of the discount from 0 to `n_steps`."""
    return np.asarray(discount ** np.arange(n_steps + 1), dtype=np.float64)


def read_columns(state: State, leaves: Sequence[Leaf], most: int) -> list[AnyArray]:
    """Return one saved column per leaf, after checking that all have the same number of rows, at most `most`."""
    require_entries(state, {leaf.name for leaf in leaves}, "a buffer of these spaces")
    columns = [_read_column(state[leaf.name], leaf) for leaf in leaves]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or max(lengths) > most:
        raise CheckpointError(
            f"The saved transitions are damaged: columns of {sorted(lengths)} rows. All must have the same number of "
            f"rows, at most {most}."
        )
    for leaf, column in zip(leaves, columns, strict=True):  # reads the values, so after the check of the lengths
        if column.dtype == np.bool_ and (column.view(np.uint8) > 1).any():
            raise CheckpointError(f"The saved transitions are damaged: {leaf.name} has bytes that are neither 0 nor 1.")
    return columns


def _read_column(column: object, leaf: Leaf) -> AnyArray:
    if not is_array(column) or column.ndim < 1:
        raise CheckpointError(
            f"Saved {leaf.name} must be an array with one row per transition, got {describe_value(column)}."
        )
    if column.shape[1:] != leaf.shape or column.dtype != leaf.dtype:
        raise CheckpointError(
            f"The saved transitions have other spaces: {leaf.name} was {column.dtype} of shape {column.shape[1:]}, and "
            f"is {leaf.dtype} of shape {leaf.shape} here. Build the buffer with the spaces it was saved with."
        )
    return column


def check_sums(rewards: AnyArray, powers: FloatArray, name: str) -> None:
    """Raise `CheckpointError` if a sum of discounted rewards is larger than allowed rewards can make it."""
    largest = MAX_REWARD * float(powers[:-1].sum()) * 1.000001  # the rounding of single precision
    good = np.abs(rewards) <= min(largest, float(SINGLE_LIMITS.max))
    if not good.all():
        i = find_first(~good)
        raise CheckpointError(
            f"The saved transitions are damaged: {name} {rewards[i]:g} in row {i} is not finite, or larger than a "
            f"sum of rewards of at most {MAX_REWARD:g} can be."
        )


def _check_discounts(discounts: AnyArray, terminated: BoolArray, powers: FloatArray) -> None:
    """Raise `CheckpointError` unless each discount is zero where terminated, and elsewhere a power of the discount."""
    known = np.sort(powers[1:])
    place = np.searchsorted(known, discounts).clip(1, len(known)) - 1
    near = np.stack([known[place], known[np.minimum(place + 1, len(known) - 1)]])
    close = np.abs(discounts - near) <= 1e-6 * near + float(SINGLE_LIMITS.tiny)
    good = np.where(terminated, discounts == 0.0, close.any(axis=0))
    if not good.all():
        i = find_first(~good)
        raise CheckpointError(
            f"The saved transitions are damaged: discount {discounts[i]:g} in row {i}. It must be 0 where an episode "
            f"terminated, and elsewhere the discount of the buffer, {powers[1]:g}, to a power of 1 to {len(known)}."
        )
