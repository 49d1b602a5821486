"""From what users give for components to a sampler."""

from collections.abc import Sized
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.utils.data import Dataset, IterableDataset
from torch.utils.data import Sampler as TorchSampler

from varmix._core.spaces import Points, Window
from varmix._sampler import Sampler, as_sampler
from varmix.allocate import Allocation
from varmix.components import Components
from varmix.learners import Learner

Source: TypeAlias = Components | Sampler | ArrayLike | torch.Tensor
"""A family, labels of the points, or a sampler that is ready."""


def sampler_of_points(
    source: Source,
    *,
    learner: Learner[Any] | None = None,
    gamma: float | None = None,
    allocate: Allocation | None = None,
    rng: int | np.random.Generator | None = None,
    history: bool = False,
) -> Sampler:
    """Return the sampler of a loader, as `varmix.Sampler` builds it; it must draw the points of a dataset.

    Examples
    --------
    >>> sampler = sampler_of_points(["cat", "dog", "dog"], rng=0)
    >>> sampler.components.replacement, sampler.allocate, type(sampler.learner).__name__
    (False, Shuffled(period=3), 'Cautious')
    """
    if isinstance(source, TorchSampler):  # as frameworks do that build batch samplers anew, one for every process
        raise TypeError(
            "components must be labels of the points, a family or a varmix.Sampler, got a sampler of PyTorch's. "
            "Batches are spread over processes already: in Lightning use Trainer(use_distributed_sampler=False)."
        )
    sampler = as_sampler(source, learner=learner, gamma=gamma, allocate=allocate, rng=rng, history=history)
    space = sampler.components.space
    if not isinstance(space, Points) or isinstance(space, Window):  # whose numbers run away from those of a dataset
        raise TypeError(f"Batches of a loader are made of points, and {sampler.components!r} draws {space}.")
    return sampler


def check_dataset(dataset: Dataset[Any], n: int) -> None:
    """Refuse a dataset that cannot be indexed, or that is not of n points."""
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            "A stream has no indices to draw. Use varmix.torch.Interleave for several streams, or a dataset with "
            "__getitem__ and __len__."
        )
    if not isinstance(dataset, Sized):
        raise TypeError(f"{type(dataset).__name__} has no length: a loader draws the indices 0 to len(dataset) - 1.")
    if len(dataset) != n:
        raise ValueError(
            f"The dataset has {len(dataset):,} items and the components are over {n:,} points. Give one label for "
            f"every item, and build a new loader when the dataset has changed."
        )
