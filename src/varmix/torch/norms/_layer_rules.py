"""Layers: what the gradient of each parameter is, from the input of its module and the gradient of its output.

A rule takes the module, its input and the gradient of its output, and gives the gradients of single examples, as they
are or in factors.  The first dimension is the example everywhere.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from varmix.torch.norms._layer_rules__factors import Factors
from varmix.torch.norms._layer_rules__factors import Part

Rule: TypeAlias = Callable[[Any, torch.Tensor, torch.Tensor], Part]


def linear(module: Any, x: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """Every position of a sequence is an outer product of gradient and input."""
    left, right = (values.reshape(len(x), 1, -1, values.shape[-1]) for values in (grad, x))
    return Factors(left, right, module.out_features)


def embedding(module: Any, ids: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """The rows that were looked up get the gradient; padding gets none."""
    rows, right = ids.reshape(len(ids), -1).long(), grad.reshape(len(ids), 1, -1, grad.shape[-1])
    if module.padding_idx is not None:
        right = right.masked_fill((rows == module.padding_idx)[:, None, :, None], 0.0)
    return Factors(rows, right, module.num_embeddings)


def convolution(module: Any, x: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """At every position of the output a linear layer, of a patch of the input, in each group of channels."""
    left = grad.reshape(len(x), module.groups, module.out_channels // module.groups, -1)
    return Factors(left.transpose(2, 3), patches(module, x), module.out_channels // module.groups)


def patches(module: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Give (m, groups, positions, entries of a patch) of the input (m, channels, ...) of a convolution."""
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = functional.pad(x, module._reversed_padding_repeated_twice, mode=mode)  # what the module itself pads by
    for axis, (size, stride, gap) in enumerate(zip(module.kernel_size, module.stride, module.dilation, strict=True), 2):
        x = x.unfold(axis, gap * (size - 1) + 1, stride)[..., ::gap]
    axes = len(module.kernel_size)
    first, second = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    x = x.permute(0, 1, *second, *first).flatten(2 + axes)  # positions last: neighbours in memory are copied together
    return x.reshape(len(x), module.groups, -1, x.shape[-1]).transpose(2, 3)


def channels(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """A bias for each channel."""
    return grad.flatten(2).sum(2) if grad.dim() > 2 else grad


def trailing(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """A bias for each entry of the last dimensions."""
    return _summed(grad, getattr(module, "normalized_shape", grad.shape[-1:]))


def layer_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """The weights multiply what was normalised."""
    return _summed(grad * functional.layer_norm(x, module.normalized_shape, eps=module.eps), module.normalized_shape)


def rms_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """The weights multiply what was normalised."""
    return _summed(grad * functional.rms_norm(x, module.normalized_shape, eps=module.eps), module.normalized_shape)


def group_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """The weights, one for each channel, multiply what was normalised."""
    return channels(module, x, grad * functional.group_norm(x, module.num_groups, eps=module.eps))


def _summed(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Sum over the dimensions between the first, which is the example, and the last ones."""
    return values.reshape(len(values), -1, *shape).sum(1)


_CONVOLUTION: Mapping[str, Rule] = {"weight": convolution, "bias": channels}

RULES: Mapping[type[Any], Mapping[str, Rule]] = {
    nn.Linear: {"weight": linear, "bias": trailing},
    nn.Embedding: {"weight": embedding},
    nn.Conv1d: _CONVOLUTION,
    nn.Conv2d: _CONVOLUTION,
    nn.Conv3d: _CONVOLUTION,
    nn.LayerNorm: {"weight": layer_norm, "bias": trailing},
    nn.RMSNorm: {"weight": rms_norm},
    nn.GroupNorm: {"weight": group_norm, "bias": channels},
}


def rules(module: nn.Module) -> Mapping[str, Rule]:
    """Give the rules of a module, none if it is of another kind or computes something else than its kind."""
    forward: object = getattr(type(module), "forward", None)
    found = (known for kind, known in RULES.items() if isinstance(module, kind) and forward is kind.forward)
    return next(found, {})


def needs_input(rule: Rule) -> bool:
    """Whether a rule looks at the input: those of biases need the gradient of the output only."""
    return rule not in (channels, trailing)


def least_dimensions(module: nn.Module) -> int:
    """Give how many dimensions an input has at least when the first of them is the example."""
    if isinstance(module, nn.Embedding):
        return 1
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return 1 + len(module.normalized_shape)
    return 2 + len(getattr(module, "kernel_size", ()))
