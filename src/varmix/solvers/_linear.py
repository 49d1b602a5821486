"""Linear: hinge, logistic and squared loss of x.theta, dense or sparse, with compiled inner loops."""

from functools import cached_property
from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import (
    AnyArray,
    FloatArray,
    IntArray,
    as_array,
    as_atoms,
    as_floats,
    as_number,
    as_real,
    as_vector,
    read_only,
    unknown_choice,
)
from varmix._kernels import rows as kernels
from varmix._kernels.rows import Rows
from varmix.solvers._kernels import LOSS_NAMES, values_and_slopes


class Csr(Protocol):
    """What is needed of a SciPy CSR matrix."""

    data: AnyArray
    indices: AnyArray
    indptr: AnyArray

    @property
    def format(self) -> str:
        """The kind of sparse matrix."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        ...

    def copy(self) -> Self:
        """Give a copy."""
        ...

    def sum_duplicates(self) -> None:
        """Sort every row, and add up entries of one place."""
        ...


class Linear:
    """A linear model: loss_i(theta) = cost_i phi(x_i.theta, y_i).

    Parameters
    ----------
    X
        (n, d) array, or a SciPy CSR matrix.  float32 stays float32; theta is float64 either way.
    y
        (n,) targets; -1 and 1 for the hinge and the logistic loss.
    loss
        "logistic", "hinge" or "squared" (half of the squared error).
    l2
        Weight of the penalty `l2/2 |theta|^2`.
    intercept
        Whether theta has one more entry, for a constant that is not penalised.
    costs
        (n,) factors of the losses, one everywhere unless told: sample weights.

    Examples
    --------
    >>> problem = Linear([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0], loss="hinge")
    >>> problem.losses(np.zeros(2), np.array([0, 1])).tolist()
    [1.0, 1.0]
    >>> problem.gradients(np.zeros(2), np.array([0, 1])).tolist()
    [[-1.0, 0.0], [0.0, 2.0]]
    >>> problem.norms(np.zeros(2), np.array([0, 1])).tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        X: ArrayLike | Csr,
        y: ArrayLike,
        *,
        loss: str = "logistic",
        l2: float = 0.0,
        intercept: bool = False,
        costs: ArrayLike | None = None,
    ) -> None:
        if loss not in LOSS_NAMES:
            raise ValueError(unknown_choice("loss", str(loss), LOSS_NAMES))
        self.rows, (self.n, self.features) = as_rows(X)
        self.y = read_only(as_targets(y, self.n, loss))
        self.loss, self.l2 = loss, as_number(l2, "l2")
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise ValueError(f"l2 must be a finite number of at least 0, got {l2!r}.")
        if not isinstance(intercept, (bool, np.bool_)):
            raise TypeError(f"intercept must be True or False, got {intercept!r}.")
        self.intercept = bool(intercept)
        self.costs = read_only(np.empty(0) if costs is None else as_vector(costs, "costs", self.n))
        if self.costs.min(initial=0.0) < 0:
            raise ValueError(f"costs must not be negative; the least is {self.costs.min():.3g}.")
        self.dim = self.features + self.intercept
        self.code = LOSS_NAMES.index(loss)

    @cached_property
    def lengths(self) -> FloatArray:
        """Lengths of the rows, the constant included."""
        out = np.empty(self.n)
        kernels.write_lengths(self.rows, float(self.intercept), out)
        return out

    @cached_property
    def lipschitz(self) -> FloatArray:
        """How fast the gradient of every point can change (the hinge: how long it can be); penalty included."""
        bounds = self.curvature * self.lengths**2 if self.curvature else self.lengths
        bounds = bounds * self.costs if len(self.costs) else bounds
        return bounds + self.l2 if self.curvature else bounds

    @property
    def curvature(self) -> float:
        """The largest second derivative of the loss in its margin; 0 for the hinge, whose slope jumps."""
        return {"squared": 1.0, "logistic": 0.25, "hinge": 0.0}[self.loss]

    def margins(self, theta: FloatArray, points: IntArray | None = None) -> FloatArray:
        """Give x.theta of these points, or of all."""
        theta = self._checked(theta, "theta", self.dim)
        if points is None:
            out = np.empty(self.n)
            kernels.multiply_rows(self.rows, theta[: self.features], out)
        else:
            points = as_atoms(points, self.n, "points")
            out = np.empty(len(points))
            kernels.some_products(self.rows, points, theta[: self.features], out)
        return out + theta[-1] if self.intercept else out

    def losses(self, theta: FloatArray, points: IntArray | None = None) -> FloatArray:
        """Give the losses of these points, or of all."""
        return self._losses_and_slopes(theta, points)[0]

    def slopes(self, theta: FloatArray, points: IntArray | None = None) -> FloatArray:
        """Give the derivatives of these losses (or of all) in their margins."""
        return self._losses_and_slopes(theta, points)[1]

    def _checked(self, values: FloatArray, name: str, length: int) -> FloatArray:
        """Check a length: kernels would read on behind the end.  Finite it need not be, where a run diverges."""
        vector = as_floats(values, name)
        if vector.shape != (length,):
            raise ValueError(f"{name} must have shape ({length},) for {self!r}, got shape {vector.shape}.")
        return vector

    def _losses_and_slopes(self, theta: FloatArray, points: IntArray | None) -> tuple[FloatArray, FloatArray]:
        z = self.margins(theta, points)
        chosen: Any = slice(None) if points is None else points
        values, slopes = np.empty(len(z)), np.empty(len(z))
        values_and_slopes(self.code, z, self.y[chosen], values, slopes)
        if len(self.costs):
            values, slopes = values * self.costs[chosen], slopes * self.costs[chosen]
        return values, slopes

    def gradients(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the gradients of these points' losses, dense."""
        points = as_atoms(points, self.n, "points")
        out, slopes = np.zeros((len(points), self.dim)), self.slopes(theta, points)
        kernels.scaled_rows(self.rows, points, slopes, out)  # the rows end before the intercept
        if self.intercept:
            out[:, -1] = slopes
        return out

    def full_gradient(self, theta: FloatArray) -> FloatArray:
        """Give the gradient of F."""
        return self.combine(self.slopes(theta)) + self.penalty(theta)

    def combine(self, slopes: FloatArray) -> FloatArray:
        """Give the mean of the gradients that belong to these slopes (n,)."""
        out, slopes = np.zeros(self.dim), self._checked(slopes, "slopes", self.n) / self.n
        kernels.combine_rows(self.rows, slopes, out)  # the rows end before the intercept
        if self.intercept:
            out[-1] = slopes.sum()
        return out

    def norms(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the lengths of these gradients."""
        return np.asarray(np.abs(self.slopes(theta, points)) * self.lengths[points])

    def penalty(self, theta: FloatArray) -> FloatArray:
        """Give l2 theta; the intercept is free."""
        out = self.l2 * self._checked(theta, "theta", self.dim)
        if self.intercept:
            out[-1] = 0.0
        return out

    def objective(self, theta: FloatArray) -> float:
        """Give the mean loss and the penalty."""
        weights = self._checked(theta, "theta", self.dim)[: self.features]
        return float(self.losses(theta).mean() + 0.5 * self.l2 * (weights @ weights))

    def accuracy(self, theta: FloatArray) -> float | None:
        """Give the share of points on the right side; None for the squared loss."""
        if self.loss == "squared":
            return None
        return float(np.mean(np.sign(self.margins(theta)) == self.y))

    def __repr__(self) -> str:
        kind = "csr" if len(self.rows.indptr) else "dense"
        return f"Linear(n={self.n}, d={self.features}, {kind}, loss={self.loss!r}, l2={self.l2:g})"


def as_targets(y: ArrayLike, n: int, loss: str) -> FloatArray:
    """Check the targets: -1 and 1 for the losses of classifiers."""
    labels = as_array(y, "y")
    legal = loss == "squared" or (labels.dtype.kind in "fiu" and np.isin(labels, (-1, 1)).all())
    if labels.shape == (n,) and not legal:
        some = ", ".join(sorted(set(map(str, labels.tolist())))[:5])
        raise ValueError(
            f"The {loss} loss needs labels -1 and 1; y holds {some}. Use np.where(y == one_of_them, 1.0, -1.0)."
        )
    return as_vector(labels, "y", n)


def as_rows(X: ArrayLike | Csr) -> tuple[Rows, tuple[int, int]]:
    """Give a finite matrix as kernels take it, and its shape; what is contiguous and floating already is not copied."""
    rows, shape = unchecked_rows(X)
    if not (np.isfinite(rows.dense).all() and np.isfinite(rows.data).all()):
        raise ValueError("X must be finite. Drop or fill the rows with missing or infinite values.")
    return rows, shape


def unchecked_rows(X: ArrayLike | Csr) -> tuple[Rows, tuple[int, int]]:
    """Give a matrix as kernels take it, and its shape; whether it is finite must be seen from what comes of it."""
    nothing: AnyArray = np.empty(0, dtype=np.int32)
    if is_sparse(X):
        sparse = cast(Csr, X)
        if sparse.format != "csr":
            raise TypeError(f"A sparse X must be CSR, got {sparse.format}. Use X.tocsr().")
        shape = sparse.shape
        _check_shape(shape)
        data, indices, indptr = _check_entries(sparse)
        rows = Rows(np.empty((0, 0), dtype=data.dtype), data, indices, indptr)
    else:
        dense = _make_floating(as_real(cast(ArrayLike, X), "X"))
        shape = dense.shape
        _check_shape(shape)
        rows = Rows(dense, np.empty(0, dtype=dense.dtype), nothing, nothing)
    return Rows(*map(read_only, rows)), (shape[0], shape[1])


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"X must be (n, d) with at least one row and one column, got shape {shape}.")


def _check_entries(sparse: Csr) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Give data, indices and indptr of a CSR matrix, checked: SciPy looks at them only when it is asked to."""
    starts, columns = sparse.indptr, sparse.shape[1]
    size = int(starts[-1])
    legal = len(starts) == sparse.shape[0] + 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
    if not (legal and size <= min(len(sparse.data), len(sparse.indices))):
        raise ValueError("The indptr of X is not that of a CSR matrix of its shape. X.check_format() may say more.")
    used = sparse.indices[:size]  # behind it there may be room that no row uses
    if size and not 0 <= used.min() <= used.max() < columns:
        raise ValueError(f"X has {columns} columns, but its indices go from {used.min()} to {used.max()}.")
    if not getattr(sparse, "has_canonical_format", True):  # the length of a row needs every entry once
        sparse = sparse.copy()
        sparse.sum_duplicates()
    size = int(sparse.indptr[-1])
    return _make_floating(as_real(sparse.data[:size], "X")), sparse.indices[:size], sparse.indptr


def is_sparse(X: object) -> bool:
    """Whether this is a sparse matrix of SciPy, which need not be installed to ask."""
    return hasattr(X, "format") and hasattr(X, "nnz")


def _make_floating(array: AnyArray) -> AnyArray:
    kept = array.dtype in (np.float32, np.float64)
    return np.ascontiguousarray(array, dtype=array.dtype if kept else np.float64)
