"""A run of minibatch k-means with evaluations, and its time without them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.kmeans.arms import ARMS, EACH_BATCH_ARMS, Start
from varmix import Sampler
from varmix.estimators.clustering import Descent, SwitchAfter, find_nearest_centers

BATCH_SIZE = 100
ROWS_PER_CHUNK = 4096  # of ratios that are computed together
# Iterations after which a run is evaluated; the first is the seeding.
MARKED_ITERATIONS = (
    0,
    10,
    15,
    20,
    25,
    30,
    40,
    50,
    60,
    75,
    100,
    125,
    150,
    200,
    250,
    300,
    350,
    400,
    450,
    500,
    600,
    700,
    800,
    1000,
)
MOMENT_ITERATION = 300


@dataclass(frozen=True)
class Course:
    """A finished run.

    Attributes
    ----------
    centers
        Centres at every mark.
    seconds
        CPU seconds from the start of the sampler's set-up to every mark.
    gain
        Gain measured by the meter.
    moment, ideal
        Second moment relative to uniform draws after `MOMENT_ITERATION` iterations, and the lowest possible one.
    """

    centers: list[FloatArray]
    seconds: FloatArray
    gain: float
    moment: float
    ideal: float


def take_steps(descent: Descent, sampler: Sampler | SwitchAfter, steps: int, *, each_batch: bool = False) -> None:
    """Take steps with feedback after every batch, or after several batches, which is faster."""
    for _ in range(steps if each_batch else 1):
        descent.run(sampler, 1 if each_batch else steps)


def run_course(at: Start, arm: str, seed: int, marks: Sequence[int]) -> Course:
    """Make the same run twice and keep the shorter time of every stretch, because other work only adds time.

    Only the second run stops to compute the second moment.
    """
    centers, once, _, _ = _walk_path(at, arm, seed, marks, look=False)
    _, twice, gain, (moment, ideal) = _walk_path(at, arm, seed, marks, look=True)
    return Course(centers, np.cumsum(np.minimum(once, twice)), gain, moment, ideal)


def _walk_path(
    at: Start, arm: str, seed: int, marks: Sequence[int], look: bool
) -> tuple[list[FloatArray], FloatArray, float, tuple[float, float]]:
    """Return centres at the marks, seconds of every stretch (the set-up is the first), the gain, and the moments."""
    descent = Descent(at.X, at.seeding.centers, batch=BATCH_SIZE)
    moments = 1.0, 1.0
    centers, stretches = [np.array(descent.centers)], np.empty(len(marks))
    begun = time.thread_time()  # CPU time of this thread, to leave out other work on the machine
    sampler = ARMS[arm](at, seed)
    stretches[0] = time.thread_time() - begun
    for mark in range(1, len(marks)):
        begun = time.thread_time()
        take_steps(descent, sampler, marks[mark] - marks[mark - 1], each_batch=arm in EACH_BATCH_ARMS)
        stretches[mark] = time.thread_time() - begun
        centers.append(np.array(descent.centers))
        if look and marks[mark] == MOMENT_ITERATION:
            present = sampler.sampler_for(descent.steps) if isinstance(sampler, SwitchAfter) else sampler
            moments = second_moment(at.X, centers[-1], present)
    return centers, stretches, descent.meter.gain.value, moments


def second_moment(X: FloatArray, centers: FloatArray, sampler: Sampler) -> tuple[float, float]:
    """Return the second moment of a draw relative to a uniform one, and the lowest that any distribution could have.

    Over all points these are mean( l^2 / density ) / mean( l^2 ) and mean( l )^2 / mean( l^2 ), where l is the distance
    to the nearest centre: the norm of the gradient up to a constant.
    """
    norms = np.asarray(find_nearest_centers(X, centers).distances, dtype=np.float64)
    squares, mixture, total = norms**2, sampler.mixture, 0.0
    for begin in range(0, len(X), ROWS_PER_CHUNK):
        atoms = np.arange(begin, min(begin + ROWS_PER_CHUNK, len(X)))
        total += float(np.sum(squares[atoms] / (sampler.components.ratios(atoms) @ mixture)))
    return total / float(squares.sum()), float(norms.mean() ** 2 / squares.mean())
