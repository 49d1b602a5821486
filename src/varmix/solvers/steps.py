"""Steps: how long each step is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from varmix.arrays import FloatArray, as_positive

Schedule: TypeAlias = Callable[[FloatArray, int], FloatArray]
"""Gives the lengths of the steps number t = 1, 2, ... (an array of them) of a run of `total` steps."""


@dataclass(frozen=True)
class Constant:
    """eta, always."""

    eta: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta for every step."""
        return np.full(len(t), self.eta)


@dataclass(frozen=True)
class InverseRoot:
    """eta / sqrt(t): for convex losses without curvature."""

    eta: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta / sqrt(t)."""
        return np.asarray(self.eta / np.sqrt(t))


@dataclass(frozen=True)
class LinearDecay:
    """From eta down to almost nothing at the last step: needs no second knob, but the number of steps."""

    eta: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta (1 - (t - 1) / total)."""
        return np.asarray(self.eta * (1.0 - (t - 1.0) / total))


@dataclass(frozen=True)
class InverseTime:
    """eta / (1 + decay eta t): with `decay` the curvature of a strongly convex loss."""

    eta: float
    decay: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta / (1 + decay eta t)."""
        return np.asarray(self.eta / (1.0 + self.decay * self.eta * t))


def as_schedule(step: float | Schedule) -> Schedule:
    """Give a schedule; a number is a constant step."""
    return step if callable(step) else Constant(as_positive(step, "step"))
