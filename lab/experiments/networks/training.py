"""A network in training: batches from an arm, a step on each, and feedback for the sampler."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from lab.experiments.networks.arms import arm
from lab.experiments.networks.data import split
from lab.experiments.networks.networks import losses
from lab.experiments.networks.networks import network
from lab.experiments.networks.networks import norms
from lab.experiments.networks.tasks import AGAIN
from lab.experiments.networks.tasks import TASKS
from lab.experiments.networks.tasks import Task
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
