"""The data sets of the experiments: found, checked, or fetched.

    data = lab.datasets.load("kdd_bio")
    data.X, data.y, data.extra["block"]

`docs/data.md` says where they are looked for, what they hold and under which licences.
"""

from lab.datasets.catalogue import SETS
from lab.datasets.catalogue import Spec
from lab.datasets.catalogue import names
from lab.datasets.needs import DataDamaged
from lab.datasets.needs import DataUnavailable
from lab.datasets.store import Dataset
from lab.datasets.store import available
from lab.datasets.store import check
from lab.datasets.store import describe
from lab.datasets.store import fetch
from lab.datasets.store import load
from lab.datasets.store import locate

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
