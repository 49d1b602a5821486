"""Regret: the defaults on problems they were not tuned for, and Theorem 1 against what is measured.

    python -m varmix.experiments.regret --rounds 3000 30000     the grid, about 10 minutes on two cores
    python -m varmix.experiments.regret --quick                 a corner of it, about 10 seconds

A problem is a table of ratios (k - 1 components and uniform), and squared losses that may react to the mixture.  One
draw and one update a round.  C is what the sampler paid, U what uniform sampling would have paid, F what the best fixed
mixture in hindsight would have paid, all in exact cost `f_t(w_t)`, not in estimates.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from varmix.arrays import FloatArray
from varmix.components import Dense
from varmix.evidence import Evidence
from varmix.hindsight import best_mixture
from varmix.presets import vrm
from varmix.theory import full_information, theorem_1_bound

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


def play(problem: Problem, *, full: bool = False) -> Costs:
    """Run a sampler through a problem: the default one on draws, or Algorithm 1 on censuses (`full`)."""
    rng = np.random.default_rng([problem.seed, problem.k, problem.rounds, round(10 * problem.c)])
    ratios = make_ratios(problem, rng)
    losses = make_losses(problem, ratios, rng)
    learner = full_information(problem.rounds, problem.k).ons() if full else None
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


def grid(
    rounds: int, ks: Iterable[int] = (2, 5, 20, 100), cs: Iterable[float] = (1.5, 10.0, 50.0), seed: int = 0
) -> Iterator[Problem]:
    """Give all problems with these numbers of components and these largest ratios."""
    for k, mixtures, losses in product(ks, get_args(Mixtures), get_args(Losses)):
        for c in [k - 1.0] if mixtures == "blob" else cs:
            yield Problem(k, c, mixtures, losses, rounds, seed)


class Summary(NamedTuple):
    """Geometric mean and worst of C/F, and worst of C/U."""

    geometric: float
    worst: float
    uniform_worst: float


# What the defaults must keep to after so many rounds.
LIMITS = {3000: Summary(1.06, float("inf"), 1.25), 30_000: Summary(1.03, 1.2, 1.06)}


def within_limits(rounds: int, summary: Summary) -> bool:
    """Whether a summary keeps to the limits for so many rounds."""
    return all(value <= limit for value, limit in zip(summary, LIMITS[rounds], strict=True))


def summarise(costs: Iterable[Costs]) -> Summary:
    """Give C/F as geometric mean and worst case, and the worst C/U."""
    table = np.array(list(costs))
    against_best, against_uniform = table[:, 0] / table[:, 2], table[:, 0] / table[:, 1]
    return Summary(float(np.exp(np.log(against_best).mean())), float(against_best.max()), float(against_uniform.max()))


def theorem_1_share(problem: Problem) -> float:
    """Give the regret of Algorithm 1 with the theory's settings as a share of Theorem 1's bound."""
    costs = play(problem, full=True)
    return (costs.paid - costs.best) / theorem_1_bound(problem.rounds, problem.k)


def main(arguments: list[str] | None = None) -> None:
    """Play the grid and print the table."""
    from varmix.experiments.progress import tracked

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, nargs="+", default=[3000, 30_000])
    parser.add_argument("--quick", action="store_true", help="a corner of the grid with 1,000 rounds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write every problem and its costs as JSON")
    options = parser.parse_args(arguments)
    rows: list[dict[str, object]] = []
    for rounds in [1000] if options.quick else options.rounds:
        sizes: dict[str, tuple[float, ...]] = {"ks": (2, 5), "cs": (10.0,)} if options.quick else {}
        problems = list(grid(rounds, seed=options.seed, **sizes))  # type: ignore[arg-type]
        with ProcessPoolExecutor(options.jobs) as pool:
            costs = list(tracked(pool.map(play, problems), len(problems), f"{rounds:,} rounds"))
        rows += [{**asdict(p), **c._asdict()} for p, c in zip(problems, costs, strict=True)]
        _report(rounds, problems, costs)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=0) + "\n")
    rounds = 300 if options.quick else 3000
    losses: tuple[Losses, ...] = ("stationary", "switching", "adaptive")
    most = max(theorem_1_share(Problem(k, 10.0, "hot", kind, rounds)) for k in (2, 7, 20) for kind in losses)
    print(f"Theorem 1, full information, T = {rounds:,}: regret at most {most:.2%} of the bound")


def _report(rounds: int, problems: list[Problem], costs: list[Costs]) -> None:
    print(f"\nT = {rounds:,}, {len(problems)} problems      C/F geometric  worst   C/U worst")
    for losses in get_args(Losses):
        part = [c for p, c in zip(problems, costs, strict=True) if p.losses == losses]
        print(f"  {losses:<34}" + "{:>8.3f} {:>8.3f} {:>9.3f}".format(*summarise(part)))
    print(f"  {'all':<34}" + "{:>8.3f} {:>8.3f} {:>9.3f}".format(*summarise(costs)))
    worst = max(range(len(costs)), key=lambda i: costs[i].paid / costs[i].best)
    print(f"  worst C/F: {problems[worst]}")
    if rounds in LIMITS:
        print(f"  limits: {LIMITS[rounds]}: {'kept' if within_limits(rounds, summarise(costs)) else 'BROKEN'}")


if __name__ == "__main__":
    main()
