"""The runs of the k-DPP experiment, by iterations and by time."""

import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import product

import numpy as np

from lab.arrays import FloatArray, IntArray
from lab.comparison import find_lasting
from lab.experiments.kdpp.regression import (
    ARMS,
    ERROR_LEVELS,
    MEANS,
    SET_SIZE,
    Regression,
    make_regression,
    run_descent,
)
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Record, Result
from varmix.learners import Fixed

ITERATIONS = 20_000  # 100 epochs of 200 batches
PRINTED_STEP = 1e-4
PRINTED_ARMS = (("uniform", 1.0), ("VRM, soft truncation", 1.0), ("VRM, set weights", 1.0), ("uniform", 3.0))
BEST_ARM, AGAIN = "VRM, point weights", "uniform again"
FAIR_ARMS = tuple(arm for arm in ARMS if arm != "VRM, soft truncation")
QUICK_ARMS = ("uniform", AGAIN, "reshuffling", "importance by point", BEST_ARM)
PACES = tuple(2.0**power for power in range(-3, 5))  # steps times the mean squared length of the features
TUNING_SEEDS, SEEDS, TIMED_SEEDS = range(900, 910), range(200, 248), range(200, 224)
PRINTED_SEEDS = range(10)
# A median of fewer than six seeds has no interval; with nine or more the interval leaves out the extremes.
QUICK_PRINTED_SEEDS, QUICK_SEEDS = PRINTED_SEEDS[:6], SEEDS[:9]


def plan(mode: Mode) -> list[Config]:
    """Plan the runs of the printed protocol, and in full mode the choice of the steps."""
    base = {"iterations": ITERATIONS}
    printed: list[Config] = [
        {"part": "printed", "means": means, "arm": arm, "step": PRINTED_STEP * longer, "seed": seed, **base}
        for means in (["small means"] if mode == "quick" else MEANS)
        for seed in (QUICK_PRINTED_SEEDS if mode == "quick" else PRINTED_SEEDS)
        for arm, longer in PRINTED_ARMS
    ]
    tuned: list[Config] = [
        {"part": "tune", "means": means, "arm": arm, "paces": list(PACES), "seed": seed, **base}
        for means, arm, seed in product(MEANS, FAIR_ARMS, TUNING_SEEDS)
        if arm != AGAIN
    ]
    return printed if mode == "quick" else printed + tuned


def then(mode: Mode, records: Sequence[Record]) -> list[Config]:
    """Plan the fair comparison: every arm with its best steps, level by level."""
    chosen = best_paces([r for r in records if r.config["part"] == "tune"])
    quick = mode == "quick"
    fair: list[Config] = [
        {"part": "fair", "means": means, "arm": arm, "pace": pace, "seed": seed, "iterations": ITERATIONS}
        for means in (["small means"] if quick else MEANS)
        for seed in (QUICK_SEEDS if quick else SEEDS)
        for arm in (QUICK_ARMS if quick else FAIR_ARMS)
        for pace in sorted(set(chosen[means, arm][1:2] if quick else chosen[means, arm]))
    ]
    if quick or find_spec("torch") is None:
        return fair
    timed: list[Config] = [
        {
            "part": "timed",
            "means": means,
            "arm": arm,
            "pace": chosen[means, arm][1],
            "seed": seed,
            "iterations": ITERATIONS,
        }
        for means, seed, arm in product(MEANS, TIMED_SEEDS, ("uniform", BEST_ARM))
    ]
    return fair + timed


# Choice of the full tuning for 10 %, 1 % and 0.3 % of the initial excess error; quick mode uses it.
CHOSEN_PACES: dict[tuple[str, str], tuple[float, ...]] = {
    ("small means", "uniform"): (1.0, 1.0, 2.0),
    ("small means", "uniform again"): (1.0, 1.0, 2.0),
    ("small means", "reshuffling"): (1.0, 2.0, 2.0),
    ("small means", "importance by point"): (2.0, 2.0, 4.0),
    ("small means", "fixed mixture, set weights"): (1.0, 2.0, 2.0),
    ("small means", "fixed mixture, point weights"): (2.0, 2.0, 4.0),
    ("small means", "VRM, set weights"): (2.0, 2.0, 2.0),
    ("small means", "VRM, point weights"): (2.0, 4.0, 4.0),
    ("normal means", "uniform"): (0.5, 2.0, 4.0),
    ("normal means", "uniform again"): (0.5, 2.0, 4.0),
    ("normal means", "reshuffling"): (0.5, 2.0, 4.0),
    ("normal means", "importance by point"): (0.5, 2.0, 2.0),
    ("normal means", "fixed mixture, set weights"): (0.5, 2.0, 2.0),
    ("normal means", "fixed mixture, point weights"): (0.5, 2.0, 2.0),
    ("normal means", "VRM, set weights"): (0.5, 2.0, 2.0),
    ("normal means", "VRM, point weights"): (1.0, 2.0, 2.0),
    ("uniform means", "uniform"): (1.0, 4.0, 4.0),
    ("uniform means", "uniform again"): (1.0, 4.0, 4.0),
    ("uniform means", "reshuffling"): (1.0, 4.0, 4.0),
    ("uniform means", "importance by point"): (2.0, 2.0, 2.0),
    ("uniform means", "fixed mixture, set weights"): (1.0, 2.0, 1.0),
    ("uniform means", "fixed mixture, point weights"): (1.0, 2.0, 1.0),
    ("uniform means", "VRM, set weights"): (1.0, 2.0, 2.0),
    ("uniform means", "VRM, point weights"): (1.0, 2.0, 1.0),
}


def best_paces(records: Iterable[Record]) -> dict[tuple[str, str], tuple[float, ...]]:
    """Return the best pace for each level: fewest misses on the tuning seeds, then lowest mean log of iterations."""
    rows: dict[tuple[str, str], list[list[list[int | None]]]] = {}
    for record in records:
        rows.setdefault((record.config["means"], record.config["arm"]), []).append(record.result["reached"])
    best = dict(CHOSEN_PACES)
    for key, runs in rows.items():
        times = np.array([[[np.nan if t is None else max(t, 1) for t in levels] for levels in run] for run in runs])
        missed = np.isnan(times).sum(axis=0)
        logs = np.log(np.where(np.isnan(times), 1.0, times)).sum(axis=0) / np.maximum(len(runs) - missed, 1)
        order = np.lexsort((logs, missed), axis=0)
        best[key] = tuple(PACES[i] for i in order[0])
    for means in MEANS:
        best[means, AGAIN] = best[means, "uniform"]
    return best


def run(config: Config) -> Result:
    """Run one descent, or one for every step that is tried."""
    data = make_regression(config["means"], config["seed"])
    looks = _choose_looks(config["iterations"])

    def reached(pace: float) -> list[int | None]:
        sampler = ARMS[config["arm"]](data, config["seed"])
        done = run_descent(data, sampler, pace / data.scale, config["iterations"], looks)
        return [find_lasting(done.excess, level) for level in ERROR_LEVELS]

    if config["part"] == "tune":
        return {"reached": [reached(pace) for pace in config["paces"]]}
    if config["part"] == "timed":
        return _measure_times(config)
    sampler = ARMS[config["arm"]](data, config["seed"])
    step = config["step"] if config["part"] == "printed" else config["pace"] / data.scale
    done = run_descent(data, sampler, step, config["iterations"], looks)
    return {
        "reached": [find_lasting(done.excess, level) for level in ERROR_LEVELS],
        "iterations": looks.tolist(),
        "excess": [float(value) if np.isfinite(value) else None for value in done.excess[looks]],
        "moments": done.moments._asdict() if done.moments and np.isfinite(done.moments).all() else None,
        "mixtures": np.round(done.mixtures, 5).tolist() if sampler.components.k > 1 else None,
    }


def _measure_times(config: Config) -> Result:
    data = make_regression(config["means"], config["seed"])
    step = config["pace"] / data.scale
    timed_descent(data, config["arm"], 0, step, 20)  # compile and load before the clock runs
    seconds, excess = timed_descent(data, config["arm"], config["seed"], step, config["iterations"])
    times = [find_lasting(excess, level) for level in ERROR_LEVELS]
    return {
        "seconds": [None if t is None else float(seconds[t]) for t in times],
        "each": float((seconds[-1] - seconds[1]) / (len(seconds) - 2)),
        "all": float(seconds[-1]),
    }


def _choose_looks(iterations: int) -> IntArray:
    return np.unique(np.geomspace(1, iterations, 120).round().astype(np.int64))


def seconds(config: Config) -> float:
    """Estimate the seconds of a run: 22 us an iteration, half of that without sets, 330 us with a PyTorch step."""
    each = 11e-6 if config["arm"] in ("reshuffling", "importance by point") else 22e-6
    if config["part"] == "timed":
        return float(config["iterations"] * 330e-6 + 1)
    return float(config["iterations"] * each * (0.8 * len(config["paces"]) if "paces" in config else 1.0))


def timed_descent(data: Regression, arm: str, seed: int, step: float, iterations: int) -> tuple[FloatArray, FloatArray]:
    """Return the seconds since the start, set-up included, and the relative excess error, after every iteration.

    Errors are computed after the run, so they take no time from any arm.
    """
    import torch

    torch.set_num_threads(1)
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    theta = torch.zeros(data.X.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([theta], lr=step)
    seconds, thetas = np.zeros(iterations + 1), np.zeros((iterations + 1, data.X.shape[1]))
    start = time.perf_counter()
    sampler = ARMS[arm](data, seed)
    learns = not isinstance(sampler.learner, Fixed)
    for t in range(1, iterations + 1):
        draw = sampler.draw(1)
        points = torch.tensor(draw.indices[0])
        rows = X[points]
        residual = rows @ theta - y[points]
        loss = (torch.tensor(draw.weights.reshape(-1)) * residual.square()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = step / t**0.5
        optimiser.step()
        if learns:
            sampler.update(draw, [2.0 / SET_SIZE * float(torch.linalg.vector_norm(residual.detach() @ rows))])
        seconds[t] = time.perf_counter() - start
        thetas[t] = theta.detach().numpy()
        if not np.abs(thetas[t]).max() < 1e9:  # diverged: infinity from here on, as in `run_descent`
            thetas[t:], seconds[t:] = np.inf, seconds[t]
            break
    off = thetas - data.best
    with np.errstate(invalid="ignore"):
        excess = np.einsum("ti,ij,tj->t", off, data.A, off)
    return seconds, np.where(np.isfinite(excess), excess, np.inf) / excess[0]
