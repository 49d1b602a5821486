"""Seeding of k-means: k-means++, the nearest center of every point, and samplers made from these.

`plus_plus` chooses centers. A `Seeding` keeps them together with the nearest center of every point and the distance to
it. `choose_sampler` decides what batches are drawn from: cells, or plain shuffling with cells later.
`make_cell_sampler` groups the points into cells by nearest center and distance, and samples from these.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

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
# Squares of numbers above this, or below its inverse, are computed in double precision.
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
    >>> seeding = find_nearest_centers([[0.0], [1.0], [8.0]], [[0.0], [9.0]])
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

    Every center is a point. It is drawn in proportion to the squared distance to the nearest center chosen so far,
    times the sample weight. Points that cannot be nearer to a new center, by the triangle inequality, are not read
    again.

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
        Number of candidates for every center after the first. The one that leaves the smallest sum of squared distances
        is taken. The sum is estimated from about 1,000 points.

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
        return find_nearest_centers(X, chosen.centers)
    if k > n:
        raise ValueError(f"k must be at most {n}, the number of points, because every center is a point; got {k}.")
    centers, nearest, squares = np.empty((k, d)), np.empty(n, dtype=choose_dtype(k)), np.empty(n)
    _choose_centers(rows, sample_weights, as_generator(rng).random((k, trials)), centers, nearest, squares)
    return Seeding(centers.astype(dtype_of(rows), copy=False), nearest, sqrt_in_place(squares))


def _choose_centers(
    rows: Rows,
    sample_weights: FloatArray,
    uniforms: FloatArray,
    centers: FloatArray,
    nearest: AnyArray,
    squares: FloatArray,
) -> None:
    """Run k-means++ (Arthur and Vassilvitskii, 2007), and write centers, nearest centers and squared distances.

    Each row of `uniforms` has one number for every candidate of a center. The candidate that leaves the smallest sum of
    squared distances is taken. The sum is over about 1,000 evenly spaced points, other ones for every center.
    """
    n, trials = len(squares), uniforms.shape[1]
    stride = max(n // kernels.POINTS_PER_COMPARISON, 1)
    block_sums, center_squares = np.zeros(-(-n // kernels.POINTS_PER_BLOCK)), np.zeros(len(centers))
    remaining, squared_lengths = np.empty(trials), np.empty(0)
    squares[:] = np.inf
    nearest[:] = 0
    for index in range(len(centers)):
        points = np.empty(trials if index else 1, dtype=np.int64)
        kernels.pick_points(sample_weights, squares, block_sums, uniforms[index, : len(points)], points)
        candidates = read_rows(rows, points, centers.shape[1])
        best = 0
        if len(points) > 1:
            if index == 1:
                # The first center is subtracted from dense rows, so their squared lengths are the squared distances
                # to it.
                squared_lengths = squares.copy()
                if is_csr(rows):
                    kernels.measure_rows(rows, squared_lengths)
            first = index % stride
            kernels.write_potentials(
                rows, centers[0], squared_lengths, sample_weights, candidates, squares, stride, first, remaining
            )
            best = int(remaining.argmin())
        centers[index] = candidates[best]
        kernels.absorb_points(rows, sample_weights, centers, index, center_squares, nearest, squares, block_sums)


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


def sqrt_in_place(squares: FloatArray, first: int = 0) -> AnyArray:
    """Replace squared distances by their roots, and return these in single precision; raise if one is not finite.

    `first` is the index of the first point, for the message.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.sqrt(squares, out=squares).astype(np.float32)
        if not np.isfinite(distances.sum(dtype=np.float64)):
            wrong = first + int(np.argmin(np.isfinite(distances)))
            raise ValueError(
                f"Point {wrong} of X is missing, infinite or too far from the centers (1e38 or more). Drop or fill "
                f"missing values, or scale X down."
            )
    return distances


def find_nearest_centers(X: ArrayLike | Csr, centers: ArrayLike) -> Seeding:
    """Find the nearest of the given centers, and the distance to it, for every point.

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
    >>> seeding = find_nearest_centers([[0.0], [1.0], [8.0]], [[0.0], [9.0]])
    >>> seeding.nearest.tolist(), seeding.distances.tolist()
    ([0, 0, 1], [0.0, 1.0, 1.0])
    """
    rows, (n, d) = unchecked_rows(X)
    checked = as_centers(centers, rows, d)
    nearest, distances = np.empty(n, dtype=choose_dtype(len(checked))), np.empty(n, dtype=np.float32)
    for block, found, squares in _measure_blocks(rows, n, checked, single=True):
        nearest[block] = found
        distances[block] = sqrt_in_place(squares, block.start)
    return Seeding(checked, nearest, distances)


def assign_labels(X: ArrayLike | Csr, centers: ArrayLike) -> AnyArray:
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
    >>> assign_labels([[0.0], [1.0], [8.0]], [[0.0], [9.0]]).tolist()
    [0, 0, 1]
    """
    return assign_points(X, centers)[0]


def mean_squared_distance(X: ArrayLike | Csr, centers: ArrayLike) -> float:
    """Return the mean squared distance of the points to their nearest center.

    `inertia_` of estimators is a sum instead.

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
    >>> mean_squared_distance([[0.0], [1.0], [7.0]], [[0.0], [9.0]])
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
    """Return the vector that is subtracted from rows and centers before they are multiplied, to reduce cancellation.

    It is empty for CSR rows, because a shift would fill them.
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
        # Measure again in double precision if single precision overflowed. `not <` also catches NaN.
        if small is not shifted and not squares.max() < MAX_SINGLE_MAGNITUDE**2:
            kernels.find_nearest(rows, shift, shifted, start, found, squares)
        yield slice(start, start + size), found, squares


def check_finite(total: float) -> float:
    """Return a sum of squared distances, or raise if it is not finite."""
    if not np.isfinite(total):
        raise ValueError(
            "X has missing, infinite or very large values: a squared distance to a center is not finite. Drop or fill "
            "missing values, or scale X down."
        )
    return total


# Gains over uniform draws that the best possible distribution would have, estimated from distances. Below SMALL_GAIN,
# making cells waits for n / POINTS_PER_WAITING_STEP steps. On the data of docs/kmeans.md, cells take as long to
# make as 10 to 25 steps of 100 points, which is then 5 to 15 % of the time so far. From LARGE_GAIN on, cells are worth
# an epoch over all points that finds their nearest centers.
SMALL_GAIN, LARGE_GAIN = 1.15, 1.5
POINTS_PER_WAITING_STEP = 500
PROBED_POINTS = 1024  # points whose distances give the gain, if the nearest centers are not known
MIN_SCORES = 8192  # at least this many scores are used: from 16,384 on, evenly spaced ones


class Unseeded(NamedTuple):
    """Points whose nearest centers are not known, because k-means++ looked at a part of them only, or was not used."""

    X: Any
    centers: AnyArray
    """Initial centers."""
    steps_per_epoch: int
    remembered: Callable[[], Seeding]
    """Return the nearest centers and distances that an epoch of steps found."""


def make_seeding_sampler(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    **mixing: Any,  # noqa: ANN401
) -> "Sampler | SwitchAfter":
    """Make the sampler that pays off soonest for a seeding: cells, or plain shuffling first and cells later.

    Cells are made at once if their estimated gain is at least 1.15. Otherwise they are made after n / 500 steps.

    Parameters
    ----------
    seeding : Seeding
        Seeding returned by `plus_plus` or `find_nearest_centers`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the points. Default: one for every point.
    rng : int or numpy.random.Generator, optional
        Seed or generator. Default: None, a new seed.
    **mixing : dict
        `gamma`, `learner` or `allocate` of `make_cell_sampler`. With any of these, cells are made at once.

    Returns
    -------
    Sampler or SwitchAfter
        Sampler for `Descent.run`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> even, uneven = rng.choice([-1.0, 1.0], size=(2000, 12)), rng.standard_t(1, size=(2000, 3))
    >>> [type(make_seeding_sampler(plus_plus(X, 9, rng=0))).__name__ for X in (even, uneven)]
    ['SwitchAfter', 'Sampler']
    """
    checked = None if sample_weight is None else as_sample_weights(sample_weight, len(seeding.nearest))
    return choose_sampler(seeding, checked, rng, mixing)


def choose_sampler(
    source: Seeding | Unseeded,
    sample_weight: FloatArray | None,
    rng: int | np.random.Generator | None,
    mixing: dict[str, Any],
) -> "Sampler | SwitchAfter":
    """Decide whether to draw from cells at once, or by plain shuffling first and from cells later: four cases.

    ==========  =============  ==============================================================================
    source      gain           batches
    ==========  =============  ==============================================================================
    `Seeding`   at least 1.15  cells
    `Seeding`   less           plain shuffling for n / 500 steps, then cells
    `Unseeded`  at least 1.5   cells, after one pass over all points that finds their nearest centers
    `Unseeded`  less           plain shuffling for an epoch, whose steps find the nearest centers, then cells
    ==========  =============  ==============================================================================

    If `mixing` is not empty, cells are made at once, whatever the gain: plain shuffling has no mixture to which these
    parameters could apply.
    """
    if isinstance(source, Seeding):
        n, distances, weights = len(source.nearest), source.distances, sample_weight
        least_gain, shuffled_steps = SMALL_GAIN, n // POINTS_PER_WAITING_STEP
    else:
        n = source.X.shape[0]
        probed = np.sort(np.random.default_rng(rng).choice(n, min(n, PROBED_POINTS), replace=False))
        distances = find_nearest_centers(source.X[probed], source.centers).distances
        weights = None if sample_weight is None else sample_weight[probed]
        least_gain, shuffled_steps = LARGE_GAIN, source.steps_per_epoch
    if mixing or estimate_gain(distances if weights is None else distances * weights) >= least_gain:
        seeding = source if isinstance(source, Seeding) else find_nearest_centers(source.X, source.centers)
        return make_cell_sampler(seeding, sample_weight=sample_weight, rng=rng, **mixing)
    # One generator for both samplers: with an int both would get the same seed. `Unseeded` comes from `fit` only, which
    # passes a generator.
    generator = as_generator(rng) if isinstance(source, Seeding) else rng

    def make_cells() -> Sampler:
        seeding = source if isinstance(source, Seeding) else source.remembered()
        return make_cell_sampler(seeding, sample_weight=sample_weight, rng=generator)

    return SwitchAfter(uniform(n, replacement=False, rng=generator), make_cells, after=shuffled_steps)


def estimate_gain(scores: AnyArray) -> float:
    """Return the gain of drawing in proportion to the scores s if these are the norms: mean(s^2) / mean(s)^2.

    Of many scores it uses evenly spaced ones, at least `MIN_SCORES`. If all are zero, the gain is infinite.

    Examples
    --------
    >>> estimate_gain(np.array([1.0, 1.0, 1.0, 5.0]))
    1.75
    """
    norms = scores[:: max(len(scores) // MIN_SCORES, 1)].astype(np.float64)
    total = float(norms.sum())
    return len(norms) * float(norms @ norms) / total**2 if total > 0.0 else math.inf


class SwitchAfter:
    """Draw with one sampler for the first steps, and with another one from then on.

    The second sampler is made when it is first needed, because making it reads all points. Short runs never need it.

    Parameters
    ----------
    first : Sampler
        Sampler of the first batches.
    make_second : callable
        Function without arguments that returns the second sampler.
    after : int
        Number of steps with the first sampler.

    Examples
    --------
    >>> import varmix
    >>> switch = SwitchAfter(varmix.uniform(10, rng=0), lambda: varmix.uniform(10, replacement=False, rng=0), after=3)
    >>> switch.sampler_for(2) is switch.first, switch.sampler_for(3) is switch.first
    (True, False)
    """

    def __init__(self, first: Sampler, make_second: Callable[[], Sampler], after: int) -> None:
        self.first, self.make_second, self.after = first, make_second, after
        self._second: Sampler | None = None

    def sampler_for(self, steps: int) -> Sampler:
        """Return the sampler of the next batch. Make the second sampler if it is needed for the first time.

        Once it is made, it is returned for any number of steps.

        Parameters
        ----------
        steps : int
            Number of steps so far.

        Returns
        -------
        Sampler
            The first sampler, or the second one after `after` steps.
        """
        if self._second is None and steps >= self.after:
            self._second = self.make_second()
        return self._present

    @property
    def mixture(self) -> FloatArray:
        """Mixture of the sampler that draws at present."""
        return self._present.mixture

    @property
    def _present(self) -> Sampler:
        return self.first if self._second is None else self._second


def make_cell_sampler(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    gamma: float | None = None,
    learner: Learner[Any] | None = None,
    allocate: Allocation | None = None,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Make a sampler over cells: groups of points with the same nearest center and about the same distance to it.

    The norm that a point is expected to have is its distance times its sample weight. The points of every center are
    cut into three cells by this norm: at most their mean, up to 1.35 times their mean, and above. The points of
    a center with fewer than 16 points are one cell.

    The default learner is `varmix.learners.Neyman`. It starts from the expected norms and then uses those that are fed
    back. Few draws fall into one cell. So half of its share follows the mean squared norm of the cell, and the other
    half that of all points of its center.

    Parameters
    ----------
    seeding : Seeding
        Seeding returned by `plus_plus` or `find_nearest_centers`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the points. Default: one for every point.
    gamma : float, optional
        Share of the uniform component, for the default learner. Default: 0.1.
    learner : Learner, optional
        Learner that adapts the mixture, instead of the default learner; it has its own `gamma`. Default: `Neyman` over
        the cells, with the expected squared norms as its prior and the centers as parents.
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
    >>> sampler = make_cell_sampler(plus_plus(X, 5, rng=0), rng=0)
    >>> draw = sampler.draw(100)
    >>> bool(np.linalg.norm(X[draw.indices], axis=1).mean() > np.linalg.norm(X, axis=1).mean())
    True
    """
    check_gamma(gamma, learner)
    groups, prior, centers = _cut_seeding(seeding, as_sample_weights(sample_weight, len(seeding.nearest)))
    if learner is None:
        options: dict[str, Any] = {} if gamma is None else {"gamma": gamma}
        learner = Neyman(groups, prior=prior, parents=centers, **options)
    return vrm(groups, learner=learner, allocate=stratified if allocate is None else allocate, rng=rng)


def check_gamma(gamma: float | None, learner: Learner[Any] | None) -> None:
    """Raise `TypeError` if both are passed."""
    if gamma is not None and learner is not None:
        raise TypeError("gamma belongs to the learner: pass gamma or a learner, not both.")


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
    # Without replacement, every point of a cell is drawn once before any is drawn again. This lowered the inertia more
    # than draws with replacement. Round-robin slots, which would keep these epochs in step with an epoch over all
    # points, were no better. So slots are stratified, and `reshuffled` of the sampler is False (docs/decisions/0008).
    groups = Groups.numbered(codes, sizes, replacement=False)
    # Shrink each prior towards the average, as if every cell had one average point more. An outlier that was chosen as
    # a center has distance 0, so its cell would get almost no draws. But it becomes the farthest point of all as soon
    # as another point moves its center.
    prior = (sizes * squares + groups.masses @ squares) / (sizes + 1.0)
    return groups, prior, kept // kernels.PARTS_PER_GROUP
