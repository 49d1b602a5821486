"""Hindsight: the best fixed mixture, and regret."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray, as_floats, as_fraction, as_positive, find_first
from varmix._kernels.simplex import metric_step


class Best(NamedTuple):
    """The best fixed mixture, its cost, and a bound on how much better any other could be."""

    mixture: FloatArray
    cost: float
    gap: float


def best_mixture(evidence: Evidence, *, gamma: float = 0.0, tolerance: float = 1e-10) -> Best:
    """Minimise the cost over the simplex (or the restricted simplex) to a relative gap of `tolerance`.

    Newton steps with the exact Hessian, each a small quadratic program, with a line search.  The gap is the duality
    gap `max_v <gradient, w - v>`, which bounds the excess because the cost is convex.  Where columns are redundant
    the minimiser is not unique, but the cost is.

    Examples
    --------
    >>> evidence = Evidence(ratios=[[2.0, 0.0], [0.0, 2.0]], coefficients=[1.0, 9.0])
    >>> best_mixture(evidence).mixture.round(6)
    array([0.25, 0.75])
    """
    gamma, tolerance = as_fraction(gamma, "gamma", zero=True), as_positive(tolerance, "tolerance")
    hopeless = (evidence.coefficients > 0) & ~evidence.ratios.any(axis=1)
    if hopeless.any():
        raise ValueError(
            f"No mixture has a finite cost: row {find_first(hopeless)} has a loss, and ratio zero everywhere."
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
        if lower >= value and narrower >= gap:  # near the end a step may gain less than the cost can show
            break
        w, value, gap = better, lower, narrower
    return Best(w, value * scale, gap * scale)


def _newton_point(evidence: Evidence, w: FloatArray, gamma: float) -> FloatArray:
    H = evidence.hessian(w)
    H[np.diag_indices(len(w))] += 1e-14 * np.trace(H)  # redundant columns
    x = np.empty(len(w))
    metric_step(w, evidence.gradient(w), H, gamma, x)
    return x


def _compute_gap(w: FloatArray, g: FloatArray, gamma: float) -> float:
    vertex = (1.0 - gamma) * g.min() + gamma * g[-1]
    return max(float(g @ w - vertex), 0.0)


def _line_search(evidence: Evidence, w: FloatArray, x: FloatArray, value: float) -> FloatArray:
    """Halve the step from w to x until the cost falls by a tenth of what the slope promises, up to rounding."""
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
    """Give `sum_t f_t(w_t) - min_w sum_t f_t(w)` for known losses: the paper's regret, in units of f / n^2.

    Parameters
    ----------
    ratios
        (n, k), the same in every round.
    squares
        (T, n) squared losses.
    mixtures
        (T, k) mixtures that were played.
    gamma
        Compare with the restricted simplex instead of the whole one.

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
        raise ValueError("A mixture that was played gives no density to a point with a loss: its cost is infinite.")
    paid = float(np.divide(l2, density, out=np.zeros_like(l2), where=l2 > 0).mean(axis=1).sum())
    return paid - best.cost
