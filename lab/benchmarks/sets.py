"""Speed of k-DPP minibatches through the public sampler, compared with DPPy's exact k-DPP in the same run.

The data are those of section 6.2 of the paper: ten features, and ten of the points scaled by ten. The mixture draws
sets of five points with three ridges and the uniform component.
"""

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.console import Console

import varmix
from lab.arrays import FloatArray
from lab.benchmarks.peers import DPPY
from lab.benchmarks.timing import Action, best_of
from varmix.reweight import horvitz_thompson

SET_SIZE, D, RIDGES = 5, 10, (1.0, 10.0, 100.0)
TIME_LIMITS = {1: "limit 12 us", 64: "limit 4 us"}  # goals, printed next to the measurements
MIXTURES = {"a quarter each": (0.25, 0.25, 0.25, 0.25), "least ridge": (0.9, 0.0, 0.0, 0.1)}


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: few and many points, points for the set-up, calls and repetitions."""

    few: int = 1000
    many: int = 10**6
    built: tuple[int, ...] = (10**3, 10**5, 10**6)
    calls: int = 2000
    repeats: int = 15


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure draws of sets, and the set-up."""
    console.print(f"Sets of {SET_SIZE} points with {D} features; ridges {RIDGES} and uniform; with all ratios:")
    return {"draws": measure_draws(console, scale), "set-up": measure_building(console, scale)}


def make_features(n: int, seed: int = 0) -> FloatArray:
    """Return n points, ten of them outliers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    X[rng.choice(n, 10, replace=False)] *= 10
    return X


def measure_draws(console: Console, scale: Scale) -> dict[str, object]:
    """Time a draw with all ratios, from few and from many points, and DPPy's draw, which has no ratios."""
    actions = make_own_draws(scale)
    rows: dict[str, object] = {}
    if DPPY.present:
        sample, set_up = dppy_sampler(make_features(scale.few), RIDGES[0])
        actions = {"DPPy": (sample, scale.calls // 100), **actions}
        rows["DPPy set-up ms"] = 1e3 * set_up
        console.print(f"  DPPy's set-up takes {1e3 * set_up:.0f} ms per ridge")
    a_set = {
        name: spent / (64 if name.endswith("m = 64") else 1) for name, spent in best_of(actions, scale.repeats).items()
    }
    for name, spent in a_set.items():
        rows[name] = _report_row(console, name, spent, a_set.get("DPPy"), scale)
    for name in MIXTURES:
        for m in TIME_LIMITS:
            growth = a_set[_format_title(scale.many, name, m)] / a_set[_format_title(scale.few, name, m)]
            console.print(
                f"  {name}, m = {m}: {scale.many:,} points take {growth:.2f} times as long as {scale.few:,} (limit 6)"
            )
            rows[f"growth, {name}, m = {m}"] = growth
    if "DPPy" in a_set:
        times = a_set["DPPy"] / max(a_set[_format_title(scale.few, name, 1)] for name in MIXTURES)
        console.print(f"  DPPy takes {times:.0f} times as long as our slowest single draw (limit 60)")
        rows["DPPy over the slowest single draw"] = times
    return rows


def make_own_draws(scale: Scale) -> dict[str, tuple[Action, int]]:
    """Return our draws to time, each with its number of calls."""
    actions: dict[str, tuple[Action, int]] = {}
    for n in (scale.few, scale.many):
        family = varmix.components.with_uniform(varmix.KDpp(make_features(n), SET_SIZE, RIDGES))
        for name, w in MIXTURES.items():
            sampler = varmix.Sampler(family, learner=varmix.learners.Fixed(w), rng=0)
            actions[_format_title(n, name, 1)] = partial(sampler.draw, 1), scale.calls
            actions[_format_title(n, name, 64)] = partial(sampler.draw, 64), scale.calls // 20
    family = varmix.KDpp(make_features(scale.few), SET_SIZE, RIDGES)
    by_point = varmix.vrm(family, rng=0, reweight=horvitz_thompson)
    learned, norms = varmix.vrm(family, rng=0), np.ones(1)
    uniform = varmix.uniform(varmix.components.Subsets(scale.few, SET_SIZE), rng=0)
    singles: dict[str, Action] = {
        "Horvitz-Thompson": lambda: by_point.draw(1),
        "draw and update": lambda: learned.update(learned.draw(1), norms),
        "uniform sets": lambda: uniform.draw(1),
    }
    return actions | {_format_title(scale.few, name, 1): (action, scale.calls) for name, action in singles.items()}


def dppy_sampler(X: FloatArray, ridge: float) -> tuple[Action, float]:
    """Return a draw of DPPy's exact k-DPP, and its set-up time in seconds, mostly an eigendecomposition."""
    from dppy.finite_dpps import FiniteDPP

    rng = np.random.RandomState(0)  # DPPy accepts no newer generator
    start = time.perf_counter()
    process = FiniteDPP("likelihood", L=X @ X.T + ridge * np.eye(len(X)))
    sample = partial(process.sample_exact_k_dpp, size=SET_SIZE, random_state=rng)
    sample()
    return sample, time.perf_counter() - start


def measure_building(console: Console, scale: Scale) -> dict[str, float]:
    """Time the construction of the family from features."""
    actions = {f"n = {n:,}": (partial(varmix.KDpp, make_features(n), SET_SIZE, RIDGES), 1) for n in scale.built}
    best = best_of(actions, max(scale.repeats // 3, 1))
    for name, spent in best.items():
        limit = "(limit 300)" if name == "n = 100,000" else ""
        console.print(f"  set-up, {name}: {1e3 * spent:.1f} ms {limit}".rstrip())
    return {f"{name}, ms": 1e3 * spent for name, spent in best.items()}


def _format_title(n: int, name: str, m: int) -> str:
    return f"n = {n:,}, {name}, m = {m}"


def _report_row(console: Console, name: str, spent: float, peer: float | None, scale: Scale) -> dict[str, float]:
    limits = {_format_title(scale.few, mixture, m): limit for mixture in MIXTURES for m, limit in TIME_LIMITS.items()}
    row, line = {"us a set": 1e6 * spent}, f"  {name:<42}{1e6 * spent:9.2f} us per set  {limits.get(name, '')}"
    if peer is not None and name != "DPPy":
        row["times faster than DPPy"] = peer / spent
        line += f"  {peer / spent:6.0f} x faster than DPPy"
    console.print(line.rstrip())
    return row
