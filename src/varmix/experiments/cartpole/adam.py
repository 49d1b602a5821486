"""Adam over one vector: what PyTorch's does, without the work of looking after many tensors."""

import math

from varmix.experiments.cartpole.network import Tensor

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # what is kept of both moments, and what a root is never below


class Adam:
    """Kingma and Ba's method for a vector and its gradient, both changed in place by others.

    For a vector of some thousand numbers the bookkeeping of `torch.optim.Adam` takes several times as long as its
    arithmetic.
    """

    def __init__(self, vector: Tensor, gradient: Tensor, rate: float) -> None:
        self._vector, self._gradient, self._rate = vector, gradient, rate
        self._mean, self._square = (vector.new_zeros(len(vector)) for _ in range(2))
        self._steps = 0

    def step(self) -> None:
        """Take one step."""
        self._steps += 1
        g = self._gradient
        self._mean.lerp_(g, 1 - FIRST)
        self._square.mul_(SECOND).addcmul_(g, g, value=1 - SECOND)
        root = self._square.sqrt().div_(math.sqrt(1 - SECOND**self._steps)).add_(TINY)
        self._vector.addcdiv_(self._mean, root, value=-self._rate / (1 - FIRST**self._steps))
