"""Passes over all points: the nearest centre of each, in blocks, so that a memory map stays on disk."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import as_real
from varmix.components._labels import smallest
from varmix.estimators.clustering._seeding import Seeding
from varmix.estimators.clustering._seeding import as_costs
from varmix.estimators.clustering._seeding import as_distances
from varmix.estimators.clustering import _kernels as kernels
from varmix._kernels.rows import Rows
from varmix.solvers._linear import Csr
from varmix.solvers._linear import unchecked_rows

BLOCK = 1 << 14  # points whose squared distances are kept in double precision at a time
LARGE = 1e15  # where it, or its inverse, is the size of numbers, squares are not trusted to single precision


def seeded(X: ArrayLike | Csr, centers: ArrayLike) -> Seeding:
    """Give the nearest of these centres, and how far it is, for every point.

    Products of dense rows are in single precision, which takes two thirds of the time: of two centres that are equally
    near up to six digits it may give the other one.

    Examples
    --------
    >>> seeding = seeded([[0.0], [1.0], [8.0]], [[0.0], [9.0]])
    >>> seeding.nearest.tolist(), seeding.distances.tolist()
    ([0, 0, 1], [0.0, 1.0, 1.0])
    """
    rows, (n, d) = unchecked_rows(X)
    middles = as_centers(centers, rows, d)
    nearest, distances = np.empty(n, dtype=smallest(len(middles))), np.empty(n, dtype=np.float32)
    for part, found, squares in _blocks(rows, n, middles, single=True):
        nearest[part] = found
        distances[part] = as_distances(squares, part.start)
    return Seeding(middles, nearest, distances)


def labels(X: ArrayLike | Csr, centers: ArrayLike) -> AnyArray:
    """Give the nearest centre of every point, as 32-bit integers.

    Examples
    --------
    >>> labels([[0.0], [1.0], [8.0]], [[0.0], [9.0]]).tolist()
    [0, 0, 1]
    """
    return assigned(X, centers)[0]


def inertia(X: ArrayLike | Csr, centers: ArrayLike) -> float:
    """Give the mean squared distance of the points to their nearest centre.

    Examples
    --------
    >>> inertia([[0.0], [1.0], [7.0]], [[0.0], [9.0]])
    1.6666666666666667
    """
    rows, (n, d) = unchecked_rows(X)
    total = sum(float(squares.sum()) for _, _, squares in _blocks(rows, n, as_centers(centers, rows, d)))
    return as_finite(total) / n


def assigned(X: ArrayLike | Csr, centers: ArrayLike, sample_weight: ArrayLike | None = None) -> tuple[AnyArray, float]:
    """Give the nearest centre of every point and the weighted sum of the squared distances."""
    rows, (n, d) = unchecked_rows(X)
    costs, total, nearest = as_costs(sample_weight, n), 0.0, np.empty(n, dtype=np.int32)
    for part, found, squares in _blocks(rows, n, as_centers(centers, rows, d)):
        nearest[part] = found
        total += float(squares.sum() if not len(costs) else squares @ costs[part])
    return nearest, as_finite(total)


def as_centers(centers: ArrayLike, rows: Rows, d: int) -> AnyArray:
    """Check centres, and give them in the precision of the rows."""
    precision = rows.data.dtype if len(rows.indptr) else rows.dense.dtype
    middles: AnyArray = np.ascontiguousarray(as_real(centers, "centers"), dtype=precision)
    if middles.ndim != 2 or not len(middles) or middles.shape[1] != d:
        raise ValueError(f"centers must be at least one row of {d} columns, as X has; got shape {middles.shape}.")
    if not np.isfinite(middles).all():
        raise ValueError("centers must be finite.")
    return middles


def shift_of(rows: Rows, centers: AnyArray) -> AnyArray:
    """Give what is taken off rows and centres before they are multiplied; nothing of sparse ones, to stay so."""
    if len(rows.indptr):
        return np.zeros(0, dtype=centers.dtype)
    return np.asarray(centers.mean(axis=0, dtype=np.float64), dtype=centers.dtype)


def _blocks(
    rows: Rows, n: int, centers: AnyArray, single: bool = False
) -> Iterator[tuple[slice, AnyArray, FloatArray]]:
    shift = shift_of(rows, centers)
    near: AnyArray = centers - shift if len(shift) else centers
    trusted = single and len(shift) > 0 and 1.0 / LARGE < np.abs(near).max() < LARGE
    small = near.astype(np.float32) if trusted else near
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        found, squares = np.empty(size, dtype=np.int32), np.empty(size)
        kernels.nearest(rows, shift, small, start, found, squares)
        if small is not near and not squares.max() < LARGE**2:  # beyond single precision, or not finite
            kernels.nearest(rows, shift, near, start, found, squares)
        yield slice(start, start + size), found, squares


def as_finite(total: float) -> float:
    """Refuse points by a sum of their squared distances that is not finite."""
    if not np.isfinite(total):
        raise ValueError("X must be finite, and its squared distances too. Fill missing values, or scale it down.")
    return total
