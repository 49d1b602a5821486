"""Draws, updates, construction, start-up and memory of the core, compared with PyTorch's samplers."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.console import Console

import varmix
from lab.arrays import FloatArray
from lab.benchmarks.peers import TORCH
from lab.benchmarks.timing import Action, best_of
from varmix.components import Family
from varmix.learners import Evidence
from varmix.simplex import RestrictedSimplex

START_CODE = """
import time
start = time.perf_counter()
import numpy as np, varmix
imported = time.perf_counter()
sampler = varmix.vrm(varmix.Groups([0, 1, 1]))
sampler.update(sampler.draw(2), np.ones(2))
print(imported - start, time.perf_counter() - imported)
"""
HUGE_CODE = """
import re, sys, time
import numpy as np, varmix
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
n = int(sys.argv[1])
labels = np.tile(np.arange(10, dtype=np.uint8), n // 10)
varmix.vrm(varmix.Groups(labels[:100], replacement=False), rng=0).draw(100)
before = peak()
start = time.perf_counter()
sampler = varmix.vrm(varmix.Groups(labels, replacement=False), rng=0)
built = time.perf_counter() - start
sampler.draw(100)
grown = peak() - before
best = 1.0
for _ in range(20):
    start = time.perf_counter()
    for _ in range(200):
        sampler.draw(100)
    best = min(best, (time.perf_counter() - start) / 200)
print(built, grown, best)
"""


def start_up(console: Console, starts: int) -> dict[str, float]:
    """Time the import, and the first draw without and with compiled code on disk."""
    with tempfile.TemporaryDirectory() as cache:
        runs = [_run_code(START_CODE, settings={"NUMBA_CACHE_DIR": cache}) for _ in range(max(starts, 2))]
    imports, cached = (min(spent) for spent in zip(*runs[1:], strict=True))
    console.print(
        f"Import {imports:.2f} s (limit 1.5); first draw and update {runs[0][1]:.1f} s with compilation, "
        f"{cached:.2f} s with compiled code on disk"
    )
    return {"import s": imports, "first draw, compiling s": runs[0][1], "first draw, cached s": cached}


def huge_groups(console: Console, sizes: Iterable[int]) -> dict[str, float]:
    """Measure memory (without the labels) and draws of groups with very many points."""
    rows: dict[str, float] = {}
    if sys.platform != "linux":
        console.print("Memory of huge groups is measured on Linux only.")
        return rows
    for n in sizes:
        try:
            built, grown, draw = _run_code(HUGE_CODE, str(n))
        except subprocess.CalledProcessError:
            console.print(
                f"Groups without replacement, n = {n:.0e}: the process died, most likely because it ran out of memory."
            )
            continue
        console.print(
            f"Groups without replacement, n = {n:.0e}: built in {built:.2f} s, {grown / 1e9:.2f} GB "
            f"({grown / n:.1f} bytes per point, limit 1.5 GB at 1e8), draw of 100 in {1e6 * draw:.1f} us"
        )
        rows |= {f"GB at {n:.0e}": grown / 1e9, f"us for draw(100) at {n:.0e}": 1e6 * draw}
    return rows


def _run_code(code: str, *arguments: str, settings: Mapping[str, str] | None = None) -> list[float]:
    """Run code in its own process and return the numbers it prints."""
    command, environment = [sys.executable, "-c", code, *arguments], os.environ | dict(settings or {})
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [float(word) for word in done.stdout.split()]


K = 11
DRAW_SIZES = (1, 100, 250, 1000)
TIME_LIMITS = {  # goals, printed next to the measurements
    "Dense, m = 1": "limit 10 us",
    "Dense, m = 100": "limit 35 us",
    "Dense, m = 250": "limit 1 x",
    "Dense, m = 1000": "limit 1 x",
}


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: points, calls and repetitions, rounds, processes, points of huge groups."""

    n: int = 145_751
    calls: int = 3000
    repeats: int = 7
    rounds: int = 1_000_000
    starts: int = 4
    huge: tuple[int, ...] = (10**6, 10**8)


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure draws and updates, construction, metric steps, a million rounds, start-up, and memory."""
    return {
        "speed": measure_speed(console, scale),
        "meter us": measure_meter(console, scale),
        "building": measure_building(console, scale),
        "metric step us": metric_steps(console, scale),
        "million rounds": long_run(console, scale.rounds),
        "start-up": start_up(console, scale.starts),
        "huge groups": huge_groups(console, scale.huge),
    }


def measure_speed(console: Console, scale: Scale) -> dict[str, object]:
    """Measure a draw with its update, and PyTorch's samplers, per index and relative to `RandomSampler`."""
    labels = np.arange(scale.n) % (K - 1)
    families: dict[str, Family] = {
        "Dense": varmix.Dense(make_table(scale.n)),
        "Groups": varmix.Groups(labels),
        "Groups, reshuffled": varmix.Groups(labels, replacement=False),
    }
    actions = torch_samplers(scale.n) if TORCH.present else {}
    for name, family in families.items():
        for m in DRAW_SIZES:
            actions[f"{name}, m = {m}"] = draw_and_update(family, m), scale.calls if m == 1 else scale.calls // 6
    best = best_of(actions, scale.repeats)
    epoch = best.pop("RandomSampler, one epoch", None)
    one = None if epoch is None else epoch / scale.n
    console.print(f"One draw and update, n = {scale.n:,}, k = {K}")
    rows: dict[str, object] = {}
    if one is not None:
        console.print(f"  RandomSampler takes {1e9 * one:.0f} ns per index")
        rows["RandomSampler, one index, ns"] = 1e9 * one
    return rows | {name: _report_row(console, name, spent, one) for name, spent in best.items()}


def _report_row(console: Console, name: str, spent: float, one: float | None) -> Mapping[str, float]:
    each = spent / int(name.rsplit(maxsplit=1)[-1])
    row, line = {"us": 1e6 * spent}, f"  {name:<30}{1e6 * spent:9.2f} us {1e9 * each:9.0f} ns per index"
    if one is not None:
        row["per index over RandomSampler"] = each / one
        line += f" {each / one:8.2f} x RandomSampler"
    console.print(f"{line}  {TIME_LIMITS.get(name, '')}".rstrip())
    return row


def torch_samplers(n: int) -> dict[str, tuple[Action, int]]:
    """Return an epoch of PyTorch's plain sampler and draws of its weighted one; these names end in numbers of draws."""
    import torch
    from torch.utils.data import RandomSampler, WeightedRandomSampler

    torch.set_num_threads(1)  # varmix uses one thread
    points, weights = range(n), torch.rand(n)

    def epoch() -> None:
        for _ in RandomSampler(points):
            pass

    return {
        "RandomSampler, one epoch": (epoch, 1),
        "WeightedRandomSampler, 1": (lambda: list(WeightedRandomSampler(weights, 1)), 3),
        "WeightedRandomSampler, 100": (lambda: list(WeightedRandomSampler(weights, 100)), 3),
    }


def make_table(n: int, k: int = K - 1) -> FloatArray:
    """Return a table of k laws over n points."""
    values = np.random.default_rng(0).gamma(0.5, size=(n, k))
    laws: FloatArray = values / values.sum(axis=0)
    return laws


def draw_and_update(family: Family, m: int) -> Action:
    """Return an action: one draw and update of a sampler over the family."""
    sampler, norms = varmix.vrm(family, rng=0), np.random.default_rng(1).random(m)
    return lambda: sampler.update(sampler.draw(m), norms)


def measure_meter(console: Console, scale: Scale) -> dict[str, float]:
    """Time how much the meter adds to an update, by batch size."""
    times = {}
    for m in (32, 128, 1024):
        sampler = varmix.vrm(varmix.Groups(np.arange(scale.n) % (K - 1)), rng=0)
        evidence = Evidence.from_draw(sampler.draw(m), np.random.default_rng(1).random(m))
        add = partial(sampler.meter.add, evidence)
        times[f"m = {m}"] = 1e6 * best_of({"meter": (add, 10 * scale.calls)}, scale.repeats)["meter"]
    shown = ", ".join(f"{name} {value:.2f} us" for name, value in times.items())
    console.print(f"Share of the meter in an update: {shown} (limit 0.5 us up to m = 128)")
    return times


def measure_building(console: Console, scale: Scale) -> dict[str, float]:
    """Time the construction of the families."""
    values, labels = make_table(scale.n), np.arange(scale.n) % (K - 1)
    best = best_of(
        {"Dense": (lambda: varmix.Dense(values), 1), "Groups": (lambda: varmix.Groups(labels), 1)}, scale.repeats
    )
    console.print(f"Construction of Dense, n = {scale.n:,}: {1e3 * best['Dense']:.1f} ms (limit 15)")
    console.print(f"Construction of Groups, n = {scale.n:,}: {1e3 * best['Groups']:.1f} ms")
    return {f"{name} ms": 1e3 * spent for name, spent in best.items()}


def metric_steps(console: Console, scale: Scale) -> dict[str, float]:
    """Time the exact metric step near its optimum, where learners are most of the time."""
    times = {}
    for k in (2, 11, 20, 50, 100):
        rng = np.random.default_rng(k)
        A = rng.normal(size=(k, 4 * k))
        w, M = np.full(k, 1 / k), A @ A.T + k * np.eye(k)
        step = partial(RestrictedSimplex(0.001).step, w, 1e-3 * rng.normal(size=k), M)
        times[f"k = {k}"] = 1e6 * best_of({"step": (step, scale.calls // 15)}, scale.repeats)["step"]
    console.print("Exact metric step: " + ", ".join(f"{name} {value:.1f} us" for name, value in times.items()))
    return times


def long_run(console: Console, rounds: int) -> dict[str, float]:
    """Make many rounds of one draw on the blobs, and measure the rounding error of the mixture."""
    blob = np.arange(10_000) * 6 // 10_000
    sampler, gamma = varmix.vrm(varmix.Groups(blob), gamma=0.1, rng=0), 0.1
    active, rng = np.isin(blob, (2, 3)), np.random.default_rng(0)
    worst_sum, least_uniform = 0.0, 1.0
    start = time.perf_counter()
    for uniforms in rng.random((rounds // 1000, 1000, 1)):
        for u in uniforms:
            draw = sampler.draw(1)
            sampler.update(draw, u * active[draw.indices])
        mixture = sampler.mixture
        worst_sum = max(worst_sum, abs(float(mixture.sum()) - 1))
        least_uniform = min(least_uniform, float(mixture[-1]))
    each = (time.perf_counter() - start) / rounds
    console.print(
        f"{rounds:,} rounds on the blobs: finite {np.isfinite(sampler.mixture).all()}, error of the sum at most "
        f"{worst_sum:.1e}, uniform component at least {least_uniform:.6f} (gamma {gamma}), "
        f"{1e6 * each:.1f} us per round including the Python loop"
    )
    return {"sum off by": worst_sum, "least uniform share": least_uniform}
