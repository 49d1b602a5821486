"""Data sets of the experiments: find, check and fetch them.

    data = lab.datasets.load("kdd_bio")
    data.X, data.y, data.extra["block"]

`docs/data.md` lists the folders that are searched, the content of every set and its licence.
"""

from lab.datasets.catalogue import SETS, Spec, names
from lab.datasets.errors import DataDamaged, DataUnavailable
from lab.datasets.store import Dataset, available, check, describe, fetch, load, locate

__all__ = [
    "SETS",
    "DataDamaged",
    "DataUnavailable",
    "Dataset",
    "Spec",
    "available",
    "check",
    "describe",
    "fetch",
    "load",
    "locate",
    "names",
]
