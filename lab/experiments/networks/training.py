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
from lab.experiments.networks.arms import build_arm
from lab.experiments.networks.data import load_split
from lab.experiments.networks.networks import build_network, compute_losses, compute_norms
from lab.experiments.networks.protocol import FIRST_TUNING_SEED, find_step
from lab.experiments.networks.samples import Sample, Split
from lab.experiments.networks.tasks import AGAIN, TASKS, Task
from lab.reproduce.records import Config, Result
from lab.statistics import geometric_mean
from lab.step_search import drop_infinite, record_search
from varmix.meter import GainMeter
from varmix.torch import AdaptiveLoader, TensorDraw

MOMENTUM = 0.9
STEPS_PER_METERING = (
    5  # of so many steps, two in a row give their gradients to the meter: all of them would cost too much
)
OTHER_SEED_OFFSET = 1_000_000


class Diverged(Exception):  # noqa: N818 - no error, but what comes of a step that is too long
    """The loss is not a number any more."""


class Training:
    """One network in training, by the steps of one arm, whose length decays linearly to zero."""

    def __init__(self, task: str, name: str, step: float, seed: int, epochs: float) -> None:
        torch.set_num_threads(1)
        seed += OTHER_SEED_OFFSET if name == AGAIN else 0
        torch.manual_seed(seed)
        self.task, self.data, self.arm = TASKS[task], load_split(TASKS[task].data), build_arm(name, task, seed)
        self.network = build_network(self.task.network, self.data)
        self._parameters = list(self.network.parameters())
        self._optimiser, self._longest = _make_optimiser(self.task, self._parameters, step), step
        epoch, rows = -(-len(self.data.y) // self.task.batch), Rows(self.data.X, self.data.y)
        size = self.task.batch * self.arm.times
        self._loader = AdaptiveLoader(rows, self.arm.sampler, size, steps=epoch, collate_fn=lambda batch: batch)
        self._batches = repeat_batches(self._loader)
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
                meter.update(
                    draw.part, sizes, gradient=self._gradient() if self.done % STEPS_PER_METERING < 2 else None
                )
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
        (compute_losses(said, y) * torch.from_numpy(weights.astype(np.float32))).mean().backward()
        sizes = np.asarray(compute_norms(said, y).double().numpy())
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


def repeat_batches(loader: AdaptiveLoader) -> Iterator[tuple[tuple[Tensor, Tensor], TensorDraw]]:
    """Give batches pass after pass; between passes the loader ends the epoch."""
    while True:
        yield from loader


def _make_optimiser(task: Task, parameters: list[nn.Parameter], step: float) -> torch.optim.Optimizer:
    """Give the optimiser; fused, because with small networks its own work would take a third of the time."""
    if task.optimiser == "Adam":
        return torch.optim.Adam(parameters, lr=step, fused=True)
    return torch.optim.SGD(parameters, lr=step, momentum=MOMENTUM, fused=True)


ROWS_PER_PASS = 1024  # that go through the network at once
MAX_LOOK_POINTS = 5_000  # training points that a look on the way is made at
# Halves of the held-out points: one for steps to be chosen by, the other for what is reported.
CHOOSING_HALF, REPORTING_HALF = slice(0, None, 2), slice(1, None, 2)


class Points(NamedTuple):
    """Some points as tensors, and their factors in the loss."""

    X: Tensor
    y: Tensor
    costs: Tensor

    def __getitem__(self, rows: slice | IntArray) -> "Points":  # type: ignore[override]
        return Points(self.X[rows], self.y[rows], self.costs[rows])


def make_points(sample: Sample | Split) -> Points:
    """Give points as tensors."""
    costs = np.ones(len(sample.y)) if sample.costs is None else sample.costs
    return Points(torch.from_numpy(sample.X), torch.from_numpy(sample.y), torch.from_numpy(costs))


def compute_outputs(network: nn.Module, where: Points, shift: FloatArray | None = None) -> Tensor:
    """Give what the network says of points."""
    with torch.no_grad():
        said = torch.cat([network(rows) for rows in where.X.split(ROWS_PER_PASS)])
        return said if shift is None else said + torch.from_numpy(shift).float()


def mean_loss(said: Tensor, where: Points) -> float:
    """Give the mean loss, points by their costs."""
    return float((compute_losses(said, where.y).double() * where.costs).sum() / where.costs.sum())


def measure_accuracy(said: Tensor, where: Points) -> float | None:
    """Give the share of points whose class is told right, by their costs; None if there are no classes."""
    if where.y.dtype != torch.int64:
        return None
    right = (said.argmax(dim=1) == where.y).double()
    return float((right * where.costs).sum() / where.costs.sum())


def measure_precision(said: Tensor, where: Points) -> float | None:
    """Give the average precision at finding the second of two classes, None unless there are two."""
    if where.y.dtype != torch.int64 or said.shape[1] != 2:
        return None
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(where.y.numpy(), (said[:, 1] - said[:, 0]).numpy()))


def measure_signal(meter: GainMeter) -> float | None:
    """Give the part of a batch gradient's squared norm that is not noise, 1 / (1 + noise); 0 if all of it is.

    Unlike the noise it is finite, so that it can be averaged over runs.
    """
    return None if meter.noise is None else 1.0 / (1.0 + meter.noise)


STRETCHES_PER_RUN = 5  # of a run, with a look and a meter each


def tune_step(config: Config) -> Result:
    """Search the step that leaves the least held-out loss, on seeds of its own and points that are for choosing."""

    def score(exponent: float) -> float:
        ends = [_measure_end_loss(config, exponent, FIRST_TUNING_SEED + seed) for seed in range(config["seeds"])]
        return geometric_mean(ends).value if np.isfinite(ends).all() else math.inf

    return record_search(*find_step(score))


def _measure_end_loss(config: Config, exponent: float, seed: int) -> float:
    training = _make_training(config, exponent, seed)
    try:
        training.go_on(training.steps, metered=False)
    except Diverged:
        return math.inf
    return _measure_loss(training, make_points(training.data.held)[CHOOSING_HALF])


def _make_training(config: Config, exponent: float, seed: int) -> Training:
    step = TASKS[config["task"]].step * 2.0**exponent
    return Training(config["task"], config["arm"], step, seed, config["epochs"])


def _measure_loss(training: Training, where: Points) -> float:
    return mean_loss(compute_outputs(training.network, where, training.arm.shift), where)


def run_test(config: Config) -> Result:
    """Train, and look five times on the way."""
    training, seen = _make_training(config, config["step"], config["seed"]), Looks()
    try:
        for stretch in range(1, STRETCHES_PER_RUN + 1):
            until = round(training.steps * stretch / STRETCHES_PER_RUN)
            meter = training.go_on(until - training.done, metered=True)
            seen.look(training, meter)
    except Diverged:
        return {**seen.lists, "train": None, "test": None, "accuracy": None, "precision": None}
    return {**seen.lists, **_evaluate_end(training)}


def _evaluate_end(training: Training) -> Result:
    """Give what a finished network comes to, on all training points and on the half that is reported."""
    held = make_points(training.data.held)[REPORTING_HALF]
    said = compute_outputs(training.network, held, training.arm.shift)
    return {
        "train": drop_infinite(_measure_loss(training, make_points(training.data))),
        "test": drop_infinite(mean_loss(said, held)),
        "accuracy": measure_accuracy(said, held),
        "precision": measure_precision(said, held),
    }


class Looks:
    """What is seen on the way: losses at some training points and held out, gain and signal of the stretch behind."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {name: [] for name in ("evaluations", "losses", "held", "gains", "signals")}

    def look(self, training: Training, meter: GainMeter) -> None:
        """Look at the network between two stretches."""
        some = make_points(training.data)
        if len(some.y) > MAX_LOOK_POINTS:  # the same ones every time
            some = some[np.random.default_rng(0).choice(len(some.y), MAX_LOOK_POINTS, replace=False)]
        held = make_points(training.data.held)[REPORTING_HALF]
        losses = _measure_loss(training, some), _measure_loss(training, held)
        values = *losses, meter.gain.value, measure_signal(meter)
        for name, value in zip(self.lists, (training.evaluations, *values), strict=True):
            self.lists[name].append(value if value is None else drop_infinite(value))
