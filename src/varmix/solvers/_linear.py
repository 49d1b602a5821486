"""Linear models with hinge, logistic or squared loss, over dense or sparse rows, with compiled inner loops."""

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
from varmix.solvers._kernels import LOSS_NAMES, write_values_and_slopes
from varmix.solvers._problems import Problem


class Csr(Protocol):
    """The part of a SciPy CSR matrix that varmix uses. SciPy need not be installed."""

    data: AnyArray
    indices: AnyArray
    indptr: AnyArray

    @property
    def format(self) -> str:
        """Kind of sparse matrix, such as "csr"."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        ...

    @property
    def has_canonical_format(self) -> bool:
        """Whether the columns of each row ascend, without duplicates."""
        ...

    def copy(self) -> Self:
        """Return a copy."""
        ...

    def sum_duplicates(self) -> None:
        """Sort each row and add up duplicate entries, in place."""
        ...


class Linear(Problem):
    """Linear model: `loss_i(theta) = costs_i phi(x_i.theta, y_i)`, plus a penalty.

    Solvers run over it in compiled loops.

    Parameters
    ----------
    X : array-like or SciPy CSR matrix, of shape (n, d)
        One row per point. float32 stays float32; theta is float64 in any case.
    y : array-like of shape (n,)
        Targets. The hinge and the logistic loss need -1 and 1.
    loss : {"logistic", "hinge", "squared"}, default "logistic"
        The loss phi. "squared" is half of the squared error.
    l2 : float, default 0.0
        Weight of the penalty `l2/2 |theta|^2`.
    intercept : bool, default False
        Whether to append an entry to theta for a constant. It is not penalised.
    costs : array-like of shape (n,), optional
        Sample weights: non-negative factors of the losses. Default: 1 for every point.

    Attributes
    ----------
    features : int
        Number of columns of X.
    dim : int
        Length of theta: `features`, plus 1 with an intercept.

    Raises
    ------
    TypeError
        If X or y are not real numbers, or X is sparse but not CSR.
    ValueError
        If the loss is unknown, shapes do not match, X has no rows or is not finite, labels are not -1 and 1, `l2` or an
        entry of `costs` is negative.

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
            raise ValueError(f"costs must not be negative; the smallest is {self.costs.min():.3g}.")
        self.dim = self.features + self.intercept
        self.code = LOSS_NAMES.index(loss)

    @cached_property
    def lengths(self) -> FloatArray:
        """Euclidean length of every row, including the constant of the intercept."""
        out = np.empty(self.n)
        kernels.write_lengths(self.rows, float(self.intercept), out)
        return out

    @cached_property
    def lipschitz(self) -> FloatArray:
        """Lipschitz constant of every point's gradient with the penalty; for the hinge, a bound on its length."""
        bounds = self.curvature * self.lengths**2 if self.curvature else self.lengths
        bounds = bounds * self.costs if len(self.costs) else bounds
        return bounds + self.l2 if self.curvature else bounds

    @property
    def curvature(self) -> float:
        """Largest second derivative of the loss with respect to the margin. 0 for the hinge, whose slope jumps."""
        return {"squared": 1.0, "logistic": 0.25, "hinge": 0.0}[self.loss]

    def margins(self, theta: FloatArray, points: IntArray | None = None) -> FloatArray:
        """Return the margins x.theta of some points.

        Parameters
        ----------
        theta : array-like of shape (dim,)
            Where to evaluate them.
        points : array-like of shape (m,), optional
            Indices of the points. Default: all points.

        Returns
        -------
        ndarray of shape (m,) or (n,)
            One margin per point.
        """
        theta = self._check_vector(theta, "theta", self.dim)
        if points is None:
            out = np.empty(self.n)
            kernels.multiply_rows(self.rows, theta[: self.features], out)
        else:
            points = as_atoms(points, self.n, "points")
            out = np.empty(len(points))
            kernels.some_products(self.rows, points, theta[: self.features], out)
        return out + theta[-1] if self.intercept else out

    def losses(self, theta: FloatArray, points: IntArray | None = None) -> FloatArray:
        """Return the losses of some points. Default: all points."""
        return self._losses_and_slopes(theta, points)[0]

    def slopes(self, theta: FloatArray, points: IntArray | None = None) -> FloatArray:
        """Return the derivatives of the losses with respect to the margins.

        Parameters
        ----------
        theta : array-like of shape (dim,)
            Where to evaluate them.
        points : array-like of shape (m,), optional
            Indices of the points. Default: all points.

        Returns
        -------
        ndarray of shape (m,) or (n,)
            One derivative per point. It includes the sample weight.
        """
        return self._losses_and_slopes(theta, points)[1]

    def _check_vector(self, values: FloatArray, name: str, length: int) -> FloatArray:
        """Return a vector after checking its length: a kernel would read beyond the end of a shorter one.

        Values are not checked: theta may be infinite when a run diverges.
        """
        vector = as_floats(values, name)
        if vector.shape != (length,):
            raise ValueError(f"{name} must have shape ({length},) for {self!r}, got shape {vector.shape}.")
        return vector

    def _losses_and_slopes(self, theta: FloatArray, points: IntArray | None) -> tuple[FloatArray, FloatArray]:
        """Return the losses and their derivatives with respect to the margins."""
        z = self.margins(theta, points)
        chosen: Any = slice(None) if points is None else points
        values, slopes = np.empty(len(z)), np.empty(len(z))
        write_values_and_slopes(self.code, z, self.y[chosen], values, slopes)
        if len(self.costs):
            values, slopes = values * self.costs[chosen], slopes * self.costs[chosen]
        return values, slopes

    def gradients(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the gradients of the losses of some points, as dense rows."""
        points = as_atoms(points, self.n, "points")
        out, slopes = np.zeros((len(points), self.dim)), self.slopes(theta, points)
        kernels.scaled_rows(self.rows, points, slopes, out)  # rows have no entry for the intercept
        if self.intercept:
            out[:, -1] = slopes
        return out

    def full_gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of F over all points, penalty included.

        Parameters
        ----------
        theta : array-like of shape (dim,)
            Where to evaluate it.

        Returns
        -------
        ndarray of shape (dim,)
            The gradient.
        """
        return self.combine(self.slopes(theta)) + self.penalty(theta)

    def combine(self, slopes: FloatArray) -> FloatArray:
        """Return the mean gradient of all points that have these slopes.

        The gradient of a point is its slope times its row, so n slopes determine n gradients.

        Parameters
        ----------
        slopes : array-like of shape (n,)
            Derivatives of the losses with respect to the margins.

        Returns
        -------
        ndarray of shape (dim,)
            The mean gradient, without the penalty.
        """
        out, slopes = np.zeros(self.dim), self._check_vector(slopes, "slopes", self.n) / self.n
        kernels.combine_rows(self.rows, slopes, out)  # rows have no entry for the intercept
        if self.intercept:
            out[-1] = slopes.sum()
        return out

    def norms(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Return the lengths of the gradients of some points, without computing the gradients."""
        return np.asarray(np.abs(self.slopes(theta, points)) * self.lengths[points])

    def penalty(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of the penalty: `l2 * theta`, and 0 for the intercept."""
        out = self.l2 * self._check_vector(theta, "theta", self.dim)
        if self.intercept:
            out[-1] = 0.0
        return out

    def objective(self, theta: FloatArray) -> float:
        """Return the mean loss plus the penalty."""
        weights = self._check_vector(theta, "theta", self.dim)[: self.features]
        return float(self.losses(theta).mean() + 0.5 * self.l2 * (weights @ weights))

    def accuracy(self, theta: FloatArray) -> float | None:
        """Return the share of points that theta classifies correctly; None for the squared loss."""
        if self.loss == "squared":
            return None
        return float(np.mean(np.sign(self.margins(theta)) == self.y))

    def __repr__(self) -> str:
        kind = "csr" if len(self.rows.indptr) else "dense"
        return f"Linear(n={self.n}, d={self.features}, {kind}, loss={self.loss!r}, l2={self.l2:g})"


def as_targets(y: ArrayLike, n: int, loss: str) -> FloatArray:
    """Return the targets as floats; raise `ValueError` if the loss needs labels -1 and 1 and `y` has others."""
    labels = as_array(y, "y")
    legal = loss == "squared" or (labels.dtype.kind in "fiu" and np.isin(labels, (-1, 1)).all())
    if labels.shape == (n,) and not legal:
        some = ", ".join(sorted(set(map(str, labels.tolist())))[:5])
        raise ValueError(
            f"The {loss} loss needs labels -1 and 1; y holds {some}. Use np.where(y == one_of_them, 1.0, -1.0)."
        )
    return as_vector(labels, "y", n)


def as_rows(X: ArrayLike | Csr) -> tuple[Rows, tuple[int, int]]:
    """Return a matrix in the form that kernels take, and its shape; raise `ValueError` if it is not finite.

    Contiguous arrays of floats are not copied.
    """
    rows, shape = unchecked_rows(X)
    if not (np.isfinite(rows.dense).all() and np.isfinite(rows.data).all()):
        raise ValueError("X must be finite. Drop or fill the rows with missing or infinite values.")
    return rows, shape


def unchecked_rows(X: ArrayLike | Csr) -> tuple[Rows, tuple[int, int]]:
    """Return a matrix in the form that kernels take, and its shape. The caller must check that results are finite."""
    empty: AnyArray = np.empty(0, dtype=np.int32)
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
        rows = Rows(dense, np.empty(0, dtype=dense.dtype), empty, empty)
    return Rows(*map(read_only, rows)), (shape[0], shape[1])


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"X must be (n, d) with at least one row and one column, got shape {shape}.")


def _check_entries(sparse: Csr) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return data, indices and indptr of a CSR matrix after checking them: SciPy checks them only on request."""
    starts, columns = sparse.indptr, sparse.shape[1]
    size = int(starts[-1])
    legal = len(starts) == sparse.shape[0] + 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
    if not (legal and size <= min(len(sparse.data), len(sparse.indices))):
        raise ValueError("The indptr of X is not that of a CSR matrix of its shape. Call X.check_format() for details.")
    used = sparse.indices[:size]  # the arrays may be longer than the rows need
    if size and not 0 <= used.min() <= used.max() < columns:
        raise ValueError(f"X has {columns} columns, but its indices go from {used.min()} to {used.max()}.")
    if not sparse.has_canonical_format:  # with duplicate entries the length of a row would be wrong
        sparse = sparse.copy()
        sparse.sum_duplicates()
    size = int(sparse.indptr[-1])
    return _make_floating(as_real(sparse.data[:size], "X")), sparse.indices[:size], sparse.indptr


def is_sparse(X: object) -> bool:
    """Return whether an object is a sparse matrix of SciPy.

    It looks at attributes because SciPy may not be installed, and then there is no class to compare with.
    """
    return hasattr(X, "format") and hasattr(X, "nnz")


def _make_floating(array: AnyArray) -> AnyArray:
    kept = array.dtype in (np.float32, np.float64)
    return np.ascontiguousarray(array, dtype=array.dtype if kept else np.float64)
