"""Adam over one vector: what PyTorch's does, without the work of looking after many tensors."""

import math

import torch

from varmix.experiments.cartpole.network import Tensor

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # what is kept of both moments, and what a root is never below


class Adam:
    """Kingma and Ba's method for a vector and its gradient, both changed in place by others.

    For a vector of some thousand numbers the bookkeeping of `torch.optim.Adam` takes several times as long as its
    arithmetic.

    Examples
    --------
    >>> vector, gradient = torch.zeros(2), torch.tensor([3.0, -0.1])
    >>> Adam(vector, gradient, 0.5).step()
    >>> vector
    tensor([-0.5000,  0.5000])
    """

    def __init__(self, vector: Tensor, gradient: Tensor, rate: float) -> None:
        self._vector, self._gradient, self._rate = vector, gradient, rate
        self._mean, self._square = torch.zeros_like(vector), torch.zeros_like(vector)
        self._steps = 0

    def step(self) -> None:
        """Take one step."""
        self._steps += 1
        g = self._gradient
        self._mean.lerp_(g, 1 - FIRST)
        self._square.mul_(SECOND).addcmul_(g, g, value=1 - SECOND)
        root = self._square.sqrt().div_(math.sqrt(1 - SECOND**self._steps)).add_(TINY)
        self._vector.addcdiv_(self._mean, root, value=-self._rate / (1 - FIRST**self._steps))
