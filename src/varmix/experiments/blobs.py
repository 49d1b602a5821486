"""Blobs, section 6.1: a linear SVM on six Gaussian blobs, where only the two middle ones hold support vectors.

    python -m varmix.experiments.blobs

Five epochs of online gradient descent with step 0.01 / sqrt(t) on 10,000 points; the feedback is the norm of the hinge
loss's gradient.  The mixture should find the middle blobs by itself.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from varmix.arrays import FloatArray, IntArray
from varmix.components import Groups
from varmix.experiments.progress import tracked
from varmix.meter import GainMeter
from varmix.presets import uniform, vrm
from varmix.sampler import Sampler

BLOBS = 6
MIDDLE = (2, 3)


@dataclass(frozen=True)
class Blobs:
    """Points (n, 2) with a constant feature behind them, labels -1 or 1, and the blob of each point."""

    X: FloatArray
    y: FloatArray
    blob: IntArray


def make_blobs(n: int = 10_000, rng: int = 0) -> Blobs:
    """Give six balanced, well-separated blobs from left to right; the left three are negative."""
    generator = np.random.default_rng(rng)
    blob = np.arange(n) * BLOBS // n
    centers = np.column_stack([np.linspace(-2.5, 2.5, BLOBS), np.tile([0.5, -0.5], BLOBS // 2)])
    points = centers[blob] + 0.12 * generator.normal(size=(n, 2))
    return Blobs(np.column_stack([points, np.ones(n)]), np.where(blob < BLOBS // 2, -1.0, 1.0), blob)


@dataclass
class Run:
    """The separating direction after a run, what the meter says, and the sampler's mixture."""

    theta: FloatArray
    meter: GainMeter
    mixture: FloatArray


def train(data: Blobs, sampler: Sampler, title: str, epochs: int = 5) -> Run:
    """Run online gradient descent on the hinge loss with one draw a step."""
    theta = np.zeros(data.X.shape[1])
    meter = GainMeter()
    steps = epochs * len(data.X)
    for t in tracked(range(1, steps + 1), steps, title):
        draw = sampler.draw(1)
        i = draw.indices[0]
        active = data.y[i] * (data.X[i] @ theta) < 1.0
        norms = np.array([np.linalg.norm(data.X[i]) if active else 0.0])
        if active:
            theta += 0.01 / np.sqrt(t) * draw.weights[0] * data.y[i] * data.X[i]
        meter.update(draw, norms)
        sampler.update(draw, norms)
    return Run(theta, meter, sampler.mixture)


def accuracy(data: Blobs, theta: FloatArray) -> float:
    """Give the share of points on the right side."""
    return float(np.mean(np.sign(data.X @ theta) == data.y))


def hinge(data: Blobs, theta: FloatArray) -> float:
    """Give the mean hinge loss."""
    return float(np.maximum(0.0, 1.0 - data.y * (data.X @ theta)).mean())


def main(arguments: list[str] | None = None) -> None:
    """Train with the mixture and with uniform draws, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args(arguments)
    data = make_blobs(rng=options.seed)
    mixed = train(data, vrm(Groups(data.blob), rng=options.seed), "mixture", options.epochs)
    plain = train(data, uniform(len(data.X), rng=options.seed), "uniform", options.epochs)
    print("\nThe mixture it found (each blob holds 1/6 of the points):")
    for name, weight in zip([*(f"blob {j + 1}" for j in range(BLOBS)), "uniform"], mixed.mixture, strict=True):
        print(f"  {name:<8} {weight:6.3f} {'#' * round(50 * weight)}")
    print(f"Weight on the two middle blobs: {mixed.mixture[list(MIDDLE)].sum():.3f}")
    gain = mixed.meter.gain
    print(f"Second moment of the gradient estimate: {1 / gain.value:.3f} of what uniform sampling would have had")
    print(f"  (95 % interval {1 / gain.high:.3f} to {1 / gain.low:.3f})")
    for name, run in (("mixture", mixed), ("uniform", plain)):
        print(
            f"After {options.epochs} epochs, {name}: accuracy {accuracy(data, run.theta):.4f}, "
            f"hinge loss {hinge(data, run.theta):.4f}"
        )
    print(mixed.meter.verdict())


if __name__ == "__main__":
    main()
