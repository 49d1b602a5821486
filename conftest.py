"""Modules that cannot be imported without an optional package are looked through for examples where it is installed."""

import doctest
import multiprocessing
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# TorchRL tells of storages that it makes on standard output, where examples would take it for their own.
os.environ.setdefault("RL_LOGGING_LEVEL", "WARNING")

AGENT = [f"src/varmix/experiments/cartpole/{name}.py" for name in ("census", "course", "dqn", "network", "runs")]
NETWORKS = [f"src/varmix/experiments/mnist/{name}.py" for name in ("looks", "networks", "runs", "training")]
NEEDS = {
    "torchrl": ["src/varmix/rl/tensors.py", "src/varmix/rl/torchrl.py"],
    "torch": [
        *AGENT,
        *NETWORKS,
        "src/varmix/benchmarks/items.py",
        "src/varmix/benchmarks/networks.py",
        "src/varmix/torch",
    ],
}
README, SECTIONS = Path(__file__).parent / "README.md", {"torch": "## For PyTorch"}

collect_ignore = [path for module, paths in NEEDS.items() if find_spec(module) is None for path in paths]


def pytest_itemcollected(item: Any) -> None:  # noqa: ANN401
    """Pass over the sections of the README whose package is missing."""
    if item.path != README:
        return
    lines = README.read_text().splitlines()
    for module, title in SECTIONS.items():
        first = lines.index(title)
        last = next(number for number, line in enumerate(lines) if number > first and line.startswith("## "))
        for example in item.dtest.examples if find_spec(module) is None else ():
            if first < example.lineno < last:
                example.options[doctest.SKIP] = True


@pytest.fixture(autouse=True)
def usual_start() -> None:
    """TorchRL, once imported, changes how processes are started; tests that came before must not matter to others."""
    multiprocessing.set_start_method(None, force=True)
