"""Data sets and networks for benchmarks. This module imports torch."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset


def build_mlp(features: int = 784, hidden: int = 256, classes: int = 10) -> nn.Module:
    """Return a multilayer perceptron."""
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def build_cnn(channels: int = 32, classes: int = 10, colours: int = 3) -> nn.Module:
    """Return a convolutional network with strides, groups and group normalisation, for images of any size."""
    return nn.Sequential(
        nn.Conv2d(colours, channels, 3, padding="same"),
        nn.GroupNorm(4, channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False),
        nn.GroupNorm(4, 2 * channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(2 * channels, 2 * channels, 3, stride=(2, 1), groups=4, padding_mode="reflect", padding=1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * channels, classes),
    )


class Block(nn.Module):  # type: ignore[misc]
    """Causal self-attention and a perceptron, each after a normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width, bias=False)
        self.mix, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return an array of the same shape (m, T, width)."""
        x = x + self.out(self._attention(self.mix(self.first(x))))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))

    def _attention(self, mixed: torch.Tensor) -> torch.Tensor:
        m, length, _ = mixed.shape
        q, k, v = mixed.view(m, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        ahead = torch.ones(length, length, dtype=torch.bool, device=mixed.device).triu(1)
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(ahead, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(m, length, -1)


class Transformer(nn.Module):  # type: ignore[misc]
    """Predicts the next token. The embedding is also the output layer, and the first block is used twice."""

    def __init__(self, tokens: int = 1000, width: int = 64, heads: int = 4, length: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads), Block(width, heads)])
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.logits.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=width**-0.5)

    def forward(self, ids: torch.Tensor) -> Any:  # noqa: ANN401
        """Return the logits (m, tokens, T) of ids (m, T)."""
        places = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape[0], -1)
        x = self.tokens(ids) + self.places(places)
        for block in (self.blocks[0], *self.blocks):
            x = block(x)
        return self.logits(self.norm(x)).transpose(1, 2)


class ItemByItem(TensorDataset):  # type: ignore[misc]
    """Tensors that every loader reads item by item."""


class Numbers(Dataset[int]):  # type: ignore[misc]
    """Dataset of n items; item i is the number i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index
