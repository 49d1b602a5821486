"""Calls: what hooks keep of every call of a module, and what calls say together."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from varmix.torch.norms._layer_rules__factors import Part
from varmix.torch.norms._layer_rules import least_dimensions
from varmix.torch.norms._layer_rules import needs_input
from varmix.torch.norms._layer_rules import rules
from varmix.torch._tensors__precision import single
from varmix.torch.norms._layer_rules__support import trainable


@dataclass(frozen=True)
class Call:
    """One call of a module: what went in, whether that was overwritten since, and the gradient of what came out."""

    name: str
    module: nn.Module
    x: torch.Tensor
    grad: torch.Tensor
    overwritten: bool = False

    def part(self, parameter: str) -> Part:
        """Give what this call adds to the per-example gradients of a parameter of its module."""
        rule = rules(self.module)[parameter]
        if self.overwritten and needs_input(rule):
            raise RuntimeError(
                f"The input of {self.name!r} was changed in place between its call and the backward pass, so its norms "
                f"cannot be computed. Use an operation that is not in place there, or norms.exact."
            )
        x = single(self.x) if self.x.is_floating_point() else self.x
        return rule(self.module, x, single(self.grad))


def watch(name: str, module: nn.Module, take: Callable[[Call], None]) -> Any:  # noqa: ANN401
    """Let `take` have every call of the module, once its gradient is there; give the handle of the hook."""

    def called(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: torch.Tensor) -> None:
        if not output.requires_grad:
            return
        x = (args[0] if args else kwargs["input"]).detach()
        if x.dim() < least_dimensions(module):
            raise ValueError(
                f"The first dimension of every input must be the example: {name!r} got {tuple(x.shape)}, which has "
                f"no such dimension. Add one, also where there is one example only."
            )
        shape, version = output.shape, _version(x)

        def reached(grad: torch.Tensor) -> None:
            take(Call(name, module, x, grad.detach().reshape(shape), _version(x) != version))

        # The graph keeps the input, not we: what gets no gradient is forgotten with its graph.
        _root(name, output).register_hook(reached)

    # Before the hooks of others, which may give another output than the module's own.
    return module.register_forward_hook(called, with_kwargs=True, prepend=True)


def _root(name: str, output: torch.Tensor) -> torch.Tensor:
    """Return the tensor whose hook sees the whole gradient of an output, also if the output changes in place later.

    An operation in place moves a tensor to another place of the graph, and its hooks stay where all gradients still
    pass.  Not so for a view, such as the output of `Linear` for sequences: there they pass through its base only.
    """
    base = output._base
    if base is None:
        return output
    if base.numel() == output.numel() and base.is_contiguous() and output.is_contiguous():
        return base
    raise ValueError(
        f"The output of {name!r} is a view of a part of another tensor, {tuple(output.shape)} of {tuple(base.shape)}, "
        f"whose gradient ghost cannot follow. Return output.contiguous() or output.clone() from its forward, or use "
        f"norms.exact."
    )


def _version(x: torch.Tensor) -> int:
    """Return how often a tensor was changed in place; tensors of inference mode do not count that."""
    return 0 if x.is_inference() else x._version


def uses(calls: Sequence[Call]) -> dict[nn.Parameter, list[tuple[Call, str]]]:
    """Give, for every trainable parameter, the calls that used it and its name in their modules."""
    found: dict[nn.Parameter, list[tuple[Call, str]]] = defaultdict(list)
    for call in calls:
        for name, parameter in trainable(call.module).items():
            found[parameter].append((call, name))
    return found


def examples(calls: Sequence[Call]) -> int:
    """Give the number of examples, which all calls must agree on."""
    sizes = {len(call.x): call for call in calls}
    if len(sizes) > 1:
        found = ", ".join(f"{call.name!r} got {tuple(call.x.shape)}" for call in sizes.values())
        raise ValueError(
            f"The first dimension of every input must be the example: {found}. Expand an input that all examples "
            f"share, such as positions, to one for each: positions.expand(m, -1)."
        )
    return next(iter(sizes))
