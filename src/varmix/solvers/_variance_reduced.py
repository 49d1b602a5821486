"""SVRG: steps corrected by a snapshot (Johnson and Zhang, 2013; with importance sampling: Xiao and Zhang, 2014)."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.validation import as_count
from varmix.solvers._kernels__reduced import reduced
from varmix._sampler import Sampler
from varmix.solvers._linear import Linear
from varmix.solvers._loop import Options
from varmix.solvers._loop import optimise
from varmix.solvers._loop import starting_point
from varmix.solvers._problems__problem import Problem
from varmix.solvers._problems__problem import lengths
from varmix.solvers._problems__problem import mean_gradient
from varmix.solvers._loop__trace import Result


def svrg(
    problem: Problem,
    sampler: Sampler,
    *,
    start: ArrayLike | None = None,
    refresh: int = 1,
    **options: Unpack[Options],
) -> Result:
    """Step along what has changed since the snapshot: mean weight * difference + full gradient there.

    The weight multiplies the difference, whose mean over all points is then exact, so that the step is unbiased if
    draws are with replacement; its variance vanishes as theta and the snapshot approach the optimum, and with a
    constant step the excess falls geometrically.  The sampler learns from the lengths of the differences: they shrink
    by orders of magnitude, so let it forget (`varmix.BarrierNewton(window=...)`).  The gradient of the penalty is added
    at theta, exactly.

    For `Linear` the snapshot is kept as n slopes and a draw costs one gradient; otherwise it costs two.  A snapshot
    costs n.  Sparse rows cost their own columns.

    Parameters
    ----------
    problem, sampler, options
        As in `varmix.solvers.optimise`; `step` is needed.
    start
        Where to start; zeros unless told.
    refresh
        Epochs from one snapshot to the next.

    Examples
    --------
    >>> import varmix
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> problem = Linear(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=200), loss="squared", l2=0.1)
    >>> result = svrg(problem, varmix.uniform(200, rng=0), epochs=30, batch=1, step=0.05)
    >>> bool(np.linalg.norm(problem.full_gradient(result.theta)) < 1e-8)
    True
    """
    theta, refresh = starting_point(start, problem), as_count(refresh, "refresh")
    kind = CompiledSvrg if isinstance(problem, Linear) else Svrg
    return optimise(problem, sampler, kind(problem, theta, refresh), **options)


class Svrg:
    """For any problem; gradients at the snapshot are computed again when their points are drawn."""

    compiled = False

    def __init__(self, problem: Problem, theta: FloatArray, refresh: int = 1) -> None:
        self.problem, self.theta, self.refresh = problem, theta, refresh

    def begin_epoch(self, epoch: int) -> int:
        """Take a snapshot when it is due."""
        if (epoch - 1) % self.refresh:
            return 0
        self.snapshot()
        return self.problem.n

    def snapshot(self) -> None:
        """Keep theta, and the mean of the gradients there."""
        self.anchor = self.theta.copy()
        self.mean = mean_gradient(self.problem, self.anchor)

    def spent(self, points: IntArray) -> int:
        """Every draw needs two gradients."""
        return 2 * len(points)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch."""
        problem, batch = self.problem, len(points) // len(steps)
        norms, total = np.empty(len(points)), 0.0
        for step, first in zip(steps, range(0, len(points), batch), strict=True):
            part = slice(first, first + batch)
            total += float(weights[part] @ problem.losses(self.theta, points[part]))
            change = problem.gradients(self.theta, points[part]) - problem.gradients(self.anchor, points[part])
            norms[part] = lengths(change)
            direction = weights[part] @ change / batch + self.mean + problem.penalty(self.theta)
            self.theta = self.theta - step * direction
        return norms, total


class CompiledSvrg(Svrg):
    """For linear problems."""

    compiled = True
    problem: Linear

    def snapshot(self) -> None:
        """Keep the slope of every point, and the mean of the gradients."""
        self.table = self.problem.slopes(self.theta)
        self.mean = self.problem.combine(self.table)

    def spent(self, points: IntArray) -> int:
        """The slopes at the snapshot are known."""
        return len(points)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        norms = np.empty(len(points))
        total = reduce_steps(self.problem, False, points, weights, steps, self.table, self.mean, self.theta, norms)
        return norms, total


def reduce_steps(
    p: Linear,
    replace: bool,
    points: IntArray,
    weights: FloatArray,
    steps: FloatArray,
    table: FloatArray,
    mean: FloatArray,
    theta: FloatArray,
    norms: FloatArray,
) -> float:
    """Call the kernel that SVRG and SAGA share; SAGA replaces entries of the table."""
    return reduced(
        p.rows,
        p.y,
        p.costs,
        p.lengths,
        p.code,
        p.intercept,
        p.l2,
        replace,
        points,
        weights,
        steps,
        table,
        mean,
        theta,
        norms,
    )
