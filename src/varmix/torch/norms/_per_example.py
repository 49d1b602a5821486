"""Exact norms: one gradient per example, for any model, at the cost of computing them all."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from varmix.torch.norms._layer_rules import check_apart
from varmix.torch.norms._precision import as_single_or_double

Args: TypeAlias = tuple[torch.Tensor, ...]
Kwargs: TypeAlias = dict[str, torch.Tensor]


def exact(
    model: nn.Module,
    loss: Callable[[Any, torch.Tensor], torch.Tensor],
    x: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor],
    y: torch.Tensor,
    *,
    chunk_size: int | None = None,
) -> torch.Tensor:
    """Return the gradient norms of all examples, from a backward pass of its own with one gradient per example.

    It works with every model that `torch.func.vmap` supports; dropout differs between examples. It needs the memory of
    a whole gradient for each example of a chunk.

    Parameters
    ----------
    model : torch.nn.Module
        The model. Its trainable parameters count, and stay unchanged.
    loss : callable
        From the outputs and targets of a batch of one example to a scalar.
    x : torch.Tensor, sequence or mapping of torch.Tensor
        Inputs (m, ...). Several inputs come in a tuple, or by name in a dictionary.
    y : torch.Tensor
        Targets (m, ...).
    chunk_size : int, optional
        Number of examples that are computed at once. Default: all.

    Returns
    -------
    torch.Tensor
        Gradient norms (m,).

    Raises
    ------
    ValueError
        If x and y do not have one row per example, the model mixes examples, or nothing is trainable.

    Examples
    --------
    >>> model, x = nn.Linear(2, 1, bias=False), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    >>> exact(model, lambda outputs, targets: (outputs[:, 0] - targets).sum(), x, torch.zeros(2))
    tensor([5., 1.])
    """
    args, kwargs = _split_inputs(x)
    _check_rows([*args, *kwargs.values()], y)
    check_apart(model)
    parameters = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}
    if not parameters:
        raise ValueError("The model has no trainable parameters. Call requires_grad_() on those that should count.")

    def value(parameters: dict[str, torch.Tensor], args: Args, kwargs: Kwargs, y: torch.Tensor) -> torch.Tensor:
        ones, named = tuple(each[None] for each in args), {name: each[None] for name, each in kwargs.items()}
        return _require_scalar(loss(functional_call(model, parameters, ones, named), y[None]))

    def norm(args: Args, kwargs: Kwargs, y: torch.Tensor) -> torch.Tensor:
        gradients = grad(value)(parameters, args, kwargs, y).values()
        squares = [as_single_or_double(each).square().sum() for each in gradients]
        return torch.stack(squares).sum().sqrt()

    return vmap(norm, randomness="different", chunk_size=chunk_size)(args, kwargs, y).detach()


def _split_inputs(x: object) -> tuple[Args, Kwargs]:
    if isinstance(x, Mapping):
        return (), dict(x)
    return (tuple(x) if isinstance(x, (tuple, list)) else (x,)), {}


def _check_rows(inputs: Sequence[object], y: object) -> None:
    shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) else type(each).__name__ for each in (*inputs, y)]
    rows = {shape[0] if isinstance(shape, tuple) and shape else None for shape in shapes}
    if not inputs or len(rows) != 1 or None in rows:
        raise ValueError(
            f"x and y must be tensors with one row per example, several inputs in a tuple or by name in a dictionary: "
            f"got {', '.join(map(str, shapes))}."
        )


def _require_scalar(value: torch.Tensor) -> torch.Tensor:
    if value.dim():
        raise ValueError(
            f"loss must return a scalar for a batch of one, got {tuple(value.shape)}. Take its mean or its sum."
        )
    return value
