"""The data sets of the experiments: found, checked, or fetched.

    data = lab.datasets.load("kdd_bio")
    data.X, data.y, data.extra["block"]

`docs/data.md` says where they are looked for, what they hold and under which licences.
"""

from lab.datasets.catalogue import SETS, Spec, names
from lab.datasets.needs import DataDamaged, DataUnavailable
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
