"""What only a process of its own shows: how long a start takes, and how much memory a hundred million points need."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping

from rich.console import Console

START = """
import time
start = time.perf_counter()
import numpy as np, varmix
imported = time.perf_counter()
sampler = varmix.vrm(varmix.Groups([0, 1, 1]))
sampler.update(sampler.draw(2), np.ones(2))
print(imported - start, time.perf_counter() - imported)
"""
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


def start_up(console: Console, starts: int) -> dict[str, float]:
    """Import, and the first draw with and without compiled code on disk: one start compiles, the others do not."""
    with tempfile.TemporaryDirectory() as cache:
        runs = [_numbers(START, settings={"NUMBA_CACHE_DIR": cache}) for _ in range(max(starts, 2))]
    imports, cached = (min(spent) for spent in zip(*runs[1:], strict=True))
    console.print(
        f"Import {imports:.2f} s (limit 1.5); first draw and update {runs[0][1]:.1f} s (compiling), "
        f"{cached:.2f} s from the cache"
    )
    return {"import s": imports, "first draw, compiling s": runs[0][1], "first draw, cached s": cached}


def huge_groups(console: Console, sizes: Iterable[int]) -> dict[str, float]:
    """Memory of many points beyond the labels, and draws from them beside fewer."""
    rows: dict[str, float] = {}
    if sys.platform != "linux":
        console.print("Memory of huge groups is measured on Linux only.")
        return rows
    for n in sizes:
        try:
            built, grown, draw = _numbers(HUGE, str(n))
        except subprocess.CalledProcessError:
            console.print(f"Groups without replacement, n = {n:.0e}: the process died, most often for want of memory.")
            continue
        console.print(
            f"Groups without replacement, n = {n:.0e}: built in {built:.2f} s, {grown / 1e9:.2f} GB "
            f"({grown / n:.1f} bytes a point, limit 1.5 GB at 1e8), draw of 100 in {1e6 * draw:.1f} us"
        )
        rows |= {f"GB at {n:.0e}": grown / 1e9, f"us for draw(100) at {n:.0e}": 1e6 * draw}
    return rows


def _numbers(code: str, *arguments: str, settings: Mapping[str, str] | None = None) -> list[float]:
    """Run code in a process of its own; give the numbers it prints."""
    command, environment = [sys.executable, "-c", code, *arguments], os.environ | dict(settings or {})
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [float(word) for word in done.stdout.split()]
