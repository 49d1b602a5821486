"""Convergence of the solvers: SVRG and SAGA by sampler, and coordinate descent by sampler and step size.

The problems are ridge regressions with known minimum. The rows (for coordinate descent, the columns) are of four kinds,
and the longest kind is the rarest. Every sampler gets its constant step size 1 / (3 L). L is the largest of the points'
constants for uniform draws, their mean for draws that follow the lengths, and twice the mean if half of the draws are
uniform; SAGA needs these uniform draws to keep its table up to date. Nothing here depends on the machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.console import Console

import varmix
from lab.arrays import FloatArray, IntArray
from varmix import Sampler
from varmix.solvers import Linear, Trace, coordinate_descent, saga, sgd, svrg

LABEL_SHARES = (0.7, 0.2, 0.08, 0.02)
LABEL_SCALES = (0.5, 1.0, 3.0, 8.0)
L2 = 0.05
SOLVED_EXCESS = 1e-10  # a smaller excess counts as solved
ROUNDING_EXCESS = 1e-14  # a smaller excess is only rounding error


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: points, coordinates, and epochs of each."""

    n: int = 500
    coordinates: int = 50
    epochs: int = 60
    sweeps: int = 8000


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure the rates of SVRG and SAGA, and the draws that coordinate descent needs."""
    return {
        "factor of the excess per n gradients": measure_rates(console, scale),
        f"draws of a coordinate to an excess of {SOLVED_EXCESS:g}": measure_draws(console, scale),
    }


def measure_rates(console: Console, scale: Scale = FULL_SCALE) -> dict[str, dict[str, float]]:
    """Return by solver and sampler the factor of the excess per n gradients, and the last excess.

    Full gradients count as n. SGD is the control.
    """
    labels = make_labels(scale.n)
    problem = make_regression(scale.n, 10, by_row=labels)
    lipschitz, least = problem.lipschitz, find_minimum(problem)
    mean = float(lipschitz.mean())
    samplers: dict[str, tuple[Callable[[], Sampler], float]] = {
        "uniform": (lambda: varmix.uniform(scale.n, rng=0), float(lipschitz.max())),
        "static": (lambda: varmix.importance(lipschitz, rng=0), mean),
        "VRM": (lambda: varmix.vrm(varmix.Groups(labels), rng=0), mean),
        "static, half uniform": (lambda: varmix.importance(lipschitz, smoothing=0.5, rng=0), 2 * mean),
        "VRM, half uniform": (lambda: varmix.vrm(varmix.Groups(labels), gamma=0.5, rng=0), 2 * mean),
    }
    results = {}
    for solver in (svrg, saga, sgd):
        for name, (sampler, bound) in samplers.items():
            result = solver(problem, sampler(), step=1 / (3 * bound), batch=1, epochs=scale.epochs)
            excess = np.array(result.trace.losses) - least
            epochs = np.array(result.trace.evaluations) / scale.n
            row = {
                "step": 1 / (3 * bound),
                "rate": fit_rate(excess, epochs),
                "last excess": max(float(excess[-1]), 0.0),
            }
            results[f"{solver.__name__}, {name}"] = row
            console.print(
                f"  {solver.__name__}, {name}: step {row['step']:.3g}, excess x {row['rate']:.3f} per n gradients, "
                f"{row['last excess']:.1e} after {epochs[-1]:.0f} n"
            )
    return results


def measure_draws(console: Console, scale: Scale = FULL_SCALE) -> dict[str, dict[str, float]]:
    """Return the number of drawn coordinates until the problem is solved, by step rule and sampler."""
    d, labels = scale.coordinates, make_labels(scale.coordinates)
    results: dict[str, dict[str, float]] = {}
    problem = make_regression(10 * d, d, by_column=labels)
    constants, least = np.mean(problem.rows.dense**2, axis=0) + L2, find_minimum(problem)
    samplers: dict[str, tuple[Callable[[], Sampler], float]] = {
        "uniform": (lambda: varmix.uniform(d, rng=0), 1 / (d * constants.max())),
        "static": (lambda: varmix.importance(constants, rng=0), 1 / (2 * d * constants.mean())),
        "VRM": (lambda: varmix.vrm(varmix.Groups(labels), rng=0), 1 / (2 * d * constants.mean())),
    }
    for rule in ("lipschitz", "unbiased"):
        results[rule] = {}
        for name, (sampler, step) in samplers.items():
            result = coordinate_descent(
                problem, sampler(), step="lipschitz" if rule == "lipschitz" else step, epochs=scale.sweeps, tol=1e-14
            )
            needed = first_below(result.trace, least + SOLVED_EXCESS)
            console.print(f"  coordinate descent, {rule} steps, {name}: {needed if needed else 'too many'} draws")
            if needed:
                results[rule][name] = needed
    return results


def make_labels(n: int) -> IntArray:
    """Return labels from 0 to 3 for n rows or columns; the last label is the rarest."""
    return np.searchsorted(np.cumsum(LABEL_SHARES), (np.arange(n) + 0.5) / n).astype(np.int64)


def make_regression(n: int, d: int, *, by_row: IntArray | None = None, by_column: IntArray | None = None) -> Linear:
    """Return a ridge regression whose rows or columns are scaled by their labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if by_row is not None:
        X *= np.array(LABEL_SCALES)[by_row][:, None] / math.sqrt(d)
    if by_column is not None:
        X *= np.array(LABEL_SCALES)[by_column]
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    return Linear(X, y, loss="squared", l2=L2)


def find_minimum(problem: Linear) -> float:
    """Return the minimum of a dense problem without an intercept, from the normal equations."""
    X = problem.rows.dense
    normal = X.T @ X / problem.n + problem.l2 * np.eye(problem.dim)
    return problem.objective(np.asarray(np.linalg.solve(normal, X.T @ problem.y / problem.n), dtype=np.float64))


def fit_rate(excess: FloatArray, epochs: FloatArray) -> float:
    """Return the factor of the excess per epoch: least squares on the logarithms, without rounding errors.

    Examples
    --------
    >>> round(fit_rate(np.array([1.0, 0.01, 1e-4, 1e-6, 0.0]), np.array([0.0, 2.0, 4.0, 6.0, 8.0])), 6)
    0.1
    """
    small = np.flatnonzero(excess <= ROUNDING_EXCESS)
    logs = np.log(excess[: small[0]] if len(small) else excess)
    return float(np.exp(np.polyfit(epochs[: len(logs)], logs, 1)[0]))


def first_below(trace: Trace, level: float) -> int:
    """Return the evaluations until the loss is at most a level; 0 if it never is."""
    below = np.flatnonzero(np.array(trace.losses) <= level)
    return trace.evaluations[below[0]] if len(below) else 0
