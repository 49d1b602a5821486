"""Checks of rewards, ends of episodes and TD errors: quick where all is well, careful in what they say where not."""

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import AnyArray, BoolArray, FloatArray, as_array, as_floats, first

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


def _one(array: AnyArray, name: str) -> AnyArray:
    if array.shape != ():
        raise ValueError(f"{name} must be one value, got shape {array.shape}. Use add_batch for many environments.")
    return array
