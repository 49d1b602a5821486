"""Samplers for k-means: cells from a seeding, and what the parameters of MixtureKMeans ask for."""

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix import _presets as presets
from varmix._core.rng import as_generator
from varmix._core.validation import AnyArray, FloatArray, IntArray, unknown_choice
from varmix._presets import uniform, vrm
from varmix._sampler import Sampler, as_family
from varmix.allocate import Allocation, stratified
from varmix.components import Distances, Groups
from varmix.components._labels import choose_dtype
from varmix.estimators.clustering import _kernels as kernels
from varmix.estimators.clustering._descent import Descent, SwitchAfter
from varmix.estimators.clustering._seeding import Seeding, as_costs, seeded
from varmix.learners import Learner, Neyman
from varmix.literature import vrb
from varmix.solvers._loop import check_space

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
    groups, prior, parents = _cut_seeding(seeding, costs)
    if learner is None:
        learner = _make_learner(groups, DEFAULT_GAMMA if gamma is None else gamma, prior, parents)
    return vrm(groups, learner=learner, allocate=stratified if allocate is None else allocate, rng=rng)


def _cut_seeding(seeding: Seeding, costs: FloatArray) -> tuple[Groups, FloatArray, IntArray]:
    """Give the cells, the mean squared norm of each that the seeding expects, and the seed that each belongs to."""
    seeds = len(seeding.centers)
    codes = np.empty(len(seeding.nearest), dtype=choose_dtype(kernels.PARTS_PER_GROUP * seeds))
    numbers, means = (
        np.empty(kernels.PARTS_PER_GROUP * seeds, dtype=np.int64),
        np.empty(kernels.PARTS_PER_GROUP * seeds),
    )
    kernels.cut_cells(seeding.nearest, seeding.distances, costs, seeds, codes, numbers, means)
    kept = np.flatnonzero(numbers)
    if len(kept) < len(numbers):  # some cells have no points
        kernels.renumber_cells(codes, (np.cumsum(numbers > 0) - 1).astype(codes.dtype))
    sizes, squares = numbers[kept], means[kept]
    groups = Groups.numbered(codes, sizes, replacement=False)
    # One average point more in every cell.  An outlier that is a seed has no distance, and would hardly be drawn; but
    # the first other point that its centre is given takes that away, and then no point is farther.
    prior = (sizes * squares + groups.masses @ squares) / (sizes + 1.0)
    return groups, prior, kept // kernels.PARTS_PER_GROUP


def _make_learner(groups: Groups, gamma: float, prior: FloatArray, parents: IntArray) -> Learner[Any]:
    return Neyman(groups, gamma=gamma, prior=prior, parents=parents)


# What the best law would gain, as far as is known: below SMALL cells wait until the steps so far outweigh their set-up,
# which takes the time of some twenty steps; from LARGE on they are worth a pass over all points.
SMALL_GAIN, LARGE_GAIN = 1.15, 1.5
POINTS_PER_WAITING_STEP = 500  # for each so many, a step that cells wait
MAX_SCORES = 8192  # points that are enough to tell


def by_seeding(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    **mixing: Any,  # noqa: ANN401
) -> Sampler | SwitchAfter:
    """Give the sampler that pays soonest: cells, at once or after some reshuffling where there is little to gain.

    Parameters
    ----------
    seeding
        What `plus_plus` or `seeded` gave.
    sample_weight
        (n,) weights of the points.
    rng
        Seed, generator or None.
    mixing
        `gamma`, `learner` and `allocate` as of `cells`, which are then made at once.

    Examples
    --------
    >>> from varmix.estimators.clustering import plus_plus
    >>> rng = np.random.default_rng(0)
    >>> even, uneven = rng.choice([-1.0, 1.0], size=(2000, 12)), rng.standard_t(1, size=(2000, 3))
    >>> [type(by_seeding(plus_plus(X, 9, rng=0))).__name__ for X in (even, uneven)]
    ['SwitchAfter', 'Sampler']
    """
    costs = as_costs(sample_weight, len(seeding.nearest))
    scores = seeding.distances * costs if len(costs) else seeding.distances
    if mixing or estimate_gain(scores) >= SMALL_GAIN:
        return cells(seeding, sample_weight=sample_weight, rng=rng, **mixing)
    generator = as_generator(rng)

    def made() -> Sampler:
        return cells(seeding, sample_weight=sample_weight, rng=generator)

    first = uniform(len(scores), replacement=False, rng=generator)
    return SwitchAfter(first, made, len(scores) // POINTS_PER_WAITING_STEP)


def estimate_gain(scores: AnyArray) -> float:
    """Give what drawing in proportion to norms would gain, if these were the norms: mean(l^2) / mean(l)^2 of some.

    Examples
    --------
    >>> estimate_gain(np.array([1.0, 1.0, 1.0, 5.0]))
    1.75
    """
    some = scores[:: max(len(scores) // MAX_SCORES, 1)].astype(np.float64)
    total = float(some.sum())
    return len(some) * float(some @ some) / total**2 if total > 0.0 else math.inf


MIXTURE_NAMES, OTHER_NAMES = ("seeding", "distances"), ("uniform", "shuffle", "vrb")
PROBED_POINTS = 1024  # points that say what there is to gain
RANDOM_CENTERS = 10  # random ones, whose distances are the components of section 6.4


@dataclass(frozen=True)
class SamplerSpec:
    """What draws the batches: a name or a family, and what a mixture is made with."""

    components: Any
    gamma: float | None = None
    learner: Learner[Any] | None = None
    allocate: Allocation | None = None

    def check(self) -> None:
        """Refuse what means nothing, before any work is done."""
        name = self.components
        if isinstance(name, str):
            if name not in MIXTURE_NAMES + OTHER_NAMES:
                raise ValueError(unknown_choice("components", name, MIXTURE_NAMES + OTHER_NAMES))
        else:
            as_family(name)
        if self.gamma is not None and self.learner is not None:
            raise TypeError("gamma belongs to the learner: give gamma or a learner, not both.")
        if isinstance(name, str) and name in OTHER_NAMES and self._mixing():
            raise ValueError(
                f"components={name!r} is no mixture: {', '.join(self._mixing())} must be None. Use "
                f'components="seeding", or leave them out.'
            )

    def _mixing(self) -> dict[str, Any]:
        given = {"gamma": self.gamma, "learner": self.learner, "allocate": self.allocate}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def from_seeding(self) -> bool:
        """Whether it matters what the seeding knows of every point."""
        return isinstance(self.components, str) and self.components == "seeding"

    def sampler(
        self,
        X: Any,  # noqa: ANN401
        descent: Descent,
        seeding: Seeding | None,
        costs: FloatArray | None,
        rng: np.random.Generator,
    ) -> Sampler | SwitchAfter:
        """Give the sampler over the rows of X.

        Without a seeding of all of them, some points say what there is to gain.  If it is much, a pass over all points
        is made for it; else the first pass of steps is plain reshuffling, which meets every point once, and what it
        finds stands for the seeding.
        """
        name, n = self.components, int(X.shape[0])
        if not isinstance(name, str):
            family = deepcopy(as_family(name))  # cursors of a parameter must not move
            sampler = presets.vrm(family, rng=rng, **self._mixing())
            check_space(sampler, n, "points")
            return sampler
        if seeding is not None and self.from_seeding:
            return by_seeding(seeding, sample_weight=costs, rng=rng, **self._mixing())
        if self.from_seeding:
            some = np.sort(rng.choice(n, min(n, PROBED_POINTS), replace=False))
            far = seeded(X[some], descent.centers).distances
            if self._mixing() or estimate_gain(far if costs is None else far * costs[some]) >= LARGE_GAIN:
                return cells(seeded(X, descent.centers), sample_weight=costs, rng=rng, **self._mixing())

            def made() -> Sampler:
                return cells(descent.remembered(), sample_weight=costs, rng=rng)

            return SwitchAfter(presets.uniform(n, replacement=False, rng=rng), made, after=-(-n // descent.batch))
        if name == "distances":
            if hasattr(X, "toarray"):
                raise TypeError('components="distances" needs a dense X. Use components="seeding", which takes both.')
            far = X[np.sort(rng.choice(n, min(RANDOM_CENTERS, n), replace=False))]
            return presets.vrm(Distances(X, far), rng=rng, **self._mixing())
        if name == "vrb":
            return vrb(n, rng=rng)
        return presets.uniform(n, replacement=name == "uniform", rng=rng)
