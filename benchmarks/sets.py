"""Speed of k-DPP minibatches through the public sampler, beside DPPy's exact k-DPP in the same run.

    make bench

The data are those of section 6.2 of the paper: ten features, ten of the points scaled by ten; sets of five, three
ridges and the uniform component.  Every time is the best of several interleaved repetitions, because other work on the
machine only ever adds to it.
"""

import argparse
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import varmix
from core import RESULTS, best_of, machine
from varmix.reweight import horvitz_thompson

SIZE, D, RIDGES = 5, 10, (1.0, 10.0, 100.0)
LIMITS = {1: "limit 12 us", 64: "limit 4 us"}  # what is aimed for, printed beside what is measured
MIXTURES = {"a quarter each": (0.25, 0.25, 0.25, 0.25), "least ridge": (0.9, 0.0, 0.0, 0.1)}


def features(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    X[rng.choice(n, 10, replace=False)] *= 10
    return X


def dppy_sampler(X: np.ndarray, ridge: float) -> tuple[Callable[[], object], float] | None:
    """Give a draw of DPPy's exact k-DPP, and the seconds until the first one, most of them an eigendecomposition."""
    try:
        from dppy.finite_dpps import FiniteDPP
    except ImportError:
        print("DPPy is not installed: no peer (pip install dppy==0.3.3)")
        return None
    rng = np.random.RandomState(0)
    start = time.perf_counter()
    process = FiniteDPP("likelihood", L=X @ X.T + ridge * np.eye(len(X)))
    process.sample_exact_k_dpp(size=SIZE, random_state=rng)
    return lambda: process.sample_exact_k_dpp(size=SIZE, random_state=rng), time.perf_counter() - start


def draws() -> dict[str, object]:
    """One draw with all ratios, at a thousand and a million points, and DPPy's (which gives no ratios)."""
    actions: dict[str, tuple[Callable[[], object], int]] = {}
    X = features(1000)
    peer = dppy_sampler(X, RIDGES[0])
    if peer is not None:
        actions["DPPy"] = peer[0], 20
    for n in (1000, 10**6):
        family = varmix.with_uniform(varmix.KDpp(X if n == 1000 else features(n), SIZE, RIDGES))
        for name, w in MIXTURES.items():
            sampler = varmix.Sampler(family, varmix.Fixed(w), rng=0)
            actions[f"n = {n:,}, {name}, m = 1"] = (lambda s=sampler: s.draw(1)), 2000
            actions[f"n = {n:,}, {name}, m = 64"] = (lambda s=sampler: s.draw(64)), 100
    by_point = varmix.vrm(varmix.KDpp(X, SIZE, RIDGES), rng=0, reweight=horvitz_thompson)
    actions["n = 1,000, Horvitz-Thompson, m = 1"] = (lambda: by_point.draw(1)), 2000
    learnt, norms = varmix.vrm(varmix.KDpp(X, SIZE, RIDGES), rng=0), np.ones(1)
    actions["n = 1,000, draw and update, m = 1"] = (lambda: learnt.update(learnt.draw(1), norms)), 2000
    uniform = varmix.uniform(varmix.Subsets(1000, SIZE), rng=0)
    actions["n = 1,000, uniform sets, m = 1"] = (lambda: uniform.draw(1)), 2000
    best = best_of(actions, repeats=15)
    rows: dict[str, object] = {}
    limited = {f"n = 1,000, {name}, m = {m}" for name in MIXTURES for m in LIMITS}
    for name, seconds in best.items():
        m = int(name.rsplit(maxsplit=1)[-1]) if " m = " in name else 1
        rows[name] = {"us a set": 1e6 * seconds / m}
        limit = LIMITS.get(m, "") if name in limited else ""
        line = f"  {name:<42}{1e6 * seconds / m:9.2f} us a set  {limit}"
        if peer is not None and name != "DPPy":
            times = best["DPPy"] / (seconds / m)
            rows[name] = {"us a set": 1e6 * seconds / m, "times faster than DPPy": times}
            line += f"  {times:6.0f} x faster than DPPy"
        print(line.rstrip())
    for name in MIXTURES:
        for m in (1, 64):
            growth = best[f"n = 1,000,000, {name}, m = {m}"] / best[f"n = 1,000, {name}, m = {m}"]
            print(f"  {name}, m = {m}: a million points cost {growth:.2f} times a thousand (limit 6)")
            rows[f"growth, {name}, m = {m}"] = growth
    if peer is not None:
        slowest = max(best[f"n = 1,000, {name}, m = 1"] for name in MIXTURES)
        print(f"  DPPy over the slowest single draw: {best['DPPy'] / slowest:.0f} times (limit 60)")
        print(f"  DPPy's set-up takes {1e3 * peer[1]:.0f} ms a ridge")
        rows |= {"DPPy over the slowest single draw": best["DPPy"] / slowest, "DPPy set-up ms": 1e3 * peer[1]}
    return rows


def building() -> dict[str, float]:
    actions: dict[str, tuple[Callable[[], object], int]] = {}
    for n in (10**3, 10**5, 10**6):
        X = features(n)
        actions[f"n = {n:,}"] = (lambda X=X: varmix.KDpp(X, SIZE, RIDGES)), 1
    best = best_of(actions, repeats=5)
    for name, seconds in best.items():
        limit = "(limit 300)" if name == "n = 100,000" else ""
        print(f"  set-up, {name}: {1e3 * seconds:.1f} ms {limit}".rstrip())
    return {f"{name}, ms": 1e3 * seconds for name, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "sets.json")
    options = parser.parse_args()
    described = machine()
    try:
        described["dppy"] = version("dppy")
    except ModuleNotFoundError:
        described["dppy"] = "not installed"
    print(", ".join(f"{name} {value}" for name, value in described.items()))
    print(f"Sets of {SIZE} of points with {D} features, ridges {RIDGES} and uniform, with all ratios:")
    results = {"machine": described, "draws": draws(), "set-up": building()}
    options.out.parent.mkdir(exist_ok=True)
    aside = options.out.with_suffix(".part")
    aside.write_text(json.dumps(results, indent=1) + "\n")
    aside.replace(options.out)
    print(f"Written to {options.out.name}.")


if __name__ == "__main__":
    main()
