"""varmix: stochastic optimisation with less variance.

    sampler = varmix.vrm(varmix.Groups(labels), rng=0)
    draw = sampler.draw(128)
    ...                                  # train on X[draw.indices], weighted by draw.weights
    sampler.update(draw, gradient_norms)

Ways of filling a batch are in `varmix.allocate`, of weighting it in `varmix.reweight`, the best mixture in hindsight in
`varmix.hindsight`, the theorems' settings in `varmix.theory`, samplers of other papers in `varmix.literature`, the
contract suites in `varmix.testing`, scikit-learn estimators in `varmix.estimators`.  `varmix.auto(X, y)` finds groups
in data; it needs scikit-learn, which is imported when it is first used.
"""

from typing import TYPE_CHECKING

from varmix import allocate, hindsight, literature, reweight, theory
from varmix._core.checkpoint import load, save
from varmix._core.draw import Draw
from varmix._core.evidence import Evidence
from varmix._core.spaces import Points, Subsets
from varmix._core.state import CheckpointError
from varmix._presets import importance, uniform, vrm
from varmix._sampler import Sampler
from varmix._version import __version__ as __version__
from varmix.components import Cumulative, Dense, Distances, Groups, KDpp, Replay, Stack, Uniform, with_uniform
from varmix.learners import OGD, ONS, BarrierNewton, Cautious, Fixed, Leader, Neyman
from varmix.literature import vrb
from varmix.meter import GainMeter
from varmix.simplex import RestrictedSimplex

if TYPE_CHECKING:
    from varmix.estimators._auto_groups import auto as auto

__all__ = [
    "OGD",
    "ONS",
    "BarrierNewton",
    "Cautious",
    "CheckpointError",
    "Cumulative",
    "Dense",
    "Distances",
    "Draw",
    "Evidence",
    "Fixed",
    "GainMeter",
    "Groups",
    "KDpp",
    "Leader",
    "Neyman",
    "Points",
    "Replay",
    "RestrictedSimplex",
    "Sampler",
    "Stack",
    "Subsets",
    "Uniform",
    "allocate",
    "hindsight",
    "importance",
    "literature",
    "load",
    "reweight",
    "save",
    "theory",
    "uniform",
    "vrb",
    "vrm",
    "with_uniform",
]


def __getattr__(name: str) -> object:
    if name == "auto":  # not in __all__, so that `from varmix import *` works without scikit-learn
        from varmix.estimators._auto_groups import auto

        return auto
    raise AttributeError(f"module 'varmix' has no attribute {name!r}")
