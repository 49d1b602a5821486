"""SGD and AdaGrad over any sampler."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray, IntArray, as_positive
from varmix._sampler import Sampler, Source
from varmix.solvers._kernels import take_adagrad_steps, take_sgd_steps
from varmix.solvers._linear import Linear
from varmix.solvers._loop import Method, Options, Result, make_start, optimise
from varmix.solvers._problems import Problem, compute_feedback


def sgd(
    problem: Problem, sampler: Sampler | Source, *, start: ArrayLike | None = None, **options: Unpack[Options]
) -> Result:
    """Minimise by stochastic gradient descent.

    The step is `theta <- theta - step (mean of weight * gradient + l2 theta)`. The importance weight of each point
    multiplies its gradient, so the step is unbiased if draws are with replacement. The sampler learns from the
    lengths of the gradients.

    Parameters
    ----------
    problem : Problem
        Problem to minimise.
    sampler : Sampler, Family or array-like of shape (n,)
        Source of the points: a sampler or a family over `Points(problem.n)`, or one label per point.
    start : array-like of shape (dim,), optional
        Starting point. Default: zeros.
    **options
        `step` (required), `batch`, `epochs` and the other options of `varmix.solvers.optimise`.

    Returns
    -------
    Result
        The last iterate, the trace and the sampler.

    References
    ----------
    Needell, Srebro and Ward: Stochastic gradient descent, weighted sampling, and the randomized Kaczmarz algorithm,
    2014.

    Examples
    --------
    >>> import varmix
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, 1.0, -1.0)
    >>> problem = Linear(X, y, loss="logistic", l2=0.01)
    >>> result = sgd(problem, varmix.uniform(500, rng=0), epochs=20, batch=10, step=0.5)
    >>> result.trace.accuracies[-1] > 0.98
    True
    """
    theta = make_start(start, problem)
    method = CompiledSgd(problem, theta) if isinstance(problem, Linear) else Sgd(problem, theta)
    return optimise(problem, sampler, method, **options)


class Sgd(Method):
    """SGD over any problem, batch by batch."""

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch."""
        problem, batch = self.problem, len(points) // len(steps)
        norms, total = np.empty(len(points)), 0.0
        for step, first in zip(steps, range(0, len(points), batch), strict=True):
            part = slice(first, first + batch)
            total += float(weights[part] @ problem.losses(self.theta, points[part]))
            gradients = problem.gradients(self.theta, points[part])
            norms[part] = compute_feedback(problem, self.theta, points[part], gradients)
            self.move(weights[part] @ gradients / batch + problem.penalty(self.theta), step)
        return norms, total

    def move(self, gradient: FloatArray, step: float) -> None:
        """Take a step along an estimate of the gradient of F."""
        self.theta = self.theta - step * gradient


class CompiledSgd(Sgd):
    """SGD over linear problems."""

    compiled = True
    problem: Linear

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        p, norms = self.problem, np.empty(len(points))
        total = take_sgd_steps(
            p.rows, p.y, p.costs, p.lengths, p.code, p.intercept, p.l2, points, weights, steps, self.theta, norms
        )
        return norms, total


def adagrad(
    problem: Problem,
    sampler: Sampler | Source,
    *,
    start: ArrayLike | None = None,
    epsilon: float = 1e-8,
    **options: Unpack[Options],
) -> Result:
    """Minimise by AdaGrad, which adapts the step of each coordinate.

    The step is `theta_j <- theta_j - step g_j / (epsilon + sqrt(G_j))`. Here g is the mean of weight * gradient plus
    the gradient of the penalty, an unbiased estimate of the gradient of F. G_j is the sum of all g_j^2 so far,
    including this one. The step itself is a ratio of estimates, so no sampling makes it unbiased. The sampler learns
    from the lengths of the gradients.

    A batch of sparse rows only touches its own columns. With a penalty it touches all columns.

    Parameters
    ----------
    problem : Problem
        Problem to minimise.
    sampler : Sampler, Family or array-like of shape (n,)
        Source of the points: a sampler or a family over `Points(problem.n)`, or one label per point.
    start : array-like of shape (dim,), optional
        Starting point. Default: zeros.
    epsilon : float, default 1e-8
        Added to the root, to avoid a division by zero.
    **options
        `step` (required), `batch`, `epochs` and the other options of `varmix.solvers.optimise`.

    Returns
    -------
    Result
        The last iterate, the trace and the sampler.

    References
    ----------
    Duchi, Hazan and Singer: Adaptive subgradient methods for online learning and stochastic optimization, 2011.

    Examples
    --------
    >>> import varmix
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)) * [100.0, 1.0, 0.01]  # no single step length suits all columns
    >>> problem = Linear(X, X @ [0.01, -2.0, 50.0], loss="squared")
    >>> result = adagrad(problem, varmix.uniform(500, rng=0), epochs=20, batch=10, step=1.0)
    >>> bool(result.trace.losses[-1] < 0.5 * result.trace.losses[0])
    True
    """
    theta, epsilon = make_start(start, problem), as_positive(epsilon, "epsilon")
    kind = CompiledAdagrad if isinstance(problem, Linear) else Adagrad
    return optimise(problem, sampler, kind(problem, theta, epsilon), **options)


class Adagrad(Sgd):
    """AdaGrad over any problem: SGD with another step."""

    def __init__(self, problem: Problem, theta: FloatArray, epsilon: float = 1e-8) -> None:
        super().__init__(problem, theta)
        self.epsilon, self.squares = epsilon, np.zeros(len(theta))

    def move(self, gradient: FloatArray, step: float) -> None:
        """Take a step that is shorter in coordinates whose gradients were long."""
        self.squares = self.squares + gradient**2
        self.theta = self.theta - step * gradient / (self.epsilon + np.sqrt(self.squares))


class CompiledAdagrad(Adagrad):
    """AdaGrad over linear problems."""

    compiled = True
    problem: Linear

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        p, norms = self.problem, np.empty(len(points))
        total = take_adagrad_steps(
            p.rows,
            p.y,
            p.costs,
            p.lengths,
            p.code,
            p.intercept,
            p.l2,
            self.epsilon,
            points,
            weights,
            steps,
            self.squares,
            self.theta,
            norms,
        )
        return norms, total
