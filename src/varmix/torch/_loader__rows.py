"""Rows: batches of tensors taken at once, where a loader would take them item by item."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import Dataset, TensorDataset

from varmix.torch._tensors import CPU


class Rows(TensorDataset):  # type: ignore[misc]
    """A `TensorDataset` whose batches are rows of its tensors: what item by item and `default_collate` come to.

    PyTorch's own way takes a slice of every tensor for every item and stacks them, ten times the work.

    Examples
    --------
    >>> Rows(TensorDataset(torch.arange(10), torch.zeros(10, 2))).__getitems__([3, 5])
    [tensor([3, 5]), tensor([[0., 0.],
            [0., 0.]])]
    """

    def __init__(self, dataset: TensorDataset) -> None:
        self.dataset = dataset

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Those that the dataset has now."""
        return tuple(self.dataset.tensors)

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        """Give the batch of these items."""
        places = torch.tensor(indices, device=CPU)
        return [tensor[places] for tensor in self.tensors]


def as_it_is(batch: Any) -> Any:  # noqa: ANN401
    """Give a batch that needs no collating."""
    return batch


def quickest(
    dataset: Dataset[Any], collate_fn: Callable[[list[Any]], Any] | None
) -> tuple[Dataset[Any], Callable[[list[Any]], Any] | None]:
    """Give the dataset and the collate function with which batches, the same ones, come the quickest."""
    if type(dataset) is TensorDataset and collate_fn is None:
        return Rows(dataset), as_it_is
    return dataset, collate_fn
