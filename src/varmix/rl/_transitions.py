"""Transitions: spaces, the columns they need, and the checks of what is added."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

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
    as_count,
    as_floats,
    find_first,
)
from varmix.rl._storage import Leaf, make_layout

NEXT_STEP, SAME_STEP, DISABLED = "next_step", "same_step", "disabled"
AUTORESET_CHOICES = f"{NEXT_STEP!r}, {SAME_STEP!r} or {DISABLED!r}"
MAX_REWARD = 1e30  # of a reward: sums of them are kept in single precision, which ends at 3e38


def as_reward(value: float) -> float:
    """Check the reward of one step."""
    if not isinstance(value, (float, int)):
        value = float(_require_scalar(as_floats(value, "reward"), "reward"))
    if not -MAX_REWARD <= value <= MAX_REWARD:
        raise ValueError(f"reward must be finite and at most 1e30 either way, got {value}: it would spoil every sum.")
    return float(value)


def as_rewards(values: ArrayLike, environments: int) -> FloatArray:
    """Check that there is one reward per environment; their size is checked by `check_size`, of rows that count."""
    rewards = as_floats(values, "rewards")
    if rewards.shape != (environments,):
        raise ValueError(f"rewards must have shape ({environments},), one per environment, got {rewards.shape}.")
    return rewards


def check_size(rewards: FloatArray) -> None:
    """Refuse rewards that are not finite, or too large for sums of them."""
    good = np.abs(rewards) <= MAX_REWARD
    if not good.all():
        bad = rewards[find_first(~good)]
        raise ValueError(f"rewards must be finite and at most 1e30 either way, got {bad}: it would spoil every sum.")


def as_flag(value: object, name: str) -> bool:
    """Check True or False."""
    if type(value) is bool or type(value) is np.bool_:
        return bool(value)
    array = _require_scalar(as_array(value, name), name)  # type: ignore[arg-type]
    if array.dtype != np.bool_:
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(array)


def as_flags(values: ArrayLike, name: str, environments: int) -> BoolArray:
    """Check one True or False per environment."""
    flags = as_array(values, name)
    if flags.shape != (environments,) or flags.dtype != np.bool_:
        raise ValueError(
            f"{name} must be booleans of shape ({environments},), one per environment, got {flags.dtype} of shape "
            f"{flags.shape}."
        )
    return flags


def as_errors(values: ArrayLike, m: int) -> FloatArray:
    """Give |TD errors| of a batch of `m`; whether they are finite the sampler sees."""
    try:
        errors = as_floats(values, "td_errors")
    except (RuntimeError, TypeError) as error:
        raise TypeError(
            f"td_errors must be real numbers that numpy can read ({error}). Of a tensor, detach it first, and move it "
            f"to the CPU: td_errors.detach().float().cpu()."
        ) from None
    if errors.shape != (m,):
        raise ValueError(
            f"td_errors must have shape ({m},), one per transition of the batch, got {errors.shape}. Pass the errors "
            f"themselves, neither their mean nor a column."
        )
    return np.abs(errors)


def as_environments(environments: int | None, envs: object) -> int:
    """Return the number of environments: as given, or that of the vector environment `envs`, or one."""
    given = None if environments is None else as_count(environments, "environments")
    if envs is None:
        return 1 if given is None else given
    number = getattr(envs, "num_envs", None)
    if number is None:
        raise TypeError(
            f"envs must be a vector environment of Gymnasium, got {type(envs).__name__}, which has no num_envs. For a "
            f"single environment leave envs out and use add."
        )
    if given is not None and given != number:
        raise ValueError(f"environments = {given}, but envs has {number}: leave environments out.")
    return as_count(number, "envs.num_envs")


def as_autoreset(autoreset: object, envs: object) -> str | None:
    """Return how environments reset after an end: as given, or as `envs` says; None where neither is given."""
    given = None if autoreset is None else _parse_mode(autoreset)
    if autoreset is not None and given is None:
        raise ValueError(f"autoreset must be {AUTORESET_CHOICES}, got {autoreset!r}.")
    if envs is None:
        return given
    metadata = getattr(envs, "metadata", None)
    said = metadata.get("autoreset_mode") if isinstance(metadata, Mapping) else None
    mode = None if said is None else _parse_mode(said)
    if mode is None and given is None:
        raise ValueError(
            f"envs does not say how it resets: its metadata has the autoreset_mode {said!r} (Gymnasium sets it from "
            f"version 1.1 on). Look it up, and pass autoreset={AUTORESET_CHOICES}."
        )
    if mode is not None and given is not None and mode != given:
        raise ValueError(f"autoreset = {given!r}, but envs resets by {mode!r}: leave autoreset out.")
    return given if mode is None else mode


def _parse_mode(value: object) -> str | None:
    """Return the name of a mode that is given by name or as Gymnasium's `AutoresetMode`."""
    name = value.name if isinstance(value, Enum) else value
    modes = {mode.replace("_", ""): mode for mode in (NEXT_STEP, SAME_STEP, DISABLED)}
    return modes.get(name.replace("_", "").lower()) if isinstance(name, str) else None


def _require_scalar(array: AnyArray, name: str) -> AnyArray:
    if array.shape != ():
        raise ValueError(f"{name} must be one value, got shape {array.shape}. Use add_batch for many environments.")
    return array


SINGLE_LIMITS = np.finfo(np.float32)


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
        self._before = make_layout(observation_space, "observation")
        self._action = make_layout(action_space, "action")
        self._after = make_layout(observation_space, "next_observation")
        self._final = make_layout(observation_space, "final_observation")
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
    require_entries(state, {leaf.name for leaf in leaves}, "a buffer of these spaces")
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
        raise CheckpointError(
            f"Saved {leaf.name} must be an array with a row per transition, got {describe_value(column)}."
        )
    if column.shape[1:] != leaf.shape or column.dtype != leaf.dtype:
        raise CheckpointError(
            f"The saved transitions do not fit: {leaf.name} was {column.dtype} of shape {column.shape[1:]}, and "
            f"is {leaf.dtype} of shape {leaf.shape} here. Build the buffer with the spaces it was saved with."
        )
    return column


def check_sums(rewards: AnyArray, powers: FloatArray, name: str) -> None:
    """Raise `CheckpointError` for sums of discounted rewards that steps of allowed rewards cannot have."""
    largest = MAX_REWARD * float(powers[:-1].sum()) * 1.000001  # as far as single precision rounds
    good = np.abs(rewards) <= min(largest, float(SINGLE_LIMITS.max))
    if not good.all():
        i = find_first(~good)
        raise CheckpointError(
            f"The saved transitions are damaged: {name} {rewards[i]:g} in row {i} is not finite, or larger than "
            f"rewards of at most {MAX_REWARD:g} sum to."
        )


def _check_discounts(discounts: AnyArray, terminated: BoolArray, powers: FloatArray) -> None:
    """Raise `CheckpointError` for discounts other than zero where terminated, and a power of the discount elsewhere."""
    known = np.sort(powers[1:])
    place = np.searchsorted(known, discounts).clip(1, len(known)) - 1
    near = np.stack([known[place], known[np.minimum(place + 1, len(known) - 1)]])
    close = np.abs(discounts - near) <= 1e-6 * near + float(SINGLE_LIMITS.tiny)
    good = np.where(terminated, discounts == 0.0, close.any(axis=0))
    if not good.all():
        i = find_first(~good)
        raise CheckpointError(
            f"The saved transitions are damaged: discount {discounts[i]:g} in row {i}. It is 0 where an episode "
            f"terminated, and elsewhere the discount of the buffer, {powers[1]:g}, to a power of 1 to {len(known)}."
        )
