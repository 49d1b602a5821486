"""Minibatch k-means beside scikit-learn's `MiniBatchKMeans`, in the same run, one thread each.

An iteration at the same settings; whole fits until the inertia on held-out points that `MiniBatchKMeans` ends with, and
what becomes of a fit that is seeded over all points; and what the sampler costs in time and memory.
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

MNIST_COMPONENTS = 10  # of mnist
MIN_SPEEDUPS = {
    "kdd_bio": 1.5,
    "chest_accel": 1.5,
    "mnist": 0.9,
}  # times faster than the peer to its own inertia, aimed for
PEER_SETTINGS: dict[str, dict[str, float]] = {"its defaults": {}, "no reassignment": {"reassignment_ratio": 0.0}}
MAX_BYTES_PER_POINT = 32  # a point beyond X, at most


@dataclass(frozen=True)
class Scale:
    """How much is measured: data sets, rows of each (None for all), clusters, batch, passes, seeds, steps, repeats."""

    sets: tuple[str, ...] = ("kdd_bio", "chest_accel", "mnist")
    rows: int | None = None
    clusters: int = 100
    batch: int = 100
    seeds: int = 8
    steps: tuple[int, ...] = (1, 2, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024)
    repeats: int = 3


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure every data set that is at hand."""
    results: dict[str, object] = {}
    for name in scale.sets if CLUSTERING.present else ():  # the estimator itself needs it
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
    """Give the points as they come, of mnist the whitened components."""
    X = datasets.load(name).X[:rows]
    return whiten_components(X, MNIST_COMPONENTS) if name == "mnist" else np.ascontiguousarray(X, dtype=np.float64)


def time_iteration(console: Console, X: FloatArray, scale: Scale) -> dict[str, float]:
    """Time a pass over the data in steps of one batch, without what comes before and after, from the same centres.

    `MiniBatchKMeans.fit` draws every batch by sample weights, which takes a look at all of them; its `partial_fit` is
    given batches, and checks each.  Ours has to draw, and to learn.
    """
    from sklearn.cluster import MiniBatchKMeans

    from varmix.estimators.clustering import Descent, Seeding, cells, plus_plus

    seeding: Seeding = plus_plus(X, scale.clusters, 0)
    steps = len(X) // scale.batch

    def fit(passes: int) -> Action:
        same = {"init": seeding.centers, "batch_size": scale.batch, "random_state": 0, "n_init": 1}
        endless = {"max_no_improvement": None, "tol": 0.0, "reassignment_ratio": 0.0, "compute_labels": False}
        return lambda: MiniBatchKMeans(scale.clusters, max_iter=passes, **same, **endless).fit(X)

    def stream() -> None:
        model = MiniBatchKMeans(scale.clusters, init=seeding.centers, n_init=1, reassignment_ratio=0.0, random_state=0)
        for rows in np.random.default_rng(0).integers(len(X), size=(steps, scale.batch)):
            model.partial_fit(X[rows])

    def run(made: varmix.Sampler) -> Action:
        return lambda: Descent(X, seeding.centers, batch=scale.batch).run(made, steps)

    actions = {
        "one pass": fit(1),
        "two passes": fit(2),
        "partial_fit": stream,
        "uniform": run(varmix.uniform(len(X), rng=0)),
        "cells": run(cells(seeding, rng=0)),
    }
    best = _time_fastest(actions, scale.repeats)
    peer = max(best["two passes"] - best["one pass"], 0.0)
    rows = {"MiniBatchKMeans": peer, **{name: best[name] for name in ("partial_fit", "uniform", "cells")}}
    for name, spent in rows.items():
        limit = "  limit 1 x" if name == "uniform" else ""
        beside = f"{spent / peer:6.2f} x MiniBatchKMeans" if peer else ""
        console.print(f"  {name:<17}{1e6 * spent / steps:7.1f} us an iteration of {scale.batch} {beside}{limit}")
    return {f"{name} us": 1e6 * spent / steps for name, spent in rows.items()}


def _time_fastest(actions: Mapping[str, Action], repeats: int) -> dict[str, float]:
    """Give the least time of every action, in turns, of this thread: other work on the machine would only add to it."""
    best = dict.fromkeys(actions, math.inf)
    for repeat in range(repeats + 1):  # the first compiles
        for name, action in actions.items():
            begun = time.thread_time()
            action()
            if repeat:
                best[name] = min(best[name], time.thread_time() - begun)
    return best


def race_fits(console: Console, X: FloatArray, name: str, scale: Scale) -> dict[str, dict[str, float]]:
    """Time whole fits: the peer's, and ours with as many steps as its inertia takes.

    Medians over seeds, on a fifth of the points that are held out.  Ours get more and more steps until their inertia is
    that of the peer; seeding, checks of the input and labels of all points are in both times.  By default the peer puts
    small clusters elsewhere, which costs it much where there are outliers, so it runs without that too.
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
    """Give the median inertia on held-out points and the median time of a fit, of which each is the least of some."""
    from varmix.estimators.clustering import inertia

    make(0).fit(train[: 10 * scale.clusters])  # compiles
    ends, times = [], []
    for seed in range(scale.seeds):
        spent = []
        for _ in range(scale.repeats):
            model, begun = make(seed), time.thread_time()
            model.fit(train)
            spent.append(time.thread_time() - begun)
        ends.append(inertia(held, model.cluster_centers_))
        times.append(min(spent))
    return float(np.median(ends)), float(np.median(times))


def _describe_race(peer: str, row: dict[str, float], asked: float | None) -> str:
    limit = "" if asked is None else f" (aimed for: {asked:g})"
    reached = "not in as many steps as were tried"
    if "times faster" in row:
        number, faster, spent = row["steps"], row["times faster"], row["MixtureKMeans s"]
        reached = f"after {number:.0f} step{'s' * (number > 1)}, {spent:.3f} s in all, {faster:.2f} times faster"
    return (
        f"  MiniBatchKMeans, {peer}, takes {row['MiniBatchKMeans s']:.3f} s; MixtureKMeans has its inertia {reached}"
        f"{limit}; by default it takes {row['by default s']:.3f} s to {row['by default, of that inertia']:.4f} of it, "
        f"seeded over all points {row['seeded over all s']:.3f} s to {row['seeded over all, of that inertia']:.4f}"
    )


def measure_sampler(console: Console, X: FloatArray, scale: Scale) -> dict[str, float]:
    """Time the set-up of the sampler from a seeding, and count the bytes of a point that it and a whole fit need."""
    from varmix.estimators.clustering import cells, plus_plus

    seeding = plus_plus(X, scale.clusters, 0)
    best = _time_fastest({"set-up": lambda: cells(seeding, rng=0)}, 3 * scale.repeats)["set-up"]
    kept, peak = (number / len(X) for number in _measure_memory(X, scale))
    console.print(
        f"  set-up of the sampler {1e3 * best:.2f} ms; {kept:.1f} bytes a point with the seeding, {peak:.1f} at the "
        f"peak of a fit (limit {MAX_BYTES_PER_POINT})"
    )
    return {"set-up ms": 1e3 * best, "kept, bytes a point": kept, "peak of a fit, bytes a point": peak}


def _measure_memory(X: FloatArray, scale: Scale) -> tuple[int, int]:
    """Give the bytes that a seeding and its sampler keep, and that a fit has at most, beyond X."""
    from varmix.estimators import MixtureKMeans
    from varmix.estimators.clustering import cells, plus_plus

    tracemalloc.start()
    try:
        seeding = plus_plus(X, scale.clusters, 0)
        both = seeding, cells(seeding, rng=0)
        kept, _ = tracemalloc.get_traced_memory()
        del seeding, both
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        MixtureKMeans(scale.clusters, batch_size=scale.batch, max_steps=10, random_state=0).fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept, peak - before
