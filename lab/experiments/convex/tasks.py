"""The problems of the convex experiment: real data, a linear model, and its minimal loss."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lab import datasets
from lab.arrays import AnyArray, FloatArray
from varmix.solvers import Linear

L2 = 1e-4  # scikit-learn's default


@dataclass(frozen=True)
class Task:
    """A task: a data set and what to predict.

    Attributes
    ----------
    data
        Name of the data set.
    epochs
        Epochs of a run. Default: 10.
    positive
        Class to distinguish from the others. Default: None, regression of the target.
    column
        Feature that is the target instead of `y`. Default: None.
    listed
        Whether settings were chosen with this task in view. The other tasks show whether the settings generalise.
        Default: True.
    bundled
        Whether the data come with scikit-learn, so that they are always at hand. Default: False.
    """

    data: str
    epochs: int = 10
    positive: int | None = None
    column: int | None = None
    listed: bool = True
    bundled: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of points and features."""
        return BUNDLED_SHAPES[self.data] if self.bundled else datasets.SETS[self.data].shape

    @property
    def at_hand(self) -> bool:
        """Whether the data need not be fetched."""
        return self.bundled or datasets.available(self.data)

    def load(self) -> tuple[FloatArray, AnyArray]:
        """Return features and targets."""
        if self.bundled:
            from sklearn import datasets as bundled

            X, y = getattr(bundled, f"load_{self.data}")(return_X_y=True)
            return np.asarray(X, dtype=np.float64), y
        data = datasets.load(self.data, fetch=False)
        return np.asarray(data.X, dtype=np.float64), data.y


BUNDLED_SHAPES = {"digits": (1797, 64), "breast_cancer": (569, 30), "diabetes": (442, 10)}
TASKS = {
    "california_housing": Task("california_housing"),
    "chest_accel": Task("chest_accel", positive=4),
    "covtype_2v4": Task("covtype_2v4", epochs=5, positive=1),
    "kdd_bio": Task("kdd_bio", epochs=5, positive=1),
    "kegg_undirected": Task("kegg_undirected"),
    "w8a": Task("w8a", positive=1),
    "adult": Task("adult", positive=1),
    "covtype, elevation": Task("covtype_2v4", epochs=5, column=0, listed=False),
    "chest, talking": Task("chest_accel", positive=7, listed=False),
    "adult, hours": Task("adult", column=5, listed=False),
    "digits, 8": Task("digits", epochs=30, positive=8, listed=False, bundled=True),
    "breast cancer": Task("breast_cancer", epochs=30, positive=1, listed=False, bundled=True),
    "diabetes": Task("diabetes", epochs=30, listed=False, bundled=True),
}
BUNDLED_TASKS = [name for name, task in TASKS.items() if task.bundled]
LISTED_TASKS = [name for name, task in TASKS.items() if task.listed]
# `adult` has little to gain: it shows whether anything is lost.
SIX_TASKS = [name for name in LISTED_TASKS if name != "adult"]


def at_hand() -> list[str]:
    """Return the tasks whose data need not be fetched."""
    return [name for name, task in TASKS.items() if task.at_hand]


@lru_cache(maxsize=2)
def load_problem(name: str) -> Linear:
    """Return the problem of a task, with an intercept and a small penalty.

    Features are standardised, except the words of w8a, which stay sparse and 0 or 1.
    """
    task = TASKS[name]
    X, y = task.load()
    if task.column is not None:
        target = X[:, task.column]
        X = np.delete(X, task.column, axis=1)
    else:
        target = y
    if task.positive is None:
        loss, sides = "squared", _standardise_columns(np.asarray(target, dtype=np.float64)[:, None])[:, 0]
    else:
        loss, sides = "logistic", np.where(target == task.positive, 1.0, -1.0)
    if task.data == "w8a":
        from scipy.sparse import csr_matrix

        return Linear(csr_matrix(X), sides, loss=loss, l2=L2, intercept=True)
    return Linear(_standardise_columns(X), sides, loss=loss, l2=L2, intercept=True)


def _standardise_columns(X: FloatArray) -> FloatArray:
    deviation = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0])


@lru_cache(maxsize=2)
def find_minimum(name: str) -> float:
    """Return the minimum of the objective, by Newton's method."""
    p = load_problem(name)
    rows = p.rows.dense if p.rows.dense.size else make_sparse(p).toarray()
    A = np.column_stack([rows, np.ones(p.n)])
    penalty = np.full(p.dim, p.l2)
    penalty[-1] = 0.0
    theta = np.zeros(p.dim)
    for _ in range(100):
        gradient = p.full_gradient(theta)
        if np.abs(gradient).max() < 1e-12:
            break
        slopes = p.slopes(theta)
        bend = np.ones(p.n) if p.loss == "squared" else np.abs(slopes) * (1.0 - np.abs(slopes))
        hessian = (A * bend[:, None]).T @ A / p.n + np.diag(penalty + 1e-14)
        direction, value, length = np.linalg.solve(hessian, gradient), p.objective(theta), 1.0
        while p.objective(theta - length * direction) > value and length > 1e-9:
            length /= 2
        theta = theta - length * direction
    return p.objective(theta)


def make_sparse(p: Linear) -> Any:  # noqa: ANN401 - SciPy has no types
    """Return the rows of a sparse problem as a SciPy matrix."""
    from scipy.sparse import csr_matrix

    # Copy, because the arrays of the problem are read-only and k-means of scikit-learn does not accept that.
    return csr_matrix((p.rows.data, p.rows.indices, p.rows.indptr), shape=(p.n, p.features), copy=True)


def compute_step_unit(p: Linear) -> float:
    """Return the unit of steps: one over the mean squared length of the rows."""
    return float(1.0 / np.mean(p.lengths**2))
