"""Problems, which solvers minimise: the base class, and problems made of a user's own functions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from varmix._core.validation import FloatArray, IntArray, as_count, as_floats, as_number

POINTS_PER_BLOCK = 4096  # points whose gradients are in memory at once


class Problem(ABC):
    """Objective for solvers to minimise: `F(theta) = mean_i loss_i(theta) + l2/2 |theta|^2`.

    Use `Linear` for linear models and `Custom` for two functions of your own. For anything else write a subclass: set
    `n` and `dim`, and define `losses` and `gradients`. The other methods have defaults. Solvers draw points to estimate
    the mean of the losses. They never sample the penalty: each step adds its gradient exactly.

    Attributes
    ----------
    n : int
        Number of points.
    dim : int
        Length of theta.
    l2 : float, default 0.0
        Weight of the penalty.

    Examples
    --------
    >>> class Mean(Problem):
    ...     def __init__(self, data):
    ...         self.data, self.n, self.dim = data, len(data), 1
    ...
    ...     def losses(self, theta, points):
    ...         return 0.5 * (theta - self.data[points]) ** 2
    ...
    ...     def gradients(self, theta, points):
    ...         return (theta - self.data[points])[:, None]
    >>> problem = Mean(np.array([1.0, 2.0, 6.0]))
    >>> problem.norms(np.array([3.0]), np.array([0, 2])).tolist()
    [2.0, 3.0]
    >>> from varmix.solvers import sgd
    >>> sgd(problem, np.array([0, 0, 1]), step=0.1, epochs=100, batch=3, rng=0).theta.round(2).tolist()
    [3.0]
    """

    n: int
    dim: int
    l2: float = 0.0

    @abstractmethod
    def losses(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the losses of some points.

        Parameters
        ----------
        theta : ndarray of shape (dim,)
            Where to evaluate the losses.
        points : ndarray of shape (m,)
            Indices of the points. An index may occur more than once.

        Returns
        -------
        ndarray of shape (m,)
            One loss per index, without the penalty.
        """

    @abstractmethod
    def gradients(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the gradients of the losses of some points.

        Parameters
        ----------
        theta : ndarray of shape (dim,)
            Where to evaluate the gradients.
        points : ndarray of shape (m,)
            Indices of the points. An index may occur more than once.

        Returns
        -------
        ndarray of shape (m, dim)
            One gradient per index, without the penalty.
        """

    def norms(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the norms that the sampler learns from. Default: the lengths of the gradients.

        Override it if there is a cheaper way to compute the lengths. Only `sgd` and `adagrad` call it: the other
        solvers learn from differences of gradients or from partial derivatives.

        Parameters
        ----------
        theta : ndarray of shape (dim,)
            Where to evaluate the gradients.
        points : ndarray of shape (m,)
            Indices of the points.

        Returns
        -------
        ndarray of shape (m,)
            One norm per index.
        """
        return measure_rows(self.gradients(theta, points))

    @property
    def knows_norms(self) -> bool:
        """Whether `norms` needs no gradients. Default: True if a subclass overrides `norms`.

        If False, solvers measure the gradients that they have computed anyway.
        """
        return type(self).norms is not Problem.norms

    def penalty(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of the penalty. Default: `l2 * theta`.

        Parameters
        ----------
        theta : ndarray of shape (dim,)
            Where to evaluate it.

        Returns
        -------
        ndarray of shape (dim,)
            The gradient.
        """
        return self.l2 * theta

    def objective(self, theta: FloatArray) -> float:
        """Return F(theta) over all points. Default: the mean loss plus `l2/2 |theta|^2`.

        Parameters
        ----------
        theta : ndarray of shape (dim,)
            Where to evaluate it.

        Returns
        -------
        float
            The objective.
        """
        blocks = (
            np.arange(first, min(first + POINTS_PER_BLOCK, self.n)) for first in range(0, self.n, POINTS_PER_BLOCK)
        )
        total = sum(float(self.losses(theta, points).sum()) for points in blocks)
        return total / self.n + 0.5 * self.l2 * float(theta @ theta)

    def accuracy(self, theta: FloatArray) -> float | None:
        """Return the share of points that theta classifies correctly. Default: None, which means unknown.

        Parameters
        ----------
        theta : ndarray of shape (dim,)
            Where to evaluate it.

        Returns
        -------
        float or None
            A number in [0, 1] for the trace of a run, or None.
        """
        return None


def check_problem(problem: object) -> None:
    """Raise `TypeError` if a solver's first argument is not a problem."""
    if not isinstance(problem, Problem):
        raise TypeError(
            f"A solver takes a problem first, such as varmix.solvers.Linear(X, y); got a {type(problem).__name__}. For "
            f"a problem of your own, use varmix.solvers.Custom or subclass varmix.solvers.Problem."
        )


def mean_gradient(problem: Problem, theta: FloatArray) -> FloatArray:
    """Return the mean gradient of all points, without the penalty."""
    total = np.zeros(problem.dim)
    for first in range(0, problem.n, POINTS_PER_BLOCK):
        points = np.arange(first, min(first + POINTS_PER_BLOCK, problem.n))
        total += problem.gradients(theta, points).sum(axis=0)
    return total / problem.n


def compute_feedback(problem: Problem, theta: FloatArray, points: IntArray, gradients: FloatArray) -> FloatArray:
    """Return the norms of some points. They come from the gradients if the problem has no cheaper way."""
    return problem.norms(theta, points) if problem.knows_norms else measure_rows(gradients)


def measure_rows(gradients: FloatArray) -> FloatArray:
    """Return the Euclidean length of every row."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", gradients, gradients)))


OfPoints: TypeAlias = Callable[[FloatArray, IntArray], Any]
"""Function of theta (dim,) and points (m,) that returns an array whose first dimension is m."""


class Custom(Problem):
    """Problem made of two functions: the losses and the gradients of an array of points.

    Solvers run over it in NumPy and call each function once per batch.

    Parameters
    ----------
    n : int
        Number of points.
    dim : int
        Length of theta.
    loss : callable
        `loss(theta, points)` returns the losses of these points, shape (m,).
    gradient : callable
        `gradient(theta, points)` returns their gradients, shape (m, dim).
    l2 : float, default 0.0
        Weight of the penalty `l2/2 |theta|^2`. The functions must not include it.
    norms : callable, optional
        `norms(theta, points)` returns the norms that the sampler learns from, shape (m,). Pass it if there is a cheaper
        way to compute them than from gradients. Only `sgd` and `adagrad` call it. Default: the lengths of the
        gradients.
    accuracy : callable, optional
        `accuracy(theta)` returns a number for the trace, such as the share of points that theta classifies correctly.
        Default: none is recorded.

    Raises
    ------
    TypeError
        If a number or a function is of the wrong type.
    ValueError
        If `n` or `dim` is below 1, or `l2` is negative or infinite.

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
        self._loss, self._gradient, self._norms, self._accuracy = loss, gradient, norms, accuracy

    def losses(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the losses of some points, and check their shape."""
        return _check_shape(self._loss(theta, points), "loss", (len(points),))

    def gradients(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the gradients of the losses of some points, and check their shape."""
        return _check_shape(self._gradient(theta, points), "gradient", (len(points), self.dim))

    def norms(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the norms of some points: from the function `norms`, or the lengths of their gradients."""
        if self._norms is None:
            return super().norms(theta, points)
        return _check_shape(self._norms(theta, points), "norms", (len(points),))

    @property
    def knows_norms(self) -> bool:
        """Whether a function `norms` was passed."""
        return self._norms is not None

    def accuracy(self, theta: FloatArray) -> float | None:
        """Return the result of the function `accuracy`, or None if none was passed."""
        return None if self._accuracy is None else self._accuracy(theta)

    def __repr__(self) -> str:
        return f"Custom(n={self.n}, dim={self.dim}, l2={self.l2:g})"


def _check_shape(values: Any, name: str, shape: tuple[int, ...]) -> FloatArray:  # noqa: ANN401 - any return value
    """Return the result of a user's function as floats; raise `ValueError` if its shape is wrong.

    Every call is checked, because a wrong shape would broadcast silently. The check takes little time.
    """
    array = as_floats(values, f"The result of {name}")
    if array.shape != shape:
        expected = "one number" if len(shape) == 1 else "one row of length dim"
        raise ValueError(
            f"{name}(theta, points) must return {expected} for each of its {shape[0]} points: expected shape {shape}, "
            f"got {array.shape}."
        )
    return array
