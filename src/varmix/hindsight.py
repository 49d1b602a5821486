"""The best fixed mixture in hindsight, and regret."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray, as_floats, as_fraction, as_positive, find_first
from varmix._kernels.simplex import metric_step


class Best(NamedTuple):
    """Result of `best_mixture`.

    Parameters
    ----------
    mixture : ndarray of shape (k,)
        The best fixed mixture.
    cost : float
        Its cost.
    gap : float
        Bound on how much lower the cost of any other mixture could be.

    Examples
    --------
    >>> best = best_mixture(Evidence(ratios=[[2.0, 0.0], [0.0, 2.0]], coefficients=[1.0, 9.0]))
    >>> round(best.cost, 6), best.gap < 1e-9
    (4.0, True)
    """

    mixture: FloatArray
    cost: float
    gap: float


def best_mixture(evidence: Evidence, *, gamma: float = 0.0, tolerance: float = 1e-10) -> Best:
    """Return the mixture that minimises the cost of the evidence.

    It takes Newton steps with a line search until the duality gap `max_v <gradient, w - v>` is small. The gap bounds
    the distance to the smallest cost, because the cost is convex. If components are redundant, several mixtures have
    the smallest cost, and one of them is returned.

    Parameters
    ----------
    evidence : Evidence
        The losses, and the density ratios of their points.
    gamma : float, default 0.0
        Smallest share of the last component, the uniform one.
    tolerance : float, default 1e-10
        Largest gap, relative to the cost.

    Returns
    -------
    Best
        The mixture, its cost and the gap.

    Raises
    ------
    ValueError
        If a point with a loss has ratio zero under every component, so that every mixture has an infinite cost.

    Examples
    --------
    >>> evidence = Evidence(ratios=[[2.0, 0.0], [0.0, 2.0]], coefficients=[1.0, 9.0])
    >>> best_mixture(evidence).mixture.round(6)
    array([0.25, 0.75])
    """
    gamma, tolerance = as_fraction(gamma, "gamma", zero=True), as_positive(tolerance, "tolerance")
    uncovered = (evidence.coefficients > 0) & ~evidence.ratios.any(axis=1)
    if uncovered.any():
        raise ValueError(
            f"No mixture has a finite cost: row {find_first(uncovered)} has a loss, but every component has ratio zero."
        )
    k = evidence.ratios.shape[1]
    w = np.full(k, (1.0 - gamma) / k)
    w[-1] += gamma
    scale = evidence.value(w)
    if scale == 0.0:
        return Best(w, 0.0, 0.0)
    evidence = Evidence(evidence.ratios, evidence.coefficients / scale)
    value = evidence.value(w)
    gap = _compute_gap(w, evidence.gradient(w), gamma)
    for _ in range(500):
        if gap <= tolerance * value:
            break
        x = _newton_point(evidence, w, gamma)
        better = _line_search(evidence, w, x, value)
        lower, narrower = evidence.value(better), _compute_gap(better, evidence.gradient(better), gamma)
        if lower >= value and narrower >= gap:  # the step gains less than a rounding error of the cost
            break
        w, value, gap = better, lower, narrower
    return Best(w, value * scale, gap * scale)


def _newton_point(evidence: Evidence, w: FloatArray, gamma: float) -> FloatArray:
    """Return the minimiser over the simplex of the quadratic model at w."""
    H = evidence.hessian(w)
    H[np.diag_indices(len(w))] += 1e-14 * np.trace(H)  # keeps redundant columns from making it singular
    x = np.empty(len(w))
    metric_step(w, evidence.gradient(w), H, gamma, x)
    return x


def _compute_gap(w: FloatArray, g: FloatArray, gamma: float) -> float:
    """Return the duality gap at w, given the gradient there."""
    vertex = (1.0 - gamma) * g.min() + gamma * g[-1]
    return max(float(g @ w - vertex), 0.0)


def _line_search(evidence: Evidence, w: FloatArray, x: FloatArray, value: float) -> FloatArray:
    """Halve the step from w to x until the cost falls by a tenth of slope times step or more, up to rounding errors."""
    slope = float(evidence.gradient(w) @ (x - w))
    step = 1.0
    while step > 1e-12:
        candidate = w + step * (x - w)
        cost = evidence.value(candidate)
        if np.isfinite(cost) and cost <= value * (1 + 1e-14) + 0.1 * step * slope:
            return candidate
        step *= 0.5
    return w


def regret(ratios: ArrayLike, squares: ArrayLike, mixtures: ArrayLike, *, gamma: float = 0.0) -> float:
    """Return the paper's regret, `sum_t f_t(w_t) - min_w sum_t f_t(w)`, in units of f / n^2.

    It compares the mixtures that were played with the best fixed mixture, for known losses.

    Parameters
    ----------
    ratios : array-like of shape (n, k)
        Density ratios of all points, the same in every round.
    squares : array-like of shape (T, n)
        Squared losses of all points in every round.
    mixtures : array-like of shape (T, k)
        Mixtures that were played.
    gamma : float, default 0.0
        Smallest share of the last component in the best fixed mixture.

    Returns
    -------
    float
        The regret.

    Raises
    ------
    ValueError
        If shapes do not match, a mixture is negative or not finite, or a mixture gives density zero to a point with a
        loss.

    Examples
    --------
    >>> regret(np.ones((3, 2)), np.ones((5, 3)), np.full((5, 2), 0.5))
    0.0
    """
    q, l2, played = (
        as_floats(ratios, "ratios"),
        as_floats(squares, "squares"),
        as_floats(mixtures, "mixtures"),
    )
    if l2.ndim != 2 or q.ndim != 2 or played.shape != (len(l2), q.shape[1]) or l2.shape[1] != len(q):
        raise ValueError(
            f"Expected ratios (n, k), squares (T, n) and mixtures (T, k), got {q.shape}, {l2.shape}, {played.shape}."
        )
    best = best_mixture(Evidence(q, l2.sum(axis=0)), gamma=gamma)  # checks q and l2
    if not np.isfinite(played).all() or played.min() < 0:
        raise ValueError("mixtures must be finite and not negative.")
    density = played @ q.T
    if (density[l2 > 0] <= 0).any():
        raise ValueError("A mixture that was played has density zero at a point with a loss, so its cost is infinite.")
    paid = float(np.divide(l2, density, out=np.zeros_like(l2), where=l2 > 0).mean(axis=1).sum())
    return paid - best.cost
