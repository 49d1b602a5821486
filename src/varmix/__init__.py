"""varmix: stochastic optimisation with less variance.

    sampler = varmix.Sampler(labels, rng=0)        # one label per point, or families of components
    batch = sampler.draw(64)                       # batch.indices, batch.weights
    ...                                            # train on these points, weighted
    sampler.update(batch, losses)                  # losses or gradient norms, one per point
    print(sampler.gain)                            # 2.1 [1.9, 2.3]

Everything else is in modules: `varmix.components`, `varmix.learners`, `varmix.allocate`, `varmix.reweight`,
`varmix.meter`, `varmix.history`, `varmix.plot`, `varmix.solvers`, `varmix.estimators` (scikit-learn), `varmix.torch`,
`varmix.rl`, `varmix.literature` (samplers of other papers), `varmix.hindsight`, `varmix.theory`, `varmix.simplex` and
`varmix.testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from varmix import allocate, components, hindsight, history, learners, literature, meter, reweight, simplex, theory
from varmix._core.checkpoint import load, save
from varmix._core.draw import Draw
from varmix._core.state import CheckpointError
from varmix._presets import importance, uniform, vrm
from varmix._sampler import Sampler
from varmix._version import __version__ as __version__
from varmix.components import Dense, Distances, Groups, KDpp, Replay, Stack, Uniform

if TYPE_CHECKING:
    from varmix import estimators as estimators
    from varmix import plot as plot
    from varmix import rl as rl
    from varmix import solvers as solvers
    from varmix import testing as testing
    from varmix import torch as torch
    from varmix.estimators import auto as auto

__all__ = [
    "CheckpointError",
    "Dense",
    "Distances",
    "Draw",
    "Groups",
    "KDpp",
    "Replay",
    "Sampler",
    "Stack",
    "Uniform",
    "allocate",
    "components",
    "hindsight",
    "history",
    "importance",
    "learners",
    "literature",
    "load",
    "meter",
    "reweight",
    "save",
    "simplex",
    "theory",
    "uniform",
    "vrm",
]

# Imported when they are first used: they take time, and some need scikit-learn, PyTorch or matplotlib.  They are not
# in `__all__`, so that `from varmix import *` works without these.
_LAZY = ("estimators", "plot", "rl", "solvers", "testing", "torch")


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return import_module(f"varmix.{name}")
    if name == "auto":
        return import_module("varmix.estimators").auto
    raise AttributeError(f"module 'varmix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY, "auto", "__version__"])
