"""Catalogue: the experiments by name, and what each needs, known without importing them."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from varmix.experiments.experiment import Experiment
from varmix.refusal import unknown


@dataclass(frozen=True)
class Entry:
    """What an experiment shows, the modules it needs, and the extra that brings them."""

    title: str
    needs: tuple[str, ...] = ()
    extra: str = "experiments"

    @property
    def missing(self) -> tuple[str, ...]:
        """The needed modules that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)


ENTRIES = {
    "blobs": Entry("Section 6.1: a linear SVM on six blobs"),
    "kdpp": Entry("Section 6.2: linear regression on sets from k-DPPs"),
    "regret": Entry("Sections 3 and 4: regret, and Theorem 1 against what is measured"),
    "convex": Entry("Beyond the paper: convex problems on real data, against reshuffling", ("sklearn",), "sklearn"),
}


def names() -> tuple[str, ...]:
    """Give all experiments, in the order of the paper."""
    return tuple(ENTRIES)


def entry(name: str) -> Entry:
    """Give what is known about an experiment without importing it."""
    if name not in ENTRIES:
        raise unknown("experiment", name, ENTRIES)
    return ENTRIES[name]


def experiment(name: str) -> Experiment:
    """Import an experiment."""
    entry(name)
    found = import_module(f"varmix.experiments.{name}").EXPERIMENT
    assert isinstance(found, Experiment)  # every module of the catalogue has one
    return found
