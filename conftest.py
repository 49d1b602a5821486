"""Modules that cannot be imported without an optional package are looked through for examples where it is installed."""

import os
from importlib.util import find_spec

# TorchRL tells of storages that it makes on standard output, where examples would take it for their own.
os.environ.setdefault("RL_LOGGING_LEVEL", "WARNING")

AGENT = [f"src/varmix/experiments/cartpole/{name}.py" for name in ("census", "course", "dqn", "network", "runs")]
NETWORKS = [f"src/varmix/experiments/mnist/{name}.py" for name in ("looks", "networks", "runs", "training")]
NEEDS = {
    "torchrl": ["src/varmix/rl/tensors.py", "src/varmix/rl/torchrl.py"],
    "torch": [*AGENT, *NETWORKS, "src/varmix/benchmarks/networks.py", "src/varmix/torch"],
}

collect_ignore = [path for module, paths in NEEDS.items() if find_spec(module) is None for path in paths]
