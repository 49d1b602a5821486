"""One run: train a network, evaluate it on the way, or tune its step."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from lab.arrays import AnyArray, FloatArray, IntArray
from lab.experiments.networks.arms import arm
from lab.experiments.networks.data import split
from lab.experiments.networks.networks import losses, network, norms
from lab.experiments.networks.protocol import FIRST, search
from lab.experiments.networks.samples import Sample, Split
from lab.experiments.networks.tasks import AGAIN, TASKS, Task
from lab.reproduce.records import Config, Result
from lab.statistics import geometric_mean
from varmix.meter import GainMeter
from varmix.torch import AdaptiveLoader, TensorDraw

MOMENTUM = 0.9
EVERY = 5  # of so many steps, two in a row give their gradients to the meter: all of them would cost too much
OTHER_SEEDS = 1_000_000


class Diverged(Exception):  # noqa: N818 - no error, but what comes of a step that is too long
    """The loss is not a number any more."""


class Training:
    """One network in training, by the steps of one arm, whose length decays linearly to zero."""

    def __init__(self, task: str, name: str, step: float, seed: int, epochs: float) -> None:
        torch.set_num_threads(1)
        seed += OTHER_SEEDS if name == AGAIN else 0
        torch.manual_seed(seed)
        self.task, self.data, self.arm = TASKS[task], split(TASKS[task].data), arm(name, task, seed)
        self.network = network(self.task.network, self.data)
        self._parameters = list(self.network.parameters())
        self._optimiser, self._longest = _optimiser(self.task, self._parameters, step), step
        epoch, rows = -(-len(self.data.y) // self.task.batch), Rows(self.data.X, self.data.y)
        size = self.task.batch * self.arm.times
        self._loader = AdaptiveLoader(rows, self.arm.sampler, size, steps=epoch, collate_fn=lambda batch: batch)
        self._batches = endless(self._loader)
        self.steps, self.done = round(epochs * epoch), 0

    @property
    def evaluations(self) -> int:
        """Gradients of single points computed so far."""
        return self.done * self.task.batch * self.arm.times

    def go_on(self, steps: int, *, metered: bool) -> GainMeter:
        """Make some steps; give the meter that has seen them, if it was to."""
        meter = GainMeter(reshuffled=True)
        for (X, y), draw in islice(self._batches, steps):
            sizes = self._learn(X, y, self.arm.weigh(draw.part))
            if metered:
                meter.update(draw.part, sizes, gradient=self._gradient() if self.done % EVERY < 2 else None)
            if self.arm.adapts:
                self._loader.update(draw, sizes)
            self.done += 1
        return meter

    def _learn(self, X: Tensor, y: Tensor, weights: FloatArray) -> FloatArray:
        """Make a step, and give the norms of the batch."""
        sizes = self._differentiate(X, y, weights)
        for group in self._optimiser.param_groups:
            group["lr"] = self._longest * (1.0 - self.done / self.steps)
        self._optimiser.step()
        return sizes

    def _differentiate(self, X: Tensor, y: Tensor, weights: FloatArray) -> FloatArray:
        """Compute the gradient of a batch's mean loss, and give the norms of its points."""
        said = self.network(X)
        self._optimiser.zero_grad()
        (losses(said, y) * torch.from_numpy(weights.astype(np.float32))).mean().backward()
        sizes = np.asarray(norms(said, y).double().numpy())
        if not np.isfinite(sizes).all():
            raise Diverged
        return sizes

    def _gradient(self) -> FloatArray:
        gradient = np.asarray(torch.cat([p.grad.ravel() for p in self._parameters]).double().numpy())
        if not np.isfinite(gradient).all():
            raise Diverged
        return gradient


class Rows(Dataset[tuple[Tensor, Tensor]]):  # type: ignore[misc]
    """Points in memory, which give whole batches at once: one by one would take longer than the steps."""

    def __init__(self, X: AnyArray, y: AnyArray) -> None:
        self._X, self._y = torch.from_numpy(X), torch.from_numpy(y)

    def __len__(self) -> int:
        return len(self._y)

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Give a batch."""
        rows = torch.tensor(indices)
        return self._X[rows], self._y[rows]


def endless(loader: AdaptiveLoader) -> Iterator[tuple[tuple[Tensor, Tensor], TensorDraw]]:
    """Give batches pass after pass; between passes the loader ends the epoch."""
    while True:
        yield from loader


def _optimiser(task: Task, parameters: list[nn.Parameter], step: float) -> torch.optim.Optimizer:
    """Give the optimiser; fused, because with small networks its own work would take a third of the time."""
    if task.optimiser == "Adam":
        return torch.optim.Adam(parameters, lr=step, fused=True)
    return torch.optim.SGD(parameters, lr=step, momentum=MOMENTUM, fused=True)


ROWS = 1024  # that go through the network at once
MOST = 5_000  # training points that a look on the way is made at
# Halves of the held-out points: one for steps to be chosen by, the other for what is reported.
CHOOSING, REPORTING = slice(0, None, 2), slice(1, None, 2)


class Points(NamedTuple):
    """Some points as tensors, and their factors in the loss."""

    X: Tensor
    y: Tensor
    costs: Tensor

    def __getitem__(self, rows: slice | IntArray) -> "Points":  # type: ignore[override]
        return Points(self.X[rows], self.y[rows], self.costs[rows])


def points(sample: Sample | Split) -> Points:
    """Give points as tensors."""
    costs = np.ones(len(sample.y)) if sample.costs is None else sample.costs
    return Points(torch.from_numpy(sample.X), torch.from_numpy(sample.y), torch.from_numpy(costs))


def outputs(network: nn.Module, where: Points, shift: FloatArray | None = None) -> Tensor:
    """Give what the network says of points."""
    with torch.no_grad():
        said = torch.cat([network(rows) for rows in where.X.split(ROWS)])
        return said if shift is None else said + torch.from_numpy(shift).float()


def mean_loss(said: Tensor, where: Points) -> float:
    """Give the mean loss, points by their costs."""
    return float((losses(said, where.y).double() * where.costs).sum() / where.costs.sum())


def accuracy(said: Tensor, where: Points) -> float | None:
    """Give the share of points whose class is told right, by their costs; None if there are no classes."""
    if where.y.dtype != torch.int64:
        return None
    right = (said.argmax(dim=1) == where.y).double()
    return float((right * where.costs).sum() / where.costs.sum())


def precision(said: Tensor, where: Points) -> float | None:
    """Give the average precision at finding the second of two classes, None unless there are two."""
    if where.y.dtype != torch.int64 or said.shape[1] != 2:
        return None
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(where.y.numpy(), (said[:, 1] - said[:, 0]).numpy()))


def signal(meter: GainMeter) -> float | None:
    """Give the part of a batch gradient's squared norm that is not noise, 1 / (1 + noise); 0 if all of it is.

    Unlike the noise it is finite, so that it can be averaged over runs.
    """
    return None if meter.noise is None else 1.0 / (1.0 + meter.noise)


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
    return _loss(training, points(training.data.held)[CHOOSING])


def _training(config: Config, exponent: float, seed: int) -> Training:
    step = TASKS[config["task"]].step * 2.0**exponent
    return Training(config["task"], config["arm"], step, seed, config["epochs"])


def _loss(training: Training, where: Points) -> float:
    return mean_loss(outputs(training.network, where, training.arm.shift), where)


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
    held = points(training.data.held)[REPORTING]
    said = outputs(training.network, held, training.arm.shift)
    return {
        "train": _finite(_loss(training, points(training.data))),
        "test": _finite(mean_loss(said, held)),
        "accuracy": accuracy(said, held),
        "precision": precision(said, held),
    }


class Looks:
    """What is seen on the way: losses at some training points and held out, gain and signal of the stretch behind."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {name: [] for name in ("evaluations", "losses", "held", "gains", "signals")}

    def look(self, training: Training, meter: GainMeter) -> None:
        """Look at the network between two stretches."""
        some = points(training.data)
        if len(some.y) > MOST:  # the same ones every time
            some = some[np.random.default_rng(0).choice(len(some.y), MOST, replace=False)]
        held = points(training.data.held)[REPORTING]
        losses = _loss(training, some), _loss(training, held)
        values = *losses, meter.gain.value, signal(meter)
        for name, value in zip(self.lists, (training.evaluations, *values), strict=True):
            self.lists[name].append(value if value is None else _finite(value))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
