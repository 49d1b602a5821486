"""Catalogue: the experiments by name, and what each needs, known without importing them."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from lab import datasets
from lab.commands import find_program, format_install
from lab.refusal import refuse_unknown
from lab.reproduce.experiment import Experiment


@dataclass(frozen=True)
class Entry:
    """What an experiment shows, the modules it needs and the extra that brings them, and data sets: any one will do.

    One that generates data, or finds some in a package that it needs, lacks none.  `quick` says whether there are quick
    runs of it at all.
    """

    title: str
    needs: tuple[str, ...] = ()
    extra: str = "lab"
    data: tuple[str, ...] = ()
    brings_data: bool = False
    quick: bool = True

    @property
    def missing(self) -> tuple[str, ...]:
        """The needed modules that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)

    @property
    def lacking(self) -> str | None:
        """What keeps it from running here and how to get it, to be read after its name; None if nothing does."""
        if self.missing:
            return f"needs {', '.join(self.missing)}: {format_install(self.extra)}"
        try:
            if not self.data or any(map(datasets.available, self.data)) or self.brings_data:
                return None
        except datasets.DataUnavailable as error:  # the user named a folder that is none
            return f"needs data: {error}"
        to_fetch = next((name for name in self.data if datasets.SETS[name].fetchable), None)
        how = (
            f"{find_program()} data fetch {to_fetch}" if to_fetch else "put one into the folder that VARMIX_DATA names"
        )
        return f"needs data, any of {', '.join(self.data)}, and none is at hand: {how}"


ENTRIES = {
    "blobs": Entry("Section 6.1: a linear SVM on six blobs"),
    "kdpp": Entry("Section 6.2: linear regression on sets from k-DPPs"),
    "cartpole": Entry("Section 6.3: prioritised replay in CartPole", ("torch", "gymnasium"), "rl"),
    "kmeans": Entry(
        "Section 6.4: minibatch k-means with 100 clusters",
        ("sklearn",),
        "lab",
        ("kdd_bio", "chest_accel", "mnist"),
        brings_data=True,
    ),
    "regret": Entry("Sections 3 and 4: regret, and Theorem 1 against what is measured"),
    "convex": Entry(
        "Beyond the paper: convex problems on real data, against reshuffling",
        ("sklearn",),
        "lab",
        ("california_housing", "adult", "kdd_bio", "chest_accel", "covtype_2v4", "kegg_undirected", "w8a"),
        brings_data=True,
    ),
    "networks": Entry(
        "Beyond the paper: neural networks on MNIST and other data, against reshuffling",
        ("torch", "sklearn"),
        "torch",
        ("mnist",),
        quick=False,
    ),
}


def list_experiments() -> tuple[str, ...]:
    """Give all experiments, in the order of the paper."""
    return tuple(ENTRIES)


def find_entry(name: str) -> Entry:
    """Give what is known about an experiment without importing it."""
    if name not in ENTRIES:
        raise refuse_unknown("experiment", name, ENTRIES)
    return ENTRIES[name]


def import_experiment(name: str) -> Experiment:
    """Import an experiment."""
    find_entry(name)
    found = import_module(f"lab.experiments.{name}").EXPERIMENT
    assert isinstance(found, Experiment)  # every module of the catalogue has one
    return found
