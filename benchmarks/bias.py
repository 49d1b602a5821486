"""Draw-wise bias of the reshuffled mixture: which group serves a slot is no matter of chance.

    make bench

Eight uneven groups, 6,000 points, the best fixed shares.  The expectation over 150 shuffles of the weighted mean of a
batch, against the true mean: root mean square over the batches of the first 2,000 draws, and the mean over a pass.
"""

import json
from pathlib import Path

import numpy as np

import varmix

SIZES = np.array([2000, 1500, 1000, 800, 400, 200, 80, 20])
SEEDS = 150


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give labels, values, and the mixture that draws each group by its mass and root mean square."""
    labels = np.repeat(np.arange(8), SIZES)
    scale = np.array([0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 4.0, 10.0])
    values = np.exp(0.5 * np.random.default_rng(0).normal(size=len(labels))) * scale[labels]
    shares = SIZES * np.sqrt(np.bincount(labels, values**2) / SIZES)
    return labels, values, np.append(0.9 * shares / shares.sum(), 0.1)


def batch_means(m: int, batches: int) -> np.ndarray:
    """Give the weighted means over the true mean, less one, for every seed and batch."""
    labels, values, mixture = problem()
    means = np.empty((SEEDS, batches))
    for seed in range(SEEDS):
        family = varmix.Groups(labels, replacement=False)
        sampler = varmix.vrm(family, learner=varmix.Fixed(mixture), rng=seed)
        for b in range(batches):
            draw = sampler.draw(m)
            means[seed, b] = (draw.weights * values[draw.indices]).mean()
    return means / values.mean() - 1


def main() -> None:
    results = {}
    for m in (1, 10, 32, 128):
        bias = batch_means(m, 2000 // m).mean(axis=0)
        results[f"m = {m}"] = float(np.sqrt((bias**2).mean()))
        print(f"Reshuffled mixture, batches of {m}: expectation off by {results[f'm = {m}']:.2%} (root mean square)")
    passes = batch_means(SIZES.sum(), 5).mean(axis=1)
    results["pass"], results["pass, standard error"] = float(passes.mean()), float(passes.std() / SEEDS**0.5)
    print(f"  over a pass: {passes.mean():+.3%}, standard error {passes.std() / SEEDS**0.5:.3%}")
    (Path(__file__).parent / "results" / "bias.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
