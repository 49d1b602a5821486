"""Modules that cannot be imported without an optional package are looked through for examples where it is installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torchrl") else ["src/varmix/rl/tensors.py", "src/varmix/rl/torchrl.py"]
