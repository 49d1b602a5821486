"""Regression, section 6.2: least squares by stochastic gradient descent on sets of five points.

The data follow the paper: n = 1,000 points in 10 dimensions, normal with random means and variances per dimension, ten
random points scaled up by ten, targets from a linear model with noise. The paper does not print the size of the means.
It matters, so there are three kinds of data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from lab.arrays import FloatArray, IntArray
from varmix import Sampler, importance, uniform, vrm
from varmix.components import KDpp, Subsets, with_uniform
from varmix.learners import Fixed
from varmix.reweight import SoftTruncation, exact, horvitz_thompson

SET_SIZE = 5
RIDGES = (1.0, 10.0, 100.0)
ERROR_LEVELS = (0.1, 0.01, 0.003)  # of the initial excess error
MEANS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "small means": lambda rng, d: rng.normal(size=d),
    "normal means": lambda rng, d: 5.0 * rng.normal(size=d),
    "uniform means": lambda rng, d: rng.uniform(0.0, 10.0, size=d),
}


@dataclass(frozen=True)
class Regression:
    """Features and targets, with A = X'X / n and the minimiser, from which exact errors follow."""

    X: FloatArray
    y: FloatArray
    A: FloatArray
    best: FloatArray

    @property
    def scale(self) -> float:
        """Mean squared length of the features; steps are in units of its inverse, which suits all problems."""
        return float(np.trace(self.A))

    def excess(self, theta: FloatArray) -> float:
        """Return the mean squared error above the lowest possible one."""
        off = theta - self.best
        return float(off @ self.A @ off)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of the mean squared error."""
        return np.asarray(2.0 * self.A @ (theta - self.best))


def make_regression(means: str, seed: int, n: int = 1000, d: int = 10) -> Regression:
    """Return a problem of section 6.2."""
    rng = np.random.default_rng([seed, 1 + list(MEANS).index(means)])  # no sampler draws from this stream
    X = MEANS[means](rng, d) + rng.uniform(0.5, 1.5, size=d) * rng.normal(size=(n, d))
    X[rng.choice(n, 10, replace=False)] *= 10.0
    y = X @ (5.0 * rng.normal(size=d)) + rng.normal(size=n)
    best = np.asarray(np.linalg.lstsq(X, y, rcond=None)[0], dtype=np.float64)
    return Regression(X, y, X.T @ X / n, best)


def _make_kdpp(data: Regression) -> KDpp:
    return KDpp(data.X, SET_SIZE, RIDGES)


def _build_fixed(data: Regression, seed: int, by_point: bool) -> Sampler:
    reweight = horvitz_thompson if by_point else exact
    return Sampler(with_uniform(_make_kdpp(data)), learner=Fixed(), rng=seed, reweight=reweight)


ARMS: dict[str, Callable[[Regression, int], Sampler]] = {
    "uniform": lambda data, seed: uniform(Subsets(len(data.X), SET_SIZE), rng=seed),
    "uniform again": lambda data, seed: uniform(Subsets(len(data.X), SET_SIZE), rng=seed + 1_000_000),
    "reshuffling": lambda data, seed: uniform(len(data.X), replacement=False, rng=seed),
    "importance by point": lambda data, seed: importance((data.X**2).sum(axis=1), smoothing=0.5, rng=seed),
    "fixed mixture, set weights": lambda data, seed: _build_fixed(data, seed, by_point=False),
    "fixed mixture, point weights": lambda data, seed: _build_fixed(data, seed, by_point=True),
    "VRM, set weights": lambda data, seed: vrm(_make_kdpp(data), rng=seed),
    "VRM, point weights": lambda data, seed: vrm(_make_kdpp(data), rng=seed, reweight=horvitz_thompson),
    "VRM, soft truncation": lambda data, seed: vrm(_make_kdpp(data), rng=seed, reweight=SoftTruncation(0.2)),
}


@numba.njit(cache=True, error_model="numpy")
def batch_gradients(
    X: FloatArray, y: FloatArray, points: IntArray, weights: FloatArray, theta: FloatArray, out: FloatArray
) -> None:
    """Write the mean gradient of the points into out[0], and the weighted one into out[1]."""
    size = points.shape[0]
    out[:] = 0.0
    for a in range(size):
        i = points[a]
        left = -y[i]
        for j in range(X.shape[1]):
            left += X[i, j] * theta[j]
        weight = weights[a if weights.shape[0] > 1 else 0]
        for j in range(X.shape[1]):
            part = 2.0 * left * X[i, j] / size
            out[0, j] += part
            out[1, j] += weight * part


class Moments(NamedTuple):
    """Sums over a run: second moments and squared errors of estimates from the same draws.

    Attributes
    ----------
    uniform
        Second moment that uniform sets would have had.
    by_set
        Second moment with set weights.
    used
        Second moment with the weights that were used.
    set_error
        Squared distance from the true gradient with set weights.
    used_error
        Squared distance from the true gradient with the weights that were used.
    """

    uniform: float
    by_set: float
    used: float
    set_error: float
    used_error: float


@dataclass
class Descent:
    """A finished run: relative excess error after every iteration, moments, and mixtures over time."""

    excess: FloatArray
    moments: Moments | None
    mixtures: FloatArray


def run_descent(data: Regression, sampler: Sampler, step: float, iterations: int, looks: IntArray) -> Descent:
    """Run gradient descent with step `step / sqrt(t)`; the feedback is the norm of the set's mean gradient.

    From the iteration at which a run diverges on, its error is infinite.
    """
    sets = isinstance(sampler.components.space, Subsets)
    learns = sets and not isinstance(sampler.learner, Fixed)
    theta, both = np.zeros(data.X.shape[1]), np.empty((2, data.X.shape[1]))
    excess = np.full(iterations + 1, np.inf)
    excess[0] = start = data.excess(theta)
    sums, mixtures, looked = np.zeros(5), np.tile(sampler.mixture, (len(looks), 1)), 0
    for t in range(1, iterations + 1):
        draw = sampler.draw(1 if sets else SET_SIZE)
        batch_gradients(data.X, data.y, draw.indices.ravel(), draw.weights.ravel(), theta, both)
        plain, used = both
        if sets:
            r, square = 1.0 / draw.density[0], float(plain @ plain)
            off, off_set = used - (true := data.gradient(theta)), r * plain - true
            sums += r * square, r * r * square, used @ used, off_set @ off_set, off @ off
            if learns:
                sampler.update(draw, [np.sqrt(square)])
        theta = theta - step / np.sqrt(t) * used
        excess[t] = data.excess(theta)
        if not excess[t] < 1e9 * start:
            excess[t:] = np.inf
            break
        if looked < len(looks) and looks[looked] == t:
            mixtures[looked:] = sampler.mixture
            looked += 1
    return Descent(excess / start, Moments(*sums.tolist()) if sets else None, mixtures)
