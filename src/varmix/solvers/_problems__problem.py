"""Problem: a mean of losses over points, with an L2 penalty that is not sampled."""

from typing import Protocol

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray


class Problem(Protocol):
    """Minimise `F(theta) = mean_i loss_i(theta) + l2/2 |theta|^2`.

    Solvers ask for single points; `Linear` is the fast case, `Custom` makes one of any two functions.
    """

    @property
    def n(self) -> int:
        """Number of points."""
        ...

    @property
    def dim(self) -> int:
        """Length of theta."""
        ...

    def losses(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the losses (m,) of these points."""
        ...

    def gradients(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the gradients (m, dim) of these points' losses."""
        ...

    def norms(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the lengths (m,) of these gradients: what samplers learn from."""
        ...

    def penalty(self, theta: FloatArray) -> FloatArray:
        """Give the gradient (dim,) of the penalty."""
        ...

    def objective(self, theta: FloatArray) -> float:
        """Give F(theta), from all points."""
        ...


PART = 4096  # points whose gradients are in memory at once


def mean_gradient(problem: Problem, theta: FloatArray) -> FloatArray:
    """Give the mean of all points' gradients, without the penalty."""
    total = np.zeros(problem.dim)
    for first in range(0, problem.n, PART):
        points = np.arange(first, min(first + PART, problem.n))
        total += problem.gradients(theta, points).sum(axis=0)
    return total / problem.n


def feedback(problem: Problem, theta: FloatArray, points: IntArray, gradients: FloatArray) -> FloatArray:
    """Give these points' norms, from their gradients where the problem knows no shorter way."""
    if getattr(problem, "knows_norms", True):
        return problem.norms(theta, points)
    return lengths(gradients)


def lengths(gradients: FloatArray) -> FloatArray:
    """Give the Euclidean length of every row."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", gradients, gradients)))
