"""Families of sampling distributions, one per file."""

from varmix.components._base import Components
from varmix.components._base import Family
from varmix.components._base import Inclusive
from varmix.components._literature.cumulative import Cumulative
from varmix.components._tables__dense import Dense
from varmix.components._tables__distances import Distances
from varmix.components._literature.exponential import Exponential
from varmix.components._groups import Groups
from varmix.components._kdpp import KDpp
from varmix.components._literature.mirror_descent import MirrorDescent
from varmix.components._literature.ranks import Ranks
from varmix.components._replay import Replay
from varmix.components._sources import Sources
from varmix.components._stack import Stack
from varmix.components._stack import with_uniform
from varmix.components._uniform import Uniform

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
