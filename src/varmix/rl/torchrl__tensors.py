"""Tensors, indices and storages of TorchRL, as the arrays and slots of a sampler."""

from typing import Any

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix.torch._tensors import as_doubles
from varmix.torch._tensors import as_numpy


def as_slots(index: Any) -> IntArray:  # noqa: ANN401
    """Give an index, or a tensor of them, as slots in one dimension."""
    slots = np.atleast_1d(as_numpy(index))
    if slots.ndim != 1:
        raise ValueError(f"MixtureSampler needs a storage of one dimension, got indices of shape {slots.shape}.")
    if slots.size and slots.dtype.kind not in "iu":
        raise TypeError(f"Indices must be whole numbers, got {slots.dtype}. Of a mask, take mask.nonzero().")
    return np.asarray(slots, dtype=np.int64)


def as_priorities(values: Any, m: int) -> FloatArray:  # noqa: ANN401
    """Give one priority for all of `m` slots, or one for each of them, as a vector."""
    priority = as_doubles(values)
    if priority.size not in (1, m):
        raise ValueError(f"priority must be one number per index: expected shape ({m},), got {priority.shape}.")
    return np.broadcast_to(priority.reshape(-1), (m,))


def check_storage(storage: Any, capacity: int) -> None:  # noqa: ANN401
    """Refuse a storage whose rows are not the `capacity` slots of a ring."""
    if storage.ndim != 1:
        raise ValueError(
            f"MixtureSampler needs a storage of one dimension, got ndim={storage.ndim}. Flatten the data before extend."
        )
    if storage.max_size != capacity:
        raise ValueError(
            f"MixtureSampler was built for {capacity} items and the storage has room for {storage.max_size}. Give both "
            f"the same number."
        )
