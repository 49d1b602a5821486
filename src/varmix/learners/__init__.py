"""Online algorithms over mixtures, one per file."""

from varmix._core.evidence import Evidence
from varmix.learners._barrier_newton import BarrierNewton
from varmix.learners._base import Learner, load_state, save_state
from varmix.learners._cautious import Cautious
from varmix.learners._fixed import Fixed
from varmix.learners._leader import Leader
from varmix.learners._neyman import Neyman
from varmix.learners._ogd import OGD
from varmix.learners._ons import ONS

__all__ = [
    "OGD",
    "ONS",
    "BarrierNewton",
    "Cautious",
    "Evidence",
    "Fixed",
    "Leader",
    "Learner",
    "Neyman",
    "load_state",
    "save_state",
]
