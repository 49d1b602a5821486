"""One run: an arm looks for its best step, or is looked at on its way at one that was found."""

import math
from typing import Any

import numpy as np

from lab.experiments.networks import training__looks as looks
from lab.experiments.networks.training__looks import CHOOSING
from lab.experiments.networks.training__looks import MOST
from lab.experiments.networks.training__looks import REPORTING
from lab.experiments.networks.protocol import FIRST
from lab.experiments.networks.protocol import search
from lab.experiments.networks.tasks import TASKS
from lab.experiments.networks.training import Diverged
from lab.experiments.networks.training import Training
from lab.reproduce.records import Config
from lab.reproduce.records import Result
from lab.statistics import geometric_mean
from varmix.meter import GainMeter

STRETCHES = 5  # of a run, with a look and a meter each


def tune(config: Config) -> Result:
    """Search the step that leaves the least held-out loss, on seeds of its own and points that are for choosing."""

    def score(exponent: float) -> float:
        ends = [_end(config, exponent, FIRST + seed) for seed in range(config["seeds"])]
        return geometric_mean(ends).value if np.isfinite(ends).all() else math.inf

    best, tried = search(score)
    return {"best": best, "tried": {str(e): _finite(value) for e, value in sorted(tried.items())}}


def _end(config: Config, exponent: float, seed: int) -> float:
    training = _training(config, exponent, seed)
    try:
        training.go_on(training.steps, metered=False)
    except Diverged:
        return math.inf
    return _loss(training, looks.points(training.data.held)[CHOOSING])


def _training(config: Config, exponent: float, seed: int) -> Training:
    step = TASKS[config["task"]].step * 2.0**exponent
    return Training(config["task"], config["arm"], step, seed, config["epochs"])


def _loss(training: Training, where: looks.Points) -> float:
    return looks.mean_loss(looks.outputs(training.network, where, training.arm.shift), where)


def test(config: Config) -> Result:
    """Train, and look five times on the way."""
    training, seen = _training(config, config["step"], config["seed"]), Looks()
    try:
        for stretch in range(1, STRETCHES + 1):
            until = round(training.steps * stretch / STRETCHES)
            meter = training.go_on(until - training.done, metered=True)
            seen.look(training, meter)
    except Diverged:
        return {**seen.lists, "train": None, "test": None, "accuracy": None, "precision": None}
    return {**seen.lists, **_last(training)}


def _last(training: Training) -> Result:
    """Give what a finished network comes to, on all training points and on the half that is reported."""
    held = looks.points(training.data.held)[REPORTING]
    said = looks.outputs(training.network, held, training.arm.shift)
    return {
        "train": _finite(_loss(training, looks.points(training.data))),
        "test": _finite(looks.mean_loss(said, held)),
        "accuracy": looks.accuracy(said, held),
        "precision": looks.precision(said, held),
    }


class Looks:
    """What is seen on the way: losses at some training points and held out, gain and signal of the stretch behind."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {name: [] for name in ("evaluations", "losses", "held", "gains", "signals")}

    def look(self, training: Training, meter: GainMeter) -> None:
        """Look at the network between two stretches."""
        some = looks.points(training.data)
        if len(some.y) > MOST:  # the same ones every time
            some = some[np.random.default_rng(0).choice(len(some.y), MOST, replace=False)]
        held = looks.points(training.data.held)[REPORTING]
        losses = _loss(training, some), _loss(training, held)
        values = *losses, meter.gain.value, looks.signal(meter)
        for name, value in zip(self.lists, (training.evaluations, *values), strict=True):
            self.lists[name].append(value if value is None else _finite(value))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
