"""The networks, their losses, and the norms that samplers learn from."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from lab.experiments.networks.samples import Split
from lab.experiments.networks.words import CONTEXT_WORDS, VOCABULARY_SIZE

HIDDEN_IMAGES, HIDDEN_ROWS, EMBEDDING_WIDTH, HIDDEN_WORDS = (128,), (64, 64), 32, 128
PIXELS = 784


def build_network(kind: str, split: Split) -> nn.Module:
    """Give a new network of a task, its first weights from PyTorch's generator."""
    outputs = split.classes or 1
    if kind == "words":
        return _build_words()
    inputs = split.X.shape[1]
    if kind == "CNN":
        return _build_convolutions(outputs)
    return _build_dense(inputs, HIDDEN_IMAGES if inputs == PIXELS else HIDDEN_ROWS, outputs)


def _build_dense(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def _build_convolutions(outputs: int) -> nn.Module:
    """Two convolutions, 8 and 16 channels, each halving the image: small enough for one core."""
    first, second = nn.Conv2d(1, 8, 5, stride=2), nn.Conv2d(8, 16, 5, stride=2)
    image = nn.Unflatten(1, (1, 28, 28))
    return nn.Sequential(image, first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, outputs))


def _build_words() -> nn.Module:
    """Six words through one table of vectors, then two dense layers: the next word."""
    table = nn.Embedding(VOCABULARY_SIZE, EMBEDDING_WIDTH)
    return nn.Sequential(
        table, nn.Flatten(), _build_dense(EMBEDDING_WIDTH * CONTEXT_WORDS, (HIDDEN_WORDS,), VOCABULARY_SIZE)
    )


def compute_losses(outputs: Tensor, y: Tensor) -> Tensor:
    """Give the loss of every point: cross entropy for classes, half the squared error for numbers.

    Examples
    --------
    >>> compute_losses(torch.tensor([[0.0], [3.0]]), torch.tensor([1.0, 1.0]))
    tensor([0.5000, 2.0000])
    """
    if y.dtype == torch.int64:
        return functional.cross_entropy(outputs, y, reduction="none")
    return 0.5 * (outputs[:, 0] - y).square()


def compute_norms(outputs: Tensor, y: Tensor) -> Tensor:
    """Give the norm of every point's derivative in the outputs: `|softmax - onehot|`, or the absolute error.

    The training step has the outputs anyway, so this feedback costs next to nothing.

    Examples
    --------
    >>> compute_norms(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([0.7071])
    """
    with torch.no_grad():
        if y.dtype == torch.int64:
            derivatives = torch.softmax(outputs, dim=1)
            derivatives[torch.arange(len(y)), y] -= 1.0
            return torch.linalg.vector_norm(derivatives, dim=1)
        return (outputs[:, 0] - y).abs()
