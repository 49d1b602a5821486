"""Families of sampling distributions, one per file."""

from varmix.components.base import Components, Family, Inclusive
from varmix.components.dense import Dense
from varmix.components.distances import Distances
from varmix.components.groups import Groups
from varmix.components.kdpp import KDpp
from varmix.components.stack import Stack, with_uniform
from varmix.components.uniform import Uniform

__all__ = [
    "Components",
    "Dense",
    "Distances",
    "Family",
    "Groups",
    "Inclusive",
    "KDpp",
    "Stack",
    "Uniform",
    "with_uniform",
]
