"""Cells: the sampler of k-means that costs nothing, from what the seeding knows anyway."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix.allocate import Allocation, stratified
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix.components import Groups
from varmix.components._labels import smallest
from varmix.estimators.clustering._seeding import Seeding
from varmix.estimators.clustering._seeding import as_costs
from varmix.estimators.clustering import _kernels__cells as kernels
from varmix.learners import Learner, Neyman
from varmix._presets import vrm
from varmix._sampler import Sampler

GAMMA = 0.1


def cells(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    gamma: float | None = None,
    learner: Learner[Any] | None = None,
    allocate: Allocation | None = None,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Give a sampler over cells: points with the same nearest seed that are about as far from it.

    The points of every seed are cut in three by their distance, about the nearest half, most others, and the
    farthest eighth.  How much of a batch each cell gets is Neyman's closed form, which begins with the distances of the
    seeding (and one average point in every cell) and goes on with those that are fed back; half of it is decided for
    all points of a seed together, because a single cell is drawn too seldom to be judged by its own draws alone.

    Parameters
    ----------
    seeding
        What `plus_plus` or `seeded` gave.
    sample_weight
        (n,) weights of the points; norms are weight times distance.
    gamma
        Share of the uniform law, 0.1 unless told; a learner that is given has its own.
    learner, allocate, rng
        As of `varmix.vrm`, and in place of the above.  Slots are stratified unless told.

    Examples
    --------
    >>> from varmix.estimators.clustering import plus_plus
    >>> X = np.random.default_rng(0).standard_t(2, size=(1000, 3))
    >>> sampler = cells(plus_plus(X, 5, rng=0), rng=0)
    >>> draw = sampler.draw(100)
    >>> bool(np.linalg.norm(X[draw.indices], axis=1).mean() > np.linalg.norm(X, axis=1).mean())
    True
    """
    if gamma is not None and learner is not None:
        raise TypeError("gamma belongs to the learner: give gamma or a learner, not both.")
    costs = as_costs(sample_weight, len(seeding.nearest))
    groups, prior, parents = _cut(seeding, costs)
    if learner is None:
        learner = _neyman(groups, GAMMA if gamma is None else gamma, prior, parents)
    return vrm(groups, learner=learner, allocate=stratified if allocate is None else allocate, rng=rng)


def _cut(seeding: Seeding, costs: FloatArray) -> tuple[Groups, FloatArray, IntArray]:
    """Give the cells, the mean squared norm of each that the seeding expects, and the seed that each belongs to."""
    seeds = len(seeding.centers)
    codes = np.empty(len(seeding.nearest), dtype=smallest(kernels.PARTS * seeds))
    numbers, means = np.empty(kernels.PARTS * seeds, dtype=np.int64), np.empty(kernels.PARTS * seeds)
    kernels.cut(seeding.nearest, seeding.distances, costs, seeds, codes, numbers, means)
    kept = np.flatnonzero(numbers)
    if len(kept) < len(numbers):  # some cells have no points
        kernels.renumber(codes, (np.cumsum(numbers > 0) - 1).astype(codes.dtype))
    sizes, squares = numbers[kept], means[kept]
    groups = Groups.numbered(codes, sizes, replacement=False)
    # One average point more in every cell.  An outlier that is a seed has no distance, and would hardly be drawn; but
    # the first other point that its centre is given takes that away, and then no point is farther.
    prior = (sizes * squares + groups.masses @ squares) / (sizes + 1.0)
    return groups, prior, kept // kernels.PARTS


def _neyman(groups: Groups, gamma: float, prior: FloatArray, parents: IntArray) -> Learner[Any]:
    return Neyman(groups, gamma=gamma, prior=prior, parents=parents)
