"""Looks: what is written down of a run on its way."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from lab.experiments.networks.networks import losses
from lab.experiments.networks.samples import Sample
from lab.experiments.networks.samples import Split
from varmix.meter import GainMeter

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
