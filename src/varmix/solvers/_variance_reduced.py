"""SVRG and SAGA over any sampler."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray, IntArray, as_count
from varmix._sampler import Sampler, Source
from varmix.solvers._kernels import take_variance_reduced_steps
from varmix.solvers._linear import Linear
from varmix.solvers._loop import EPOCHS_PER_REFRESH, Method, Options, Result, make_start, optimise
from varmix.solvers._problems import POINTS_PER_BLOCK, Problem, mean_gradient, measure_rows


def svrg(
    problem: Problem,
    sampler: Sampler | Source,
    *,
    start: ArrayLike | None = None,
    refresh: int = 1,
    **options: Unpack[Options],
) -> Result:
    """Minimise by SVRG, which corrects each gradient by the gradient of the same point at a snapshot.

    With D the difference between a point's gradient and its gradient at the snapshot, and G the full gradient at the
    snapshot, the step is `theta <- theta - step (mean(weight * D) + G + l2 theta)`. The weight multiplies the
    difference only, because the mean of the snapshot's gradients is known exactly. So the step is unbiased if draws are
    with replacement. Its variance vanishes as theta and the snapshot approach the minimum, and with a constant step the
    objective converges geometrically.

    The sampler learns from the lengths of the differences. They shrink by orders of magnitude, so use a learner that
    forgets, such as `varmix.learners.BarrierNewton` with a `window`.

    A snapshot takes n gradients. A draw takes one gradient for `Linear`, which keeps a slope per point, and two for
    other problems. Sparse rows only touch their own columns.

    Parameters
    ----------
    problem : Problem
        Problem to minimise.
    sampler : Sampler, Family or array-like of shape (n,)
        Source of the points: a sampler or a family over `Points(problem.n)`, or one label per point.
    start : array-like of shape (dim,), optional
        Starting point. Default: zeros.
    refresh : int, default 1
        Number of epochs between two snapshots.
    **options
        `step` (required), `batch`, `epochs` and the other options of `varmix.solvers.optimise`.

    Returns
    -------
    Result
        The last iterate, the trace and the sampler.

    References
    ----------
    Johnson and Zhang: Accelerating stochastic gradient descent using predictive variance reduction, 2013.
    Xiao and Zhang: A proximal stochastic gradient method with progressive variance reduction, 2014.

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
    theta, refresh = make_start(start, problem), as_count(refresh, "refresh")
    kind = CompiledSvrg if isinstance(problem, Linear) else Svrg
    return optimise(problem, sampler, kind(problem, theta, refresh), **options)


class Svrg(Method):
    """SVRG over any problem. Gradients at the snapshot are computed again when their points are drawn."""

    def __init__(self, problem: Problem, theta: FloatArray, refresh: int = 1) -> None:
        super().__init__(problem, theta)
        self.refresh = refresh

    def begin_epoch(self, epoch: int) -> int:
        """Take a snapshot every `refresh` epochs."""
        if (epoch - 1) % self.refresh:
            return 0
        self.take_snapshot()
        return self.problem.n

    def take_snapshot(self) -> None:
        """Keep theta and the mean of the gradients there."""
        self.snapshot = self.theta.copy()
        self.mean = mean_gradient(self.problem, self.snapshot)

    def count_evaluations(self, points: IntArray) -> int:
        """Return two gradients per draw."""
        return 2 * len(points)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch."""
        problem, batch = self.problem, len(points) // len(steps)
        norms, total = np.empty(len(points)), 0.0
        for step, first in zip(steps, range(0, len(points), batch), strict=True):
            part = slice(first, first + batch)
            total += float(weights[part] @ problem.losses(self.theta, points[part]))
            change = problem.gradients(self.theta, points[part]) - problem.gradients(self.snapshot, points[part])
            norms[part] = measure_rows(change)
            direction = weights[part] @ change / batch + self.mean + problem.penalty(self.theta)
            self.theta = self.theta - step * direction
        return norms, total


class CompiledSvrg(Svrg):
    """SVRG over linear problems, with a table of the slopes at the snapshot."""

    compiled = True
    problem: Linear

    def take_snapshot(self) -> None:
        """Keep the slope of every point and the mean of the gradients."""
        self.table = self.problem.slopes(self.theta)
        self.mean = self.problem.combine(self.table)

    def count_evaluations(self, points: IntArray) -> int:
        """Return one gradient per draw: the slopes at the snapshot are known."""
        return len(points)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        norms = np.empty(len(points))
        total = run_kernel(self.problem, False, points, weights, steps, self.table, self.mean, self.theta, norms)
        return norms, total


def run_kernel(
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
    """Call the kernel that SVRG and SAGA share. SAGA replaces entries of the table."""
    return take_variance_reduced_steps(
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


def saga(
    problem: Problem, sampler: Sampler | Source, *, start: ArrayLike | None = None, **options: Unpack[Options]
) -> Result:
    """Minimise by SAGA, which corrects each gradient by the one from the last time its point was drawn.

    The step is `theta <- theta - step (mean of weight * (gradient - table entry) + mean of the table + l2 theta)`.
    The weight multiplies the difference only, because the mean of the table is known exactly. So the step is unbiased
    if draws are with replacement. The entries of the drawn points are then replaced, and the mean of the table moves
    by (new - old) / n. This update needs no weight, because it follows the mean exactly.

    The theory for non-uniform draws makes a second, uniform draw and replaces the entries of its points. Here one draw
    does both, as in the experiments of its authors. Points that are seldom drawn keep old entries, which slows
    convergence. Leave half of the draws to the uniform component, as these authors do: `gamma=0.5` for
    `varmix.vrm`, or `smoothing=0.5` for `varmix.importance`.

    The sampler learns from the lengths of the differences. They shrink by orders of magnitude, so use a learner that
    forgets, such as `varmix.learners.BarrierNewton` with a `window`.

    The first table takes n gradients. For `Linear` it has n slopes, and sparse rows only touch their own columns. For
    other problems it is an (n, dim) array.

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
    Defazio, Bach and Lacoste-Julien: SAGA: a fast incremental gradient method, 2014.
    Schmidt, Babanezhad, Ahmed, Defazio, Clifton and Sarkar: Non-uniform stochastic average gradient method for training
    conditional random fields, 2015.

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
    theta = make_start(start, problem)
    kind = CompiledSaga if isinstance(problem, Linear) else Saga
    return optimise(problem, sampler, kind(problem, theta), **options)


class Saga(Method):
    """SAGA over any problem, with a table of gradients."""

    def begin_epoch(self, epoch: int) -> int:
        """Fill the table before the first epoch. Later, compute its mean again from time to time."""
        if epoch == 1:
            self.fill_table()
        elif (epoch - 1) % EPOCHS_PER_REFRESH == 0:
            self.compute_mean()
        return self.problem.n if epoch == 1 else 0

    def fill_table(self) -> None:
        """Compute the gradients of all points at theta."""
        problem = self.problem
        self.table = np.empty((problem.n, problem.dim))
        for first in range(0, problem.n, POINTS_PER_BLOCK):
            points = np.arange(first, min(first + POINTS_PER_BLOCK, problem.n))
            self.table[points] = problem.gradients(self.theta, points)
        self.compute_mean()

    def compute_mean(self) -> None:
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
            self.replace_entries(points[part], fresh)
        return norms, total

    def replace_entries(self, points: IntArray, fresh: FloatArray) -> None:
        """Replace the entries of drawn points, each point once, and update the mean."""
        once, where = np.unique(points, return_index=True)
        self.mean = self.mean + (fresh[where] - self.table[once]).sum(axis=0) / self.problem.n
        self.table[once] = fresh[where]


class CompiledSaga(Saga):
    """SAGA over linear problems, with a table of slopes."""

    compiled = True
    problem: Linear

    def fill_table(self) -> None:
        """Compute the slopes of all points at theta."""
        self.table = self.problem.slopes(self.theta)
        self.compute_mean()

    def compute_mean(self) -> None:
        """Compute the mean of the gradients that follow from the slopes."""
        self.mean = self.problem.combine(self.table)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        norms = np.empty(len(points))
        total = run_kernel(self.problem, True, points, weights, steps, self.table, self.mean, self.theta, norms)
        return norms, total
