"""A small network whose parameters are one vector.

With 64 rows and 64 units an operation takes a few microseconds, and most of it is the calling.  So the gradient is
written out, which takes a third of the time that a library needs to find it; and with all parameters, and all of the
gradient, in one vector each, Adam and the soft update are a few operations instead of a few for every layer.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class Network:
    """A multilayer perceptron with rectified hidden layers, in single precision.

    Parameters
    ----------
    sizes
        Features, hidden layers, and outputs.
    rng
        Where the first values come from: uniform up to one over the root of a layer's inputs, as is usual.

    Examples
    --------
    >>> network = Network([4, 8, 2], np.random.default_rng(0))
    >>> network.flat.shape
    (58,)
    >>> network(np.zeros((3, 4), np.float32)).shape
    (3, 2)
    """

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        shapes = list(pairwise(sizes))
        values = [rng.uniform(-1, 1, (ins + 1) * outs) / np.sqrt(ins) for ins, outs in shapes]
        self.sizes = tuple(sizes)
        self.flat: Vector = np.concatenate(values).astype(np.float32)
        self.gradient: Vector = np.zeros_like(self.flat)
        self.layers = _views(self.flat, shapes)
        self._slopes = _views(self.gradient, shapes)

    def __call__(self, x: Vector) -> Vector:
        """Give the outputs of one row of features, or of many."""
        return self.trace(x)[-1]

    def trace(self, x: Vector) -> list[Vector]:
        """Give the features, what every hidden layer makes of them, and the outputs."""
        seen = [x]
        for W, b in self.layers[:-1]:
            x = x @ W
            x += b
            np.maximum(x, 0.0, out=x)
            seen.append(x)
        W, b = self.layers[-1]
        return [*seen, x @ W + b]

    def backward(self, seen: Sequence[Vector], slopes: Vector) -> None:
        """Write the gradient of a loss whose derivatives in the outputs of `trace` are `slopes`."""
        for number in reversed(range(len(self.layers))):
            W, b = self._slopes[number]
            np.matmul(seen[number].T, slopes, out=W)
            np.sum(slopes, axis=0, out=b)
            if number:
                slopes = slopes @ self.layers[number][0].T
                slopes *= seen[number] > 0.0

    def copy(self) -> "Network":
        """Give a network with the same parameters in memory of its own."""
        twin = Network(self.sizes, np.random.default_rng(0))
        twin.flat[:] = self.flat
        return twin


def _views(flat: Vector, shapes: Sequence[tuple[int, int]]) -> list[tuple[Vector, Vector]]:
    """Cut a vector into the matrix and the bias of every layer."""
    found, place = [], 0
    for ins, outs in shapes:
        end = place + ins * outs
        found.append((flat[place:end].reshape(ins, outs), flat[end : end + outs]))
        place = end + outs
    return found
