"""The kinds of targets.  What needs an optional package is imported when it is asked for."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

# The module and the function that yields the targets of a kind.
SOURCES = {
    "families": ("targets", "family_targets"),
    "learners": ("targets", "learner_targets"),
    "allocations": ("targets", "allocation_targets"),
    "presets": ("targets", "preset_targets"),
    "meters": ("targets", "meter_targets"),
    "buffers": ("targets", "buffer_targets"),
    "slots": ("targets", "slot_targets"),
    "files": ("files", "file_targets"),
    "loaders": ("loaders", "loader_targets"),
    "streams": ("loaders", "stream_targets"),
    "torchrl": ("loaders", "torchrl_targets"),
    "plants": ("plants", "plants"),
}
NEEDS = {"loaders": "torch", "streams": "torch", "torchrl": "torchrl"}
KINDS = tuple(kind for kind in SOURCES if kind != "plants")


def available():
    """Return the kinds whose packages are installed."""
    return [kind for kind in KINDS if kind not in NEEDS or find_spec(NEEDS[kind])]


@cache
def targets(kind):
    """Return the targets of a kind by their names."""
    module, function = SOURCES[kind]
    return {target.name: target for target in getattr(import_module(f"fuzz.{module}"), function)()}
