"""Problems: the protocol that solvers need, and problems made of a user's own functions."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from varmix._core.validation import FloatArray, IntArray, as_count, as_floats, as_number


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


POINTS_PER_BLOCK = 4096  # points whose gradients are in memory at once


def mean_gradient(problem: Problem, theta: FloatArray) -> FloatArray:
    """Give the mean of all points' gradients, without the penalty."""
    total = np.zeros(problem.dim)
    for first in range(0, problem.n, POINTS_PER_BLOCK):
        points = np.arange(first, min(first + POINTS_PER_BLOCK, problem.n))
        total += problem.gradients(theta, points).sum(axis=0)
    return total / problem.n


def compute_feedback(problem: Problem, theta: FloatArray, points: IntArray, gradients: FloatArray) -> FloatArray:
    """Give these points' norms, from their gradients where the problem knows no shorter way."""
    if getattr(problem, "knows_norms", True):
        return problem.norms(theta, points)
    return measure_rows(gradients)


def measure_rows(gradients: FloatArray) -> FloatArray:
    """Give the Euclidean length of every row."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", gradients, gradients)))


OfPoints: TypeAlias = Callable[[FloatArray, IntArray], Any]
"""From theta (dim,) and points (m,) to an array whose first dimension is m."""


class Custom:
    """Any loss: two functions of theta and an array of points.

    Solvers run over it in plain NumPy, a call of each function a batch.

    Parameters
    ----------
    n
        Number of points.
    dim
        Length of theta.
    loss
        loss(theta, points) gives the losses (m,) of these points.
    gradient
        gradient(theta, points) gives their gradients (m, dim).
    l2
        Weight of the penalty `l2/2 |theta|^2`, which is not part of the losses.
    norms
        norms(theta, points) gives what the sampler is to learn from (m,), where that is not the gradients' length or
        there is a shorter way to it.  Only `sgd` and `adagrad` ask for it.
    accuracy
        accuracy(theta) gives a number for the trace.

    Examples
    --------
    >>> data = np.array([1.0, 2.0, 6.0])
    >>> def loss(theta, points):
    ...     return 0.5 * (theta[0] - data[points]) ** 2
    >>> def gradient(theta, points):
    ...     return (theta - data[points, None])
    >>> problem = Custom(3, 1, loss, gradient)
    >>> problem.objective(np.array([3.0]))
    2.333...
    >>> problem.norms(np.array([3.0]), np.array([0, 2])).tolist()
    [2.0, 3.0]
    """

    def __init__(
        self,
        n: int,
        dim: int,
        loss: OfPoints,
        gradient: OfPoints,
        *,
        l2: float = 0.0,
        norms: OfPoints | None = None,
        accuracy: Callable[[FloatArray], float] | None = None,
    ) -> None:
        self.n, self.dim = as_count(n, "n"), as_count(dim, "dim")
        self.l2 = as_number(l2, "l2")
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise ValueError(f"l2 must be a finite number of at least 0, got {l2!r}.")
        functions: dict[str, object] = {"loss": loss, "gradient": gradient}
        functions |= {name: f for name, f in (("norms", norms), ("accuracy", accuracy)) if f is not None}
        for name, function in functions.items():
            if not callable(function):
                raise TypeError(f"{name} must be a function, got {function!r}.")
        self._loss, self._gradient, self._norms = loss, gradient, norms
        self.accuracy = accuracy
        self.knows_norms = norms is not None

    def losses(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the losses of these points."""
        return _check_shape(self._loss(theta, points), "loss", (len(points),))

    def gradients(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the gradients of these points' losses."""
        return _check_shape(self._gradient(theta, points), "gradient", (len(points), self.dim))

    def norms(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the norms of these points: the gradients' lengths unless told."""
        if self._norms is None:
            return measure_rows(self.gradients(theta, points))
        return _check_shape(self._norms(theta, points), "norms", (len(points),))

    def penalty(self, theta: FloatArray) -> FloatArray:
        """Give l2 theta."""
        return self.l2 * theta

    def objective(self, theta: FloatArray) -> float:
        """Give the mean loss and the penalty."""
        parts = (
            np.arange(first, min(first + POINTS_PER_BLOCK, self.n)) for first in range(0, self.n, POINTS_PER_BLOCK)
        )
        total = sum(float(self.losses(theta, points).sum()) for points in parts)
        return total / self.n + 0.5 * self.l2 * float(theta @ theta)

    def __repr__(self) -> str:
        return f"Custom(n={self.n}, dim={self.dim}, l2={self.l2:g})"


def _check_shape(values: Any, name: str, shape: tuple[int, ...]) -> FloatArray:  # noqa: ANN401 - whatever it gave
    """Check the shape in every call, which costs nothing beside it: a wrong one would broadcast silently."""
    array = as_floats(values, f"What {name} gave")
    if array.shape != shape:
        hint = "one number" if len(shape) == 1 else "one row of length dim"
        raise ValueError(
            f"{name}(theta, points) must give {hint} for each of its {shape[0]} points: expected shape {shape}, got "
            f"{array.shape}."
        )
    return array
