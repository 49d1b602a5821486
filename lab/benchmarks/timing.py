"""Timing: seconds per call, and a description of the machine."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import numba
import numpy as np

import varmix
from lab.benchmarks.peers import Peer

Action: TypeAlias = Callable[[], object]
CPU_INFO_PATH = Path("/proc/cpuinfo")


def time_calls(action: Action, number: int) -> float:
    """Return the mean seconds per call over `number` calls, at least one."""
    number = max(number, 1)
    start = time.perf_counter()
    for _ in range(number):
        action()
    return (time.perf_counter() - start) / number


def best_of(actions: Mapping[str, tuple[Action, int]], repeats: int) -> dict[str, float]:
    """Return the shortest seconds per call of every action, measured in turns.

    Other work on the machine only adds time, hence the shortest. Turns spread this work evenly over all actions.

    Examples
    --------
    >>> sorted(best_of({"sum": (lambda: sum(range(9)), 10), "nothing": (lambda: None, 10)}, repeats=2))
    ['nothing', 'sum']
    """
    best = dict.fromkeys(actions, float("inf"))
    for action, _ in actions.values():
        action()  # compile, fill caches
    for _ in range(repeats):
        for name, (action, number) in actions.items():
            best[name] = min(best[name], time_calls(action, number))
    return best


def describe_machine(peers: Iterable[Peer] = ()) -> dict[str, object]:
    """Return the machine and the versions of packages, including the installed peers."""
    return {
        "cpu": _read_cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "varmix": varmix.__version__,
    } | {peer.name: peer.version for peer in peers if peer.present}


def _read_cpu() -> str:
    lines = CPU_INFO_PATH.read_text().splitlines() if CPU_INFO_PATH.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
