"""A small network whose parameters are one vector.

An operation on a small tensor costs a few microseconds whatever its size.  With all parameters, and all gradients, as
views of one vector each, Adam and the soft update are a few operations instead of a few for every layer; and NumPy,
whose operations cost less, reads the same memory where no gradient is asked for.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from varmix.arrays import FloatArray

Tensor = Any


class Network:
    """A multilayer perceptron with rectified hidden layers, in single precision.

    Parameters
    ----------
    sizes
        Features, hidden layers, and outputs.
    rng
        Where the first values come from: uniform up to one over the root of a layer's inputs, as is usual.
    """

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        import torch

        shapes = list(pairwise(sizes))
        values = [rng.uniform(-1, 1, (ins + 1) * outs) / np.sqrt(ins) for ins, outs in shapes]
        self.sizes = tuple(sizes)
        self.flat: Tensor = torch.from_numpy(np.concatenate(values).astype(np.float32))
        self.gradient: Tensor = torch.zeros_like(self.flat)
        self.layers = [*zip(_views(self.flat, shapes), _views(self.gradient, shapes), strict=True)]
        self._arrays = [(W.numpy(), b.numpy()) for (W, b), _ in self.layers]
        for parameters, gradients in self.layers:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.requires_grad_()
                parameter.grad = gradient  # backward adds to it in place

    def __call__(self, x: Tensor) -> Tensor:
        """Give the outputs (rows, outputs) of features (rows, features)."""
        for (W, b), _ in self.layers[:-1]:
            x = b.addmm(x, W).relu_()
        W, b = self.layers[-1][0]
        return b.addmm(x, W)

    def plain(self, x: FloatArray) -> FloatArray:
        """Give the outputs of one row of features or of many, by NumPy, where no gradient is asked for."""
        for W, b in self._arrays[:-1]:
            x = np.maximum(x @ W + b, 0.0)
        W, b = self._arrays[-1]
        return np.asarray(x @ W + b)

    def copy(self) -> "Network":
        """Give a network with the same parameters in memory of its own."""
        twin = Network(self.sizes, np.random.default_rng(0))
        twin.flat.copy_(self.flat)
        return twin


def _views(flat: Tensor, shapes: Sequence[tuple[int, int]]) -> list[tuple[Tensor, Tensor]]:
    """Cut a vector into the matrix and the bias of every layer."""
    found, place = [], 0
    for ins, outs in shapes:
        end = place + ins * outs
        found.append((flat[place:end].view(ins, outs), flat[end : end + outs]))
        place = end + outs
    return found
