"""Schedules: the length of each step of a run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from varmix._core.validation import FloatArray, as_number, as_positive

Schedule: TypeAlias = Callable[[FloatArray, int], FloatArray]
"""Function of an array of step numbers t = 1, 2, ... and the total number of steps. It returns one length per step."""


@dataclass(frozen=True)
class _Eta:
    eta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", as_positive(self.eta, "eta"))


@dataclass(frozen=True)
class Constant(_Eta):
    """Constant schedule: every step has length eta.

    Parameters
    ----------
    eta : float
        Length of the steps.

    Examples
    --------
    >>> Constant(0.5)(np.array([1.0, 2.0]), 2).tolist()
    [0.5, 0.5]
    """

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Return eta for every step."""
        return np.full(len(t), self.eta)


@dataclass(frozen=True)
class InverseRoot(_Eta):
    """Schedule eta / sqrt(t), for convex losses without curvature.

    Parameters
    ----------
    eta : float
        Length of the first step.

    Examples
    --------
    >>> InverseRoot(0.5)(np.array([1.0, 4.0]), 4).tolist()
    [0.5, 0.25]
    """

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Return eta / sqrt(t)."""
        return np.asarray(self.eta / np.sqrt(t))


@dataclass(frozen=True)
class LinearDecay(_Eta):
    """Schedule eta (1 - (t - 1) / total), which falls linearly to eta / total at the last step.

    The number of steps of the run determines how fast it falls.

    Parameters
    ----------
    eta : float
        Length of the first step.

    Examples
    --------
    >>> LinearDecay(0.5)(np.array([1.0, 2.0]), 2).tolist()
    [0.5, 0.25]
    """

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Return eta (1 - (t - 1) / total)."""
        return np.asarray(self.eta * (1.0 - (t - 1.0) / total))


@dataclass(frozen=True)
class InverseTime(_Eta):
    """Schedule eta / (1 + decay eta t), for strongly convex losses.

    Parameters
    ----------
    eta : float
        Length of the first steps.
    decay : float
        How fast the steps shrink. Pass the curvature of the loss, such as its l2.

    Raises
    ------
    ValueError
        If eta is not positive, or decay is negative.

    Examples
    --------
    >>> InverseTime(0.5, decay=2.0)(np.array([1.0, 3.0]), 3).tolist()
    [0.25, 0.125]
    """

    decay: float

    def __post_init__(self) -> None:
        super().__post_init__()
        decay = as_number(self.decay, "decay")
        if not 0 <= decay < np.inf:
            raise ValueError(f"decay must be a finite number of at least 0, got {self.decay!r}.")
        object.__setattr__(self, "decay", decay)

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Return eta / (1 + decay eta t)."""
        return np.asarray(self.eta / (1.0 + self.decay * self.eta * t))


def as_schedule(step: float | Schedule) -> Schedule:
    """Return a schedule: a number becomes a constant one.

    Parameters
    ----------
    step : float or Schedule
        Length of the steps, or a function of (t, total).

    Returns
    -------
    Schedule
        The schedule itself, or a `Constant` for a number.

    Raises
    ------
    TypeError
        If the argument is a schedule class instead of an instance, or neither a number nor a function.
    ValueError
        If the number is not positive and finite.

    Examples
    --------
    >>> as_schedule(0.1)
    Constant(eta=0.1)
    """
    if isinstance(step, type):
        raise TypeError(
            f"step must be a number or a schedule, got the class {step.__name__}: make an instance with its eta."
        )
    return step if callable(step) else Constant(as_positive(step, "step"))
