"""Speed and memory of the core, as ratios to PyTorch's samplers in the same run.

    make bench

Every time is the best of several interleaved repetitions, because other work on the machine only ever adds to it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import varmix
from varmix.kernels.simplex import metric_step

N, K = 145_751, 11
LIMITS = {  # what is aimed for, printed beside what is measured
    "Dense, m = 1": "limit 10 us",
    "Dense, m = 100": "limit 35 us",
    "Dense, m = 250": "limit 1 x",
    "Dense, m = 1000": "limit 1 x",
}
RESULTS = Path(__file__).parent / "results"


def seconds(action: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        action()
    return (time.perf_counter() - start) / number


def best_of(actions: dict[str, tuple[Callable[[], object], int]], repeats: int = 7) -> dict[str, float]:
    """Give the least seconds per call of every action, measured in turns."""
    best = dict.fromkeys(actions, float("inf"))
    for action, _ in actions.values():
        action()  # compile, fill caches
    for _ in range(repeats):
        for name, (action, number) in actions.items():
            best[name] = min(best[name], seconds(action, number))
    return best


def table(n: int = N, k: int = K - 1) -> np.ndarray:
    values = np.random.default_rng(0).gamma(0.5, size=(n, k))
    return values / values.sum(axis=0)


def draw_and_update(family: varmix.Dense | varmix.Groups, m: int) -> Callable[[], None]:
    sampler, norms = varmix.vrm(family, rng=0), np.random.default_rng(1).random(m)

    def action() -> None:
        sampler.update(sampler.draw(m), norms)

    return action


def torch_samplers() -> dict[str, tuple[Callable[[], object], int]]:
    try:
        import torch
        from torch.utils.data import RandomSampler, WeightedRandomSampler
    except ImportError:
        print("torch is not installed: no peers (pip install torch==2.13.0)")
        return {}
    torch.set_num_threads(1)
    points, weights = range(N), torch.rand(N)

    def random_epoch() -> None:
        for _ in RandomSampler(points):
            pass

    return {
        "RandomSampler, one epoch": (random_epoch, 1),
        "WeightedRandomSampler, 1": (lambda: list(WeightedRandomSampler(weights, 1)), 3),
        "WeightedRandomSampler, 100": (lambda: list(WeightedRandomSampler(weights, 100)), 3),
    }


def speed() -> dict[str, object]:
    dense, groups = varmix.Dense(table()), varmix.Groups(np.arange(N) % (K - 1))
    cursors = varmix.Groups(np.arange(N) % (K - 1), replacement=False)
    actions: dict[str, tuple[Callable[[], object], int]] = torch_samplers()
    for name, family in (("Dense", dense), ("Groups", groups), ("Groups, reshuffled", cursors)):
        for m in (1, 100, 250, 1000):
            actions[f"{name}, m = {m}"] = draw_and_update(family, m), 3000 if m == 1 else 500
    best = best_of(actions)
    one = best.get("RandomSampler, one epoch", float("nan")) / N
    print(f"One draw and update, n = {N:,}, k = {K}; RandomSampler takes {1e9 * one:.0f} ns an index")
    rows: dict[str, object] = {"RandomSampler, one index, ns": 1e9 * one}
    for name, time_ in best.items():
        if name.startswith("Random"):
            continue
        m = int(name.rsplit(maxsplit=1)[-1])
        each = time_ / m
        limit = LIMITS.get(name, "")
        print(
            f"  {name:<30}{1e6 * time_:9.2f} us {1e9 * each:9.0f} ns an index "
            f"{each / one:8.2f} x RandomSampler  {limit}"
        )
        rows[name] = {"us": 1e6 * time_, "per index over RandomSampler": each / one}
    return rows


def building() -> dict[str, float]:
    values = table()
    best = best_of(
        {"Dense": (lambda: varmix.Dense(values), 1), "Groups": (lambda: varmix.Groups(np.arange(N) % 10), 1)}
    )
    print(f"Building Dense at that size: {1e3 * best['Dense']:.1f} ms (limit 15)")
    print(f"Building Groups at that size: {1e3 * best['Groups']:.1f} ms")
    return {"Dense ms": 1e3 * best["Dense"], "Groups ms": 1e3 * best["Groups"]}


def metric_steps() -> dict[str, float]:
    """Times of the exact metric step where a learner is most of the time: near its optimum."""
    times = {}
    for k in (2, 11, 20, 50, 100):
        rng = np.random.default_rng(k)
        A = rng.normal(size=(k, 4 * k))
        w, M, x = np.full(k, 1 / k), A @ A.T + k * np.eye(k), np.empty(k)
        g = 1e-3 * rng.normal(size=k)
        times[f"k = {k}"] = (
            1e6 * best_of({"step": (lambda w=w, g=g, M=M, x=x: metric_step(w, g, M, 0.001, x), 200)})["step"]
        )
    print("Exact metric step: " + ", ".join(f"{name} {value:.1f} us" for name, value in times.items()))
    return times


def long_run(rounds: int = 1_000_000) -> dict[str, float]:
    """A million rounds on the blobs, one draw each: what rounding has left of the simplex."""
    blob = np.arange(10_000) * 6 // 10_000
    sampler, gamma = varmix.vrm(varmix.Groups(blob), rng=0), 0.1
    active, rng = np.isin(blob, (2, 3)), np.random.default_rng(0)
    worst_sum, least_anchor = 0.0, 1.0
    start = time.perf_counter()
    for uniforms in rng.random((rounds // 1000, 1000, 1)):
        for u in uniforms:
            draw = sampler.draw(1)
            sampler.update(draw, u * active[draw.indices])
        mixture = sampler.mixture
        worst_sum, least_anchor = max(worst_sum, abs(mixture.sum() - 1)), min(least_anchor, mixture[-1])
    each = (time.perf_counter() - start) / rounds
    print(
        f"{rounds:,} rounds on the blobs: finite {np.isfinite(sampler.mixture).all()}, sum off by {worst_sum:.1e}, "
        f"anchor at least {least_anchor:.6f} (gamma {gamma}), {1e6 * each:.1f} us a round with the loop around it"
    )
    return {"sum off by": worst_sum, "least anchor": least_anchor}


HUGE = """
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


def huge_groups() -> dict[str, float]:
    """Memory of a hundred million points beyond the labels, and draws from them beside a million."""
    rows: dict[str, float] = {}
    if sys.platform != "linux":
        print("Memory of huge groups is measured on Linux only.")
        return rows
    for n in (10**6, 10**8):
        output = subprocess.run([sys.executable, "-c", HUGE, str(n)], capture_output=True, text=True, check=True).stdout
        built, grown, draw = map(float, output.split())
        print(
            f"Groups without replacement, n = {n:.0e}: built in {built:.2f} s, {grown / 1e9:.2f} GB "
            f"({grown / n:.1f} bytes a point, limit 1.5 GB at 1e8), draw of 100 in {1e6 * draw:.1f} us"
        )
        rows |= {f"GB at {n:.0e}": grown / 1e9, f"us for draw(100) at {n:.0e}": 1e6 * draw}
    return rows


def start_up() -> dict[str, float]:
    """Import, and the first draw with and without compiled code on disk."""
    code = (
        "import time; t = time.perf_counter(); import varmix, numpy as np; a = time.perf_counter();"
        "s = varmix.vrm(varmix.Groups([0, 1, 1])); s.update(s.draw(2), np.ones(2)); b = time.perf_counter();"
        "print(a - t, b - a)"
    )
    with tempfile.TemporaryDirectory() as cache:
        runs = []
        for _ in range(4):
            environment = os.environ | {"NUMBA_CACHE_DIR": cache}
            output = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
            ).stdout
            runs.append(list(map(float, output.split())))
    imports, first = min(run[0] for run in runs[1:]), min(run[1] for run in runs[1:])
    print(
        f"Import {imports:.2f} s (limit 1.5); first draw and update {runs[0][1]:.1f} s (compiling), "
        f"{first:.2f} s from the cache"
    )
    return {"import s": imports, "first draw, compiling s": runs[0][1], "first draw, cached s": first}


def machine() -> dict[str, object]:
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    packages = {name: version(name) for name in ("numpy", "numba", "varmix")}
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    } | packages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "core.json")
    options = parser.parse_args()
    described = machine()
    print(", ".join(f"{name} {value}" for name, value in described.items()))
    results = {
        "machine": described,
        "speed": speed(),
        "building": building(),
        "metric step us": metric_steps(),
        "million rounds": long_run(),
        "start-up": start_up(),
        "huge groups": huge_groups(),
    }
    options.out.parent.mkdir(exist_ok=True)
    aside = options.out.with_suffix(".part")
    aside.write_text(json.dumps(results, indent=1) + "\n")
    aside.replace(options.out)
    print(f"Written to {options.out.name}.")


if __name__ == "__main__":
    main()
