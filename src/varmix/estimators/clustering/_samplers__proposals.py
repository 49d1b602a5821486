"""Proposals: which sampler a seeding is worth."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray
from varmix.estimators.clustering._samplers__cells import cells
from varmix.estimators.clustering._descent__relay import Relay
from varmix.estimators.clustering._seeding import Seeding
from varmix.estimators.clustering._seeding import as_costs
from varmix._presets import uniform
from varmix._sampler import Sampler
from varmix._core.rng import as_generator

# What the best law would gain, as far as is known: below SMALL cells wait until the steps so far outweigh their set-up,
# which takes the time of some twenty steps; from LARGE on they are worth a pass over all points.
SMALL, LARGE = 1.15, 1.5
POINTS = 500  # for each so many, a step that cells wait
SOME = 8192  # points that are enough to tell


def by_seeding(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    **mixing: Any,  # noqa: ANN401
) -> Sampler | Relay:
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
    ['Relay', 'Sampler']
    """
    costs = as_costs(sample_weight, len(seeding.nearest))
    scores = seeding.distances * costs if len(costs) else seeding.distances
    if mixing or promised(scores) >= SMALL:
        return cells(seeding, sample_weight=sample_weight, rng=rng, **mixing)
    generator = as_generator(rng)

    def made() -> Sampler:
        return cells(seeding, sample_weight=sample_weight, rng=generator)

    first = uniform(len(scores), replacement=False, rng=generator)
    return Relay(first, made, len(scores) // POINTS)


def promised(scores: AnyArray) -> float:
    """Give what drawing in proportion to norms would gain, if these were the norms: mean(l^2) / mean(l)^2 of some.

    Examples
    --------
    >>> promised(np.array([1.0, 1.0, 1.0, 5.0]))
    1.75
    """
    some = scores[:: max(len(scores) // SOME, 1)].astype(np.float64)
    total = float(some.sum())
    return len(some) * float(some @ some) / total**2 if total > 0.0 else math.inf
