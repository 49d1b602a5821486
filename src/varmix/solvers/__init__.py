"""Solvers that build on unbiased estimates, each over any problem and any sampler."""

from varmix.solvers import steps
from varmix.solvers.adagrad import adagrad
from varmix.solvers.coordinate import coordinate_descent
from varmix.solvers.custom import Custom
from varmix.solvers.linear import Linear
from varmix.solvers.loop import optimise
from varmix.solvers.problem import Problem
from varmix.solvers.saga import saga
from varmix.solvers.sgd import sgd
from varmix.solvers.svrg import svrg
from varmix.solvers.trace import Result, Trace

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
