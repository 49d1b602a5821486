"""Solvers that build on unbiased estimates, each over any problem and any sampler."""

from varmix.solvers import _schedules as steps
from varmix.solvers._sgd__adagrad import adagrad
from varmix.solvers._coordinate import coordinate_descent
from varmix.solvers._problems import Custom
from varmix.solvers._linear import Linear
from varmix.solvers._loop import optimise
from varmix.solvers._problems__problem import Problem
from varmix.solvers._variance_reduced__saga import saga
from varmix.solvers._sgd import sgd
from varmix.solvers._variance_reduced import svrg
from varmix.solvers._loop__trace import Result
from varmix.solvers._loop__trace import Trace

__all__ = [
    "Custom",
    "Linear",
    "Problem",
    "Result",
    "Trace",
    "adagrad",
    "coordinate_descent",
    "optimise",
    "saga",
    "sgd",
    "steps",
    "svrg",
]
