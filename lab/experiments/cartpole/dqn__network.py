"""A small network whose parameters are one vector.

An operation on tensors of 64 rows costs some microseconds, and most of it is the calling.  With all parameters, and all
of the gradient, as views of one vector each, an optimiser and the soft update have one tensor to look after; and NumPy,
whose calls cost less, reads the same memory where no gradient is asked for.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
Tensor: TypeAlias = Any


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
        shapes = list(pairwise(sizes))
        values = [rng.uniform(-1, 1, (ins + 1) * outs) / np.sqrt(ins) for ins, outs in shapes]
        self.sizes = tuple(sizes)
        self.flat: Tensor = torch.from_numpy(np.concatenate(values).astype(np.float32))
        self.flat.grad = torch.zeros_like(self.flat)
        self.layers, gradients = _views(self.flat, shapes), _views(self.flat.grad, shapes)
        self._arrays = [(W.numpy(), b.numpy()) for W, b in self.layers]
        for parameter, gradient in zip(sum(self.layers, ()), sum(gradients, ()), strict=True):
            parameter.requires_grad_()
            parameter.grad = gradient  # `backward` adds to it in place

    def __call__(self, x: Tensor) -> Tensor:
        """Give the outputs (rows, outputs) of features (rows, features), fit for `backward`."""
        for W, b in self.layers[:-1]:
            x = torch.addmm(b, x, W).relu_()
        W, b = self.layers[-1]
        return torch.addmm(b, x, W)

    def plain(self, x: Vector) -> Vector:
        """Give the outputs of one row of features or of many, by NumPy, where no gradient is asked for."""
        for W, b in self._arrays[:-1]:
            x = x @ W
            x += b
            np.maximum(x, 0.0, out=x)
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
