"""The runs of section 6.1."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lab.arrays import FloatArray, IntArray
from lab.comparison import find_lasting
from lab.experiments.blobs.data import PLACES, Blobs, make_blobs
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Result
from varmix import Sampler, uniform, vrm
from varmix.components import Groups
from varmix.learners import ONS
from varmix.solvers import Linear, Trace, sgd
from varmix.solvers import Result as Run
from varmix.solvers.schedules import InverseRoot

ACCURACY_LEVEL = 0.99  # the accuracy to sustain
ITERATIONS_PER_LOOK = 25  # between two evaluations of the accuracy
FIGURE_ITERATION = 10_000  # iterations after which the paper shows the mixture
MIXTURE, AHEAD, AUTHORS = "mixture", "mixture, ahead", "authors' ONS"
UNIFORM, AGAIN, SHUFFLE = "uniform", "uniform again", "reshuffling"


def _build_authors_sampler(data: Blobs, seed: int) -> Sampler:
    """Build the sampler with the authors' settings, beta 10 and eps 0.1 for norms up to one, scaled to these norms."""
    longest = float(np.linalg.norm(data.X, axis=1).max())
    return vrm(Groups(data.blob), learner=ONS(beta=10 / longest**2, eps=0.1 * longest**4), rng=seed)


ARMS: dict[str, Callable[[Blobs, int], Sampler]] = {
    MIXTURE: lambda data, seed: vrm(Groups(data.blob), rng=seed),
    AHEAD: lambda data, seed: vrm(Groups(data.blob), rng=seed),
    AUTHORS: _build_authors_sampler,
    UNIFORM: lambda data, seed: uniform(len(data.X), rng=seed),
    AGAIN: lambda data, seed: uniform(len(data.X), rng=seed + 1_000_000),
    SHUFFLE: lambda data, seed: uniform(len(data.X), rng=seed, replacement=False),
}
OTHER_PLACE_ARMS = (MIXTURE, UNIFORM, AGAIN)  # the arms that run in other places
QUICK_ARMS = (MIXTURE, AHEAD, UNIFORM, SHUFFLE)
COMPILED_ARMS = (AHEAD, SHUFFLE)  # reshuffling draws the same when compiled, and no claim is about its time


class Done(NamedTuple):
    """A finished run, and the mixture at every evaluation."""

    run: Run
    mixtures: FloatArray


def train_svm(data: Blobs, sampler: Sampler, epochs: int = 5, batches_per_update: int | None = 1) -> Done:
    """Run online gradient descent on the hinge loss with one draw a step.

    By default the mixture is updated after every draw, as in Algorithm 2. With `batches_per_update=None` the compiled
    loop makes many steps between two updates.
    """
    mixtures: list[FloatArray] = []

    def look(theta: FloatArray, trace: Trace) -> None:
        mixtures.append(sampler.mixture)

    n = len(data.X)
    problem = Linear(data.X, data.y, loss="hinge")
    done = sgd(
        problem,
        sampler,
        epochs=epochs,
        batch=1,
        step=InverseRoot(0.01),
        evaluations_per_epoch=n // ITERATIONS_PER_LOOK,
        batches_per_update=batches_per_update,
        callback=look,
    )
    return Done(done, np.array(mixtures))


def compute_lasting_accuracy(accuracies: FloatArray) -> FloatArray:
    """Return for every evaluation the lowest accuracy from there on: the accuracy that is never lost again."""
    return np.asarray(np.minimum.accumulate(accuracies[::-1])[::-1])


def find_sustained(accuracies: FloatArray, iterations: IntArray, level: float = ACCURACY_LEVEL) -> int | None:
    """Return the first evaluated iteration from which on the accuracy never falls below `level`; None for never.

    Examples
    --------
    >>> find_sustained(np.array([0.5, 0.995, 0.6, 0.99, 1.0]), np.array([25, 50, 75, 100, 125]))
    100
    """
    first = find_lasting(-accuracies, -level)
    return None if first is None else int(iterations[first])


def plan(mode: Mode) -> list[Config]:
    """Plan every arm on 40 seeds, and some arms in other places on 12; in quick mode the main arms on nine seeds.

    With nine seeds or more the interval of a median leaves out the extremes.
    """
    if mode == "quick":
        return [_configure(arm, seed, "row") for seed in range(9) for arm in QUICK_ARMS]
    return [
        _configure(arm, seed, place)
        for place in PLACES
        for seed in range(40 if place == "row" else 12)
        for arm in (ARMS if place == "row" else OTHER_PLACE_ARMS)
    ]


def _configure(arm: str, seed: int, place: str) -> Config:
    return {"arm": arm, "seed": seed, "n": 10_000, "epochs": 5, "place": place}


def run(config: Config) -> Result:
    """Train one arm on one data set."""
    data = make_blobs(config["n"], rng=config["seed"], place=config["place"])
    arm = config["arm"]
    sampler = ARMS[arm](data, config["seed"])
    done, mixtures = train_svm(data, sampler, config["epochs"], None if arm in COMPILED_ARMS else 1)
    accuracies = np.array(done.trace.accuracies, dtype=float)
    iterations = np.array(done.trace.evaluations)
    looks = _some_looks(len(accuracies))
    in_figure = int(np.searchsorted(iterations, min(FIGURE_ITERATION, iterations[-1])))
    learns = sampler.components.k > 1
    return {
        "sustained": find_sustained(accuracies, iterations),
        "accuracy": accuracies[-1],
        "hinge": done.trace.losses[-1],
        "gain": done.meter.gain.value,
        "seconds": done.trace.seconds[-1],
        "mixture": mixtures[-1].tolist() if learns else None,
        "mixture_in_figure": mixtures[in_figure].tolist() if learns else None,
        "iterations": iterations[looks].tolist(),
        "kept": compute_lasting_accuracy(accuracies)[looks].tolist(),
        "mixtures": np.round(mixtures[looks], 5).tolist() if learns else None,
    }


def _some_looks(count: int) -> IntArray:
    """Return the indices of about 100 evaluations, close together at the start, after the first step at least."""
    return np.unique(np.geomspace(1, count - 1, 100).round().astype(np.int64))


def seconds(config: Config) -> float:
    """Estimate the seconds of a run: about 20 us an iteration, 4 us if compiled, 45 us for ONS as printed."""
    each = {AHEAD: 4e-6, SHUFFLE: 4e-6, AUTHORS: 45e-6}.get(config["arm"], 20e-6)
    return float(config["n"] * config["epochs"] * each)
