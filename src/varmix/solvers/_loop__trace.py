"""Trace: what a run looked like on the way."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from varmix._core.validation import FloatArray
from varmix.meter import GainMeter

Stopped: TypeAlias = Literal["epochs", "tolerance", "diverged"]


@dataclass
class Trace:
    """One entry per look, in columns.  Time counts the solver and the sampler, not the looks themselves.

    Attributes
    ----------
    evaluations
        Gradients of single points computed so far, full passes included (coordinate descent: partial derivatives).
    seconds
        Time spent so far.
    losses
        The objective, from all points.
    accuracies
        Share of points on the right side, where the problem knows.
    gains
        Second moment of uniform sampling over that of the sampler, since the look before (one at the first).
    """

    evaluations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float | None] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.evaluations)


@dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes
    ----------
    theta
        Where it ended.
    trace
        What was seen at the looks.
    meter
        The gain meter of the whole run.
    stopped
        Why it ended: all "epochs" done, "tolerance" reached, or "diverged".
    epochs
        Epochs that were begun.
    """

    theta: FloatArray
    trace: Trace
    meter: GainMeter
    stopped: Stopped
    epochs: int
