"""What adaptive loading costs: a step of `AdaptiveLoader`, feedback included, beside a `DataLoader` that shuffles.

Both load the same tensors in batches of 128, without and with workers; ten groups and the uniform component.  First as
a `TensorDataset`, whose batches an `AdaptiveLoader` takes at once; then as a dataset that gives item by item to both.
Whole passes are timed, so that what a `DataLoader` does at the beginning of each, to shuffle, counts too.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from lab.benchmarks.peers import TORCH

K, BATCH_SIZE, MAX_OVERHEAD = 11, 128, 1.10
DATASET_KINDS = ("TensorDataset", "item by item")


@dataclass(frozen=True)
class Scale:
    """How much is measured: items, features of each, passes, workers, items of the huge dataset."""

    n: int = 60_000
    features: tuple[int, ...] = (784, 16)
    repeats: int = 15
    workers: tuple[int, ...] = (0, 2)
    huge: int = 30_000_000


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure the overhead a step, and a dataset with more items than single precision can count."""
    if not TORCH.present:
        console.print(TORCH.absence)
        return {}
    console.print(f"A step of {BATCH_SIZE} items, k = {K}, feedback included, over a DataLoader that shuffles")
    overheads = {
        f"{kind}, {features} features, {workers} workers": measure_overhead(console, scale, kind, features, workers)
        for kind in DATASET_KINDS
        for features in scale.features
        for workers in scale.workers
    }
    return {"overhead": overheads, "huge": measure_huge(console, scale.huge)}


def measure_overhead(console: Console, scale: Scale, kind: str, features: int, workers: int) -> dict[str, float]:
    """Pass over both in turns, and compare the quickest passes; workers keep running in between."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from lab.benchmarks.torch_modules import ItemByItem
    from varmix.torch import AdaptiveLoader

    torch.set_num_threads(1)
    labels = torch.arange(scale.n) % (K - 1)
    data = (TensorDataset if kind == DATASET_KINDS[0] else ItemByItem)(torch.zeros(scale.n, features), labels)
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0}
    plain = DataLoader(data, BATCH_SIZE, shuffle=True, **options)
    adaptive = AdaptiveLoader(data, labels, BATCH_SIZE, rng=0, **options)
    norms = torch.rand(BATCH_SIZE)

    def learn(item: Any) -> None:  # noqa: ANN401
        _, draw = item
        adaptive.update(draw, norms[: len(draw.weights)])

    passes = {"plain": (plain, _do_nothing), "adaptive": (adaptive, learn)}
    for each in passes.values():
        _time_pass(*each)  # start workers, compile
    best = dict.fromkeys(passes, float("inf"))
    for _ in range(scale.repeats):
        for name, each in passes.items():
            best[name] = min(best[name], _time_pass(*each))
    ratio = best["adaptive"] / best["plain"]
    console.print(
        f"  {kind:<14}{features:>5} features, {workers} workers {1e6 * best['plain']:7.0f} us plain "
        f"{1e6 * best['adaptive']:7.0f} us adaptive {ratio:7.3f} "
        f"x{f'  limit {MAX_OVERHEAD} x' if kind == DATASET_KINDS[0] else ''}"
    )
    return {f"{name}, us a step": 1e6 * spent for name, spent in best.items()} | {"over the plain loader": ratio}


def _do_nothing(item: Any) -> None:  # noqa: ANN401
    pass


def _time_pass(loader: Any, use: Callable[[Any], None]) -> float:  # noqa: ANN401
    """Give the seconds per batch of a whole pass."""
    start = time.perf_counter()
    for item in loader:
        use(item)
    return (time.perf_counter() - start) / len(loader)


def measure_huge(console: Console, n: int) -> dict[str, float]:
    """Build a loader over many items, and take batches of it."""
    from lab.benchmarks.torch_modules import Numbers
    from varmix.torch import AdaptiveLoader

    labels = (np.arange(n) % (K - 1)).astype(np.uint8)
    start = time.perf_counter()
    loader = AdaptiveLoader(Numbers(n), labels, BATCH_SIZE, rng=0, steps=50)
    built = time.perf_counter() - start
    first, second = (_time_pass(loader, lambda item: loader.update(item[1], np.ones(BATCH_SIZE))) for _ in range(2))
    console.print(
        f"{n:,} items: built in {built:.2f} s, {1e6 * second:.0f} us a step (with shuffling every group once: "
        f"{50 * first:.2f} s for the first 50)"
    )
    return {"items": n, "built, s": built, "us a step": 1e6 * second}
