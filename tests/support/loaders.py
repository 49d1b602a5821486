"""Small datasets and loops that tests of loaders share."""

import numpy as np
import torch
from torch.utils.data import Dataset

from varmix.learners import BarrierNewton, Cautious

LABELS = np.repeat([0, 1, 2], [60, 30, 10])
# The default learner waits until the mixture pays, longer than most tests last. These play what they learn at once.
EAGER, NEARLY = BarrierNewton(), Cautious(off_below=1.0, on_above=1.1, window=2)


class Numbers(Dataset):
    """Item i is the number i."""

    def __init__(self, n=100):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return torch.tensor(index)


def losses(indices):
    """Return a loss per point: points from 90 on have large ones, and no two are equal."""
    return torch.where(indices >= 90, 5.0, 1.0) + 0.01 * indices


def follow(loader, steps=None, epochs=1):
    """Loop over a loader with feedback; return the batches, weights and mixtures of every step."""
    seen = []
    for _ in range(epochs):
        for batch, draw in loader:
            loader.update(draw, losses(batch))
            seen.append((batch.tolist(), draw.weights.tolist(), loader.mixture.tolist()))
            if len(seen) == steps:
                return seen
    return seen
