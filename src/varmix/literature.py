"""Samplers of the literature: each a composition of the parts, beside the paper it comes from.

Static importance sampling is `varmix.importance`.  `docs/samplers.md` compares them all.
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
    """Variance reduction by a bandit over points: VRB of Borsos, Levy and Krause (2018).

    `p = (1 - theta) p' + theta / n`, where p' is the law of `Cumulative`.  Weights are at most 1 / theta.

    Parameters
    ----------
    n
        Number of points, or `Points` with a target.
    theta
        Share of uniform.
    gamma
        What is added to the sums; the mean squared norm seen so far unless told.  See `Cumulative`.
    rng
        Seed, generator or None.

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
    """The settings of VRB's regret bound, as arguments of `vrb`: theta = (n / T)^(1/3), gamma = L / theta.

    T is the number of draws, at least n, and L bounds the *squared* norms.  In the paper gamma is n L / theta,
    because its sums are n times ours.  They are what the proof needs: the law stays almost uniform for tens of
    passes.

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
    """Exponential weights over points: MABS of Salehi, Celis and Thiran (2017).

    `p = (1 - eta) w / sum w + eta / n`; see `varmix.components.Exponential` for w, `rounds` and `step`.

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
    """Probabilities by mirror descent above a floor: Namkoong, Sinha, Yadlowsky and Duchi (2017).

    See `varmix.components.MirrorDescent`.

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
    """Batches by the rank of the loss: Loshchilov and Hutter (2015).  Biased: every weight is one, as in the paper.

    The norms that it is given are losses.  See `varmix.components.Ranks`.

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
    """Strata with slots in proportion to size times deviation: Zhao and Zhang (2014).

    Stratum j gets the part `|C_j| v_j / sum |C| v` of a batch, where v_j is how much the gradients vary inside it;
    without deviations, a part in proportion to its size.  The paper rounds the numbers of slots, and weights by
    `|C_j| / n` over what came of it; here they are the exact numbers in expectation (and always, where they are whole)
    and the weights those of the shares, so that small batches are unbiased too.

    Parameters
    ----------
    labels
        (n,) one label per point.
    deviations
        One positive number for each distinct label, in sorted order.
    rng
        Seed, generator or None.

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
            f"deviations must be above zero, or a stratum would never be drawn; that of "
            f"{strata.labels[spread.argmin()].item()!r} is {spread.min():.3g}."
        )
    shares = sizes * (spread / spread.max())
    return Sampler(strata, learner=Fixed(shares / shares.sum()), rng=rng)
