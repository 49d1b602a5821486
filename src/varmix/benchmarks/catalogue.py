"""Catalogue: the benchmarks by name, and the peers that each is compared with."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from rich.console import Console

from varmix.benchmarks import bias, core, sets
from varmix.benchmarks.peers import DPPY, TORCH, Peer
from varmix.refusal import Refusal


@dataclass(frozen=True)
class Benchmark:
    """What is measured, how, and beside whom."""

    title: str
    measure: Callable[[Console], dict[str, object]]
    peers: tuple[Peer, ...] = ()


ENTRIES = {
    "core": Benchmark("The core beside PyTorch's samplers", core.measure, (TORCH,)),
    "bias": Benchmark("Draw-wise bias of the reshuffled mixture", bias.measure),
    "sets": Benchmark("Sets from k-DPPs beside DPPy", sets.measure, (DPPY,)),
}


def names() -> tuple[str, ...]:
    """Give all benchmarks."""
    return tuple(ENTRIES)


def benchmark(name: str) -> Benchmark:
    """Give a benchmark."""
    if name not in ENTRIES:
        close = get_close_matches(name, ENTRIES, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise Refusal(f"Unknown benchmark {name!r}: choose from {', '.join(ENTRIES)}.{hint}")
    return ENTRIES[name]
