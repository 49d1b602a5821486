"""Columns: the data of a linear problem by coordinate, and how fast partial derivatives change."""

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.validation import read_only
from varmix.solvers import _kernels as kernels
from varmix._kernels import rows as by_row
from varmix._kernels.rows import Rows
from varmix.solvers._linear import Linear


def columns_of(problem: Linear) -> Rows:
    """Give the columns as rows: a copy of X in the other order, with ones behind it for an intercept.

    Examples
    --------
    >>> columns_of(Linear([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 1.0, -1.0])).dense
    array([[1., 3., 5.],
           [2., 4., 6.]])
    """
    rows, n, d, dim = problem.rows, problem.n, problem.features, problem.dim
    if not len(rows.indptr):
        dense = np.ones((dim, n), dtype=rows.dense.dtype)
        dense[:d] = rows.dense.T
        return Rows(read_only(dense), rows.data, rows.indices, rows.indptr)
    size = len(rows.data)
    ones = n if problem.intercept else 0
    starts, points = np.zeros(dim + 1, dtype=np.int64), np.empty(size + ones, dtype=np.int64)
    data: AnyArray = np.empty(size + ones, dtype=rows.data.dtype)
    kernels.transpose(rows, n, starts[: d + 1], points, data)
    if problem.intercept:
        starts[-1] = size + n
        points[size:], data[size:] = np.arange(n), 1.0
    return Rows(rows.dense, *map(read_only, (data, points, starts)))


def block_lipschitz(problem: Linear, columns: Rows, start: IntArray, members: IntArray) -> FloatArray:
    """Give how fast the gradient of F inside each block can change: curvature |C^1/2 X_B|^2 / n + l2.

    The norm is the spectral one, from the eigenvalues of a matrix of the block's size; a block of one is a column.
    """
    squares = np.empty(problem.dim)
    kernels.squares(columns, problem.costs, squares)
    squares = squares[members[start[:-1]]]
    for b in np.flatnonzero(np.diff(start) > 1):
        inside = members[start[b] : start[b + 1]]
        block = np.zeros((len(inside), problem.n))
        by_row.scaled_rows(columns, inside, np.ones(len(inside)), block)
        weighted = block * problem.costs if len(problem.costs) else block
        squares[b] = np.linalg.eigvalsh(weighted @ block.T)[-1]
    # An intercept alone in its block has no penalty; elsewhere counting one only shortens its steps.
    free = problem.intercept & (np.diff(start) == 1) & (members[start[:-1]] == problem.features)
    return problem.curvature * squares / problem.n + np.where(free, 0.0, problem.l2)
