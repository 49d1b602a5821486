"""Exact: one gradient for each example, for any model, at the price of them all."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from varmix.torch.norms.precision import single
from varmix.torch.norms.support import check_apart


def exact(
    model: nn.Module,
    loss: Callable[[Any, torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    chunk_size: int | None = None,
) -> torch.Tensor:
    """Give the norms of the gradients of all examples, by a backward pass of its own with a gradient for each.

    Works for whatever `torch.func.vmap` works for; dropout differs between examples.  Takes the memory of a whole
    gradient for each example of a chunk.

    Parameters
    ----------
    model
        The module; its trainable parameters count, and stay as they are.
    loss
        From outputs and targets of a batch of one to a scalar.
    x, y
        Inputs and targets, (m, ...) each.
    chunk_size
        How many examples are taken at once; all of them unless told.

    Examples
    --------
    >>> model, x = nn.Linear(2, 1, bias=False), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    >>> exact(model, lambda outputs, targets: (outputs[:, 0] - targets).sum(), x, torch.zeros(2))
    tensor([5., 1.])
    """
    if x.dim() == 0 or y.dim() == 0 or len(x) != len(y):
        raise ValueError(f"x and y must have one row per example, got {tuple(x.shape)} and {tuple(y.shape)}.")
    check_apart(model)
    parameters = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}
    if not parameters:
        raise ValueError("The model has no trainable parameters, so that nothing has a gradient: requires_grad_().")

    def value(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _scalar(loss(functional_call(model, parameters, (x[None],)), y[None]))

    def norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gradients = grad(value)(parameters, x, y).values()
        squares = [single(each).square().sum() for each in gradients]
        return torch.stack(squares).sum().sqrt()

    return vmap(norm, randomness="different", chunk_size=chunk_size)(x, y).detach()


def _scalar(value: torch.Tensor) -> torch.Tensor:
    if value.dim():
        raise ValueError(f"loss must give a scalar for a batch of one, got {tuple(value.shape)}. Take its mean or sum.")
    return value
