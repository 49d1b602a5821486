"""Steps: how long each step is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from varmix._core.validation import FloatArray, as_number, as_positive

Schedule: TypeAlias = Callable[[FloatArray, int], FloatArray]
"""Gives the lengths of the steps number t = 1, 2, ... (an array of them) of a run of `total` steps."""


@dataclass(frozen=True)
class _Eta:
    eta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", as_positive(self.eta, "eta"))


@dataclass(frozen=True)
class Constant(_Eta):
    """eta, always."""

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta for every step."""
        return np.full(len(t), self.eta)


@dataclass(frozen=True)
class InverseRoot(_Eta):
    """eta / sqrt(t): for convex losses without curvature."""

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta / sqrt(t)."""
        return np.asarray(self.eta / np.sqrt(t))


@dataclass(frozen=True)
class LinearDecay(_Eta):
    """From eta down to almost nothing at the last step: needs no second knob, but the number of steps."""

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta (1 - (t - 1) / total)."""
        return np.asarray(self.eta * (1.0 - (t - 1.0) / total))


@dataclass(frozen=True)
class InverseTime(_Eta):
    """eta / (1 + decay eta t): with `decay` the curvature of a strongly convex loss."""

    decay: float

    def __post_init__(self) -> None:
        super().__post_init__()
        decay = as_number(self.decay, "decay")
        if not 0 <= decay < np.inf:
            raise ValueError(f"decay must be a finite number of at least 0, got {self.decay!r}.")
        object.__setattr__(self, "decay", decay)

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta / (1 + decay eta t)."""
        return np.asarray(self.eta / (1.0 + self.decay * self.eta * t))


def as_schedule(step: float | Schedule) -> Schedule:
    """Give a schedule; a number is a constant step."""
    if isinstance(step, type):
        raise TypeError(f"step must be a number or a schedule, got the class {step.__name__}: make one, with its eta.")
    return step if callable(step) else Constant(as_positive(step, "step"))
