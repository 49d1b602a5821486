"""Named samplers, each built from the parts of this library."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.spaces import Points, Space, Subsets
from varmix._core.validation import as_count, as_fraction, as_vector
from varmix._sampler import Sampler
from varmix.allocate import Allocation, round_robin
from varmix.components import Dense, Family, Groups, Uniform, with_uniform
from varmix.components._stack import check_family
from varmix.learners import BarrierNewton, Fixed, Learner
from varmix.reweight import Reweight, exact

MIN_RELATIVE_SCORE = 1e-30  # relative to the mean; single precision holds such scores without losing digits


def vrm(
    *families: Family,
    gamma: float | None = None,
    learner: Learner[Any] | None = None,
    allocate: Allocation | None = None,
    reweight: Reweight = exact,
    rng: int | np.random.Generator | None = None,
    history: bool = False,
) -> Sampler:
    """Return a sampler whose mixture is always on: variance reduction with mixtures (VRM), as in the paper.

    It differs from `varmix.Sampler` in two ways. For groups without replacement, `varmix.Sampler` shuffles plainly
    until the mixture has proven useful, while `vrm` uses the mixture from the first draw. And `vrm` always adds the
    uniform component, for any learner.

    Parameters
    ----------
    *families
        One or more families of components over the same points.
    gamma : float, optional
        Smallest share of the uniform component. No weight exceeds `1 / gamma`. Default: 0.1, or the gamma of the
        learner.
    learner : Learner, optional
        Learner that adapts the mixture. Default: `BarrierNewton(gamma)`.
    allocate : Allocation, optional
        How the slots of a batch are distributed over components. Default: `stratified`; for groups without replacement
        `round_robin`, or `Shuffled` with a `Cautious` learner.
    reweight : Reweight, default exact
        How densities become weights. `exact` is unbiased.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.
    history : bool, default False
        Whether to record the shares and the gain for `varmix.plot`.

    Returns
    -------
    Sampler
        The sampler.

    Raises
    ------
    TypeError
        If there is no family, an argument is not a family, or both gamma and a learner are passed.

    Examples
    --------
    >>> sampler = vrm(Groups(np.arange(1000) % 7), rng=0)
    >>> draw = sampler.draw(128)
    >>> sampler.update(draw, norms=draw.indices % 7 == 3)
    >>> int(sampler.mixture[:-1].argmax())
    3
    """
    if not families:
        raise TypeError("vrm needs at least one family of components, such as varmix.Groups(labels).")
    for family in families:
        check_family(family)
    if learner is None:
        learner, gamma = BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma), None
    components = with_uniform(*families)  # a Sampler would not add it with the learner Fixed
    return Sampler(
        components, learner=learner, gamma=gamma, allocate=allocate, reweight=reweight, rng=rng, history=history
    )


def uniform(n: int | Space, *, replacement: bool = True, rng: int | np.random.Generator | None = None) -> Sampler:
    """Return a sampler for plain uniform sampling. Feedback changes nothing.

    Parameters
    ----------
    n : int, Points or Subsets
        Number of points, or a space. `Subsets(n, size)` draws uniform sets of distinct points.
    replacement : bool, default True
        Whether to draw with replacement. False means reshuffling: every point once per epoch, in a new order each
        epoch.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.

    Returns
    -------
    Sampler
        The sampler. All weights are 1.

    Raises
    ------
    TypeError
        If `n` is neither a number nor a space, or is a space without replacement.

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
        raise TypeError(f"Without replacement, n must be a number of points, got {n!r}.")
    count = as_count(n, "n")
    everything = Groups.numbered(np.zeros(count, dtype=np.uint8), np.array([count]), replacement=False)
    return Sampler(everything, learner=Fixed(), rng=rng, allocate=round_robin)


def importance(scores: ArrayLike, *, smoothing: float = 0.1, rng: int | np.random.Generator | None = None) -> Sampler:
    """Return a sampler for static importance sampling, in proportion to scores such as Lipschitz constants.

    The probabilities are `p_i = (1 - smoothing) score_i / sum(scores) + smoothing / n`. Estimates are unbiased, and no
    weight exceeds 1 / smoothing. Feedback changes nothing.

    Parameters
    ----------
    scores : array-like of shape (n,)
        One non-negative score per point.
    smoothing : float, default 0.1
        Share of the uniform component, from 0 to 1. With 0, weights have no bound and all scores must be positive.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.

    Returns
    -------
    Sampler
        The sampler.

    Raises
    ------
    ValueError
        If scores are negative, not finite or all zero, or if one is zero without smoothing.

    Notes
    -----
    With Lipschitz constants as scores, `smoothing=0.5` is the partially biased sampling of Needell et al., and
    `smoothing=0` is the sampling of Zhao and Zhang.

    References
    ----------
    Needell, Srebro and Ward: Stochastic gradient descent, weighted sampling, and the randomized Kaczmarz algorithm,
    2014.
    Zhao and Zhang: Stochastic optimization with importance sampling for regularized loss minimization, 2015.

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
    if smoothing == 0 and values.min() < MIN_RELATIVE_SCORE * values.mean():
        raise ValueError(
            f"Without smoothing a point of score zero would never be drawn, and the estimate would be biased. Point "
            f"{int(values.argmin())} has {values.min():.3g} times the largest score. Give it a score, or use smoothing."
        )
    family = Dense(probabilities=(values / values.sum())[:, None])
    return Sampler(family.with_uniform(), learner=Fixed([1.0 - smoothing, smoothing]), rng=rng)
