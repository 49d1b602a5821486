"""How each kind of layer contributes to a per-example gradient norm."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parameter import UninitializedParameter

from varmix.torch._torch_internals import is_batch_norm, is_instance_norm


class Factors(NamedTuple):
    """The gradient of one use of a matrix, in blocks of (rows, cols), as outer products of pairs of vectors.

    There is one pair per example and position.  The left vector of an embedding is one at the row that is looked up and
    zero elsewhere, so only the number of the row is stored.
    """

    left: torch.Tensor  # (m, groups, T, rows), or rows (m, T)
    right: torch.Tensor  # (m, groups, T, cols)
    rows: int

    @property
    def ids(self) -> bool:
        """Whether the left vectors are numbers of rows."""
        return bool(self.left.dim() == 2)

    @property
    def positions(self) -> int:
        """Number of outer products in a gradient."""
        return int(self.right.shape[2])


Part: TypeAlias = Factors | torch.Tensor  # a tensor is the gradient itself, (m, ...)


def square_norms(parts: Sequence[Part]) -> torch.Tensor:
    """Return the squared norms (m,) of the sums of all parts, which are uses of one parameter.

    Examples
    --------
    >>> left, right = torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 4)  # every entry of the gradient is 1 + 1
    >>> square_norms([Factors(left, right, rows=3)]), square_norms([torch.full((1, 12), 2.0)])
    (tensor([48.]), tensor([48.]))
    """
    factors = [part for part in parts if isinstance(part, Factors)]
    if len(factors) < len(parts) or direct_is_cheaper(factors):
        return compute_direct_norms(parts)
    return compute_ghost_norms(factors)


def direct_is_cheaper(factors: Sequence[Factors]) -> bool:
    """Return whether writing the gradient is cheaper than summing over pairs of positions, or the only way."""
    positions = sum(use.positions for use in factors)
    groups, cols = factors[0].right.shape[1], factors[0].right.shape[3]
    alike = all(use.right.shape[1] == groups for use in factors)
    return not alike or positions**2 > factors[0].rows * cols


def compute_direct_norms(parts: Sequence[Part]) -> torch.Tensor:
    """Write the gradients, add them up and square them."""
    total = sum(write_gradient(part) if isinstance(part, Factors) else part.flatten(1) for part in parts)
    return torch.as_tensor(total).square().sum(1)


def write_gradient(use: Factors) -> torch.Tensor:
    """Return the gradients (m, entries) of these factors."""
    if not use.ids:
        return (use.left.transpose(-1, -2) @ use.right).flatten(1)
    m, cols = len(use.left), use.right.shape[-1]
    places = use.left + use.rows * torch.arange(m, device=use.left.device)[:, None]
    written = use.right.new_zeros(m * use.rows, cols)
    return written.index_add_(0, places.flatten(), use.right.reshape(-1, cols)).view(m, -1)


def compute_ghost_norms(factors: Sequence[Factors]) -> torch.Tensor:
    """Return the sums of inner products over all pairs of positions, of one use or of two."""
    kinds = [_join_uses([use for use in factors if use.ids is ids]) for ids in (False, True)]
    dense, rows = kinds
    total = sum(_sum_products(kind, kind) for kind in kinds if kind is not None)
    if dense is not None and rows is not None:
        total = total + 2 * _sum_products(dense, rows)
    return torch.as_tensor(total).clamp_min(0.0)  # rounding can leave a number slightly below zero


def _join_uses(uses: Sequence[Factors]) -> Factors | None:
    """Return uses of one kind as a single one, with the positions of all."""
    if len(uses) < 2:
        return uses[0] if uses else None
    left = torch.cat([use.left for use in uses], -1 if uses[0].ids else 2)
    return Factors(left, torch.cat([use.right for use in uses], 2), uses[0].rows)


def _sum_products(a: Factors, b: Factors) -> torch.Tensor:
    return (_multiply_lefts(a, b) * (a.right @ b.right.transpose(-1, -2))).sum((1, 2, 3))


def _multiply_lefts(a: Factors, b: Factors) -> torch.Tensor:
    """Return the inner products of left vectors: equality of rows, a look-up, or a matrix product."""
    if a.ids:
        return a.left[:, None, :, None] == b.left[:, None, None, :]
    if b.ids:
        return a.left.gather(-1, b.left[:, None, None, :].expand(-1, 1, a.positions, -1))
    return a.left @ b.left.transpose(-1, -2)


Rule: TypeAlias = Callable[[Any, torch.Tensor, torch.Tensor], Part]


def factor_linear(module: Any, x: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """Return one outer product of gradient and input per position of a sequence."""
    left, right = (values.reshape(len(x), 1, -1, values.shape[-1]) for values in (grad, x))
    return Factors(left, right, module.out_features)


def factor_embedding(module: Any, ids: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """Return the gradient at the rows that were looked up; padding has none."""
    rows, right = ids.reshape(len(ids), -1).long(), grad.reshape(len(ids), 1, -1, grad.shape[-1])
    if module.padding_idx is not None:
        right = right.masked_fill((rows == module.padding_idx)[:, None, :, None], 0.0)
    return Factors(rows, right, module.num_embeddings)


def factor_convolution(module: Any, x: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """Return the factors of a linear layer on a patch of the input, at every output position, per group of channels."""
    left = grad.reshape(len(x), module.groups, module.out_channels // module.groups, -1)
    return Factors(left.transpose(2, 3), extract_patches(module, x), module.out_channels // module.groups)


def extract_patches(module: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return the patches (m, groups, positions, entries) of the input (m, channels, ...) of a convolution."""
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = functional.pad(x, find_padding(module), mode=mode)
    for axis, (size, stride, gap) in enumerate(zip(module.kernel_size, module.stride, module.dilation, strict=True), 2):
        x = x.unfold(axis, gap * (size - 1) + 1, stride)[..., ::gap]
    axes = len(module.kernel_size)
    first, second = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    x = x.permute(0, 1, *second, *first).flatten(2 + axes)  # neighbours in memory are copied together
    return x.reshape(len(x), module.groups, -1, x.shape[-1]).transpose(2, 3)


def find_padding(module: Any) -> list[int]:  # noqa: ANN401
    """Return the padding of a convolution as `functional.pad` takes it: before and after, last dimension first.

    Examples
    --------
    >>> find_padding(nn.Conv2d(1, 1, (3, 4), padding="same", dilation=(1, 2)))
    [3, 3, 1, 1]
    >>> find_padding(nn.Conv2d(1, 1, 3, padding=(1, 2)))
    [2, 2, 1, 1]
    """
    if module.padding == "same":  # the output is as long as the input; of an odd number the larger half comes after
        totals = [gap * (size - 1) for gap, size in zip(module.dilation, module.kernel_size, strict=True)]
        sides = [(total // 2, total - total // 2) for total in totals]
    elif module.padding == "valid":
        sides = [(0, 0)] * len(module.kernel_size)
    else:
        sides = [(size, size) for size in module.padding]
    return [size for pair in reversed(sides) for size in pair]


def sum_channels(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return the gradient of a bias with one entry per channel."""
    return grad.flatten(2).sum(2) if grad.dim() > 2 else grad


def sum_trailing(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return the gradient of a bias with one entry per entry of the last dimensions."""
    return _sum_middle(grad, getattr(module, "normalized_shape", grad.shape[-1:]))


def layer_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return the gradient of the weights, which multiply the normalised input."""
    return _sum_middle(
        grad * functional.layer_norm(x, module.normalized_shape, eps=module.eps), module.normalized_shape
    )


def rms_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return the gradient of the weights, which multiply the normalised input."""
    return _sum_middle(grad * functional.rms_norm(x, module.normalized_shape, eps=module.eps), module.normalized_shape)


def group_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return the gradient of the weights, one per channel, which multiply the normalised input."""
    return sum_channels(module, x, grad * functional.group_norm(x, module.num_groups, eps=module.eps))


def _sum_middle(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return sums over all dimensions except the first, which is the example, and the last ones of this shape."""
    return values.reshape(len(values), -1, *shape).sum(1)


_CONVOLUTION_RULES: Mapping[str, Rule] = {"weight": factor_convolution, "bias": sum_channels}

LAYER_RULES: Mapping[type[Any], Mapping[str, Rule]] = {
    nn.Linear: {"weight": factor_linear, "bias": sum_trailing},
    nn.Embedding: {"weight": factor_embedding},
    nn.Conv1d: _CONVOLUTION_RULES,
    nn.Conv2d: _CONVOLUTION_RULES,
    nn.Conv3d: _CONVOLUTION_RULES,
    nn.LayerNorm: {"weight": layer_norm, "bias": sum_trailing},
    nn.RMSNorm: {"weight": rms_norm},
    nn.GroupNorm: {"weight": group_norm, "bias": sum_channels},
}


def find_rules(module: nn.Module) -> Mapping[str, Rule]:
    """Return the rules of a module: none if it is no supported layer, or overrides the forward of its layer."""
    forward: object = getattr(type(module), "forward", None)
    found = (known for kind, known in LAYER_RULES.items() if isinstance(module, kind) and forward is kind.forward)
    return next(found, {})


def needs_input(rule: Rule) -> bool:
    """Return whether a rule uses the input: those of biases need the gradient of the output only."""
    return rule not in (sum_channels, sum_trailing)


def least_dimensions(module: nn.Module) -> int:
    """Return the least number of dimensions of an input whose first dimension is the example."""
    if isinstance(module, nn.Embedding):
        return 1
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return 1 + len(module.normalized_shape)
    return 2 + len(getattr(module, "kernel_size", ()))


def check_apart(model: nn.Module) -> None:
    """Raise `ValueError` if the model mixes the examples of a batch: then none has a gradient of its own."""
    for name, module in model.named_modules():
        if is_batch_norm(module) and (module.training or module.running_mean is None):
            raise ValueError(
                f"{_format_title(name, module)} mixes the examples of a batch, so that none has a gradient of its "
                f"own. Use GroupNorm instead, or set it to eval(), or use norms.last_layer, which needs outputs only."
            )
        if is_instance_norm(module) and module.training and module.running_mean is not None:
            raise ValueError(
                f"{_format_title(name, module)} keeps running statistics of whole batches, which norms of single "
                f"examples leave out. Build it with track_running_stats=False, set it to eval(), or use "
                f"norms.last_layer."
            )


def check_supported(model: nn.Module) -> None:
    """Raise `ValueError` if the model has trainable parameters in layers that are not supported."""
    check_apart(model)
    for name, module in model.named_modules():
        if any(isinstance(each, UninitializedParameter) for each in module.parameters(recurse=False)):
            raise ValueError(
                f"{_format_title(name, module)} does not know its shape yet. Run the model once on a batch before "
                f"ghost."
            )
        known = {} if _by_frequency(module) else find_rules(module)
        unknown = sorted(set(list_trainable(module)) - set(known))
        if unknown:
            raise ValueError(
                f"ghost cannot compute the gradients of {', '.join(unknown)} of {_format_title(name, module)}: it "
                f"supports Linear, Conv, Embedding (without scale_grad_by_freq), LayerNorm, RMSNorm and GroupNorm. "
                f"Build it of these, freeze it with requires_grad_(False), or use norms.exact or norms.last_layer."
            )


def list_trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters of a module itself, without those of its submodules."""
    return {name: each for name, each in module.named_parameters(recurse=False) if each.requires_grad}


def _by_frequency(module: nn.Module) -> bool:
    """Return whether gradients are divided by the number of times that a row occurs in the batch."""
    return isinstance(module, nn.Embedding) and bool(module.scale_grad_by_freq)


def _format_title(name: str, module: nn.Module) -> str:
    return f"{name or 'the model'!r} ({type(module).__name__})"
