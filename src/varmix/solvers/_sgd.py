"""SGD and AdaGrad over any sampler."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray, IntArray, as_positive
from varmix._sampler import Sampler, Source
from varmix.solvers import _kernels as descent
from varmix.solvers import _kernels as kernels
from varmix.solvers._linear import Linear
from varmix.solvers._loop import Options, Result, optimise, starting_point
from varmix.solvers._problems import Problem, compute_feedback


def sgd(
    problem: Problem, sampler: Sampler | Source, *, start: ArrayLike | None = None, **options: Unpack[Options]
) -> Result:
    """Step along the batch: theta <- theta - step (mean of weight * gradient + gradient of the penalty).

    The importance weight multiplies the gradient of each point, so that the step is unbiased if draws are
    with replacement; the sampler learns from the gradients' lengths.  Options are those of
    `varmix.solvers.optimise`; `step` is needed.

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
    theta = starting_point(start, problem)
    method = CompiledSgd(problem, theta) if isinstance(problem, Linear) else Sgd(problem, theta)
    return optimise(problem, sampler, method, **options)


class Sgd:
    """For any problem, batch by batch."""

    compiled = False

    def __init__(self, problem: Problem, theta: FloatArray) -> None:
        self.problem, self.theta = problem, theta

    def begin_epoch(self, epoch: int) -> int:
        """Nothing is due."""
        return 0

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
        """Go a step along an estimate of the gradient of F."""
        self.theta = self.theta - step * gradient


class CompiledSgd(Sgd):
    """For linear problems."""

    compiled = True
    problem: Linear

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        p, norms = self.problem, np.empty(len(points))
        total = descent.sgd(
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
    """Divide each coordinate's step by what it has moved along: theta_j <- theta_j - step g_j / (epsilon + sqrt G_j).

    g = mean of weight * gradient + gradient of the penalty is an unbiased estimate of the gradient of F; G_j is the sum
    of g_j^2 so far, this one included.  (The step itself, a ratio, is not unbiased under any sampling.)  The sampler
    learns from the gradients' lengths.  A batch of sparse rows costs its own columns; with a penalty, all columns.

    Parameters
    ----------
    problem, sampler, options
        As in `varmix.solvers.optimise`; `step` is needed.
    start
        Where to start; zeros unless told.
    epsilon
        Keeps coordinates that have not moved from dividing by zero.

    Examples
    --------
    >>> import varmix
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)) * [100.0, 1.0, 0.01]  # scales that one step length cannot serve
    >>> problem = Linear(X, X @ [0.01, -2.0, 50.0], loss="squared")
    >>> result = adagrad(problem, varmix.uniform(500, rng=0), epochs=20, batch=10, step=1.0)
    >>> bool(result.trace.losses[-1] < 0.5 * result.trace.losses[0])
    True
    """
    theta, epsilon = starting_point(start, problem), as_positive(epsilon, "epsilon")
    kind = CompiledAdagrad if isinstance(problem, Linear) else Adagrad
    return optimise(problem, sampler, kind(problem, theta, epsilon), **options)


class Adagrad(Sgd):
    """For any problem: SGD that moves otherwise."""

    def __init__(self, problem: Problem, theta: FloatArray, epsilon: float = 1e-8) -> None:
        super().__init__(problem, theta)
        self.epsilon, self.squares = epsilon, np.zeros(len(theta))

    def move(self, gradient: FloatArray, step: float) -> None:
        """Go a step, shorter where steps were long."""
        self.squares = self.squares + gradient**2
        self.theta = self.theta - step * gradient / (self.epsilon + np.sqrt(self.squares))


class CompiledAdagrad(Adagrad):
    """For linear problems."""

    compiled = True
    problem: Linear

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        p, norms = self.problem, np.empty(len(points))
        total = kernels.adagrad(
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
