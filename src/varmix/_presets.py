"""Presets: the named samplers, each a composition of the parts and nothing more."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.spaces import Points, Space, Subsets
from varmix._core.validation import as_count, as_fraction, as_vector
from varmix._sampler import Sampler
from varmix.allocate import Allocation, round_robin
from varmix.components import Components, Dense, Groups, Uniform, with_uniform
from varmix.components._stack import check_family
from varmix.learners import BarrierNewton, Fixed, Learner
from varmix.reweight import Reweight, exact

LEAST_SCORE = 1e-30  # of the mean: what single precision holds without losing digits


def vrm(
    *families: Components,
    gamma: float | None = None,
    learner: Learner[Any] | None = None,
    allocate: Allocation | None = None,
    reweight: Reweight = exact,
    rng: int | np.random.Generator | None = None,
    history: bool = False,
) -> Sampler:
    """Return a sampler whose mixture is always on: variance reduction with mixtures, as in the paper.

    It differs from `varmix.Sampler` for groups without replacement, where that plays plain shuffling until the mixture
    pays, and in that the uniform component is always added.

    Parameters
    ----------
    *families
        One or more families of components over the same points.
    gamma
        Smallest share of the uniform component; no weight exceeds `1 / gamma`.  Default: 0.1, or the learner's own.
    learner
        Learner that adapts the mixture.  Default: `BarrierNewton(gamma)`.
    allocate
        How the slots of a batch are distributed over components.  Default: `stratified`; for groups without replacement
        `round_robin`, or `Shuffled` with a `Cautious` learner.
    reweight
        How densities become weights.  Default: `exact`, which is unbiased.
    rng
        Seed, generator to take a seed from, or None.  Default: None, a new seed.
    history
        Whether to keep how shares and gain move, for `varmix.plot`.  Default: False.

    Examples
    --------
    >>> sampler = vrm(Groups(np.arange(1000) % 7), rng=0)
    >>> draw = sampler.draw(128)
    >>> sampler.update(draw, norms=draw.indices % 7 == 3)
    >>> int(sampler.mixture[:-1].argmax())
    3
    """
    if not families:
        raise TypeError("vrm needs at least one family of components, for example varmix.Groups(labels).")
    for family in families:
        check_family(family)
    if learner is None:
        learner, gamma = BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma), None
    components = with_uniform(*families)  # whatever the learner
    return Sampler(
        components, learner=learner, gamma=gamma, allocate=allocate, reweight=reweight, rng=rng, history=history
    )


def uniform(n: int | Space, *, replacement: bool = True, rng: int | np.random.Generator | None = None) -> Sampler:
    """Plain uniform sampling, with the same interface; feedback changes nothing.

    `n` is a number of points, or a space: `Subsets(n, size)` gives uniform sets of distinct points.  Points without
    replacement are random reshuffling: every point once a pass, in a new order each time.

    Examples
    --------
    >>> uniform(10, rng=0).draw(3).weights
    array([1., 1., 1.])
    >>> sorted(uniform(5, replacement=False, rng=0).draw(5).indices.tolist())
    [0, 1, 2, 3, 4]
    >>> from varmix.components import Subsets
    >>> uniform(Subsets(10, 4), rng=0).draw(3).indices.shape
    (3, 4)
    """
    if replacement:
        return Sampler(Uniform(n), learner=Fixed(), rng=rng)
    if isinstance(n, (Points, Subsets)):
        raise TypeError(f"Without replacement, give a number of points, got {n!r}.")
    count = as_count(n, "n")
    everything = Groups.numbered(np.zeros(count, dtype=np.uint8), np.array([count]), replacement=False)
    return Sampler(everything, learner=Fixed(), rng=rng, allocate=round_robin)


def importance(scores: ArrayLike, *, smoothing: float = 0.1, rng: int | np.random.Generator | None = None) -> Sampler:
    """Static importance sampling: in proportion to `scores` (such as Lipschitz constants), smoothed by uniform.

    With `smoothing=0.5` and Lipschitz constants it is the partially biased sampling of Needell, Srebro and Ward
    (2014), `p_i = 1/2 (1/n) + 1/2 L_i / sum L`, whose weights are at most 2; with `smoothing=0` that of Zhao and
    Zhang (2015, `p_i = L_i / sum L`), whose weights no number bounds: all scores must then be positive.

    Examples
    --------
    >>> sampler = importance([1.0, 1.0, 4.0], smoothing=0.5, rng=0)
    >>> sampler.draw_all().ratios[:, 0].tolist()
    [0.5, 0.5, 2.0]
    """
    values = as_vector(scores, "scores")
    smoothing = as_fraction(smoothing, "smoothing", zero=True)
    if len(values) == 0 or values.min() < 0 or values.max() <= 0:
        raise ValueError(
            f"scores must be one non-negative number per point, not all zero; got {len(values)} of them, "
            f"from {values.min(initial=0.0):.3g} to {values.max(initial=0.0):.3g}."
        )
    values = values / values.max()
    if smoothing == 0 and values.min() < LEAST_SCORE * values.mean():
        raise ValueError(
            f"Without smoothing a point of score zero would never be drawn, and the estimate be biased; point "
            f"{int(values.argmin())} has {values.min():.3g} of the largest score. Give it a score, or use smoothing."
        )
    family = Dense(probabilities=(values / values.sum())[:, None])
    return Sampler(family.with_uniform(), learner=Fixed([1.0 - smoothing, smoothing]), rng=rng)
