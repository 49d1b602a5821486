"""Seeding: centres far from one another, and what choosing them says about all points."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import as_atoms
from varmix._core.validation import as_count
from varmix._core.validation import as_vector
from varmix.components._labels import smallest
from varmix.estimators.clustering import _kernels__seeding as kernels
from varmix.solvers._linear import Csr
from varmix.solvers._linear import unchecked_rows
from varmix._core.rng import as_generator


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
        from varmix.estimators.clustering._seeding__passes import seeded

        some = as_atoms(points, n, "points")
        given: Any = X if hasattr(X, "format") else rows.dense
        chosen = plus_plus(given[some], k, rng, sample_weight=costs[some] if len(costs) else None, trials=trials)
        return seeded(X, chosen.centers)
    if k > n:
        raise ValueError(f"There are {n} points, too few for {k} centres that are points. Ask for at most {n}.")
    centers, nearest, squares = np.empty((k, d)), np.empty(n, dtype=smallest(k)), np.empty(n)
    kernels.plus_plus(rows, costs, as_generator(rng).random((k, trials)), centers, nearest, squares)
    precision = rows.data.dtype if len(rows.indptr) else rows.dense.dtype
    return Seeding(centers.astype(precision, copy=False), nearest, as_distances(squares))


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
