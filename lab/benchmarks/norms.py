"""Time and memory of per-example gradient norms, compared with a training step.

For three networks: a step (forward and backward), a step with norms from `ghost`, which reads them from the backward
pass, and a step with norms from `exact`, which makes another forward and backward pass.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rich.console import Console

from lab.benchmarks.peers import TORCH
from lab.benchmarks.timing import Action, best_of


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: examples, image side, sequence length, network width, calls and repetitions."""

    examples: int = 128
    side: int = 16
    length: int = 32
    width: int = 64
    calls: int = 3
    repeats: int = 5


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure a step of every network, without and with norms."""
    if not TORCH.present:
        console.print(TORCH.absence)
        return {}
    return {name: _measure_network(console, name, task, scale) for name, task in make_tasks(scale).items()}


def make_tasks(scale: Scale) -> dict[str, tuple[Any, Any, Any]]:
    """Return the networks, each with a batch of inputs and targets."""
    import torch

    from lab.benchmarks.torch_modules import Transformer, build_cnn, build_mlp

    random, m = torch.Generator().manual_seed(0), scale.examples
    classes = torch.randint(10, (m,), generator=random)
    images = torch.randn(m, 3, scale.side, scale.side, generator=random)
    ids = torch.randint(1000, (m, scale.length), generator=random)
    return {
        f"MLP 784-{4 * scale.width}-10": (
            build_mlp(784, 4 * scale.width),
            torch.randn(m, 784, generator=random),
            classes,
        ),
        f"CNN, {scale.width // 2} channels": (build_cnn(scale.width // 2), images, classes),
        f"Transformer, width {scale.width}": (
            Transformer(1000, scale.width, length=scale.length),
            ids,
            ids.roll(-1, 1),
        ),
    }


def _measure_network(
    console: Console, name: str, task: tuple[Any, Any, Any], scale: Scale
) -> dict[str, dict[str, float]]:
    (model, *_), actions = task, make_steps(*task)
    spent = best_of({kind: (action, scale.calls) for kind, action in actions.items()}, scale.repeats)
    peaks = {kind: measure_peak(model, action) for kind, action in actions.items()}
    console.print(f"{name}, {scale.examples} examples: forward and backward")
    found: dict[str, dict[str, float]] = {}
    for kind, action in spent.items():
        ratio, more = action / spent["step"], peaks[kind] / peaks["step"]
        console.print(
            f"  {kind:<16}{1e3 * action:8.2f} ms ({ratio:5.2f} x){peaks[kind] / 2**20:10.1f} MiB ({more:5.2f} x)"
        )
        found[kind] = {
            "ms": 1e3 * action,
            "time over the step's": ratio,
            "MiB": peaks[kind] / 2**20,
            "memory over the step's": more,
        }
    return found


def make_steps(model: Any, x: Any, y: Any) -> dict[str, Action]:  # noqa: ANN401
    """Return training steps without the parameter update: plain, with ghost norms, with exact norms."""
    from torch.nn.functional import cross_entropy

    from varmix.torch import norms

    def step() -> None:
        model.zero_grad()
        cross_entropy(model(x), y).backward()

    def with_ghost() -> None:
        with norms.ghost(model) as seen:
            step()
        seen.norms()

    def with_exact() -> None:
        step()
        norms.exact(model, cross_entropy, x, y)

    return {"step": step, "with ghost": with_ghost, "with exact": with_exact}


def measure_peak(model: Any, action: Callable[[], object]) -> int:  # noqa: ANN401
    """Return the peak memory of tensors in bytes, with gradients, without parameters and batch."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # keeps the profiler from printing when it starts and stops
    from torch.profiler import ProfilerActivity, profile

    model.zero_grad()  # gradients that exist before the measurement would be counted only when freed
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        action()
    events = (event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]")
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(max(accumulate(changes), default=0))
