"""Adam over one vector."""

import math

import numpy as np

from varmix.experiments.cartpole.network import Vector

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # what is kept of both moments, and what is added to a root


class Adam:
    """Kingma and Ba's method, in place, for a vector and its gradient.

    Examples
    --------
    >>> vector, gradient = np.zeros(2, np.float32), np.array([3.0, -0.1], np.float32)
    >>> Adam(vector, gradient, 0.5).step()
    >>> vector
    array([-0.5,  0.5], dtype=float32)
    """

    def __init__(self, vector: Vector, gradient: Vector, rate: float) -> None:
        self._vector, self._gradient, self._rate = vector, gradient, rate
        self._mean, self._square = np.zeros_like(vector), np.zeros_like(vector)
        self._steps = 0

    def step(self) -> None:
        """Take one step."""
        self._steps += 1
        self._mean *= FIRST
        self._mean += (1 - FIRST) * self._gradient
        self._square *= SECOND
        self._square += (1 - SECOND) * np.square(self._gradient)
        root = np.sqrt(self._square)
        root *= 1 / math.sqrt(1 - SECOND**self._steps)
        root += TINY
        np.divide(self._mean, root, out=root)
        root *= self._rate / (1 - FIRST**self._steps)
        self._vector -= root
