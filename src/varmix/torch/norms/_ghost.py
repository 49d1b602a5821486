"""Ghost: exact norms of per-example gradients from the backward pass of the training step itself.

Hooks keep the input of every layer and the gradient of its output, which together are the factors of the gradients of
single examples (`varmix.torch.norms._layer_rules__factors`).  Two uses of one parameter are put together by the parameter itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from varmix.torch.norms._ghost__calls import Call
from varmix.torch.norms._ghost__calls import examples
from varmix.torch.norms._ghost__calls import uses
from varmix.torch.norms._ghost__calls import watch
from varmix.torch.norms._layer_rules__factors import squares
from varmix.torch.norms._layer_rules__support import check_supported
from varmix.torch.norms._layer_rules__support import trainable


class Seen:
    """What the block of `ghost` has seen: `norms` tells it, once after each backward pass."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = parameters
        self._open = True
        self._forget()

    def norms(self, weights: ArrayLike | torch.Tensor | None = None, reduction: str = "mean") -> torch.Tensor:
        """Give the norms (m,) of the gradients of the losses of single examples, without weights.

        What was seen are gradients of `weights_i loss_i / m`, or of `weights_i loss_i` where losses were summed; this
        is undone here.  Then everything is forgotten: one reading for a backward pass.

        Parameters
        ----------
        weights
            What the losses were multiplied with: one for each example, or one number for all, such as the scale of a
            `GradScaler`.
        reduction
            `"mean"` or `"sum"`: how weighted losses became one.
        """
        used = uses(self._calls)
        self._check(used)
        factors = _factors(weights, examples(self._calls), reduction)
        device = self._calls[0].grad.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            total = sum(squares([call.part(name) for call, name in each]).to(device) for each in used.values())
            norms = torch.as_tensor(total).sqrt()
            norms = norms / factors.to(norms)
        self._forget()
        return norms

    def _check(self, used: Mapping[nn.Parameter, object]) -> None:
        """Refuse to tell norms where gradients are missing or mixed up."""
        passes, unseen = len(self._passes), {name for name in self._reached if self._parameters[name] not in used}
        if passes > 1:
            self._forget()
            raise RuntimeError(
                f"{passes} backward passes came before norms() was read, and their gradients cannot be told apart: "
                f"read norms() after each. Checkpoints inside the model need use_reentrant=False."
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
        # A second pass is counted and not kept: whoever never reads would otherwise run out of memory.
        self._passes.add(torch._C._current_graph_task_id())
        if len(self._passes) == 1:
            self._calls.append(call)

    def _reach(self, name: str) -> Any:  # noqa: ANN401
        """Give a handle of the hook on the gradient of a parameter."""
        return self._parameters[name].register_hook(lambda grad: self._reached.add(name))


@contextmanager
def ghost(model: nn.Module) -> Iterator[Seen]:
    """Give exact gradient norms of single examples from one backward pass, the one that training needs anyway.

    The norm of an example is that of the gradient of its loss with respect to all trainable parameters of the model.
    Layers may be called several times, and share parameters.  Per-example gradients are never kept, and are only
    written down, one parameter at a time, where they are smaller than what avoids it.

    Known are `Linear`, `Conv1d` to `Conv3d`, `Embedding`, `LayerNorm`, `RMSNorm` and `GroupNorm`; a model with other
    trainable parameters is refused.  The first dimension of all inputs of these must be the example.  Use of a
    parameter through a function instead of its module, as in `linear(x, embedding.weight)`, is **not seen**: it is
    refused where the module is not called at all, and is missing from the norms where it is called as well.

    Parameters
    ----------
    model
        Any module; hooks are on it until the block is left.

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
    seen = Seen({name: each for name, each in model.named_parameters() if each.requires_grad})
    handles = []
    try:
        handles += [watch(name, each, seen._take) for name, each in model.named_modules() if trainable(each)]
        handles += [seen._reach(name) for name in seen._parameters]
        yield seen
    finally:
        seen._open = False
        for handle in handles:
            handle.remove()


def _factors(weights: ArrayLike | torch.Tensor | None, m: int, reduction: str) -> torch.Tensor:
    """Give what the gradient of each example was multiplied with."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be 'mean' or 'sum', as the losses became one, got {reduction!r}.")
    given = 1.0 if weights is None else weights
    values = given.detach() if isinstance(given, torch.Tensor) else torch.tensor(np.asarray(given))
    if values.shape not in ((), (m,)):
        raise ValueError(f"weights must be one per example, ({m},), or one number: got {tuple(values.shape)}.")
    if not bool((values > 0).all() and values.isfinite().all()):
        raise ValueError("weights must be finite and above zero: what was multiplied by zero cannot be told.")
    return values / m if reduction == "mean" else values
