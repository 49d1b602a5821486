"""The arms: one training loop, fed with batches from different samplers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from lab.arrays import FloatArray, IntArray
from lab.experiments.networks.data import Split, load_split
from lab.experiments.networks.tasks import (
    AGAIN,
    ALWAYS,
    ALWAYS_CROSS,
    BALANCED,
    CROSS,
    LABELS,
    LARGER,
    LARGER_BATCH_FACTOR,
    RESHUFFLING,
    STATIC,
    TASKS,
)
from varmix import Draw, Sampler, importance, uniform
from varmix.components import Groups
from varmix.estimators import auto_labels
from varmix.learners import BarrierNewton


@dataclass(frozen=True)
class Arm:
    """A source of batches.

    Attributes
    ----------
    sampler
        Sampler of the batches.
    weigh
        Function from a receipt to the factors of its points in the loss.
    times
        Batch size as a multiple of the task's. Default: 1.
    adapts
        Whether the sampler gets feedback. Default: False.
    shift
        Added to the outputs when the network is used: the logarithms of the class shares, for a network that was
        trained as if all classes were equally common. Default: None, nothing.
    """

    sampler: Sampler
    weigh: Callable[[Draw], FloatArray]
    times: int = 1
    adapts: bool = False
    shift: FloatArray | None = None


def build_arm(name: str, task: str, seed: int) -> Arm:
    """Return an arm of a task."""
    return ARMS[name](load_split(TASKS[task].data), task, seed)


def _build_reshuffling(data: Split, task: str, seed: int, times: int = 1) -> Arm:
    """Shuffle every epoch; where points have costs, these are factors in the loss, as usual."""
    sampler, costs = uniform(len(data.y), replacement=False, rng=seed), data.costs
    return Arm(sampler, (lambda draw: draw.weights) if costs is None else lambda draw: costs[draw.indices], times)


def _build_labels(data: Split, task: str, seed: int, *, always: bool = False) -> Arm:
    return _build_mixture(Groups(data.groups, replacement=False, target=data.costs), seed, always)


def _build_cross(data: Split, task: str, seed: int, *, always: bool = False) -> Arm:
    return _build_mixture(
        Groups(make_fine_groups(task), replacement=False, target=data.costs, resplit="norms"), seed, always
    )


def _build_mixture(groups: Groups, seed: int, always: bool) -> Arm:
    """Build the sampler of a loader over groups: plain shuffling until the mixture pays, or always the mixture."""
    learner = BarrierNewton() if always else None
    return Arm(Sampler(groups, learner=learner, rng=seed), lambda draw: draw.weights, adapts=True)


@lru_cache(maxsize=2)
def make_fine_groups(task: str) -> IntArray:
    """Return groups by class or target and by length, as `varmix.auto` does; words have no length and keep theirs."""
    data = load_split(TASKS[task].data)
    if TASKS[task].network == "words":
        return data.groups
    lengths = np.sqrt(np.einsum("ij,ij->i", data.X, data.X, dtype=np.float64))
    # `auto_labels` uses only the lengths of the rows, so a column of lengths replaces all pixels.
    return auto_labels(lengths[:, None], data.y, task="classification" if data.classes else "regression")


def _build_balanced(data: Split, task: str, seed: int) -> Arm:
    """Draw all classes equally often and unweighted, as `WeightedRandomSampler` does, and shift the outputs afterwards.

    If the loss itself is balanced, nothing is shifted.
    """
    counts = np.bincount(data.y)
    shift = np.log(counts / len(data.y)) if data.costs is None else None
    return Arm(importance(1.0 / counts[data.y], smoothing=0.0, rng=seed), _make_ones, shift=shift)


def _build_static(data: Split, task: str, seed: int) -> Arm:
    """Draw all classes equally often, with importance weights: unbiased, not adaptive."""
    return Arm(importance(1.0 / np.bincount(data.y)[data.y], smoothing=0.0, rng=seed), lambda draw: draw.weights)


def _make_ones(draw: Draw) -> FloatArray:
    return np.ones(len(draw))


ARMS: dict[str, Callable[[Split, str, int], Arm]] = {
    RESHUFFLING: _build_reshuffling,
    AGAIN: _build_reshuffling,
    LARGER: lambda data, task, seed: _build_reshuffling(data, task, seed, LARGER_BATCH_FACTOR),
    LABELS: _build_labels,
    CROSS: _build_cross,
    ALWAYS: partial(_build_labels, always=True),
    ALWAYS_CROSS: partial(_build_cross, always=True),
    BALANCED: _build_balanced,
    STATIC: _build_static,
}
