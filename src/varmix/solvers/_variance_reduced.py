"""SVRG and SAGA over any sampler."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray, IntArray, as_count
from varmix._sampler import Sampler, Source
from varmix.solvers._kernels import variance_reduced_steps
from varmix.solvers._linear import Linear
from varmix.solvers._loop import Options, Result, optimise, starting_point
from varmix.solvers._problems import POINTS_PER_BLOCK, Problem, mean_gradient, measure_rows


def svrg(
    problem: Problem,
    sampler: Sampler | Source,
    *,
    start: ArrayLike | None = None,
    refresh: int = 1,
    **options: Unpack[Options],
) -> Result:
    """Step along what has changed since the snapshot: mean weight * difference + full gradient there.

    The weight multiplies the difference, whose mean over all points is then exact, so that the step is unbiased if
    draws are with replacement; its variance vanishes as theta and the snapshot approach the optimum, and with a
    constant step the excess falls geometrically.  The sampler learns from the lengths of the differences: they shrink
    by orders of magnitude, so let it forget (`varmix.learners.BarrierNewton(window=...)`).  The gradient of the penalty
    is added at theta, exactly.

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
            norms[part] = measure_rows(change)
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
    return variance_reduced_steps(
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


EPOCHS_PER_REFRESH = (
    16  # epochs after which the mean of the table is added up anew: until then rounding is far below 1e-12
)


def saga(
    problem: Problem, sampler: Sampler | Source, *, start: ArrayLike | None = None, **options: Unpack[Options]
) -> Result:
    """Step along what has changed since each point was drawn last: mean weight * (gradient - entry) + mean entry.

    The weight multiplies the difference, whose mean over all points is then exact, so that the step is unbiased if
    draws are with replacement.  The drawn entries are replaced, and the mean of the table moves with them by
    (new - old) / n, without a weight: the table is a fact, not an estimate.  (The theory for draws that are not uniform
    replaces the entries of another, uniform, draw; as its authors do in practice, one draw serves both here.)  Points
    that are seldom drawn have old entries, which slows everything down: as its authors do, leave half of the draws to
    the uniform law (`gamma=0.5` for `varmix.vrm`, `smoothing=0.5` for `varmix.importance`).  The sampler learns from
    the lengths of the differences, which shrink: let it forget (`varmix.learners.BarrierNewton(window=...)`).  The
    gradient of the penalty is added exactly.

    The table is filled at the start, which costs n gradients.  For `Linear` it is n slopes and sparse rows cost their
    own columns; otherwise it is an (n, dim) array.  Options are those of `varmix.solvers.optimise`; `step` is needed.

    Examples
    --------
    >>> import varmix
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> problem = Linear(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=200), loss="squared", l2=0.1)
    >>> result = saga(problem, varmix.uniform(200, rng=0), epochs=50, batch=1, step=0.05)
    >>> bool(np.linalg.norm(problem.full_gradient(result.theta)) < 1e-8)
    True
    """
    theta = starting_point(start, problem)
    kind = CompiledSaga if isinstance(problem, Linear) else Saga
    return optimise(problem, sampler, kind(problem, theta), **options)


class Saga:
    """For any problem, with a table of gradients."""

    compiled = False

    def __init__(self, problem: Problem, theta: FloatArray) -> None:
        self.problem, self.theta = problem, theta

    def begin_epoch(self, epoch: int) -> int:
        """Fill the table at first; later add its mean up anew, now and then."""
        if epoch == 1:
            self.fill()
        elif (epoch - 1) % EPOCHS_PER_REFRESH == 0:
            self.add_up()
        return self.problem.n if epoch == 1 else 0

    def fill(self) -> None:
        """Compute every entry where theta is."""
        problem = self.problem
        self.table = np.empty((problem.n, problem.dim))
        for first in range(0, problem.n, POINTS_PER_BLOCK):
            points = np.arange(first, min(first + POINTS_PER_BLOCK, problem.n))
            self.table[points] = problem.gradients(self.theta, points)
        self.add_up()

    def add_up(self) -> None:
        """Compute the mean of the table."""
        self.mean = self.table.mean(axis=0)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch."""
        problem, batch = self.problem, len(points) // len(steps)
        norms, total = np.empty(len(points)), 0.0
        for step, first in zip(steps, range(0, len(points), batch), strict=True):
            part = slice(first, first + batch)
            total += float(weights[part] @ problem.losses(self.theta, points[part]))
            fresh = problem.gradients(self.theta, points[part])
            change = fresh - self.table[points[part]]
            norms[part] = measure_rows(change)
            direction = weights[part] @ change / batch + self.mean + problem.penalty(self.theta)
            self.theta = self.theta - step * direction
            self.replace(points[part], fresh)
        return norms, total

    def replace(self, points: IntArray, fresh: FloatArray) -> None:
        """Write new entries, each point once, and move the mean with them."""
        once, where = np.unique(points, return_index=True)
        self.mean = self.mean + (fresh[where] - self.table[once]).sum(axis=0) / self.problem.n
        self.table[once] = fresh[where]


class CompiledSaga(Saga):
    """For linear problems, with a table of slopes."""

    compiled = True
    problem: Linear

    def fill(self) -> None:
        """Compute the slope of every point."""
        self.table = self.problem.slopes(self.theta)
        self.add_up()

    def add_up(self) -> None:
        """Compute the mean of the gradients in the table."""
        self.mean = self.problem.combine(self.table)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        norms = np.empty(len(points))
        total = reduce_steps(self.problem, True, points, weights, steps, self.table, self.mean, self.theta, norms)
        return norms, total
