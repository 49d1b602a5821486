"""Presets: the named samplers, each a composition of the parts and nothing more."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.spaces import Points, Space, Subsets
from varmix._core.validation import as_count, as_fraction, as_vector
from varmix._sampler import Sampler
from varmix.allocate import Allocation, Shuffled, carried, stratified
from varmix.components import Components, Dense, Groups, Stack, Uniform, with_uniform
from varmix.learners import BarrierNewton, Cautious, Fixed, Learner
from varmix.reweight import Reweight, exact

LEAST_SCORE = 1e-30  # of the mean: what single precision holds without losing digits


def vrm(
    *families: Components,
    gamma: float | None = None,
    learner: Learner[Any] | None = None,
    allocate: Allocation | None = None,
    reweight: Reweight = exact,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Variance reduction with mixtures: the families with the uniform component behind them, adapted online.

    Parameters
    ----------
    families
        One or more families over one space.
    gamma
        Least share of the uniform component, 0.1 unless told; a learner that is given has its own.
    learner
        `BarrierNewton(gamma)` unless told.
    allocate
        Unless told, `stratified`; for groups without replacement `carried`, or, where the learner is `Cautious`,
        `Shuffled`, which is then plain shuffling until it pays.
    reweight
        `exact` unless told.
    rng
        Seed, generator or None.

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
    if gamma is not None and learner is not None:
        raise TypeError("gamma belongs to the learner: give gamma or a learner, not both.")
    if learner is None:
        learner = BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma)
    components = with_uniform(*families)
    if allocate is None:
        cursors = any(map(_has_cursors, families))
        if cursors and not isinstance(components, Groups):
            raise ValueError(
                "Groups without replacement draw everything through their own cursors, so they cannot be stacked with "
                "other families. Use replacement=True, or say which allocation you want."
            )
        allocate = _of_cursors(components.space, learner) if cursors else stratified
    return Sampler(components, learner, rng=rng, allocate=allocate, reweight=reweight)


def _of_cursors(space: Space, learner: Learner[Any]) -> Allocation:
    """Give even batches, or, for a learner that may stand aside, groups dealt as by shuffling all that can be drawn."""
    if not isinstance(learner, Cautious) or not isinstance(space, Points):
        return carried
    return Shuffled(space.n if space.target is None else int(np.count_nonzero(space.target)))


def _has_cursors(family: Components) -> bool:
    if isinstance(family, Stack):
        return any(map(_has_cursors, family.families))
    return isinstance(family, Groups) and not family.replacement


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
    >>> from varmix import Subsets
    >>> uniform(Subsets(10, 4), rng=0).draw(3).indices.shape
    (3, 4)
    """
    if replacement:
        return Sampler(Uniform(n), Fixed(), rng=rng)
    if isinstance(n, (Points, Subsets)):
        raise TypeError(f"Without replacement, give a number of points, got {n!r}.")
    count = as_count(n, "n")
    everything = Groups.numbered(np.zeros(count, dtype=np.uint8), np.array([count]), replacement=False)
    return Sampler(everything, Fixed(), rng=rng, allocate=carried)


def importance(scores: ArrayLike, *, smoothing: float = 0.1, rng: int | np.random.Generator | None = None) -> Sampler:
    """Static importance sampling: in proportion to `scores` (such as Lipschitz constants), smoothed by uniform.

    With `smoothing=0.5` and Lipschitz constants it is the partially biased sampling of Needell, Srebro and Ward
    (2014), `p_i = 1/2 (1/n) + 1/2 L_i / sum L`, whose weights are at most 2; with `smoothing=0` that of Zhao and
    Zhang (2015, `p_i = L_i / sum L`), whose weights no number bounds: all scores must then be positive.

    Examples
    --------
    >>> sampler = importance([1.0, 1.0, 4.0], smoothing=0.5, rng=0)
    >>> sampler.census().ratios[:, 0].tolist()
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
    return Sampler(with_uniform(family), Fixed([1.0 - smoothing, smoothing]), rng=rng)
