"""Checks of rewards, ends of episodes and TD errors: quick where all is well, careful in what they say where not.

Also how vector environments reset: Gymnasium knows three modes, and a buffer must know which one it is.
"""

from collections.abc import Mapping
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray
from varmix._core.validation import BoolArray
from varmix._core.validation import FloatArray
from varmix._core.validation import as_array
from varmix._core.validation import as_count
from varmix._core.validation import as_floats
from varmix._core.validation import first

NEXT_STEP, SAME_STEP, DISABLED = "next_step", "same_step", "disabled"
AUTORESET = f"{NEXT_STEP!r}, {SAME_STEP!r} or {DISABLED!r}"
LARGEST = 1e30  # of a reward: sums of them are kept in single precision, which ends at 3e38


def as_reward(value: float) -> float:
    """Check the reward of one step."""
    if not isinstance(value, (float, int)):
        value = float(_one(as_floats(value, "reward"), "reward"))
    if not -LARGEST <= value <= LARGEST:
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
    good = np.abs(rewards) <= LARGEST
    if not good.all():
        bad = rewards[first(~good)]
        raise ValueError(f"rewards must be finite and at most 1e30 either way, got {bad}: it would spoil every sum.")


def as_flag(value: object, name: str) -> bool:
    """Check True or False."""
    if type(value) is bool or type(value) is np.bool_:
        return bool(value)
    array = _one(as_array(value, name), name)  # type: ignore[arg-type]
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
    given = None if autoreset is None else _mode(autoreset)
    if autoreset is not None and given is None:
        raise ValueError(f"autoreset must be {AUTORESET}, got {autoreset!r}.")
    if envs is None:
        return given
    metadata = getattr(envs, "metadata", None)
    said = metadata.get("autoreset_mode") if isinstance(metadata, Mapping) else None
    mode = None if said is None else _mode(said)
    if mode is None and given is None:
        raise ValueError(
            f"envs does not say how it resets: its metadata has the autoreset_mode {said!r} (Gymnasium sets it from "
            f"version 1.1 on). Look it up, and pass autoreset={AUTORESET}."
        )
    if mode is not None and given is not None and mode != given:
        raise ValueError(f"autoreset = {given!r}, but envs resets by {mode!r}: leave autoreset out.")
    return given if mode is None else mode


def _mode(value: object) -> str | None:
    """Return the name of a mode that is given by name or as Gymnasium's `AutoresetMode`."""
    name = value.name if isinstance(value, Enum) else value
    modes = {mode.replace("_", ""): mode for mode in (NEXT_STEP, SAME_STEP, DISABLED)}
    return modes.get(name.replace("_", "").lower()) if isinstance(name, str) else None


def _one(array: AnyArray, name: str) -> AnyArray:
    if array.shape != ():
        raise ValueError(f"{name} must be one value, got shape {array.shape}. Use add_batch for many environments.")
    return array
