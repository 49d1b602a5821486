"""Samplers of other papers, each built from the parts of this library.

For static importance sampling use `varmix.importance`. `docs/samplers.md` compares all samplers.
"""

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.spaces import Points
from varmix._core.validation import as_count, as_fraction, as_positive, as_vector
from varmix._sampler import Sampler
from varmix.components import Cumulative, Exponential, Groups, MirrorDescent, Ranks, with_uniform
from varmix.learners import Fixed
from varmix.reweight import unweighted


def vrb(
    n: int | Points,
    *,
    theta: float = 0.1,
    gamma: float | ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Return VRB, which samples each point by the root of its squared norms so far.

    The probabilities are `p = (1 - theta) p' + theta / n`, where p' is proportional to `sqrt(S_i + gamma)` and S_i is
    the sum of squared norm / density over the draws of point i. Estimates are unbiased, and no weight exceeds
    1 / theta.

    Parameters
    ----------
    n : int or Points
        Number of points, or `Points` with a target.
    theta : float, default 0.1
        Share of the uniform component.
    gamma : float or array-like of shape (n,), optional
        Positive number added to the sums, or one number per point. Default: the mean squared norm so far.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.

    Returns
    -------
    Sampler
        A sampler that learns from the norms passed to `update`.

    See Also
    --------
    varmix.components.Cumulative : The component that learns p'.
    vrb_theory : The settings of the paper's regret bound.

    Notes
    -----
    It differs from the paper in three points. The default gamma is the mean squared norm so far instead of n L / theta,
    so the sampler needs no bound L on the squared norms and learns within a few epochs. The sums, and so gamma, are
    1/n times the paper's, because they divide by densities instead of probabilities. Each row of a batch counts as one
    round of the paper.

    References
    ----------
    Borsos, Levy and Krause: Online variance reduction for stochastic optimization, 2018.

    Examples
    --------
    >>> norms = np.where(np.arange(100) < 5, 10.0, 0.1)
    >>> sampler = vrb(100, rng=0)
    >>> for _ in range(50):
    ...     draw = sampler.draw(20)
    ...     sampler.update(draw, norms[draw.indices])
    >>> bool(sampler.components.ratios(np.arange(5))[:, 0].min() > 3)
    True
    """
    theta = as_fraction(theta, "theta")
    return Sampler(with_uniform(Cumulative(n, gamma=gamma)), learner=Fixed([1.0 - theta, theta]), rng=rng)


def vrb_theory(n: int, rounds: int, L: float = 1.0) -> dict[str, float]:
    """Return the settings of VRB's regret bound: theta = (n / T)^(1/3) and gamma = L / theta.

    The proof needs these settings, but they learn slowly: the probabilities stay almost uniform for tens of epochs.

    Parameters
    ----------
    n : int
        Number of points.
    rounds : int
        Number of draws T, at least n.
    L : float, default 1.0
        Bound on the *squared* norms.

    Returns
    -------
    dict of str to float
        `theta` and `gamma`, as arguments of `vrb`. The paper's gamma is n L / theta, because its sums are n times those
        of `vrb`.

    Raises
    ------
    ValueError
        If `rounds` is less than `n`, or `L` is not positive.

    References
    ----------
    Borsos, Levy and Krause: Online variance reduction for stochastic optimization, 2018.

    Examples
    --------
    >>> vrb_theory(n=1000, rounds=1_000_000, L=2.0)["theta"].__round__(3)
    0.1
    >>> vrb(1000, **vrb_theory(n=1000, rounds=1_000_000), rng=0).mixture.round(3)
    array([0.9, 0.1])
    """
    n, rounds = as_count(n, "n"), as_count(rounds, "rounds")
    if rounds < n:
        raise ValueError(f"VRB's bound needs at least as many draws as points, got rounds = {rounds} and n = {n}.")
    theta = (n / rounds) ** (1 / 3)
    return {"theta": theta, "gamma": as_positive(L, "L") / theta}


def bandit(
    n: int | Points,
    *,
    eta: float = 0.4,
    rounds: int | None = None,
    step: float | None = None,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Return MABS, a bandit with exponential weights over points.

    The probabilities are `p = (1 - eta) w / sum(w) + eta / n`. Each draw of a point multiplies its weight w_i by
    `exp(delta norm^2 / p_i^3)`. Estimates are unbiased, and no weight of a draw exceeds 1 / eta.

    Parameters
    ----------
    n : int or Points
        Number of points, or `Points` with a target.
    eta : float, default 0.4
        Share of the uniform component.
    rounds : int, optional
        Number of draws that the step is chosen for. Default: 10 n.
    step : float, optional
        Size of the step; the paper's delta is step / n^3. Default: the theorem's, from eta and `rounds`.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.

    Returns
    -------
    Sampler
        A sampler that learns from the norms passed to `update`.

    See Also
    --------
    varmix.components.Exponential : The component that learns w.

    Notes
    -----
    It differs from the paper in two points. The theorem's step contains the mean fourth power of the norms, which is
    not known. Here the largest squared norm so far replaces it, so the scale of the norms does not matter. Each row
    of a batch counts as one round of the paper.

    References
    ----------
    Salehi, Celis and Thiran: Stochastic optimization with bandit sampling, 2017.

    Examples
    --------
    >>> sampler = bandit(10, rng=0)
    >>> draw = sampler.draw(3)
    >>> sampler.update(draw, np.ones(3))
    >>> sampler.draw_all().weights.tolist() == [1.0] * 10
    True
    """
    family = Exponential(n, eta=eta, rounds=rounds, step=step)
    return Sampler(with_uniform(family), learner=Fixed([1.0 - eta, eta]), rng=rng)


def mirror_descent(
    n: int,
    *,
    floor: float = 0.2,
    rounds: int | None = None,
    step: float | None = None,
    rng: int | np.random.Generator | None = None,
) -> Sampler:
    """Return a sampler that learns the probability of each point by mirror descent, above a floor.

    Each update multiplies the probabilities of the drawn points by the exponential of step times minus the gradient of
    the second moment. It then projects all of them to `p >= floor / n`. Estimates are unbiased, and no weight exceeds
    1 / floor.

    Parameters
    ----------
    n : int
        Number of points.
    floor : float, default 0.2
        Smallest probability, times n.
    rounds : int, optional
        Number of draws that the step is chosen for. Default: 10 n.
    step : float, optional
        Factor of the gradient. Default: the step that balances the regret bound for `rounds`.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.

    Returns
    -------
    Sampler
        A sampler that learns from the norms passed to `update`.

    See Also
    --------
    varmix.components.MirrorDescent : The component that learns the probabilities.

    Notes
    -----
    It differs from the paper in two points. The default step uses the largest squared norm so far for the bound on the
    squared norms, so the scale of the norms does not matter. Each row of a batch counts as one round of the paper, but
    the probabilities are projected once per batch.

    References
    ----------
    Namkoong, Sinha, Yadlowsky and Duchi: Adaptive sampling probabilities for non-smooth optimization, 2017.

    Examples
    --------
    >>> sampler = mirror_descent(10, rng=0)
    >>> sampler.update(sampler.draw(2), [1.0, 3.0])
    >>> bool(sampler.draw_all().ratios.min() >= 0.2)
    True
    """
    return Sampler(MirrorDescent(n, floor=floor, rounds=rounds, step=step), learner=Fixed(), rng=rng)


def batch_selection(
    n: int, *, pressure: float = 100.0, period: int | None = None, rng: int | np.random.Generator | None = None
) -> Sampler:
    """Return online batch selection, which samples each point by the rank of its last known loss.

    The probability of rank i is proportional to `exp(-log(pressure) i / n)`, from the largest loss at rank 0 to the
    smallest at rank n - 1. Estimates are biased, as in the paper: every weight is 1, so hard examples count more.

    Parameters
    ----------
    n : int
        Number of points.
    pressure : float, default 100.0
        Probability of the largest loss over that of the smallest, at least 1. You can set
        `sampler.components.pressure` between draws, to decrease it during training as the paper does.
    period : int, optional
        Number of losses reported between two sorts. Default: n.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.

    Returns
    -------
    Sampler
        A biased sampler that learns from the losses passed to `update`. Pass losses, not gradient norms.

    See Also
    --------
    varmix.components.Ranks : The component that sorts the losses.

    Notes
    -----
    Points without a known loss rank first. As in the paper, the sampler sorts from time to time and not after every
    batch.

    References
    ----------
    Loshchilov and Hutter: Online batch selection for faster training of neural networks, 2015.

    Examples
    --------
    >>> sampler = batch_selection(4, pressure=16.0, rng=0)
    >>> sampler.update(sampler.draw_all(), [0.0, 3.0, 2.0, 1.0])
    >>> draw = sampler.draw(1000)
    >>> int(np.bincount(draw.indices).argmax()), set(draw.weights.tolist()), sampler.reweight.unbiased
    (1, {1.0}, False)
    """
    return Sampler(Ranks(n, pressure=pressure, period=period), learner=Fixed(), rng=rng, reweight=unweighted)


def stratified_sampling(
    labels: ArrayLike, deviations: ArrayLike | None = None, *, rng: int | np.random.Generator | None = None
) -> Sampler:
    """Return stratified sampling: each stratum gets slots in proportion to its size times its deviation.

    Stratum j gets the share `|C_j| v_j / sum(|C| v)` of every batch, where v_j is the standard deviation of the
    gradients in it. Within a stratum points are uniform. The shares are fixed: feedback changes nothing. Estimates are
    unbiased.

    Parameters
    ----------
    labels : array-like of shape (n,)
        One label per point.
    deviations : array-like of shape (number of strata,), optional
        One positive number per distinct label, in sorted order. Default: all equal, so shares are the sizes.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take one from. Default: None, a new seed.

    Returns
    -------
    Sampler
        A sampler with a fixed mixture of the strata.

    Raises
    ------
    ValueError
        If a deviation is not positive and finite, or there is not one deviation per stratum.

    Notes
    -----
    The paper rounds the numbers of slots, and weights by size divided by the rounded numbers. Here the numbers of slots
    are random with the exact means, and the weights follow from the shares. Small batches are therefore unbiased, too.

    References
    ----------
    Zhao and Zhang: Accelerating minibatch stochastic gradient descent using stratified sampling, 2014.

    Examples
    --------
    >>> sampler = stratified_sampling(["a"] * 6 + ["b"] * 2, [1.0, 3.0], rng=0)
    >>> sampler.mixture.tolist(), sampler.draw(4).weights.tolist()
    ([0.5, 0.5], [1.5, 1.5, 0.5, 0.5])
    """
    strata = Groups(labels)
    sizes = strata.masses
    spread = np.ones(len(sizes)) if deviations is None else as_vector(deviations, "deviations", len(sizes))
    if spread.min() <= 0:
        raise ValueError(
            f"deviations must be positive, because a stratum with deviation 0 would never be drawn; stratum "
            f"{strata.labels[spread.argmin()].item()!r} has {spread.min():.3g}."
        )
    shares = sizes * (spread / spread.max())
    return Sampler(strata, learner=Fixed(shares / shares.sum()), rng=rng)
