"""How each kind of layer contributes to a per-example gradient norm."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import UninitializedParameter


class Factors(NamedTuple):
    """What one use of a matrix, in blocks of (rows, cols), leaves: pairs of vectors for each example and position.

    The left vectors of an embedding have a one at the row that is looked up, and are kept as the numbers of the rows.
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
        """How many outer products make up a gradient."""
        return int(self.right.shape[2])


Part: TypeAlias = Factors | torch.Tensor  # a tensor is the gradient itself, (m, ...)


def square_norms(parts: Sequence[Part]) -> torch.Tensor:
    """Give the squared norms (m,) of the sums of all parts, which are uses of one parameter.

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
    """Whether the gradient has fewer entries than there are pairs of positions, or cannot be put together by pairs."""
    positions = sum(use.positions for use in factors)
    groups, cols = factors[0].right.shape[1], factors[0].right.shape[3]
    alike = all(use.right.shape[1] == groups for use in factors)
    return not alike or positions**2 > factors[0].rows * cols


def compute_direct_norms(parts: Sequence[Part]) -> torch.Tensor:
    """Write the gradients out, add them up and square them."""
    total = sum(write_gradient(part) if isinstance(part, Factors) else part.flatten(1) for part in parts)
    return torch.as_tensor(total).square().sum(1)


def write_gradient(use: Factors) -> torch.Tensor:
    """Give the gradients (m, entries) that the factors stand for."""
    if not use.ids:
        return (use.left.transpose(-1, -2) @ use.right).flatten(1)
    m, cols = len(use.left), use.right.shape[-1]
    places = use.left + use.rows * torch.arange(m, device=use.left.device)[:, None]
    written = use.right.new_zeros(m * use.rows, cols)
    return written.index_add_(0, places.flatten(), use.right.reshape(-1, cols)).view(m, -1)


def compute_ghost_norms(factors: Sequence[Factors]) -> torch.Tensor:
    """Add up inner products over all pairs of positions, of one use or of two."""
    kinds = [_join_uses([use for use in factors if use.ids is ids]) for ids in (False, True)]
    dense, rows = kinds
    total = sum(_sum_products(kind, kind) for kind in kinds if kind is not None)
    if dense is not None and rows is not None:
        total = total + 2 * _sum_products(dense, rows)
    return torch.as_tensor(total).clamp_min(0.0)  # rounding can leave a little less than nothing


def _join_uses(uses: Sequence[Factors]) -> Factors | None:
    """Give uses of one kind as a single one, with the positions of all."""
    if len(uses) < 2:
        return uses[0] if uses else None
    left = torch.cat([use.left for use in uses], -1 if uses[0].ids else 2)
    return Factors(left, torch.cat([use.right for use in uses], 2), uses[0].rows)


def _sum_products(a: Factors, b: Factors) -> torch.Tensor:
    return (_multiply_lefts(a, b) * (a.right @ b.right.transpose(-1, -2))).sum((1, 2, 3))


def _multiply_lefts(a: Factors, b: Factors) -> torch.Tensor:
    """Give the inner products of left vectors: equality of rows, a look-up, or a product of matrices."""
    if a.ids:
        return a.left[:, None, :, None] == b.left[:, None, None, :]
    if b.ids:
        return a.left.gather(-1, b.left[:, None, None, :].expand(-1, 1, a.positions, -1))
    return a.left @ b.left.transpose(-1, -2)


Rule: TypeAlias = Callable[[Any, torch.Tensor, torch.Tensor], Part]


def factor_linear(module: Any, x: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """Every position of a sequence is an outer product of gradient and input."""
    left, right = (values.reshape(len(x), 1, -1, values.shape[-1]) for values in (grad, x))
    return Factors(left, right, module.out_features)


def factor_embedding(module: Any, ids: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """The rows that were looked up get the gradient; padding gets none."""
    rows, right = ids.reshape(len(ids), -1).long(), grad.reshape(len(ids), 1, -1, grad.shape[-1])
    if module.padding_idx is not None:
        right = right.masked_fill((rows == module.padding_idx)[:, None, :, None], 0.0)
    return Factors(rows, right, module.num_embeddings)


def factor_convolution(module: Any, x: torch.Tensor, grad: torch.Tensor) -> Factors:  # noqa: ANN401
    """At every position of the output a linear layer, of a patch of the input, in each group of channels."""
    left = grad.reshape(len(x), module.groups, module.out_channels // module.groups, -1)
    return Factors(left.transpose(2, 3), extract_patches(module, x), module.out_channels // module.groups)


def extract_patches(module: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Give (m, groups, positions, entries of a patch) of the input (m, channels, ...) of a convolution."""
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = functional.pad(x, module._reversed_padding_repeated_twice, mode=mode)  # what the module itself pads by
    for axis, (size, stride, gap) in enumerate(zip(module.kernel_size, module.stride, module.dilation, strict=True), 2):
        x = x.unfold(axis, gap * (size - 1) + 1, stride)[..., ::gap]
    axes = len(module.kernel_size)
    first, second = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    x = x.permute(0, 1, *second, *first).flatten(2 + axes)  # positions last: neighbours in memory are copied together
    return x.reshape(len(x), module.groups, -1, x.shape[-1]).transpose(2, 3)


def sum_channels(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """A bias for each channel."""
    return grad.flatten(2).sum(2) if grad.dim() > 2 else grad


def sum_trailing(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """A bias for each entry of the last dimensions."""
    return _sum_middle(grad, getattr(module, "normalized_shape", grad.shape[-1:]))


def layer_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """The weights multiply what was normalised."""
    return _sum_middle(
        grad * functional.layer_norm(x, module.normalized_shape, eps=module.eps), module.normalized_shape
    )


def rms_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """The weights multiply what was normalised."""
    return _sum_middle(grad * functional.rms_norm(x, module.normalized_shape, eps=module.eps), module.normalized_shape)


def group_norm(module: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """The weights, one for each channel, multiply what was normalised."""
    return sum_channels(module, x, grad * functional.group_norm(x, module.num_groups, eps=module.eps))


def _sum_middle(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Sum over the dimensions between the first, which is the example, and the last ones."""
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
    """Give the rules of a module, none if it is of another kind or computes something else than its kind."""
    forward: object = getattr(type(module), "forward", None)
    found = (known for kind, known in LAYER_RULES.items() if isinstance(module, kind) and forward is kind.forward)
    return next(found, {})


def needs_input(rule: Rule) -> bool:
    """Whether a rule looks at the input: those of biases need the gradient of the output only."""
    return rule not in (sum_channels, sum_trailing)


def least_dimensions(module: nn.Module) -> int:
    """Give how many dimensions an input has at least when the first of them is the example."""
    if isinstance(module, nn.Embedding):
        return 1
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return 1 + len(module.normalized_shape)
    return 2 + len(getattr(module, "kernel_size", ()))


def check_apart(model: nn.Module) -> None:
    """Refuse models whose examples mix, so that none has a gradient of its own."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f"{_format_title(name, module)} mixes the examples of a batch, so that none has a gradient of its "
                f"own. Use "
                f"GroupNorm instead, or set it to eval(), or use norms.last_layer, which needs outputs only."
            )
        if isinstance(module, _InstanceNorm) and module.training and module.running_mean is not None:
            raise ValueError(
                f"{_format_title(name, module)} keeps running statistics of whole batches, which the norms of "
                f"single examples "
                f"leave out. Build it with track_running_stats=False, or set it to eval(), or use norms.last_layer."
            )


def check_supported(model: nn.Module) -> None:
    """Refuse models with trainable parameters that nothing is known about."""
    check_apart(model)
    for name, module in model.named_modules():
        if any(isinstance(each, UninitializedParameter) for each in module.parameters(recurse=False)):
            raise ValueError(
                f"{_format_title(name, module)} does not know its shape yet: run the model once on a batch before "
                f"ghost."
            )
        known = {} if _by_frequency(module) else find_rules(module)
        unknown = sorted(set(list_trainable(module)) - set(known))
        if unknown:
            raise ValueError(
                f"ghost cannot tell the gradients of {', '.join(unknown)} of {_format_title(name, module)}: it "
                f"knows Linear, "
                f"Conv, Embedding (without scale_grad_by_freq), LayerNorm, RMSNorm and GroupNorm. Build it of these, "
                f"freeze it with requires_grad_(False), or use norms.exact or norms.last_layer."
            )


def list_trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """Give the parameters of a module itself, not those of its parts, which learn."""
    return {name: each for name, each in module.named_parameters(recurse=False) if each.requires_grad}


def _by_frequency(module: nn.Module) -> bool:
    """Whether gradients are divided by how often a row comes in the whole batch."""
    return isinstance(module, nn.Embedding) and bool(module.scale_grad_by_freq)


def _format_title(name: str, module: nn.Module) -> str:
    return f"{name or 'the model'!r} ({type(module).__name__})"
