"""Online algorithms over mixtures, one per file."""

from varmix.learners._barrier_newton import BarrierNewton
from varmix.learners._base import Learner
from varmix.learners._base import load_state
from varmix.learners._base import save_state
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
    "Fixed",
    "Leader",
    "Learner",
    "Neyman",
    "load_state",
    "save_state",
]
