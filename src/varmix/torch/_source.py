"""From what users give for components to a sampler."""

from collections.abc import Sized
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.utils.data import Dataset, IterableDataset
from torch.utils.data import Sampler as TorchSampler

from varmix._core.spaces import Points, Window
from varmix._presets import vrm
from varmix._sampler import Sampler
from varmix.allocate import Allocation, Carried, Shuffled
from varmix.components import Components, Groups
from varmix.learners import BarrierNewton, Cautious, Learner
from varmix.torch._tensors import as_numpy

Source: TypeAlias = Components | Sampler | ArrayLike | torch.Tensor
"""A family, labels of the points, or a sampler that is ready."""


def as_sampler(
    source: Source,
    *,
    learner: Learner[Any] | None = None,
    gamma: float | None = None,
    allocate: Allocation | None = None,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Give a sampler of points: labels mean groups without replacement, and a family gets the uniform law behind it.

    Of groups without replacement it is a cautious one, unless told: plain shuffling until the mixture pays.

    Examples
    --------
    >>> sampler = as_sampler(["cat", "dog", "dog"], rng=0)
    >>> sampler.components.replacement, sampler.allocate, type(sampler.learner).__name__
    (False, Shuffled(period=3), 'Cautious')
    """
    if isinstance(source, Sampler):
        if any(part is not None for part in (learner, gamma, allocate, rng)):
            raise TypeError(
                "A Sampler has its learner, gamma, allocate and rng already: give these, or a sampler, not both."
            )
        sampler = source
    else:
        family: Any = source if _is_family(source) else _groups(source)
        if learner is None and isinstance(family, Groups) and not family.replacement:
            learner, gamma = Cautious(BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma)), None
        sampler = vrm(family, learner=learner, gamma=gamma, allocate=allocate, rng=rng)
    space = sampler.components.space
    if not isinstance(space, Points) or isinstance(space, Window):  # whose numbers run away from those of a dataset
        raise TypeError(f"Batches of a loader are made of points, and {sampler.components!r} draws {space}.")
    return sampler


def _is_family(source: object) -> bool:
    return hasattr(source, "ratios") and not isinstance(source, type)


def _groups(labels: Any) -> Groups:  # noqa: ANN401
    if isinstance(labels, TorchSampler):  # as frameworks do that build batch samplers anew, one for every process
        raise TypeError(
            "components must be labels of the points, a family or a varmix.Sampler, got a sampler of PyTorch's. "
            "Batches are spread over processes already: in Lightning use Trainer(use_distributed_sampler=False)."
        )
    if isinstance(labels, (type, str)):
        raise TypeError(
            f"components must be labels of the points, a family such as varmix.Groups(labels), or a varmix.Sampler; "
            f"got {labels!r}."
        )
    if isinstance(labels, torch.Tensor):
        labels = as_numpy(labels.float() if labels.dtype is torch.bfloat16 else labels)  # refused, in words, as a float
    return Groups(labels, replacement=False)


def is_reshuffled(sampler: Sampler) -> bool:
    """Whether draws are reshuffled, which the meter wants to know."""
    components = sampler.components
    groups = isinstance(components, Groups) and not components.replacement
    return groups and isinstance(sampler.allocate, (Carried, Shuffled))


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
