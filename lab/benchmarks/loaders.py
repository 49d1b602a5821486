"""Overhead of `AdaptiveLoader`: a step with feedback, compared with a shuffling `DataLoader`.

Both load the same tensors in batches of 128, without and with workers; the mixture has ten groups and the uniform
component. The tensors come first as a `TensorDataset`, from which `AdaptiveLoader` takes whole batches, then as a
dataset that both read item by item. Whole epochs are timed, so that the shuffle at the start of each one counts.
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
    """Size of the benchmark: items, features of each, epochs, workers, items of the huge dataset."""

    n: int = 60_000
    features: tuple[int, ...] = (784, 16)
    repeats: int = 15
    workers: tuple[int, ...] = (0, 2)
    huge: int = 30_000_000


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure the overhead per step, and a dataset with more items than single precision can count."""
    if not TORCH.present:
        console.print(TORCH.absence)
        return {}
    console.print(f"A step of {BATCH_SIZE} items with feedback, k = {K}, compared with a DataLoader that shuffles")
    overheads = {
        f"{kind}, {features} features, {workers} workers": measure_overhead(console, scale, kind, features, workers)
        for kind in DATASET_KINDS
        for features in scale.features
        for workers in scale.workers
    }
    return {"overhead": overheads, "huge": measure_huge(console, scale.huge)}


def measure_overhead(console: Console, scale: Scale, kind: str, features: int, workers: int) -> dict[str, float]:
    """Time epochs of both loaders in turns, and compare the fastest ones; workers keep running in between."""
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

    loaders = {"plain": (plain, _do_nothing), "adaptive": (adaptive, learn)}
    for each in loaders.values():
        _time_epoch(*each)  # start workers, compile
    best = dict.fromkeys(loaders, float("inf"))
    for _ in range(scale.repeats):
        for name, each in loaders.items():
            best[name] = min(best[name], _time_epoch(*each))
    ratio = best["adaptive"] / best["plain"]
    console.print(
        f"  {kind:<14}{features:>5} features, {workers} workers {1e6 * best['plain']:7.0f} us plain "
        f"{1e6 * best['adaptive']:7.0f} us adaptive {ratio:7.3f} "
        f"x{f'  limit {MAX_OVERHEAD} x' if kind == DATASET_KINDS[0] else ''}"
    )
    return {f"{name}, us a step": 1e6 * spent for name, spent in best.items()} | {"over the plain loader": ratio}


def _do_nothing(item: Any) -> None:  # noqa: ANN401
    pass


def _time_epoch(loader: Any, use: Callable[[Any], None]) -> float:  # noqa: ANN401
    """Return the seconds per batch of a whole epoch."""
    start = time.perf_counter()
    for item in loader:
        use(item)
    return (time.perf_counter() - start) / len(loader)


def measure_huge(console: Console, n: int) -> dict[str, float]:
    """Time the construction of a loader over many items, and its batches."""
    from lab.benchmarks.torch_modules import Numbers
    from varmix.torch import AdaptiveLoader

    labels = (np.arange(n) % (K - 1)).astype(np.uint8)
    start = time.perf_counter()
    loader = AdaptiveLoader(Numbers(n), labels, BATCH_SIZE, rng=0, steps=50)
    built = time.perf_counter() - start
    first, second = (_time_epoch(loader, lambda item: loader.update(item[1], np.ones(BATCH_SIZE))) for _ in range(2))
    console.print(
        f"{n:,} items: built in {built:.2f} s, {1e6 * second:.0f} us per step (the first 50 steps, which shuffle every "
        f"group, take {50 * first:.2f} s)"
    )
    return {"items": n, "built, s": built, "us a step": 1e6 * second}
