"""Families of sampling distributions, one per file."""

from varmix.components.base import Components, Family, Inclusive
from varmix.components.cumulative import Cumulative
from varmix.components.dense import Dense
from varmix.components.distances import Distances
from varmix.components.exponential import Exponential
from varmix.components.groups import Groups
from varmix.components.kdpp import KDpp
from varmix.components.mirror import MirrorDescent
from varmix.components.ranks import Ranks
from varmix.components.replay import Replay
from varmix.components.sources import Sources
from varmix.components.stack import Stack, with_uniform
from varmix.components.uniform import Uniform

__all__ = [
    "Components",
    "Cumulative",
    "Dense",
    "Distances",
    "Exponential",
    "Family",
    "Groups",
    "Inclusive",
    "KDpp",
    "MirrorDescent",
    "Ranks",
    "Replay",
    "Sources",
    "Stack",
    "Uniform",
    "with_uniform",
]
