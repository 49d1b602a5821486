"""Seeding of k-means: k-means++, the nearest center of every point, and samplers made from these.

`plus_plus` chooses the centers. A `Seeding` keeps them together with the nearest center of every point and the distance
to it. `cells` groups the points by both and samples from the groups. `by_seeding` shuffles first when cells promise
little.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.rng import as_generator
from varmix._core.validation import AnyArray, FloatArray, IntArray, as_atoms, as_count, as_real, as_vector
from varmix._kernels.rows import Rows
from varmix._presets import uniform, vrm
from varmix._sampler import Sampler
from varmix.allocate import Allocation, stratified
from varmix.components import Groups
from varmix.components._labels import choose_dtype
from varmix.estimators import _kmeans_kernels as kernels
from varmix.learners import Learner, Neyman
from varmix.solvers._linear import Csr, unchecked_rows

POINTS_PER_BLOCK = 1 << 14  # points whose squared distances are in memory at a time, in double precision
# Squares of numbers above this, or below its inverse, are not trusted to single precision.
MAX_SINGLE_MAGNITUDE = 1e15


@dataclass(frozen=True, eq=False)
class Seeding:
    """Centers, the nearest center of every point, and the distance to it.

    Parameters
    ----------
    centers : array of shape (n_clusters, n_features)
        Centers, in the precision of the points.
    nearest : array of shape (n_samples,)
        Index of the nearest center of every point, as the smallest unsigned integers that hold it.
    distances : array of shape (n_samples,)
        Distance of every point to its nearest center, in single precision.

    Examples
    --------
    >>> seeding = seeded([[0.0], [1.0], [8.0]], [[0.0], [9.0]])
    >>> seeding.nearest.tolist(), seeding.distances.tolist()
    ([0, 0, 1], [0.0, 1.0, 1.0])
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
    """Choose centers by k-means++, and return them with the nearest center of every point.

    Every center is a point. It is drawn in proportion to the squared distance to the centers chosen before it, times
    the sample weight. Points that cannot be nearer to a new center, by the triangle inequality, are not read again.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The points.
    k : int
        Number of centers.
    rng : int or numpy.random.Generator, optional
        Seed or generator. Default: None, a new seed.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the points. Default: one for every point.
    points : array-like of int, optional
        Indices of the points that may become centers. One more epoch over X then finds the nearest center of all
        points. Default: all points.
    trials : int, default 1
        Number of candidates for every center. The one that leaves the smallest sum of squared distances is taken.

    Returns
    -------
    Seeding
        The centers, and the nearest center and the distance to it of every point.

    Raises
    ------
    ValueError
        If there are fewer points than centers, or if `X` or `sample_weight` is invalid.

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
    sample_weights = as_sample_weights(sample_weight, n)
    if points is not None:
        allowed = as_atoms(points, n, "points")
        data: Any = X if is_csr(rows) else rows.dense
        weights = sample_weights[allowed] if len(sample_weights) else None
        chosen = plus_plus(data[allowed], k, rng, sample_weight=weights, trials=trials)
        return seeded(X, chosen.centers)
    if k > n:
        raise ValueError(f"k must be at most {n}, the number of points, because every center is a point; got {k}.")
    centers, nearest, squares = np.empty((k, d)), np.empty(n, dtype=choose_dtype(k)), np.empty(n)
    _choose_centers(rows, sample_weights, as_generator(rng).random((k, trials)), centers, nearest, squares)
    return Seeding(centers.astype(dtype_of(rows), copy=False), nearest, as_distances(squares))


def _choose_centers(
    rows: Rows,
    sample_weights: FloatArray,
    uniforms: FloatArray,
    centers: FloatArray,
    nearest: AnyArray,
    squares: FloatArray,
) -> None:
    """Run k-means++ (Arthur and Vassilvitskii, 2007), and write centers, nearest centers and squared distances.

    Row k of `uniforms` has one number for every candidate of center k. The candidate that leaves the smallest sum of
    squared distances is taken. The sum is over about 1,000 evenly spaced points, other ones for every center.
    """
    n, trials = len(squares), uniforms.shape[1]
    every = max(n // kernels.POINTS_PER_COMPARISON, 1)
    totals, gaps = np.zeros(-(-n // kernels.POINTS_PER_BLOCK)), np.zeros(len(centers))
    left, lengths = np.empty(trials), np.empty(0)
    squares[:] = np.inf
    nearest[:] = 0
    for k in range(len(centers)):
        points = np.empty(trials if k else 1, dtype=np.int64)
        kernels.pick_points(sample_weights, squares, totals, uniforms[k, : len(points)], points)
        candidates = read_rows(rows, points, centers.shape[1])
        best = 0
        if len(points) > 1:
            if k == 1:
                # The first center is subtracted from dense rows, so their squared lengths are the distances to it.
                lengths = squares.copy()
                if is_csr(rows):
                    kernels.measure_rows(rows, lengths)
            kernels.write_potentials(
                rows, centers[0], lengths, sample_weights, candidates, squares, every, k % every, left
            )
            best = int(left.argmin())
        centers[k] = candidates[best]
        kernels.absorb_points(rows, sample_weights, centers, k, gaps, nearest, squares, totals)


def read_rows(rows: Rows, points: IntArray, d: int) -> FloatArray:
    """Return some rows as a dense array in double precision."""
    if not is_csr(rows):
        return rows.dense[points].astype(np.float64, copy=False)
    out = np.empty((len(points), d))
    kernels.unpack_rows(rows, points, out)
    return out


def is_csr(rows: Rows) -> bool:
    """Return whether the rows are those of a CSR matrix."""
    return len(rows.indptr) > 0


def dtype_of(rows: Rows) -> np.dtype[Any]:
    """Return the precision of the rows."""
    return rows.data.dtype if is_csr(rows) else rows.dense.dtype


def as_sample_weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """Return checked sample weights in the form that kernels take: an empty array if all are one."""
    if sample_weight is None:
        return np.empty(0)
    weights = as_vector(sample_weight, "sample_weight", n)
    if weights.min() < 0 or weights.max() == 0:
        raise ValueError(
            f"sample_weight must be non-negative and not all zero; got values from {weights.min():.3g} to "
            f"{weights.max():.3g}."
        )
    return weights


def as_distances(squares: FloatArray, first: int = 0) -> AnyArray:
    """Return the distances of the points from index `first` on, in single precision; overwrite the squares."""
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.sqrt(squares, out=squares).astype(np.float32)
        if not np.isfinite(distances.sum(dtype=np.float64)):
            wrong = first + int(np.argmin(np.isfinite(distances)))
            raise ValueError(
                f"X must be finite, with distances to the centers below 1e38, and point {wrong} is not. Drop or fill "
                f"missing values, or scale the data down."
            )
    return distances


def seeded(X: ArrayLike | Csr, centers: ArrayLike) -> Seeding:
    """Return the nearest of the given centers, and the distance to it, for every point.

    Products of dense rows use single precision, which saves a third of the time. Of two centers whose distances agree
    to six digits, either may be returned.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The points.
    centers : array-like of shape (n_clusters, n_features)
        The centers.

    Returns
    -------
    Seeding
        The centers, and the nearest center and the distance to it of every point.

    Examples
    --------
    >>> seeding = seeded([[0.0], [1.0], [8.0]], [[0.0], [9.0]])
    >>> seeding.nearest.tolist(), seeding.distances.tolist()
    ([0, 0, 1], [0.0, 1.0, 1.0])
    """
    rows, (n, d) = unchecked_rows(X)
    checked = as_centers(centers, rows, d)
    nearest, distances = np.empty(n, dtype=choose_dtype(len(checked))), np.empty(n, dtype=np.float32)
    for block, found, squares in _measure_blocks(rows, n, checked, single=True):
        nearest[block] = found
        distances[block] = as_distances(squares, block.start)
    return Seeding(checked, nearest, distances)


def labels(X: ArrayLike | Csr, centers: ArrayLike) -> AnyArray:
    """Return the index of the nearest center of every point.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The points.
    centers : array-like of shape (n_clusters, n_features)
        The centers.

    Returns
    -------
    array of shape (n_samples,)
        Indices of the nearest centers, as 32-bit integers.

    Examples
    --------
    >>> labels([[0.0], [1.0], [8.0]], [[0.0], [9.0]]).tolist()
    [0, 0, 1]
    """
    return assign_points(X, centers)[0]


def inertia(X: ArrayLike | Csr, centers: ArrayLike) -> float:
    """Return the mean squared distance of the points to their nearest center.

    This is a mean, while `inertia_` of scikit-learn's estimators is a sum.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The points.
    centers : array-like of shape (n_clusters, n_features)
        The centers.

    Returns
    -------
    float
        Mean squared distance.

    Examples
    --------
    >>> inertia([[0.0], [1.0], [7.0]], [[0.0], [9.0]])
    1.6666666666666667
    """
    rows, (n, d) = unchecked_rows(X)
    total = sum(float(squares.sum()) for _, _, squares in _measure_blocks(rows, n, as_centers(centers, rows, d)))
    return check_finite(total) / n


def assign_points(
    X: ArrayLike | Csr, centers: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[AnyArray, float]:
    """Return the nearest center of every point, and the weighted sum of the squared distances."""
    rows, (n, d) = unchecked_rows(X)
    weights, total, nearest = as_sample_weights(sample_weight, n), 0.0, np.empty(n, dtype=np.int32)
    for block, found, squares in _measure_blocks(rows, n, as_centers(centers, rows, d)):
        nearest[block] = found
        total += float(squares.sum() if not len(weights) else squares @ weights[block])
    return nearest, check_finite(total)


def as_centers(centers: ArrayLike, rows: Rows, d: int) -> AnyArray:
    """Return checked centers in the precision of the rows."""
    checked: AnyArray = np.ascontiguousarray(as_real(centers, "centers"), dtype=dtype_of(rows))
    if checked.ndim != 2 or not len(checked) or checked.shape[1] != d:
        raise ValueError(
            f"centers must have at least one row, and {d} columns as X has; got an array of shape {checked.shape}."
        )
    if not np.isfinite(checked).all():
        raise ValueError("centers must be finite.")
    return checked


def choose_shift(rows: Rows, centers: AnyArray) -> AnyArray:
    """Return what is subtracted from rows and centers before they are multiplied, which keeps digits.

    It is empty for CSR rows: a shift would fill them.
    """
    if is_csr(rows):
        return np.zeros(0, dtype=centers.dtype)
    return np.asarray(centers.mean(axis=0, dtype=np.float64), dtype=centers.dtype)


def _measure_blocks(
    rows: Rows, n: int, centers: AnyArray, single: bool = False
) -> Iterator[tuple[slice, AnyArray, FloatArray]]:
    """Yield blocks of points with their nearest centers and squared distances."""
    shift = choose_shift(rows, centers)
    shifted: AnyArray = centers - shift if len(shift) else centers
    trusted = single and len(shift) > 0 and 1.0 / MAX_SINGLE_MAGNITUDE < np.abs(shifted).max() < MAX_SINGLE_MAGNITUDE
    small = shifted.astype(np.float32) if trusted else shifted
    for start in range(0, n, POINTS_PER_BLOCK):
        size = min(POINTS_PER_BLOCK, n - start)
        found, squares = np.empty(size, dtype=np.int32), np.empty(size)
        kernels.find_nearest(rows, shift, small, start, found, squares)
        # Measure again in double precision if single precision overflowed; not (a < b) holds for nan too.
        if small is not shifted and not squares.max() < MAX_SINGLE_MAGNITUDE**2:
            kernels.find_nearest(rows, shift, shifted, start, found, squares)
        yield slice(start, start + size), found, squares


def check_finite(total: float) -> float:
    """Return a sum of squared distances, or raise if it is not finite."""
    if not np.isfinite(total):
        raise ValueError("X must be finite, and its squared distances too. Fill missing values, or scale it down.")
    return total


DEFAULT_GAMMA = 0.1


def cells(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    gamma: float | None = None,
    learner: Learner[Any] | None = None,
    allocate: Allocation | None = None,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Return a sampler over cells: groups of points with the same nearest center and about the same distance to it.

    The points of every center are cut into three cells by their distance: about the nearest half, most of the others,
    and about the farthest eighth. The default learner is `varmix.learners.Neyman`. It starts from the distances of the
    seeding and then uses the norms that are fed back. Half of the share of a cell is decided for all cells of its
    center together, because few draws fall into a single cell.

    Parameters
    ----------
    seeding : Seeding
        Seeding returned by `plus_plus` or `seeded`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the points. Expected norms are weight times distance. Default: one for every point.
    gamma : float, optional
        Smallest share of the uniform component for the default learner. Default: 0.1.
    learner : Learner, optional
        Learner that adapts the mixture, instead of the default learner; it has its own `gamma`. Default:
        `Neyman(gamma=gamma)` with the distances of the seeding as its prior.
    allocate : Allocation, optional
        How the slots of a batch are distributed over cells. Default: `varmix.allocate.stratified`.
    rng : int or numpy.random.Generator, optional
        Seed or generator. Default: None, a new seed.

    Returns
    -------
    Sampler
        Sampler over the points of the seeding.

    Raises
    ------
    TypeError
        If both `gamma` and `learner` are given.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_t(2, size=(1000, 3))
    >>> sampler = cells(plus_plus(X, 5, rng=0), rng=0)
    >>> draw = sampler.draw(100)
    >>> bool(np.linalg.norm(X[draw.indices], axis=1).mean() > np.linalg.norm(X, axis=1).mean())
    True
    """
    if gamma is not None and learner is not None:
        raise TypeError("gamma belongs to the learner: pass gamma or a learner, not both.")
    groups, prior, parents = _cut_seeding(seeding, as_sample_weights(sample_weight, len(seeding.nearest)))
    if learner is None:
        learner = Neyman(groups, gamma=DEFAULT_GAMMA if gamma is None else gamma, prior=prior, parents=parents)
    return vrm(groups, learner=learner, allocate=stratified if allocate is None else allocate, rng=rng)


def _cut_seeding(seeding: Seeding, sample_weights: FloatArray) -> tuple[Groups, FloatArray, IntArray]:
    """Return the cells, the mean squared norm that the seeding predicts for each, and the center of each."""
    centers, count = len(seeding.centers), kernels.PARTS_PER_GROUP * len(seeding.centers)
    codes = np.empty(len(seeding.nearest), dtype=choose_dtype(count))
    numbers, means = np.empty(count, dtype=np.int64), np.empty(count)
    kernels.cut_cells(seeding.nearest, seeding.distances, sample_weights, centers, codes, numbers, means)
    kept = np.flatnonzero(numbers)
    if len(kept) < len(numbers):  # some cells have no points
        kernels.renumber_cells(codes, (np.cumsum(numbers > 0) - 1).astype(codes.dtype))
    sizes, squares = numbers[kept], means[kept]
    groups = Groups.numbered(codes, sizes, replacement=False)
    # Add one average point to every cell. An outlier that is a center has distance zero and would hardly be drawn. But
    # its center moves away with the first other point, and then no point is farther than the outlier.
    prior = (sizes * squares + groups.masses @ squares) / (sizes + 1.0)
    return groups, prior, kept // kernels.PARTS_PER_GROUP


# Gains that the best possible distribution would have, estimated from distances. Below SMALL_GAIN cells wait until the
# steps so far outweigh their set-up, which takes as long as about twenty steps. From LARGE_GAIN on cells are worth an
# epoch over all points to find their distances.
SMALL_GAIN, LARGE_GAIN = 1.15, 1.5
POINTS_PER_WAITING_STEP = 500  # cells wait one step per so many points
MAX_SCORES = 8192  # points that the gain is estimated from


def by_seeding(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    **mixing: Any,  # noqa: ANN401
) -> "Sampler | SwitchAfter":
    """Return the sampler that pays off soonest for a seeding: cells, or plain shuffling first and cells later.

    Cells are made at once if their estimated gain is at least 1.15. Otherwise they are made after n / 500 steps.

    Parameters
    ----------
    seeding : Seeding
        Seeding returned by `plus_plus` or `seeded`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the points. Default: one for every point.
    rng : int or numpy.random.Generator, optional
        Seed or generator. Default: None, a new seed.
    **mixing : dict
        `gamma`, `learner` or `allocate` of `cells`. With any of these, cells are made at once.

    Returns
    -------
    Sampler or SwitchAfter
        What `Descent.run` takes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> even, uneven = rng.choice([-1.0, 1.0], size=(2000, 12)), rng.standard_t(1, size=(2000, 3))
    >>> [type(by_seeding(plus_plus(X, 9, rng=0))).__name__ for X in (even, uneven)]
    ['SwitchAfter', 'Sampler']
    """
    weights = as_sample_weights(sample_weight, len(seeding.nearest))
    scores = seeding.distances * weights if len(weights) else seeding.distances
    if mixing or estimate_gain(scores) >= SMALL_GAIN:
        return cells(seeding, sample_weight=sample_weight, rng=rng, **mixing)
    generator = as_generator(rng)
    return SwitchAfter(
        uniform(len(scores), replacement=False, rng=generator),
        lambda: cells(seeding, sample_weight=sample_weight, rng=generator),
        after=len(scores) // POINTS_PER_WAITING_STEP,
    )


def estimate_gain(scores: AnyArray) -> float:
    """Return the gain of drawing in proportion to the scores if these are the norms: mean(l^2) / mean(l)^2.

    Examples
    --------
    >>> estimate_gain(np.array([1.0, 1.0, 1.0, 5.0]))
    1.75
    """
    norms = scores[:: max(len(scores) // MAX_SCORES, 1)].astype(np.float64)
    total = float(norms.sum())
    return len(norms) * float(norms @ norms) / total**2 if total > 0.0 else math.inf


class SwitchAfter:
    """Draw with one sampler for the first steps, and with another one from then on.

    The second sampler is made when it is first needed. Making it takes a look at all points, which a short run need not
    pay for.

    Parameters
    ----------
    first : Sampler
        Sampler of the first batches.
    then : callable
        Function without arguments that returns the second sampler.
    after : int
        Number of steps with the first sampler.

    Attributes
    ----------
    first : Sampler
        Sampler of the first batches.
    then : callable
        Function that returns the second sampler.
    after : int
        Number of steps with the first sampler.

    Examples
    --------
    >>> import varmix
    >>> switch = SwitchAfter(varmix.uniform(10, rng=0), lambda: varmix.uniform(10, replacement=False, rng=0), after=3)
    >>> switch.at(2) is switch.first, switch.at(3) is switch.first, switch.at(9) is switch.at(3)
    (True, False, True)
    """

    def __init__(self, first: Sampler, then: Callable[[], Sampler], after: int) -> None:
        self.first, self.then, self.after = first, then, after
        self._made: Sampler | None = None

    def at(self, steps: int) -> Sampler:
        """Return the sampler of the next batch.

        Parameters
        ----------
        steps : int
            Number of steps so far.

        Returns
        -------
        Sampler
            The first sampler, or the second one after `after` steps.
        """
        if self._made is None and steps >= self.after:
            self._made = self.then()
        return self.first if self._made is None else self._made

    @property
    def mixture(self) -> FloatArray:
        """Mixture of the sampler that draws at present."""
        return (self.first if self._made is None else self._made).mixture
