"""Catalogue of the experiments and their requirements, known without importing them."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from lab import datasets
from lab.commands import find_program, format_install
from lab.reproduce.experiment import Experiment


@dataclass(frozen=True)
class Entry:
    """Title and requirements of an experiment.

    Parameters
    ----------
    title : str
        Section of the paper, or a topic beyond it.
    needs : tuple of str, default ()
        Modules that must be installed.
    extra : str, default "lab"
        Extra of varmix that installs these modules.
    data : tuple of str, default ()
        Data sets that it can use. One of them is enough.
    brings_data : bool, default False
        Whether it can also run without any of these data sets.
    quick : bool, default True
        Whether it has quick runs.
    """

    title: str
    needs: tuple[str, ...] = ()
    extra: str = "lab"
    data: tuple[str, ...] = ()
    brings_data: bool = False
    quick: bool = True

    @property
    def missing(self) -> tuple[str, ...]:
        """Required modules that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)

    @property
    def lacking(self) -> str | None:
        """Missing requirement and how to install it, to be printed after the name; None if nothing is missing."""
        if self.missing:
            return f"needs {', '.join(self.missing)}: {format_install(self.extra)}"
        try:
            if not self.data or any(map(datasets.available, self.data)) or self.brings_data:
                return None
        except datasets.DataUnavailable as error:  # VARMIX_DATA is not a folder
            return f"needs data: {error}"
        to_fetch = next((name for name in self.data if datasets.SETS[name].fetchable), None)
        how = (
            f"{find_program()} data fetch {to_fetch}" if to_fetch else "put one into the folder that VARMIX_DATA names"
        )
        return f"needs data (any of {', '.join(self.data)}), but there are none: {how}"


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
    "regret": Entry("Sections 3 and 4: regret, compared with the bound of Theorem 1"),
    "convex": Entry(
        "Beyond the paper: convex problems on real data, compared with reshuffling",
        ("sklearn",),
        "lab",
        ("california_housing", "adult", "kdd_bio", "chest_accel", "covtype_2v4", "kegg_undirected", "w8a"),
        brings_data=True,
    ),
    "networks": Entry(
        "Beyond the paper: neural networks on MNIST and other data, compared with reshuffling",
        ("torch", "sklearn"),
        "torch",
        ("mnist",),
        quick=False,
    ),
}


def list_experiments() -> tuple[str, ...]:
    """Return the names of all experiments, in the order of the paper."""
    return tuple(ENTRIES)


def find_entry(name: str) -> Entry:
    """Return title and requirements of an experiment without importing it."""
    return ENTRIES[name]


def import_experiment(name: str) -> Experiment:
    """Import an experiment of the catalogue."""
    found = import_module(f"lab.experiments.{name}").EXPERIMENT
    assert isinstance(found, Experiment)  # every module of the catalogue defines one
    return found
