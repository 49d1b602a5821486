"""Tags: how weights and receipts travel through a `DataLoader` of the user, workers included.

A batch sampler can send a worker only indices.  So its lists of indices carry the weights and the number of the draw.
The wrapped dataset passes both on with the samples, and the collate function puts them into the batch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch.utils.data import Dataset, default_collate

from varmix._core.validation import FloatArray
from varmix.torch._tensors import CPU, as_weights

WEIGHT_KEY, DRAW_ID_KEY = "weight", "draw_id"


class Slots(list[int]):
    """The indices of a batch, with the number of their draw and their weights."""

    def __init__(self, indices: Sequence[int], draw_id: int, weights: FloatArray) -> None:
        super().__init__(indices)
        self.draw_id = draw_id
        self.weights = weights


class Samples(list[Any]):
    """The samples of a batch, with the slots that they were fetched for."""

    def __init__(self, samples: Sequence[Any], slots: Slots) -> None:
        super().__init__(samples)
        self.slots = slots


class Tagged(Dataset[Any]):  # type: ignore[misc]
    """A dataset that passes on the samples of a batch together with their `Slots`."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset, self._length = dataset, len(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return self.dataset[index]

    def __getitems__(self, indices: list[int]) -> Any:  # noqa: ANN401
        """Return the samples of a batch: a `DataLoader` calls this method if there is one."""
        if not isinstance(indices, Slots):
            raise TypeError(
                "A tagged dataset needs the lists of its MixtureBatchSampler: pass that to the loader as batch_sampler."
            )
        if len(indices) != len(indices.weights):
            raise ValueError(
                f"A batch of {len(indices.weights)} points came with {len(indices)} indices: something between the "
                f"MixtureBatchSampler and its DataLoader has changed it. Pass the MixtureBatchSampler itself as "
                f"batch_sampler."
            )
        together = getattr(self.dataset, "__getitems__", None)
        if len(self) != self._length:
            raise ValueError(
                f"The dataset had {self._length:,} items when it was wrapped, and has {len(self):,} now. Build a new "
                f"MixtureBatchSampler, over all of its items, when it has changed."
            )
        samples = together(list(indices)) if together else [self.dataset[i] for i in indices]
        if not isinstance(samples, list):
            raise TypeError(
                f"__getitems__ of {type(self.dataset).__name__} must return a list with one sample per index, got "
                f"{type(samples).__name__}."
            )
        if len(samples) != len(indices):
            raise ValueError(
                f"__getitems__ of {type(self.dataset).__name__} must return one sample per index: got {len(samples)} "
                f"for {len(indices)}. Return something in place of a sample that cannot be read."
            )
        return Samples(samples, indices)


class Collate:
    """A collate function that adds `weight` and `draw_id` to the batch.

    A batch that is a mapping becomes a dictionary with both as entries.  A tuple or a list becomes a tuple with both
    after its items, and anything else a tuple of the batch and both.
    """

    def __init__(self, collate_fn: Callable[[list[Any]], Any] | None = None) -> None:
        self.collate_fn = default_collate if collate_fn is None else collate_fn

    def __call__(self, samples: list[Any]) -> Any:  # noqa: ANN401
        """Return the batch of these samples."""
        if not isinstance(samples, Samples):
            raise TypeError("The collate function of a MixtureBatchSampler needs its dataset: wrap it by `tagged`.")
        batch = self.collate_fn(list(samples))
        weight = as_weights(samples.slots.weights)
        draw_id = torch.tensor(samples.slots.draw_id, device=CPU)
        if isinstance(batch, Mapping):
            taken = sorted({WEIGHT_KEY, DRAW_ID_KEY} & set(batch))
            if taken:
                raise ValueError(
                    f"The batch already has an entry {taken[0]!r}. Rename it in the dataset or collate_fn."
                )
            return {**batch, WEIGHT_KEY: weight, DRAW_ID_KEY: draw_id}
        items = cast("Sequence[Any]", batch if isinstance(batch, (tuple, list)) else (batch,))
        return (*items, weight, draw_id)
