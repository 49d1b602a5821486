"""The kinds of targets.  What needs an optional package is imported when it is asked for."""

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Job:
    """The cases `first` to `last`, without that one, of a target; or so many of all targets of a kind, for "*"."""

    kind: str
    target: str
    first: int
    last: int

    @classmethod
    def parse(cls, text):
        kind, target, first, last = text.split("/")
        return cls(kind, target, int(first), int(last))

    def __str__(self):
        return f"{self.kind}/{self.target}/{self.first}/{self.last}"


def available():
    """Return the kinds whose packages are installed."""
    return [kind for kind in KINDS if kind not in NEEDS or find_spec(NEEDS[kind])]


@cache
def targets(kind):
    """Return the targets of a kind by their names."""
    module, function = SOURCES[kind]
    return {target.name: target for target in getattr(import_module(f"fuzz.{module}"), function)()}


def expanded(job):
    """Return the jobs of all targets of a kind, by their weights, if that is what a job asks for."""
    if job.target != "*":
        return [job]
    found = targets(job.kind)
    total = sum(target.weight for target in found.values())
    share = {name: max(1, round(job.last * target.weight / total)) for name, target in found.items()}
    return [Job(job.kind, name, 0, count) for name, count in share.items()]
