"""Problems: sequences of losses that a sampler is played against, some of which react to it.

A problem is a table of ratios (k - 1 components and uniform), and squared losses, at most one, for every round.  One
draw and one update a round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from varmix._core.validation import FloatArray
from varmix.components import Dense
from varmix._core.evidence import Evidence
from varmix.hindsight import best_mixture
from varmix.learners import Learner
from varmix._presets import vrm

Mixtures = Literal["blob", "hot", "rand"]
Losses = Literal["stationary", "switching", "adaptive", "rare", "shrinking"]
PHASES = 5


@dataclass(frozen=True)
class Problem:
    """A point of the grid."""

    k: int
    c: float
    mixtures: Mixtures
    losses: Losses
    rounds: int
    seed: int = 0
    n: int = 500


class Costs(NamedTuple):
    """What was paid, and what uniform sampling and the best fixed mixture would have paid."""

    paid: float
    uniform: float
    best: float


def make_ratios(problem: Problem, rng: np.random.Generator) -> FloatArray:
    """Give the ratios (n, k - 1) of the components.

    *blob*: one block of points per component, 1e-7 elsewhere.  *hot*: each uniform on n / c random points.  *rand*:
    gamma(0.3) variates capped at c / n.
    """
    n, k, c = problem.n, problem.k - 1, problem.c
    if problem.mixtures == "blob":
        block = np.arange(n) * k // n
        table = np.where(block[:, None] == np.arange(k), 1.0, 1e-7)
    elif problem.mixtures == "hot":
        table = np.zeros((n, k))
        for j in range(k):
            table[rng.choice(n, size=max(round(n / c), 1), replace=False), j] = 1.0
    else:
        table = rng.gamma(0.3, size=(n, k))
        for _ in range(100):  # capping takes mass away, which normalising gives back, until both hold
            table = np.minimum(table / table.mean(axis=0), c)
    return np.asarray(table / table.mean(axis=0))


def make_bounds(ratios: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Give the bounds B of a hidden target: a rough power of a random mixture's density, at most one."""
    density = ratios @ rng.dirichlet(np.full(ratios.shape[1], 0.3))
    rough = density**0.75 * rng.uniform(0.3, 1.7, size=len(density)) + 0.02
    return np.asarray(np.minimum(1.0, rough / np.quantile(rough, 0.999)))


def make_losses(
    problem: Problem, ratios: FloatArray, rng: np.random.Generator
) -> Callable[[int, FloatArray], FloatArray]:
    """Give the squared losses of round t, as a function of t and of the mixture's density."""
    bounds = [make_bounds(ratios, rng) for _ in range(PHASES)]
    B, n, T = bounds[0], problem.n, problem.rounds

    def stationary(t: int, density: FloatArray) -> FloatArray:
        return B * rng.random(n)

    def switching(t: int, density: FloatArray) -> FloatArray:
        return bounds[t * PHASES // T] * rng.random(n)

    def adaptive(t: int, density: FloatArray) -> FloatArray:
        squares: FloatArray = 0.05 * B
        squares[np.argpartition(density, n // 20)[: n // 20]] = 1.0
        return squares

    def rare(t: int, density: FloatArray) -> FloatArray:
        return np.where((rng.random(n) < 0.02) & (B > 0.3), 1.0, 1e-3)

    def shrinking(t: int, density: FloatArray) -> FloatArray:
        return np.asarray(B * rng.random(n) / np.sqrt(1 + t / 10))

    families = (stationary, switching, adaptive, rare, shrinking)
    return {family.__name__: family for family in families}[problem.losses]


def play(problem: Problem, learner: Learner[Any] | None = None, *, full: bool = False) -> Costs:
    """Run a sampler through a problem, on draws or (`full`) on censuses; the default learner if none is given."""
    rng = np.random.default_rng([problem.seed, problem.k, problem.rounds, round(10 * problem.c)])
    ratios = make_ratios(problem, rng)
    losses = make_losses(problem, ratios, rng)
    sampler = vrm(Dense(ratios=ratios), learner=learner, rng=rng)
    table = sampler.census().ratios
    total = np.zeros(problem.n)
    paid = 0.0
    for t in range(problem.rounds):
        density = table @ sampler.mixture
        squares = losses(t, density)
        paid += float((squares / density).mean())
        total += squares
        draw = sampler.census() if full else sampler.draw(1)
        sampler.update(draw, np.sqrt(squares[draw.indices]))
    best = best_mixture(Evidence(table, total))
    return Costs(paid, float(total.mean()), best.cost)
