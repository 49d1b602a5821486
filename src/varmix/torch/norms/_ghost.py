"""Ghost norms: per-example gradient norms from one backward pass."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from varmix.torch._torch_internals import count_changes, find_base, identify_backward
from varmix.torch.norms._layer_rules import (
    Part,
    check_supported,
    find_rules,
    least_dimensions,
    list_trainable,
    needs_input,
    square_norms,
)
from varmix.torch.norms._precision import as_single_or_double


@dataclass(frozen=True)
class Call:
    """One call of a module: its input, whether that was overwritten since, and the gradient of its output."""

    name: str
    module: nn.Module
    x: torch.Tensor
    grad: torch.Tensor
    overwritten: bool = False

    def part(self, parameter: str) -> Part:
        """Return what this call adds to the per-example gradients of a parameter of its module."""
        rule = find_rules(self.module)[parameter]
        if self.overwritten and needs_input(rule):
            raise RuntimeError(
                f"The input of {self.name!r} was changed in place between its call and the backward pass, so its norms "
                f"cannot be computed. Use an operation that is not in place there, or norms.exact."
            )
        x = as_single_or_double(self.x) if self.x.is_floating_point() else self.x
        return rule(self.module, x, as_single_or_double(self.grad))


def watch_calls(name: str, module: nn.Module, take: Callable[[Call], None]) -> Any:  # noqa: ANN401
    """Pass every call of the module to `take` once its gradient is known; return the handle of the hook."""

    def called(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: torch.Tensor) -> None:
        if not output.requires_grad:
            return
        x = (args[0] if args else kwargs["input"]).detach()
        if x.dim() < least_dimensions(module):
            raise ValueError(
                f"The first dimension of every input must be the example: {name!r} got {tuple(x.shape)}, which has "
                f"no such dimension. Add one, also for a single example."
            )
        shape, version = output.shape, count_changes(x)

        def reached(grad: torch.Tensor) -> None:
            take(Call(name, module, x, grad.detach().reshape(shape), count_changes(x) != version))

        # Only the graph keeps the input, so a call without a gradient is freed with its graph.
        _find_root(name, output).register_hook(reached)

    # Before other hooks, which may replace the output of the module.
    return module.register_forward_hook(called, with_kwargs=True, prepend=True)


def _find_root(name: str, output: torch.Tensor) -> torch.Tensor:
    """Return the tensor whose hook sees the whole gradient of an output, also if the output changes in place later.

    An operation in place moves a tensor to another node of the graph.  Its hooks stay at the old node, and the whole
    gradient still flows through that.  If the tensor is a view, as the output of `Linear` for sequences is, the
    gradient flows through its base only.
    """
    base = find_base(output)
    if base is None:
        return output
    if base.numel() == output.numel() and base.is_contiguous() and output.is_contiguous():
        return base
    raise ValueError(
        f"The output of {name!r} is a view of a part of another tensor, {tuple(output.shape)} of {tuple(base.shape)}, "
        f"whose gradient ghost cannot follow. Return output.contiguous() or output.clone() from its forward, or use "
        f"norms.exact."
    )


def collect_uses(calls: Sequence[Call]) -> dict[nn.Parameter, list[tuple[Call, str]]]:
    """Return, for every trainable parameter, the calls that used it and its name in their modules."""
    found: dict[nn.Parameter, list[tuple[Call, str]]] = defaultdict(list)
    for call in calls:
        for name, parameter in list_trainable(call.module).items():
            found[parameter].append((call, name))
    return found


def count_examples(calls: Sequence[Call]) -> int:
    """Return the number of examples; raise `ValueError` if calls differ in it."""
    sizes = {len(call.x): call for call in calls}
    if len(sizes) > 1:
        found = ", ".join(f"{call.name!r} got {tuple(call.x.shape)}" for call in sizes.values())
        raise ValueError(
            f"The first dimension of every input must be the example: {found}. Expand an input that all examples "
            f"share, such as positions, to one for each: positions.expand(m, -1)."
        )
    return next(iter(sizes))


class GhostNorms:
    """A record of the backward pass inside a block of `ghost`; `norms` computes the per-example norms from it.

    Parameters
    ----------
    parameters : mapping of str to torch.nn.Parameter
        The trainable parameters of the model by name.

    Examples
    --------
    >>> model = nn.Linear(2, 1, bias=False)
    >>> with ghost(model) as seen:
    ...     model(torch.tensor([[3.0, 4.0], [0.0, 1.0]])).mean().backward()
    >>> seen.norms()
    tensor([5., 1.])
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = parameters
        self._open = True
        self._forget()

    def norms(self, weights: ArrayLike | torch.Tensor | None = None, reduction: str = "mean") -> torch.Tensor:
        """Return the gradient norms of single examples, without the weights. Call it once after each backward pass.

        The backward pass saw gradients of `weights_i loss_i / m`, or of `weights_i loss_i` if losses were summed. Pass
        the same weights, and the result is the norm of the gradient of `loss_i`.

        Parameters
        ----------
        weights : torch.Tensor or array-like of shape (m,), or float, optional
            What the losses were multiplied by: one weight per example, or one number for all, such as the scale of a
            `GradScaler`. Default: one.
        reduction : {"mean", "sum"}, default "mean"
            How the weighted losses became one.

        Returns
        -------
        torch.Tensor
            Gradient norms (m,).
        """
        used = collect_uses(self._calls)
        self._check(used)
        factors = _compute_factors(weights, count_examples(self._calls), reduction)
        device = self._calls[0].grad.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            total = sum(square_norms([call.part(name) for call, name in each]).to(device) for each in used.values())
            norms = torch.as_tensor(total).sqrt()
            norms = norms / factors.to(norms)
        self._forget()
        return norms

    def _check(self, used: Mapping[nn.Parameter, object]) -> None:
        """Raise `RuntimeError` if gradients are missing, or of several backward passes."""
        passes, unseen = len(self._passes), {name for name in self._reached if self._parameters[name] not in used}
        if passes > 1:
            self._forget()
            raise RuntimeError(
                f"{passes} backward passes came before norms() was read, and their gradients cannot be separated. "
                f"Read norms() after each. Checkpoints inside the model need use_reentrant=False."
            )
        if unseen:
            raise RuntimeError(
                f"{', '.join(sorted(unseen))} got a gradient, but no call of their module was seen: ghost sees neither "
                f"functions of parameters nor inside compiled models. Call the module, or use norms.exact."
            )
        if not self._calls:
            raise RuntimeError(
                "No backward pass to read: call backward() inside the block of ghost(model), and norms() once after it."
            )

    def _forget(self) -> None:
        self._calls: list[Call] = []
        self._passes: set[int] = set()
        self._reached: set[str] = set()

    def _take(self, call: Call) -> None:
        if not self._open:
            return
        # Calls of a second pass are counted and not kept, so that a loop that never reads does not run out of memory.
        self._passes.add(identify_backward())
        if len(self._passes) == 1:
            self._calls.append(call)

    def _reach(self, name: str) -> Any:  # noqa: ANN401
        """Watch the gradient of a parameter and return the handle of the hook."""
        return self._parameters[name].register_hook(lambda grad: self._reached.add(name))


@contextmanager
def ghost(model: nn.Module) -> Iterator[GhostNorms]:
    """Compute exact per-example gradient norms from the backward pass of a training step.

    Run forward and backward inside the block, then call `norms` on the result. The norm of an example is that of the
    gradient of its loss with respect to all trainable parameters. Layers may be called several times and share
    parameters. Per-example gradients are not stored, except for one parameter at a time where that needs less memory.

    Supported layers are `Linear`, `Conv1d` to `Conv3d`, `Embedding`, `LayerNorm`, `RMSNorm` and `GroupNorm`. The first
    dimension of all their inputs must be the example.

    A parameter that is used through a function instead of its module, as in `linear(x, embedding.weight)`, is **not
    seen**. If its module is never called, `norms` raises an error. If its module is called too, this use is missing
    from the norms.

    Parameters
    ----------
    model : torch.nn.Module
        The model. Hooks stay on it until the block ends.

    Yields
    ------
    GhostNorms
        Its method `norms` returns the norms of the last backward pass.

    Raises
    ------
    ValueError
        If the model has trainable parameters in other layers, or mixes examples.

    Examples
    --------
    >>> model = nn.Linear(2, 1, bias=False)
    >>> x, weights = torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([0.5, 2.0])
    >>> with ghost(model) as seen:
    ...     losses = model(x)[:, 0]
    ...     (weights * losses).mean().backward()
    >>> seen.norms(weights)
    tensor([5., 1.])
    """
    check_supported(model)
    seen = GhostNorms({name: each for name, each in model.named_parameters() if each.requires_grad})
    handles = []
    try:
        handles += [watch_calls(name, each, seen._take) for name, each in model.named_modules() if list_trainable(each)]
        handles += [seen._reach(name) for name in seen._parameters]
        yield seen
    finally:
        seen._open = False
        for handle in handles:
            handle.remove()


def _compute_factors(weights: ArrayLike | torch.Tensor | None, m: int, reduction: str) -> torch.Tensor:
    """Return the factor of each example's gradient."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be 'mean' or 'sum', as the losses became one, got {reduction!r}.")
    given = 1.0 if weights is None else weights
    values = given.detach() if isinstance(given, torch.Tensor) else torch.tensor(np.asarray(given))
    if values.shape not in ((), (m,)):
        raise ValueError(f"weights must be one per example, ({m},), or one number: got {tuple(values.shape)}.")
    if not bool((values > 0).all() and values.isfinite().all()):
        raise ValueError(
            "weights must be finite and positive: the norm of an example whose loss was multiplied by zero cannot be "
            "recovered."
        )
    return values / m if reduction == "mean" else values
