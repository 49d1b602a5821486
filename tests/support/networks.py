"""Small networks with a batch, and their gradient norms in the plainest way; skipped where torch is missing."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional

from lab.benchmarks.torch_modules import Transformer, build_cnn, build_mlp

TASKS = ("mlp", "cnn", "sequence", "transformer")
M = 6


def task(name, *, seed=0, dtype=torch.float32):
    """Give a model, inputs and targets."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, x, y = MAKERS[name]()
    return model.to(dtype), x.to(dtype) if x.is_floating_point() else x, y


def _sequence():
    model = nn.Sequential(
        nn.Conv1d(3, 6, 3, padding=2, dilation=2, padding_mode="circular"),
        nn.GroupNorm(2, 6),
        nn.Tanh(),
        nn.Conv1d(6, 4, 2, stride=2, groups=2, padding="valid"),
        nn.Flatten(),
        nn.Linear(4 * 5, 5),
    )
    return model, torch.randn(M, 3, 10), torch.randint(5, (M,))


MAKERS = {
    "mlp": lambda: (build_mlp(12, 9, 5), torch.randn(M, 12), torch.randint(5, (M,))),
    "cnn": lambda: (build_cnn(8, 5), torch.randn(M, 3, 8, 7), torch.randint(5, (M,))),
    "sequence": _sequence,
    "transformer": lambda: (Transformer(11, 8, 2, 6), torch.randint(11, (M, 6)), torch.randint(11, (M, 6))),
}


def losses(model, x, y):
    """Give the losses of single examples, with their graph."""
    return functional.cross_entropy(model(x), y, reduction="none").reshape(len(x), -1).mean(1)


def looped(model, x, y):
    """Give the gradient norms of all examples by a backward pass for each."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = []
    for i in range(len(x)):
        gradients = torch.autograd.grad(losses(model, x[i : i + 1], y[i : i + 1])[0], learning, allow_unused=True)
        found.append(sum(each.double().square().sum() for each in gradients if each is not None).sqrt())
    return torch.stack(found).to(x.dtype if x.is_floating_point() else torch.float32)
