"""Support: models whose norms can be told, and why others are refused."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import UninitializedParameter

from varmix.torch.norms._layer_rules import rules


def check_apart(model: nn.Module) -> None:
    """Refuse models whose examples mix, so that none has a gradient of its own."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f"{_title(name, module)} mixes the examples of a batch, so that none has a gradient of its own. Use "
                f"GroupNorm instead, or set it to eval(), or use norms.last_layer, which needs outputs only."
            )
        if isinstance(module, _InstanceNorm) and module.training and module.running_mean is not None:
            raise ValueError(
                f"{_title(name, module)} keeps running statistics of whole batches, which the norms of single examples "
                f"leave out. Build it with track_running_stats=False, or set it to eval(), or use norms.last_layer."
            )


def check_supported(model: nn.Module) -> None:
    """Refuse models with trainable parameters that nothing is known about."""
    check_apart(model)
    for name, module in model.named_modules():
        if any(isinstance(each, UninitializedParameter) for each in module.parameters(recurse=False)):
            raise ValueError(
                f"{_title(name, module)} does not know its shape yet: run the model once on a batch before ghost."
            )
        known = {} if _by_frequency(module) else rules(module)
        unknown = sorted(set(trainable(module)) - set(known))
        if unknown:
            raise ValueError(
                f"ghost cannot tell the gradients of {', '.join(unknown)} of {_title(name, module)}: it knows Linear, "
                f"Conv, Embedding (without scale_grad_by_freq), LayerNorm, RMSNorm and GroupNorm. Build it of these, "
                f"freeze it with requires_grad_(False), or use norms.exact or norms.last_layer."
            )


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """Give the parameters of a module itself, not those of its parts, which learn."""
    return {name: each for name, each in module.named_parameters(recurse=False) if each.requires_grad}


def _by_frequency(module: nn.Module) -> bool:
    """Whether gradients are divided by how often a row comes in the whole batch."""
    return isinstance(module, nn.Embedding) and bool(module.scale_grad_by_freq)


def _title(name: str, module: nn.Module) -> str:
    return f"{name or 'the model'!r} ({type(module).__name__})"
