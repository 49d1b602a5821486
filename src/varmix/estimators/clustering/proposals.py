"""Proposals: which sampler a seeding is worth."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import AnyArray
from varmix.components import Scores
from varmix.estimators.clustering.cells import GAMMA, cells
from varmix.estimators.clustering.relay import Relay
from varmix.estimators.clustering.seeding import Seeding, as_costs
from varmix.learners import Fixed
from varmix.presets import uniform, vrm
from varmix.sampler import Sampler
from varmix.uniforms import as_generator

# What the best law would gain, as far as the seeding knows: below SMALL uniform draws do as well for a while, from
# LARGE on cells are made at once.  Their set-up takes the time of some ten steps, so else it waits for a step per so
# many points.
SMALL, LARGE, POINTS = 1.15, 1.5, 500
CAP = 3.0  # of the distances that are drawn by, in units of their mean: what a draw takes


def by_seeding(
    seeding: Seeding,
    *,
    sample_weight: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    **mixing: Any,  # noqa: ANN401
) -> Sampler | Relay:
    """Give the sampler that pays soonest: cells at once where the distances of the seeding differ much, else later.

    Before that, points come in proportion to their distance, which costs nothing to set up
    (`varmix.components.Scores`), or uniformly where even the best law would gain next to nothing.

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
    >>> even, uneven = rng.random((2000, 3)), rng.standard_t(1, size=(2000, 3))
    >>> [type(by_seeding(plus_plus(X, 9, rng=0))).__name__ for X in (even, uneven)]
    ['Relay', 'Sampler']
    """
    costs = as_costs(sample_weight, len(seeding.nearest))
    scores = seeding.distances * costs if len(costs) else seeding.distances
    gain, generator = promised(scores), as_generator(rng)

    def made() -> Sampler:
        return cells(seeding, sample_weight=sample_weight, rng=generator, **mixing)

    if mixing or gain >= LARGE:
        return made()
    if gain < SMALL:
        first = uniform(len(scores), rng=generator)
    else:
        first = vrm(Scores(scores, cap=CAP), learner=Fixed([1.0 - GAMMA, GAMMA]), rng=generator)
    return Relay(first, made, len(scores) // POINTS)


def promised(scores: AnyArray) -> float:
    """Give what drawing in proportion to norms would gain, if these were the norms: mean(l^2) / mean(l)^2.

    Examples
    --------
    >>> promised(np.array([1.0, 1.0, 1.0, 5.0]))
    1.75
    """
    total = float(scores.sum(dtype=np.float64))
    return len(scores) * float(np.dot(scores, scores)) / total**2 if total > 0.0 else math.inf
