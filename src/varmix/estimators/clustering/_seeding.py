"""k-means++ seeding, and blockwise passes that find the nearest center of every point."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.rng import as_generator
from varmix._core.validation import AnyArray, FloatArray, IntArray, as_atoms, as_count, as_real, as_vector
from varmix._kernels.rows import Rows
from varmix.components._labels import choose_dtype
from varmix.estimators.clustering import _kernels as kernels
from varmix.solvers._linear import Csr, unchecked_rows


@dataclass(frozen=True, eq=False)
class Seeding:
    """Centres, and for every point the nearest of them and how far it is.

    Attributes
    ----------
    centers
        (K, d), in the precision of the points.
    nearest
        (n,) the nearest centre of every point, in the smallest unsigned integers.
    distances
        (n,) the distances to it, in single precision.
    """

    centers: AnyArray
    nearest: AnyArray
    distances: AnyArray


def plus_plus(
    X: ArrayLike | Csr,
    k: int,
    rng: int | np.random.Generator | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    points: ArrayLike | None = None,
    trials: int = 1,
) -> Seeding:
    """k-means++: every centre is a point, drawn by its squared distance to the centres before it.

    The nearest centre of every point and its distance come with it.  Rows that cannot have come nearer, by the triangle
    inequality, are not read again.

    Parameters
    ----------
    X
        (n, d) array, or a SciPy CSR matrix.
    k
        Number of centres.
    rng
        Seed, generator or None.
    sample_weight
        (n,) weights of the points, one everywhere unless told.
    points
        Choose the centres among these points alone; one more pass then finds the nearest of them for all.
    trials
        Candidates for every centre, of which the one is taken that leaves the least squared distance.

    Examples
    --------
    >>> seeding = plus_plus([[0.0], [0.5], [9.0]], 2, rng=0)
    >>> sorted(seeding.centers.ravel().tolist()) in ([0.0, 9.0], [0.5, 9.0])
    True
    >>> float(seeding.distances.max())
    0.5
    """
    rows, (n, d) = unchecked_rows(X)
    k, trials = as_count(k, "k"), as_count(trials, "trials")
    costs = as_costs(sample_weight, n)
    if points is not None:
        some = as_atoms(points, n, "points")
        given: Any = X if hasattr(X, "format") else rows.dense
        chosen = plus_plus(given[some], k, rng, sample_weight=costs[some] if len(costs) else None, trials=trials)
        return seeded(X, chosen.centers)
    if k > n:
        raise ValueError(f"There are {n} points, too few for {k} centres that are points. Ask for at most {n}.")
    centers, nearest, squares = np.empty((k, d)), np.empty(n, dtype=choose_dtype(k)), np.empty(n)
    _choose_centers(rows, costs, as_generator(rng).random((k, trials)), centers, nearest, squares)
    precision = rows.data.dtype if len(rows.indptr) else rows.dense.dtype
    return Seeding(centers.astype(precision, copy=False), nearest, as_distances(squares))


def _choose_centers(
    rows: Rows, costs: FloatArray, uniforms: FloatArray, centers: FloatArray, nearest: AnyArray, squares: FloatArray
) -> None:
    """k-means++ (Arthur and Vassilvitskii, 2007): every centre by the squared distances to those before it.

    Row k of `uniforms` has one for every candidate that is tried for centre k; the one that leaves the least is taken,
    as far as some thousand points can tell: others each time, evenly spread.
    """
    n, trials = len(squares), uniforms.shape[1]
    every = max(n // kernels.POINTS_PER_COMPARISON, 1)
    totals, gaps = np.zeros(-(-n // kernels.POINTS_PER_BLOCK)), np.zeros(len(centers))
    left, lengths = np.empty(trials), np.empty(0)
    squares[:] = np.inf
    nearest[:] = 0
    for k in range(len(centers)):
        points = np.empty(trials if k else 1, dtype=np.int64)
        kernels.pick_points(costs, squares, totals, uniforms[k, : len(points)], points)
        candidates = read_rows(rows, points, centers.shape[1])
        best = 0
        if len(points) > 1:
            if k == 1:
                # Dense rows are multiplied less the first centre, so their lengths are the distances to it.
                lengths = squares.copy()
                if len(rows.indptr):
                    kernels.measure_rows(rows, lengths)
            kernels.write_potentials(rows, centers[0], lengths, costs, candidates, squares, every, k % every, left)
            best = int(left.argmin())
        centers[k] = candidates[best]
        kernels.absorb_points(rows, costs, centers, k, gaps, nearest, squares, totals)


def read_rows(rows: Rows, points: IntArray, d: int) -> FloatArray:
    """Return these rows, dense and in double precision."""
    if not len(rows.indptr):
        return rows.dense[points].astype(np.float64, copy=False)
    some = np.empty((len(points), d))
    kernels.unpack_rows(rows, points, some)
    return some


def as_costs(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """Check weights of the points; give them as kernels take them, empty where all are one."""
    if sample_weight is None:
        return np.empty(0)
    costs = as_vector(sample_weight, "sample_weight", n)
    if costs.min() < 0 or costs.max() == 0:
        raise ValueError(
            f"sample_weight must be non-negative numbers, not all zero; they go from {costs.min():.3g} to "
            f"{costs.max():.3g}."
        )
    return costs


def as_distances(squares: FloatArray, first: int = 0) -> AnyArray:
    """Give the distances of the points from `first` on in single precision, or refuse the points."""
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.sqrt(squares, out=squares).astype(np.float32)
        if not np.isfinite(distances.sum(dtype=np.float64)):
            wrong = first + int(np.argmin(np.isfinite(distances)))
            raise ValueError(
                f"X must be finite, with distances below 1e38; those of point {wrong} are not. Drop or fill missing "
                f"values, or scale the data down."
            )
    return distances


POINTS_PER_BLOCK = 1 << 14  # points whose squared distances are kept in double precision at a time
MAX_SINGLE_MAGNITUDE = (
    1e15  # where it, or its inverse, is the size of numbers, squares are not trusted to single precision
)


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
    nearest, distances = np.empty(n, dtype=choose_dtype(len(middles))), np.empty(n, dtype=np.float32)
    for part, found, squares in _measure_blocks(rows, n, middles, single=True):
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
    return assign_points(X, centers)[0]


def inertia(X: ArrayLike | Csr, centers: ArrayLike) -> float:
    """Give the mean squared distance of the points to their nearest centre.

    Examples
    --------
    >>> inertia([[0.0], [1.0], [7.0]], [[0.0], [9.0]])
    1.6666666666666667
    """
    rows, (n, d) = unchecked_rows(X)
    total = sum(float(squares.sum()) for _, _, squares in _measure_blocks(rows, n, as_centers(centers, rows, d)))
    return as_finite(total) / n


def assign_points(
    X: ArrayLike | Csr, centers: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[AnyArray, float]:
    """Give the nearest centre of every point and the weighted sum of the squared distances."""
    rows, (n, d) = unchecked_rows(X)
    costs, total, nearest = as_costs(sample_weight, n), 0.0, np.empty(n, dtype=np.int32)
    for part, found, squares in _measure_blocks(rows, n, as_centers(centers, rows, d)):
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


def _measure_blocks(
    rows: Rows, n: int, centers: AnyArray, single: bool = False
) -> Iterator[tuple[slice, AnyArray, FloatArray]]:
    shift = shift_of(rows, centers)
    near: AnyArray = centers - shift if len(shift) else centers
    trusted = single and len(shift) > 0 and 1.0 / MAX_SINGLE_MAGNITUDE < np.abs(near).max() < MAX_SINGLE_MAGNITUDE
    small = near.astype(np.float32) if trusted else near
    for start in range(0, n, POINTS_PER_BLOCK):
        size = min(POINTS_PER_BLOCK, n - start)
        found, squares = np.empty(size, dtype=np.int32), np.empty(size)
        kernels.find_nearest(rows, shift, small, start, found, squares)
        if small is not near and not squares.max() < MAX_SINGLE_MAGNITUDE**2:  # beyond single precision, or not finite
            kernels.find_nearest(rows, shift, near, start, found, squares)
        yield slice(start, start + size), found, squares


def as_finite(total: float) -> float:
    """Refuse points by a sum of their squared distances that is not finite."""
    if not np.isfinite(total):
        raise ValueError("X must be finite, and its squared distances too. Fill missing values, or scale it down.")
    return total
