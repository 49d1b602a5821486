"""Stochastic gradient descent."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix.solvers import _kernels__descent as descent
from varmix._sampler import Sampler
from varmix.solvers._linear import Linear
from varmix.solvers._loop import Options
from varmix.solvers._loop import optimise
from varmix.solvers._loop import starting_point
from varmix.solvers._problems__problem import Problem
from varmix.solvers._problems__problem import feedback
from varmix.solvers._loop__trace import Result


def sgd(problem: Problem, sampler: Sampler, *, start: ArrayLike | None = None, **options: Unpack[Options]) -> Result:
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
            norms[part] = feedback(problem, self.theta, points[part], gradients)
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
