"""The runs of section 6.1."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lab.arrays import FloatArray, IntArray
from lab.experiments.blobs.data import PLACES, Blobs, make_blobs
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Result
from varmix import Sampler, uniform, vrm
from varmix.components import Groups
from varmix.learners import ONS
from varmix.solvers import Linear, Trace, sgd
from varmix.solvers import Result as Run
from varmix.solvers.schedules import InverseRoot

ACCURACY_LEVEL = 0.99  # the accuracy to be sustained
ITERATIONS_PER_LOOK = 25  # iterations between two looks at the accuracy
FIGURE_ITERATION = 10_000  # iterations after which the paper shows the mixture
MIXTURE, AHEAD, AUTHORS = "mixture", "mixture, ahead", "authors' ONS"
UNIFORM, AGAIN, SHUFFLE = "uniform", "uniform again", "reshuffling"


def _build_authors_sampler(data: Blobs, seed: int) -> Sampler:
    """The authors' settings, beta 10 and eps 0.1, are for norms of at most one: say the same for norms as they are."""
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
COMPILED_ARMS = (AHEAD, SHUFFLE)  # the latter has the same draws either way, and nothing is said of its time


class Done(NamedTuple):
    """A finished run, and the mixture at every look."""

    run: Run
    mixtures: FloatArray


def train_svm(data: Blobs, sampler: Sampler, epochs: int = 5, batches_per_update: int | None = 1) -> Done:
    """Run online gradient descent on the hinge loss with one draw a step.

    One update of the mixture after every draw, as in Algorithm 2; `batches_per_update=None` lets the compiled loop run
    ahead.
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
    """Give the least accuracy from every look on: what is never lost again."""
    return np.asarray(np.minimum.accumulate(accuracies[::-1])[::-1])


def find_sustained(accuracies: FloatArray, iterations: IntArray, level: float = ACCURACY_LEVEL) -> int | None:
    """Give the iteration of the first look from which on the accuracy never falls below `level` again.

    Examples
    --------
    >>> find_sustained(np.array([0.5, 0.995, 0.6, 0.99, 1.0]), np.array([25, 50, 75, 100, 125]))
    100
    """
    kept = np.flatnonzero(compute_lasting_accuracy(accuracies) >= level)
    return int(iterations[kept[0]]) if len(kept) else None


def plan(mode: Mode) -> list[Config]:
    """Every arm on 40 seeds, and some arms in other places on 12; in quick mode the main arms on nine seeds.

    From nine seeds on the interval of a median leaves out the extremes.
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
    """Give about a hundred looks, close together at the start, without the one before the first step."""
    return np.unique(np.geomspace(1, count - 1, 100).round().astype(np.int64))


def seconds(config: Config) -> float:
    """About 20 us an iteration, of which the arithmetic is the least; 45 us for ONS as it is printed."""
    each = {AHEAD: 4e-6, SHUFFLE: 4e-6, AUTHORS: 45e-6}.get(config["arm"], 20e-6)
    return float(config["n"] * config["epochs"] * each)
