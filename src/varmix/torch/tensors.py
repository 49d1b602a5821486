"""Tensors as the arrays of a sampler, and back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from varmix.arrays import FloatArray, State


def as_numpy(values: Any) -> Any:  # noqa: ANN401
    """Give a tensor of any device, or a number, as an array."""
    return torch.as_tensor(values).detach().cpu().numpy()


def as_doubles(values: Any) -> FloatArray:  # noqa: ANN401
    """Give a tensor of any floating type, or a number, as an array of doubles."""
    return np.asarray(torch.as_tensor(values).detach().to("cpu", torch.float64).numpy())


def mapped(value: object, kind: type, function: Callable[[Any], object]) -> object:
    """Give a nested state with the function applied to everything of this kind."""
    if isinstance(value, dict):
        return {key: mapped(part, kind, function) for key, part in value.items()}
    return function(value) if isinstance(value, kind) else value


def as_tensors(state: State) -> State:
    """Give a state whose arrays are tensors, so that `torch.load(weights_only=True)` takes it."""
    return mapped(state, np.ndarray, torch.from_numpy)  # type: ignore[return-value]


def as_arrays(state: State) -> State:
    """Give a state whose tensors are arrays."""
    return mapped(state, torch.Tensor, as_numpy)  # type: ignore[return-value]
