"""Tensors to arrays and back."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from varmix._core.state import CheckpointError, describe_value, require_entries
from varmix._core.validation import AnyArray, FloatArray, State, as_floats

CPU = torch.device("cpu")
NUMPY_DTYPES = (torch.float32, torch.float64)  # what NumPy knows as well


def as_numpy(values: Any) -> Any:  # noqa: ANN401
    """Give a tensor of any device, or a number, as an array."""
    return torch.as_tensor(values).detach().cpu().numpy()


def as_doubles(values: Any, name: str = "values") -> FloatArray:  # noqa: ANN401
    """Give a tensor of any real type, or what NumPy takes for numbers, as an array of doubles."""
    if (
        type(values) is torch.Tensor and values.dtype in NUMPY_DTYPES and values.is_cpu
    ):  # the usual case, in fewer calls
        return np.asarray(values.detach().numpy(), dtype=np.float64)
    if not isinstance(values, torch.Tensor):
        return as_floats(values, name)
    if values.is_complex():
        raise TypeError(f"{name} must be real numbers, got a tensor of {values.dtype}.")
    return np.asarray(values.detach().to("cpu", torch.float64).numpy())


def as_weights(values: FloatArray, device: torch.device | str = CPU, scale: float = 1.0) -> torch.Tensor:
    """Return the weights of a receipt, scaled, as a new tensor of the default type."""
    dtype = torch.get_default_dtype()
    if dtype is torch.float32:  # NumPy takes less time for it
        copied: AnyArray = (values if scale == 1.0 else scale * values).astype(np.float32)
    else:
        copied = scale * values  # a copy: the weights of a receipt are read-only, and tensors cannot be
    weights = torch.from_numpy(copied)
    return weights if weights.dtype is dtype and device == CPU else weights.to(device, dtype)


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one whole number."""
    return tensor.numel() == 1 and not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


def map_nested(value: object, kind: type, function: Callable[[Any], object]) -> object:
    """Give a nested state with the function applied to everything of this kind."""
    if isinstance(value, dict):
        return {key: map_nested(part, kind, function) for key, part in value.items()}
    return function(value) if isinstance(value, kind) else value


def as_tensors(state: State) -> State:
    """Give a state whose arrays are tensors, so that `torch.load(weights_only=True)` takes it."""
    return map_nested(state, np.ndarray, torch.from_numpy)  # type: ignore[return-value]


def as_arrays(state: State) -> State:
    """Give a state whose tensors are arrays; raise `CheckpointError` for tensors that are none."""
    return map_nested(state, torch.Tensor, _saved_array)  # type: ignore[return-value]


def _saved_array(tensor: torch.Tensor) -> Any:  # noqa: ANN401
    try:
        if tensor.layout is torch.strided:
            return as_numpy(tensor)
    except (RuntimeError, TypeError):  # no data, or of a dtype that NumPy does not have
        pass
    raise CheckpointError(
        f"A saved state holds arrays on the CPU that NumPy knows, got a tensor of {tensor.dtype}, {tensor.layout} on "
        f"{tensor.device}."
    )


def wrap_state(name: str, state: State) -> State:
    """Give a state as one value.

    `torch.distributed.checkpoint` loads dictionaries entry by entry into those that are there, and refuses where
    entries or shapes differ, as what is in flight does.  A tuple it takes as a whole.
    """
    return {name: (state,)}


def unwrap_state(name: str, state: State, owner: str) -> State:
    """Give the state that was wrapped, after checking that it is of this owner."""
    require_entries(state, {name}, owner)
    if not isinstance(state[name], (tuple, list)) or len(state[name]) != 1:
        raise CheckpointError(f"The state of {owner} is one dictionary in a tuple, got {describe_value(state[name])}.")
    inner: State = state[name][0]
    return inner


def device_of(batch: object) -> torch.device:
    """Give the device of the first tensor in a batch of mappings, lists and tuples; the CPU where there is none.

    Whatever else has a `torch.device` as its `device` counts as a tensor.

    Examples
    --------
    >>> device_of({"ids": [1, 2], "rows": (torch.zeros(2), torch.ones(2))})
    device(type='cpu')
    """
    found = _find_device(batch)
    return CPU if found is None else found


def _find_device(value: object) -> torch.device | None:
    if isinstance(value, torch.Tensor):
        return value.device
    if isinstance(value, (list, tuple)):
        parts: Iterable[object] = value
    elif isinstance(value, Mapping):
        parts = value.values()
    else:
        device = getattr(value, "device", None)
        return device if isinstance(device, torch.device) else None  # arrays have a text there
    for part in parts:
        found = _find_device(part)
        if found is not None:
            return found
    return None


def as_singles(values: torch.Tensor) -> torch.Tensor:
    """Give values without their graph, in single precision unless they are in double.

    Examples
    --------
    >>> as_singles(torch.ones(2, dtype=torch.bfloat16)).dtype, as_singles(torch.ones(2, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return values.detach().to(torch.promote_types(values.dtype, torch.float32))
