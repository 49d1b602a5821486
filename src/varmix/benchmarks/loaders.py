"""What adaptive loading costs: a step of `AdaptiveLoader`, feedback included, beside a `DataLoader` that shuffles.

Both load the same tensors in batches of 128, without and with workers; ten groups and the uniform component.  First as
a `TensorDataset`, whose batches an `AdaptiveLoader` takes at once; then as a dataset that gives item by item to both.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from rich.console import Console

from varmix.benchmarks.peers import TORCH

K, BATCH, LIMIT = 11, 128, 1.10
KINDS = ("TensorDataset", "item by item")


@dataclass(frozen=True)
class Scale:
    """How much is measured: items, features of each, batches of a turn, turns, workers, items of the huge dataset."""

    n: int = 60_000
    features: tuple[int, ...] = (784, 16)
    steps: int = 100
    repeats: int = 15
    workers: tuple[int, ...] = (0, 2)
    huge: int = 30_000_000


FULL = Scale()


def measure(console: Console, scale: Scale = FULL) -> dict[str, object]:
    """Measure the overhead a step, and a dataset with more items than single precision can count."""
    if not TORCH.present:
        console.print(TORCH.absence)
        return {}
    console.print(f"A step of {BATCH} items, k = {K}, feedback included, over a DataLoader that shuffles")
    overheads = {
        f"{kind}, {features} features, {workers} workers": overhead(console, scale, kind, features, workers)
        for kind in KINDS
        for features in scale.features
        for workers in scale.workers
    }
    return {"overhead": overheads, "huge": huge(console, scale.huge)}


def overhead(console: Console, scale: Scale, kind: str, features: int, workers: int) -> dict[str, float]:
    """Take turns of so many batches from both, and compare the quickest; workers keep running in between."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from varmix.benchmarks.items import ItemByItem
    from varmix.torch import AdaptiveLoader

    torch.set_num_threads(1)
    labels = torch.arange(scale.n) % (K - 1)
    data = (TensorDataset if kind == KINDS[0] else ItemByItem)(torch.zeros(scale.n, features), labels)
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0}
    plain = DataLoader(data, BATCH, shuffle=True, **options)
    adaptive = AdaptiveLoader(data, labels, BATCH, rng=0, **options)
    norms = torch.rand(BATCH)

    def learn(item: Any) -> None:  # noqa: ANN401
        _, draw = item
        adaptive.update(draw, norms[: len(draw.weights)])

    turns = {"plain": _turns(plain, _nothing, scale.steps), "adaptive": _turns(adaptive, learn, scale.steps)}
    for turn in turns.values():
        next(turn)  # start workers, compile
    best = dict.fromkeys(turns, float("inf"))
    for _ in range(scale.repeats):
        for name, turn in turns.items():
            best[name] = min(best[name], next(turn))
    ratio = best["adaptive"] / best["plain"]
    console.print(
        f"  {kind:<14}{features:>5} features, {workers} workers {1e6 * best['plain']:7.0f} us plain "
        f"{1e6 * best['adaptive']:7.0f} us adaptive {ratio:7.3f} x{f'  limit {LIMIT} x' if kind == KINDS[0] else ''}"
    )
    return {f"{name}, us a step": 1e6 * spent for name, spent in best.items()} | {"over the plain loader": ratio}


def _nothing(item: Any) -> None:  # noqa: ANN401
    pass


def _turns(loader: Any, use: Callable[[Any], None], steps: int) -> Iterator[float]:  # noqa: ANN401
    """Give the seconds per batch of one turn after the other, through as many epochs as are asked for."""

    def forever() -> Iterator[Any]:
        while True:
            yield from loader

    batches = forever()
    while True:
        start = time.perf_counter()
        for item in islice(batches, steps):
            use(item)
        yield (time.perf_counter() - start) / steps


def huge(console: Console, n: int) -> dict[str, float]:
    """Build a loader over many items, and take batches of it."""
    from varmix.benchmarks.items import Numbers
    from varmix.torch import AdaptiveLoader

    labels = (np.arange(n) % (K - 1)).astype(np.uint8)
    start = time.perf_counter()
    loader = AdaptiveLoader(Numbers(n), labels, BATCH, rng=0, steps=100)
    built = time.perf_counter() - start
    turns = _turns(loader, lambda item: loader.update(item[1], np.ones(BATCH)), 50)
    first, second = next(turns), next(turns)
    console.print(
        f"{n:,} items: built in {built:.2f} s, {1e6 * second:.0f} us a step (with shuffling every group once: "
        f"{50 * first:.2f} s for the first 50)"
    )
    return {"items": n, "built, s": built, "us a step": 1e6 * second}
