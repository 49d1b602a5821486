"""What is left out where an optional package is missing."""

from importlib.util import find_spec

collect_ignore: list[str] = []
if find_spec("torchrl") is None:
    collect_ignore += ["docs/torchrl.md", "src/varmix/rl/tensors.py", "src/varmix/rl/torchrl.py"]
