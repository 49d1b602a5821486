"""Minibatch k-means, compared with scikit-learn's `MiniBatchKMeans` in the same run, with one thread each.

Three measurements: an iteration with the same settings; whole fits until they reach the held-out inertia of
`MiniBatchKMeans`, by default and with seeding over all points; and time and memory of the sampler.
"""

import math
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console

import varmix
from lab import datasets
from lab.arrays import FloatArray
from lab.benchmarks.peers import CLUSTERING
from lab.benchmarks.timing import Action
from lab.datasets.components import whiten_components

MNIST_COMPONENTS = 10  # principal components
MIN_SPEEDUPS = {
    "kdd_bio": 1.5,
    "chest_accel": 1.5,
    "mnist": 0.9,
}  # goals: times faster than the peer to reach its inertia
PEER_SETTINGS: dict[str, dict[str, float]] = {"its defaults": {}, "no reassignment": {"reassignment_ratio": 0.0}}
MAX_BYTES_PER_POINT = 32  # goal, in addition to X


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: data sets, rows of each (None for all), clusters, batch, seeds, steps, repetitions."""

    sets: tuple[str, ...] = ("kdd_bio", "chest_accel", "mnist")
    rows: int | None = None
    clusters: int = 100
    batch: int = 100
    seeds: int = 8
    steps: tuple[int, ...] = (1, 2, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024)
    repeats: int = 3


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure every data set that is present or can be fetched."""
    results: dict[str, object] = {}
    for name in scale.sets if CLUSTERING.present else ():  # varmix.estimators needs scikit-learn
        try:
            X = load_points(name, scale.rows)
        except (datasets.DataUnavailable, datasets.DataDamaged) as error:
            console.print(f"{name} is left out: {error}")
            continue
        console.print(f"{name}: n = {len(X):,}, d = {X.shape[1]}, {scale.clusters} clusters")
        with _one_thread():
            results[name] = {
                "an iteration": time_iteration(console, X, scale),
                "to the peer's inertia": race_fits(console, X, name, scale),
                "the sampler": measure_sampler(console, X, scale),
            }
    return results


def _one_thread() -> Any:  # noqa: ANN401 - a context of threadpoolctl, which has no types
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def load_points(name: str, rows: int | None) -> FloatArray:
    """Return the points of a data set; for mnist, whitened principal components."""
    X = datasets.load(name).X[:rows]
    return whiten_components(X, MNIST_COMPONENTS) if name == "mnist" else np.ascontiguousarray(X, dtype=np.float64)


def time_iteration(console: Console, X: FloatArray, scale: Scale) -> dict[str, float]:
    """Time the iterations of one epoch from the same centres, without the work before and after them.

    `MiniBatchKMeans.fit` draws every batch by sample weights, which reads the weights of all points. Its `partial_fit`
    receives batches and checks each one. Ours draws and learns.
    """
    from sklearn.cluster import MiniBatchKMeans

    from varmix.estimators.clustering import Descent, Seeding, make_cell_sampler, plus_plus

    seeding: Seeding = plus_plus(X, scale.clusters, 0)
    steps = len(X) // scale.batch

    def fit(epochs: int) -> Action:
        same = {"init": seeding.centers, "batch_size": scale.batch, "random_state": 0, "n_init": 1}
        endless = {"max_no_improvement": None, "tol": 0.0, "reassignment_ratio": 0.0, "compute_labels": False}
        return lambda: MiniBatchKMeans(scale.clusters, max_iter=epochs, **same, **endless).fit(X)

    def stream() -> None:
        model = MiniBatchKMeans(scale.clusters, init=seeding.centers, n_init=1, reassignment_ratio=0.0, random_state=0)
        for rows in np.random.default_rng(0).integers(len(X), size=(steps, scale.batch)):
            model.partial_fit(X[rows])

    def run(made: varmix.Sampler) -> Action:
        return lambda: Descent(X, seeding.centers, batch=scale.batch).run(made, steps)

    actions = {
        "one epoch": fit(1),
        "two epochs": fit(2),
        "partial_fit": stream,
        "uniform": run(varmix.uniform(len(X), rng=0)),
        "cells": run(make_cell_sampler(seeding, rng=0)),
    }
    best = _time_fastest(actions, scale.repeats)
    peer = max(best["two epochs"] - best["one epoch"], 0.0)
    rows = {"MiniBatchKMeans": peer, **{name: best[name] for name in ("partial_fit", "uniform", "cells")}}
    for name, spent in rows.items():
        limit = "  limit 1 x" if name == "uniform" else ""
        ratio = f"{spent / peer:6.2f} x MiniBatchKMeans" if peer else ""
        console.print(f"  {name:<17}{1e6 * spent / steps:7.1f} us per iteration of {scale.batch} {ratio}{limit}")
    return {f"{name} us": 1e6 * spent / steps for name, spent in rows.items()}


def _time_fastest(actions: Mapping[str, Action], repeats: int) -> dict[str, float]:
    """Return the shortest time of every action in seconds of this thread; the actions take turns."""
    best = dict.fromkeys(actions, math.inf)
    for repeat in range(repeats + 1):  # the first repetition compiles
        for name, action in actions.items():
            begun = time.thread_time()
            action()
            if repeat:
                best[name] = min(best[name], time.thread_time() - begun)
    return best


def race_fits(console: Console, X: FloatArray, name: str, scale: Scale) -> dict[str, dict[str, float]]:
    """Time whole fits: the peer's, and ours with just enough steps to reach the peer's inertia.

    Times and inertias are medians over seeds; inertias are of a held-out fifth of the points. Our number of steps grows
    until our inertia is at most the peer's. Both times include seeding, checks of the input and labels of all points.
    By default the peer reassigns small clusters, which hurts with outliers, so it also runs without reassignment.
    """
    from sklearn.cluster import MiniBatchKMeans

    from varmix.estimators import MixtureKMeans

    order = np.random.default_rng(0).permutation(len(X))
    train, held = X[order[len(X) // 5 :]], X[order[: len(X) // 5]]

    @cache
    def fits(kind: Any, **settings: Any) -> tuple[float, float]:  # noqa: ANN401
        return _measure_fits(lambda seed: kind(scale.clusters, random_state=seed, **settings), train, held, scale)

    rows = {}
    for peer, settings in PEER_SETTINGS.items():
        goal, spent = fits(MiniBatchKMeans, **settings)
        rows[peer] = row = {"MiniBatchKMeans s": spent}
        for steps in scale.steps:
            inertia, mine = fits(MixtureKMeans, max_steps=steps, max_no_improvement=None)
            if inertia <= goal:
                row |= {"steps": steps, "MixtureKMeans s": mine, "times faster": spent / mine}
                break
        inertia, mine = fits(MixtureKMeans)
        row |= {"by default s": mine, "by default, of that inertia": inertia / goal}
        inertia, mine = fits(MixtureKMeans, init_size=len(train))
        row |= {"seeded over all s": mine, "seeded over all, of that inertia": inertia / goal}
        console.print(_describe_race(peer, row, MIN_SPEEDUPS.get(name) if not settings else None))
    return rows


def _measure_fits(make: Callable[[int], Any], train: FloatArray, held: FloatArray, scale: Scale) -> tuple[float, float]:
    """Return the median over seeds of the held-out inertia, and of the shortest time of a fit."""
    from varmix.estimators.clustering import mean_squared_distance

    make(0).fit(train[: 10 * scale.clusters])  # compile first
    ends, times = [], []
    for seed in range(scale.seeds):
        spent = []
        for _ in range(scale.repeats):
            model, begun = make(seed), time.thread_time()
            model.fit(train)
            spent.append(time.thread_time() - begun)
        ends.append(mean_squared_distance(held, model.cluster_centers_))
        times.append(min(spent))
    return float(np.median(ends)), float(np.median(times))


def _describe_race(peer: str, row: dict[str, float], asked: float | None) -> str:
    limit = "" if asked is None else f" (goal {asked:g})"
    reached = "in none of the tried numbers of steps"
    if "times faster" in row:
        number, faster, spent = row["steps"], row["times faster"], row["MixtureKMeans s"]
        reached = f"after {number:.0f} step{'s' * (number > 1)}, {spent:.3f} s in total, {faster:.2f} times faster"
    return (
        f"  MiniBatchKMeans, {peer}, takes {row['MiniBatchKMeans s']:.3f} s. MixtureKMeans reaches its inertia "
        f"{reached}{limit}. By default it takes {row['by default s']:.3f} s and ends at "
        f"{row['by default, of that inertia']:.4f} of this inertia; with seeding over all points, "
        f"{row['seeded over all s']:.3f} s and {row['seeded over all, of that inertia']:.4f}"
    )


def measure_sampler(console: Console, X: FloatArray, scale: Scale) -> dict[str, float]:
    """Measure the set-up time of the sampler from a seeding, and the bytes per point of it and of a whole fit."""
    from varmix.estimators.clustering import make_cell_sampler, plus_plus

    seeding = plus_plus(X, scale.clusters, 0)
    best = _time_fastest({"set-up": lambda: make_cell_sampler(seeding, rng=0)}, 3 * scale.repeats)["set-up"]
    kept, peak = (number / len(X) for number in _measure_memory(X, scale))
    console.print(
        f"  set-up of the sampler {1e3 * best:.2f} ms; {kept:.1f} bytes per point with the seeding, {peak:.1f} at "
        f"the peak of a fit (limit {MAX_BYTES_PER_POINT})"
    )
    return {"set-up ms": 1e3 * best, "kept, bytes a point": kept, "peak of a fit, bytes a point": peak}


def _measure_memory(X: FloatArray, scale: Scale) -> tuple[int, int]:
    """Return the bytes of a seeding with its sampler, and the peak of a fit, both without X."""
    from varmix.estimators import MixtureKMeans
    from varmix.estimators.clustering import make_cell_sampler, plus_plus

    tracemalloc.start()
    try:
        seeding = plus_plus(X, scale.clusters, 0)
        both = seeding, make_cell_sampler(seeding, rng=0)
        kept, _ = tracemalloc.get_traced_memory()
        del seeding, both
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        MixtureKMeans(scale.clusters, batch_size=scale.batch, max_steps=10, random_state=0).fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept, peak - before
