"""One run: build a network, train and evaluate it, or tune its step."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from lab.arrays import AnyArray, FloatArray, IntArray
from lab.experiments.networks.arms import build_arm
from lab.experiments.networks.data import CONTEXT_WORDS, VOCABULARY_SIZE, Sample, Split, load_split
from lab.experiments.networks.protocol import FIRST_TUNING_SEED, find_step
from lab.experiments.networks.tasks import AGAIN, TASKS, Task
from lab.reproduce.records import Config, Result
from lab.statistics import geometric_mean
from lab.step_search import drop_infinite, record_search
from varmix.meter import GainMeter
from varmix.torch import AdaptiveLoader, TensorDraw

MOMENTUM = 0.9
STEPS_PER_METERING = 5  # two successive steps of every five pass gradients to the meter; all would cost too much
OTHER_SEED_OFFSET = 1_000_000
HIDDEN_IMAGES, HIDDEN_ROWS, EMBEDDING_WIDTH, HIDDEN_WORDS = (128,), (64, 64), 32, 128
PIXELS = 784


def build_network(kind: str, split: Split) -> nn.Module:
    """Return a new network of a kind, with initial weights from PyTorch's generator."""
    outputs = split.classes or 1
    if kind == "words":
        return _build_words()
    inputs = split.X.shape[1]
    if kind == "CNN":
        return _build_convolutions(outputs)
    return _build_dense(inputs, HIDDEN_IMAGES if inputs == PIXELS else HIDDEN_ROWS, outputs)


def _build_dense(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def _build_convolutions(outputs: int) -> nn.Module:
    """Build two convolutions of 8 and 16 channels, each halving the image: small enough for one core."""
    first, second = nn.Conv2d(1, 8, 5, stride=2), nn.Conv2d(8, 16, 5, stride=2)
    image = nn.Unflatten(1, (1, 28, 28))
    return nn.Sequential(image, first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, outputs))


def _build_words() -> nn.Module:
    """Build a model of the next word: an embedding of six words, then two dense layers."""
    vectors = nn.Embedding(VOCABULARY_SIZE, EMBEDDING_WIDTH)
    return nn.Sequential(
        vectors, nn.Flatten(), _build_dense(EMBEDDING_WIDTH * CONTEXT_WORDS, (HIDDEN_WORDS,), VOCABULARY_SIZE)
    )


def compute_losses(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every point: cross entropy for classes, half the squared error for numbers.

    Examples
    --------
    >>> compute_losses(torch.tensor([[0.0], [3.0]]), torch.tensor([1.0, 1.0]))
    tensor([0.5000, 2.0000])
    """
    if y.dtype == torch.int64:
        return functional.cross_entropy(outputs, y, reduction="none")
    return 0.5 * (outputs[:, 0] - y).square()


def compute_norms(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the norm of every point's derivative in the outputs: `|softmax - onehot|`, or the absolute error.

    The training step computes the outputs anyway, so this feedback costs next to nothing.

    Examples
    --------
    >>> compute_norms(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([0.7071])
    """
    with torch.no_grad():
        if y.dtype == torch.int64:
            derivatives = torch.softmax(outputs, dim=1)
            derivatives[torch.arange(len(y)), y] -= 1.0
            return torch.linalg.vector_norm(derivatives, dim=1)
        return (outputs[:, 0] - y).abs()


class Diverged(Exception):  # noqa: N818 - an expected outcome of a step that is too long, not an error
    """The loss or a gradient is not finite."""


class Training:
    """A network in training with one arm; the step size decays linearly to zero."""

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
        """Take some steps and return a new meter, which has measured them if `metered`."""
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
        """Take a step and return the norms of the batch."""
        sizes = self._differentiate(X, y, weights)
        for group in self._optimiser.param_groups:
            group["lr"] = self._longest * (1.0 - self.done / self.steps)
        self._optimiser.step()
        return sizes

    def _differentiate(self, X: Tensor, y: Tensor, weights: FloatArray) -> FloatArray:
        """Compute the gradient of a batch's mean loss and return the norms of its points."""
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
    """Points in memory that are fetched in whole batches: one by one would take longer than the steps."""

    def __init__(self, X: AnyArray, y: AnyArray) -> None:
        self._X, self._y = torch.from_numpy(X), torch.from_numpy(y)

    def __len__(self) -> int:
        return len(self._y)

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Return a batch."""
        rows = torch.tensor(indices)
        return self._X[rows], self._y[rows]


def repeat_batches(loader: AdaptiveLoader) -> Iterator[tuple[tuple[Tensor, Tensor], TensorDraw]]:
    """Yield batches epoch after epoch."""
    while True:
        yield from loader


def _make_optimiser(task: Task, parameters: list[nn.Parameter], step: float) -> torch.optim.Optimizer:
    """Return the optimiser; fused, because otherwise it would take a third of the time of a small network."""
    if task.optimiser == "Adam":
        return torch.optim.Adam(parameters, lr=step, fused=True)
    return torch.optim.SGD(parameters, lr=step, momentum=MOMENTUM, fused=True)


ROWS_PER_CALL = 1024  # that go through the network at once
MAX_LOOK_POINTS = 5_000  # training points for an evaluation during training
# Halves of the held-out points: one to choose steps by, the other to report.
CHOOSING_HALF, REPORTING_HALF = slice(0, None, 2), slice(1, None, 2)


class Points(NamedTuple):
    """Points as tensors, and their factors in the loss."""

    X: Tensor
    y: Tensor
    costs: Tensor

    def __getitem__(self, rows: slice | IntArray) -> "Points":  # type: ignore[override]
        return Points(self.X[rows], self.y[rows], self.costs[rows])


def make_points(sample: Sample | Split) -> Points:
    """Return points as tensors."""
    costs = np.ones(len(sample.y)) if sample.costs is None else sample.costs
    return Points(torch.from_numpy(sample.X), torch.from_numpy(sample.y), torch.from_numpy(costs))


def compute_outputs(network: nn.Module, where: Points, shift: FloatArray | None = None) -> Tensor:
    """Return the outputs of the network, shifted if asked."""
    with torch.no_grad():
        said = torch.cat([network(rows) for rows in where.X.split(ROWS_PER_CALL)])
        return said if shift is None else said + torch.from_numpy(shift).float()


def mean_loss(said: Tensor, where: Points) -> float:
    """Return the mean loss, weighted by the costs of the points."""
    return float((compute_losses(said, where.y).double() * where.costs).sum() / where.costs.sum())


def measure_accuracy(said: Tensor, where: Points) -> float | None:
    """Return the accuracy, weighted by the costs of the points; None for regression."""
    if where.y.dtype != torch.int64:
        return None
    right = (said.argmax(dim=1) == where.y).double()
    return float((right * where.costs).sum() / where.costs.sum())


def measure_precision(said: Tensor, where: Points) -> float | None:
    """Return the average precision of finding the second of two classes; None unless there are two."""
    if where.y.dtype != torch.int64 or said.shape[1] != 2:
        return None
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(where.y.numpy(), (said[:, 1] - said[:, 0]).numpy()))


def measure_signal(meter: GainMeter) -> float | None:
    """Return the part of a batch gradient's squared norm that is not noise: 1 / (1 + noise), or 0 for noise alone.

    Unlike the noise it is always finite, so it can be averaged over runs. None where the meter saw no noise.
    """
    return None if meter.noise is None else 1.0 / (1.0 + meter.noise)


STRETCHES_PER_RUN = 5  # each has its own meter and ends with an evaluation


def tune_step(config: Config) -> Result:
    """Search the step with the lowest held-out loss, on separate seeds and on the points for choosing."""

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
    """Train, and evaluate five times during the run."""
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
    """Evaluate a finished network on all training points and on the held-out half that is reported."""
    held = make_points(training.data.held)[REPORTING_HALF]
    said = compute_outputs(training.network, held, training.arm.shift)
    return {
        "train": drop_infinite(_measure_loss(training, make_points(training.data))),
        "test": drop_infinite(mean_loss(said, held)),
        "accuracy": measure_accuracy(said, held),
        "precision": measure_precision(said, held),
    }


class Looks:
    """Evaluations during a run: training and held-out losses, and gain and signal of the last stretch."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {name: [] for name in ("evaluations", "losses", "held", "gains", "signals")}

    def look(self, training: Training, meter: GainMeter) -> None:
        """Evaluate the network after a stretch."""
        some = make_points(training.data)
        if len(some.y) > MAX_LOOK_POINTS:  # the same points every time
            some = some[np.random.default_rng(0).choice(len(some.y), MAX_LOOK_POINTS, replace=False)]
        held = make_points(training.data.held)[REPORTING_HALF]
        losses = _measure_loss(training, some), _measure_loss(training, held)
        values = *losses, meter.gain.value, measure_signal(meter)
        for name, value in zip(self.lists, (training.evaluations, *values), strict=True):
            self.lists[name].append(value if value is None else drop_infinite(value))
