"""Time per epoch and final objective of the estimators, compared with scikit-learn's SGD in the same run.

Both fit whole models with a fixed number of epochs. The time of a fit, including checks and set-up, is divided by the
number of epochs.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from lab import datasets
from lab.arrays import FloatArray
from lab.benchmarks.peers import SKLEARN
from varmix.solvers import Linear

RATIO_LIMITS = {"shuffle": 1.5, "mixture": 2.0}  # goals, as multiples of scikit-learn's time
LOSSES = {"hinge": "hinge", "log_loss": "logistic"}
ALPHA = 1e-4


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: data sets, rows of each (None for all), epochs of a fit, and repetitions."""

    sets: tuple[str, ...] = ("adult", "covtype_2v4")
    rows: int | None = None
    epochs: int = 10
    repeats: int = 5


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure every data set with every loss."""
    results: dict[str, object] = {}
    for name in scale.sets if SKLEARN.present else ():  # varmix.estimators needs scikit-learn
        try:
            X, y = load_standardised(name, scale.rows)
        except (datasets.DataUnavailable, datasets.DataDamaged) as error:
            console.print(f"{name} is left out: {error}")
            continue
        for loss in LOSSES:
            console.print(f"{name}, {loss}: n = {len(X):,}, d = {X.shape[1]}, {scale.epochs} epochs")
            results[f"{name}, {loss}"] = compare_fits(console, X, y, loss, scale)
    return results


def load_standardised(name: str, rows: int | None) -> tuple[FloatArray, FloatArray]:
    """Return features with mean zero and variance one, and labels -1 and 1."""
    data = datasets.load(name)
    X, y = np.asarray(data.X[:rows], dtype=np.float64), np.asarray(data.y[:rows])
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.ascontiguousarray(X), np.where(y == y.max(), 1.0, -1.0)


def compare_fits(console: Console, X: FloatArray, y: FloatArray, loss: str, scale: Scale) -> dict[str, object]:
    """Fit all models in turn; return shortest time per point and epoch, ratio to the peer, and objective, by model."""
    models = _build_models(loss, scale.epochs)
    problem = Linear(X, y, loss=LOSSES[loss], l2=ALPHA, intercept=True)
    best, objective = dict.fromkeys(models, np.inf), {}
    for repeat in range(scale.repeats + 1):  # the first repetition compiles
        for name, make in models.items():
            model, begun = make(), time.thread_time()  # of this thread, without other work on the machine
            model.fit(X, y)
            if repeat:
                best[name] = min(best[name], time.thread_time() - begun)
            objective[name] = problem.objective(np.append(model.coef_.ravel(), model.intercept_))
    least = min(objective.values())
    rows = {}
    for name, spent in best.items():
        rows[name] = row = {
            "ns a point": 1e9 * spent / scale.epochs / len(X),
            "over SGDClassifier": spent / best["SGDClassifier"],
            "objective above the least": objective[name] - least,
        }
        console.print(_format_line(name, row))
    return {**rows}


def _format_line(name: str, row: Mapping[str, float]) -> str:
    limit = f"  limit {RATIO_LIMITS[name]:g} x" if name in RATIO_LIMITS else ""
    return (
        f"  {name:<15}{row['ns a point']:7.0f} ns per point {row['over SGDClassifier']:6.2f} x SGDClassifier, "
        f"objective {row['objective above the least']:.2e} above the best{limit}"
    )


def _build_models(loss: str, epochs: int) -> dict[str, Callable[[], Any]]:
    from sklearn.linear_model import SGDClassifier

    from varmix.estimators import MixtureSGDClassifier

    peer = partial(SGDClassifier, loss=loss, alpha=ALPHA, max_iter=epochs, tol=None, random_state=0)
    ours = partial(MixtureSGDClassifier, loss=loss, alpha=ALPHA, max_iter=epochs, random_state=0, fallback=False)
    return {
        "SGDClassifier": peer,
        "shuffle": partial(ours, sampling="shuffle"),
        "mixture": ours,
        "resplit by norms": partial(ours, resplit="norms"),
    }
