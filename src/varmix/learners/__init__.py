"""Online algorithms over mixtures, one per file."""

from varmix.learners.barrier_newton import BarrierNewton
from varmix.learners.base import Learner, load_state, save_state
from varmix.learners.cautious import Cautious
from varmix.learners.fixed import Fixed
from varmix.learners.leader import Leader
from varmix.learners.neyman import Neyman
from varmix.learners.ogd import OGD
from varmix.learners.ons import ONS

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
