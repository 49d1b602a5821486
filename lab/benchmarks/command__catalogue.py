"""Catalogue: the benchmarks by name, and the peers that each is compared with."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console

from lab.benchmarks import bias
from lab.benchmarks import core
from lab.benchmarks import estimators
from lab.benchmarks import kmeans
from lab.benchmarks import loaders
from lab.benchmarks import norms
from lab.benchmarks import replay
from lab.benchmarks import sets
from lab.benchmarks import solvers
from lab.benchmarks.peers import CLUSTERING
from lab.benchmarks.peers import CPPRB
from lab.benchmarks.peers import DPPY
from lab.benchmarks.peers import SKLEARN
from lab.benchmarks.peers import TORCH
from lab.benchmarks.peers import Peer
from lab.refusal import unknown


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
    "replay": Benchmark("Prioritised replay beside cpprb", replay.measure, (CPPRB,)),
    "estimators": Benchmark("The estimators beside scikit-learn's SGD", estimators.measure, (SKLEARN,)),
    "kmeans": Benchmark("k-means beside scikit-learn's minibatches", kmeans.measure, (CLUSTERING,)),
    "loaders": Benchmark("Loaders beside PyTorch's own", loaders.measure, (TORCH,)),
    "norms": Benchmark("Per-example gradient norms beside a training step", norms.measure, (TORCH,)),
    "solvers": Benchmark("How fast the solvers converge", solvers.measure),
}


def names() -> tuple[str, ...]:
    """Give all benchmarks."""
    return tuple(ENTRIES)


def benchmark(name: str) -> Benchmark:
    """Give a benchmark."""
    if name not in ENTRIES:
        raise unknown("benchmark", name, ENTRIES)
    return ENTRIES[name]
