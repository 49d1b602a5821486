"""Tensors: receipts as training code uses them, tensors to arrays, and arrays back to tensors."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
import torch

from varmix._core.draw import Draw
from varmix._core.state import CheckpointError, describe_value, require_entries
from varmix._core.validation import AnyArray, FloatArray, State, as_floats

CPU = torch.device("cpu")
NUMPY_DTYPES = (torch.float32, torch.float64)  # read by NumPy without a cast by PyTorch


class TensorDraw:
    """The receipt of a batch, with its weights as a tensor.

    Loaders return it with every batch, and `update` takes it back. Attributes cannot be reassigned; the weights may be
    changed in place. They are a copy: feedback uses the densities in the receipt.

    Parameters
    ----------
    part : Draw
        Receipt of this process's slots.
    device : torch.device or str, default "cpu"
        Device of the weights.
    receipt : Draw, optional
        Receipt of the whole draw. Default: `part`.
    scale : float, default 1.0
        Factor of the weights.

    Attributes
    ----------
    weights : torch.Tensor
        Importance weights (m,), of PyTorch's default type, on the device of the batch. Multiply the loss of slot r by
        `weights[r]` and take the mean.
    part : Draw
        The receipt of these slots, with the densities that they were drawn with.
    receipt : Draw
        The receipt of the whole draw. Where several processes share a draw, it covers the slots of all of them.

    Examples
    --------
    >>> import varmix
    >>> draw = TensorDraw(varmix.Sampler([0, 0, 1], rng=0).draw(2))
    >>> draw.weights
    tensor([1., 1.])
    >>> len(draw), draw.serial
    (2, 0)
    """

    __slots__ = ("part", "receipt", "weights")

    part: Draw
    receipt: Draw
    weights: torch.Tensor

    def __init__(
        self,
        part: Draw,
        device: torch.device | str = CPU,
        *,
        receipt: Draw | None = None,
        scale: float = 1.0,
    ) -> None:
        _fill_draw(self, part, part if receipt is None else receipt, as_weights(part.weights, device, scale))

    def __setattr__(self, name: str, value: object) -> None:
        if name == "weights" and value is self.weights:
            return  # the last step of `draw.weights *= 2`, after the tensor has changed
        raise AttributeError(f"A receipt cannot be changed: {name} stays as drawn. Keep your own value in a variable.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} stays as drawn.")

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _join_draw, (self.part, self.receipt, self.weights)

    @property
    def indices(self) -> torch.Tensor:
        """The points of this process's slots, (m,), on the CPU."""
        return torch.from_numpy(self.part.indices.copy())

    @property
    def serial(self) -> int:
        """Number of this draw in its sampler."""
        return self.part.serial

    def mean(self, losses: torch.Tensor) -> torch.Tensor:
        """Return the weighted mean of the losses of a batch, `(weights * losses).mean()`.

        It estimates the mean loss over all points.

        Parameters
        ----------
        losses : torch.Tensor of shape (m,)
            One loss per example, from a loss with `reduction="none"`.

        Returns
        -------
        torch.Tensor
            The mean, a scalar. Call `backward()` on it.

        Raises
        ------
        ValueError
            If losses have another shape. Losses (m, 1) times weights (m,) would broadcast to (m, m), whose mean
            ignores the weights.

        Examples
        --------
        >>> import varmix
        >>> draw = TensorDraw(varmix.vrm(varmix.Groups([0, 0, 1]), rng=0).draw(4))
        >>> bool(draw.mean(torch.ones(4)) == draw.weights.mean())
        True
        """
        if losses.shape != self.weights.shape:
            raise ValueError(
                f"losses must be one per example, {tuple(self.weights.shape)}, got {tuple(losses.shape)}. Pass "
                f"reduction='none' to the loss. If losses have shape (m, 1), pass losses.squeeze(1). If an example has "
                f"several positions, average over them."
            )
        return (self.weights * losses).mean()

    def to(self, device: torch.device | str) -> "TensorDraw":
        """Return the receipt with its weights on another device; this one stays unchanged.

        Parameters
        ----------
        device : torch.device or str
            The device.

        Returns
        -------
        TensorDraw
            The same receipt, with a copy of the weights.
        """
        return _join_draw(self.part, self.receipt, self.weights.to(device, copy=True))

    def __len__(self) -> int:
        return len(self.part)

    def __repr__(self) -> str:
        return f"TensorDraw(serial={self.serial}, m={len(self)})"


def _join_draw(part: Draw, receipt: Draw, weights: torch.Tensor) -> TensorDraw:
    draw = TensorDraw.__new__(TensorDraw)
    _fill_draw(draw, part, receipt, weights)
    return draw


def _fill_draw(draw: TensorDraw, part: Draw, receipt: Draw, weights: torch.Tensor) -> None:
    object.__setattr__(draw, "part", part)
    object.__setattr__(draw, "receipt", receipt)
    object.__setattr__(draw, "weights", weights)


def as_numpy(values: Any) -> Any:  # noqa: ANN401
    """Return a tensor of any device, or a number, as an array."""
    return torch.as_tensor(values).detach().cpu().numpy()


def as_doubles(values: Any, name: str = "values") -> FloatArray:  # noqa: ANN401
    """Return a tensor of any real type, or anything that NumPy reads as numbers, as an array of doubles.

    The result may share memory with `values`.
    """
    if type(values) is torch.Tensor and values.dtype in NUMPY_DTYPES and values.is_cpu:  # the usual case, fewer calls
        return np.asarray(values.detach().numpy(), dtype=np.float64)
    if not isinstance(values, torch.Tensor):
        is_ready = type(values) is np.ndarray and values.dtype == np.float64
        return values if is_ready else as_floats(values, name)
    if values.is_complex():
        raise TypeError(f"{name} must be real numbers, got a tensor of {values.dtype}.")
    return np.asarray(values.detach().to("cpu", torch.float64).numpy())


def as_weights(values: FloatArray, device: torch.device | str = CPU, scale: float = 1.0) -> torch.Tensor:
    """Return the weights of a receipt, scaled, as a new tensor of the default type."""
    dtype = torch.get_default_dtype()
    if dtype is torch.float32:  # NumPy is faster here
        copied: AnyArray = (values if scale == 1.0 else scale * values).astype(np.float32)
    else:
        copied = scale * values  # must be a copy: a tensor over a read-only array could write to it
    weights = torch.from_numpy(copied)
    return weights if weights.dtype is dtype and device == CPU else weights.to(device, dtype)


def is_single_integer(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a single integer."""
    return tensor.numel() == 1 and not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


def map_nested(value: object, kind: type, function: Callable[[Any], object]) -> object:
    """Return a nested state with the function applied to every value of this kind."""
    if isinstance(value, dict):
        return {key: map_nested(part, kind, function) for key, part in value.items()}
    return function(value) if isinstance(value, kind) else value


def as_tensors(state: State) -> State:
    """Return a state with its arrays as tensors, so that `torch.load(weights_only=True)` accepts it."""
    return map_nested(state, np.ndarray, torch.from_numpy)  # type: ignore[return-value]


def as_arrays(state: State) -> State:
    """Return a state with its tensors as arrays; raise `CheckpointError` for tensors that have no array."""
    return map_nested(state, torch.Tensor, _load_array)  # type: ignore[return-value]


def _load_array(tensor: torch.Tensor) -> Any:  # noqa: ANN401
    try:
        if tensor.layout is torch.strided:
            return as_numpy(tensor)
    except (RuntimeError, TypeError):  # a tensor without data, or of a type that NumPy does not have
        pass
    raise CheckpointError(
        f"A saved state must hold dense tensors of types that NumPy has, got a tensor of {tensor.dtype}, "
        f"{tensor.layout} on {tensor.device}."
    )


def wrap_state(name: str, state: State) -> State:
    """Return `{name: (state,)}`, which `torch.distributed.checkpoint` loads as one value.

    It loads a dictionary entry by entry into the present one, and fails if entries or shapes differ, as receipts in
    flight do. It takes a tuple as a whole.
    """
    return {name: (state,)}


def unwrap_state(name: str, state: State, owner: str) -> State:
    """Return the state inside a wrapped one, after checking that it belongs to this owner."""
    require_entries(state, {name}, owner)
    if not isinstance(state[name], (tuple, list)) or len(state[name]) != 1:
        raise CheckpointError(
            f"The state of {owner} must be one dictionary in a tuple, got {describe_value(state[name])}."
        )
    inner: State = state[name][0]
    return inner


def device_of(batch: object) -> torch.device:
    """Return the device of the first tensor in a batch of mappings, lists and tuples; the CPU if there is none.

    Any object with a `torch.device` as its `device` counts as a tensor.

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
        return device if isinstance(device, torch.device) else None  # that of an array is a string
    for part in parts:
        found = _find_device(part)
        if found is not None:
            return found
    return None
