"""Rates: how long the steps of the estimators are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from varmix._core.validation import FloatArray
from varmix.solvers import Linear
from varmix.solvers._schedules import Constant
from varmix.solvers._schedules import InverseTime
from varmix.solvers._schedules import LinearDecay
from varmix.solvers._schedules import Schedule

RATES = ("auto", "linear", "optimal", "invscaling", "constant")
SEEN = 1000  # rows that the curvature is found from


@dataclass(frozen=True)
class InverseScaling:
    """eta / t^power."""

    eta: float
    power: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta / t^power."""
        return np.asarray(self.eta / t**self.power)


@dataclass(frozen=True)
class Continued:
    """A schedule after `done` steps of it."""

    schedule: Schedule
    done: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give the steps number done + t."""
        return self.schedule(t + self.done, total)


def rate(name: str, eta: float, power: float, alpha: float, done: float = 0.0) -> Schedule:
    """Give the schedule of a name after `done` steps of it.

    Examples
    --------
    >>> rate("linear", 2.0, 0.5, 1e-4)(np.array([1.0, 2.0, 3.0, 4.0]), 4).tolist()
    [2.0, 1.5, 1.0, 0.5]
    >>> rate("invscaling", 2.0, 0.5, 1e-4, done=3.0)(np.array([1.0]), 4).tolist()
    [1.0]
    """
    schedules: dict[str, Schedule] = {
        "linear": LinearDecay(eta),
        "optimal": InverseTime(eta, alpha),
        "invscaling": InverseScaling(eta, power),
        "constant": Constant(eta),
    }
    return Continued(schedules[name], done)


def first_step(X: Any, problem: Linear, batch: int) -> float:  # noqa: ANN401 - an array or a CSR matrix
    """Give a step that is about as long as it can be, from the data.

    Steps over batches are stable while they are shorter than one over

        curvature of the loss * (largest eigenvalue of mean(x x') + mean |x|^4 / mean |x|^2 / batch),

    where the second term is what single long rows do to a batch.  The eigenvalue comes from up to 1,000 rows, evenly
    spaced.  The hinge, which has no curvature, is taken to have one of 1: a step then moves margins by about one.
    Losses of classifiers level off, so theirs are twice as long: with linear decay the best of all multiples of it on
    eight data sets was between one and eight, and none of these mattered much.

    Examples
    --------
    >>> X = np.eye(4)
    >>> round(first_step(X, Linear(X, np.ones(4), loss="squared"), batch=4), 6)
    2.0
    """
    sizes = problem.lengths**2 * (problem.costs if len(problem.costs) else 1.0)
    mean = float(sizes.mean())
    if not 0.0 < mean < np.inf:
        return 1.0
    single = mean * float(((sizes / mean) ** 2).mean()) / batch
    bound = (problem.curvature or 1.0) * (_largest_eigenvalue(X, problem) + single) + problem.l2
    return (1.0 if problem.loss == "squared" else 2.0) / bound


def _largest_eigenvalue(X: Any, problem: Linear) -> float:  # noqa: ANN401
    stride = -(-problem.n // SEEN)
    rows = X[::stride]
    some = Linear(rows, np.zeros(rows.shape[0]), loss="squared", intercept=problem.intercept)
    costs = problem.costs[::stride] if len(problem.costs) else 1.0
    direction, value = some.combine(np.ones(some.n)) + 1e-3, 0.0
    for _ in range(10):
        length = float(np.linalg.norm(direction))
        if length == 0.0:
            break
        direction = some.combine(costs * some.margins(direction / length))
        value = float(np.linalg.norm(direction))
    return value
