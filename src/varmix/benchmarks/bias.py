"""Draw-wise bias of the reshuffled mixture: which group serves a slot is no matter of chance.

Eight uneven groups, 6,000 points, the best fixed shares.  The expectation over 150 shuffles of the weighted mean of a
batch, against the true mean: root mean square over the batches of the first 2,000 draws, and the mean over a pass.
"""

from dataclasses import dataclass

import numpy as np
from rich.console import Console

import varmix
from varmix.arrays import FloatArray, IntArray

GROUPS = np.array([2000, 1500, 1000, 800, 400, 200, 80, 20])


@dataclass(frozen=True)
class Scale:
    """How much is measured: shuffles, sizes of batches, and draws of each."""

    seeds: int = 150
    batches: tuple[int, ...] = (1, 10, 32, 128)
    draws: int = 2000
    passes: int = 5


FULL = Scale()


def measure(console: Console, scale: Scale = FULL) -> dict[str, object]:
    """Measure how far expectations of batches are off, and of whole passes."""
    results: dict[str, object] = {}
    for m in scale.batches:
        bias = batch_means(m, scale.draws // m, scale.seeds).mean(axis=0)
        off = results[f"m = {m}"] = float(np.sqrt((bias**2).mean()))
        console.print(f"  reshuffled mixture, batches of {m}: expectation off by {off:.2%} (root mean square)")
    passes = batch_means(int(GROUPS.sum()), scale.passes, scale.seeds).mean(axis=1)
    mean, error = float(passes.mean()), float(passes.std() / scale.seeds**0.5)
    console.print(f"  over a pass: {mean:+.3%}, standard error {error:.3%}")
    return results | {"pass": mean, "pass, standard error": error}


def problem() -> tuple[IntArray, FloatArray, FloatArray]:
    """Give labels, values, and the mixture that draws each group by its mass and root mean square."""
    labels = np.repeat(np.arange(8), GROUPS)
    scale = np.array([0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 4.0, 10.0])
    values = np.exp(0.5 * np.random.default_rng(0).normal(size=len(labels))) * scale[labels]
    shares = GROUPS * np.sqrt(np.bincount(labels, values**2) / GROUPS)
    return labels, values, np.append(0.9 * shares / shares.sum(), 0.1)


def batch_means(m: int, batches: int, seeds: int) -> FloatArray:
    """Give the weighted means over the true mean, less one, for every seed and batch."""
    labels, values, mixture = problem()
    means: FloatArray = np.empty((seeds, batches))
    for seed in range(seeds):
        family = varmix.Groups(labels, replacement=False)
        sampler = varmix.vrm(family, learner=varmix.Fixed(mixture), rng=seed)
        for b in range(batches):
            draw = sampler.draw(m)
            means[seed, b] = (draw.weights * values[draw.indices]).mean()
    return means / float(values.mean()) - 1
