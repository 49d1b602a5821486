"""Families of sampling distributions, which samplers mix."""

from varmix._core.rng import Uniforms
from varmix._core.spaces import Points, Subsets
from varmix.components._base import Family
from varmix.components._groups import Groups
from varmix.components._kdpp import KDpp
from varmix.components._literature.cumulative import Cumulative
from varmix.components._literature.exponential import Exponential
from varmix.components._literature.mirror_descent import MirrorDescent
from varmix.components._literature.ranks import Ranks
from varmix.components._literature.weighted_points import WeightedPoints
from varmix.components._replay import PAPER_SETTINGS, Replay
from varmix.components._sources import Sources
from varmix.components._stack import Stack, with_uniform
from varmix.components._tables import Dense, Distances
from varmix.components._uniform import Uniform

__all__ = [
    "PAPER_SETTINGS",
    "Cumulative",
    "Dense",
    "Distances",
    "Exponential",
    "Family",
    "Groups",
    "KDpp",
    "MirrorDescent",
    "Points",
    "Ranks",
    "Replay",
    "Sources",
    "Stack",
    "Subsets",
    "Uniform",
    "Uniforms",
    "WeightedPoints",
    "with_uniform",
]
