"""Draw-wise bias of the reshuffled mixture, carried (which group serves a slot is no matter of chance) and shuffled.

Eight uneven groups, 6,000 points, the best fixed shares.  The expectation over 150 shuffles of the weighted mean of a
batch, against the true mean: root mean square over the batches of the first pass, less what 150 shuffles leave to
chance, and the mean over a pass.
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
    """How much is measured: shuffles, sizes of batches, and draws of each."""

    seeds: int = 150
    batches: tuple[int, ...] = (1, 10, 32, 128)
    draws: int = 6000
    passes: int = 5


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure how far expectations of batches are off, and of whole passes."""
    results: dict[str, object] = {}
    for name, allocate in (("round_robin", round_robin), ("shuffled", Shuffled(int(GROUP_SIZES.sum())))):
        for m in scale.batches:
            off = results[f"{name}, m = {m}"] = _measure_deviation(
                batch_means(m, scale.draws // m, scale.seeds, allocate)
            )
            console.print(f"  {name}, batches of {m}: expectation off by {off:.2%} (root mean square)")
        passes = batch_means(int(GROUP_SIZES.sum()), scale.passes, scale.seeds, allocate).mean(axis=1)
        mean, error = float(passes.mean()), float(passes.std() / scale.seeds**0.5)
        console.print(f"  {name}, over a pass: {mean:+.3%}, standard error {error:.3%}")
        results |= {f"{name}, pass": mean, f"{name}, pass, standard error": error}
    return results


def _measure_deviation(means: FloatArray) -> float:
    """Give the root mean square of expectations, without what is left to chance in means over so many seeds."""
    chance = means.var(axis=0, ddof=1) / len(means)
    return float(np.sqrt(max((means.mean(axis=0) ** 2 - chance).mean(), 0.0)))


def make_problem() -> tuple[IntArray, FloatArray, FloatArray]:
    """Give labels, values, and the mixture that draws each group by its mass and root mean square."""
    labels = np.repeat(np.arange(8), GROUP_SIZES)
    scale = np.array([0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 4.0, 10.0])
    values = np.exp(0.5 * np.random.default_rng(0).normal(size=len(labels))) * scale[labels]
    shares = GROUP_SIZES * np.sqrt(np.bincount(labels, values**2) / GROUP_SIZES)
    return labels, values, np.append(0.9 * shares / shares.sum(), 0.1)


def batch_means(m: int, batches: int, seeds: int, allocate: Allocation = round_robin) -> FloatArray:
    """Give the weighted means over the true mean, less one, for every seed and batch."""
    labels, values, mixture = make_problem()
    means: FloatArray = np.empty((seeds, batches))
    for seed in range(seeds):
        family = varmix.Groups(labels, replacement=False)
        sampler = varmix.vrm(family, learner=varmix.learners.Fixed(mixture), allocate=allocate, rng=seed)
        for b in range(batches):
            draw = sampler.draw(m)
            means[seed, b] = (draw.weights * values[draw.indices]).mean()
    return means / float(values.mean()) - 1
