"""Calls: what hooks keep of every call of a module, and what calls say together."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from varmix.torch.norms.factors import Part
from varmix.torch.norms.layers import least_dimensions, rules
from varmix.torch.norms.precision import single
from varmix.torch.norms.support import trainable


@dataclass(frozen=True)
class Call:
    """One call of a module: what went in, and the gradient of what came out."""

    name: str
    module: nn.Module
    x: torch.Tensor
    grad: torch.Tensor

    def part(self, parameter: str) -> Part:
        """Give what this call adds to the per-example gradients of a parameter of its module."""
        x = single(self.x) if self.x.is_floating_point() else self.x
        return rules(self.module)[parameter](self.module, x, single(self.grad))


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
        # The graph keeps the input, not we: what gets no gradient is forgotten with its graph.
        output.register_hook(lambda grad: take(Call(name, module, x, grad.detach())))

    # Before the hooks of others, which may give another output than the module's own.
    return module.register_forward_hook(called, with_kwargs=True, prepend=True)


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
