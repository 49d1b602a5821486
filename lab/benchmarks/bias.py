"""Bias of single batches of the reshuffled mixture, with round-robin and with shuffled allocation.

Round robin assigns groups to slots without chance. The problem has eight uneven groups, 6,000 points and the best fixed
shares. The weighted mean of a batch, averaged over 150 shuffles, is compared with the true mean: as a root mean square
over the batches of the first epoch, without the variance that 150 shuffles leave, and as a mean over an epoch.
"""

from dataclasses import dataclass

import numpy as np
from rich.console import Console

import varmix
from lab.arrays import FloatArray, IntArray
from varmix.allocate import Allocation, Shuffled, round_robin

GROUP_SIZES = np.array([2000, 1500, 1000, 800, 400, 200, 80, 20])


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: shuffles, batch sizes, draws per batch size, and epochs."""

    seeds: int = 150
    batches: tuple[int, ...] = (1, 10, 32, 128)
    draws: int = 6000
    epochs: int = 5


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure the bias of single batches, and of whole epochs."""
    results: dict[str, object] = {}
    for name, allocate in (("round_robin", round_robin), ("shuffled", Shuffled(int(GROUP_SIZES.sum())))):
        for m in scale.batches:
            off = results[f"{name}, m = {m}"] = _measure_deviation(
                batch_means(m, scale.draws // m, scale.seeds, allocate)
            )
            console.print(f"  {name}, batches of {m}: bias {off:.2%} (root mean square)")
        epochs = batch_means(int(GROUP_SIZES.sum()), scale.epochs, scale.seeds, allocate).mean(axis=1)
        mean, error = float(epochs.mean()), float(epochs.std() / scale.seeds**0.5)
        console.print(f"  {name}, over an epoch: {mean:+.3%}, standard error {error:.3%}")
        results |= {f"{name}, pass": mean, f"{name}, pass, standard error": error}
    return results


def _measure_deviation(means: FloatArray) -> float:
    """Return the root mean square of the means over seeds, without the variance due to the number of seeds."""
    chance = means.var(axis=0, ddof=1) / len(means)
    return float(np.sqrt(max((means.mean(axis=0) ** 2 - chance).mean(), 0.0)))


def make_problem() -> tuple[IntArray, FloatArray, FloatArray]:
    """Return labels, values, and the mixture that draws groups in proportion to mass times root mean square."""
    labels = np.repeat(np.arange(8), GROUP_SIZES)
    scale = np.array([0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 4.0, 10.0])
    values = np.exp(0.5 * np.random.default_rng(0).normal(size=len(labels))) * scale[labels]
    shares = GROUP_SIZES * np.sqrt(np.bincount(labels, values**2) / GROUP_SIZES)
    return labels, values, np.append(0.9 * shares / shares.sum(), 0.1)


def batch_means(m: int, batches: int, seeds: int, allocate: Allocation = round_robin) -> FloatArray:
    """Return the relative error of the weighted mean for every seed and batch."""
    labels, values, mixture = make_problem()
    means: FloatArray = np.empty((seeds, batches))
    for seed in range(seeds):
        family = varmix.Groups(labels, replacement=False)
        sampler = varmix.vrm(family, learner=varmix.learners.Fixed(mixture), allocate=allocate, rng=seed)
        for b in range(batches):
            draw = sampler.draw(m)
            means[seed, b] = (draw.weights * values[draw.indices]).mean()
    return means / float(values.mean()) - 1
