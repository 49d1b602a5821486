"""Solvers that build on unbiased estimates. Each works over any problem and any sampler."""

from varmix.solvers import schedules
from varmix.solvers._coordinate import coordinate_descent
from varmix.solvers._linear import Linear
from varmix.solvers._loop import Method, Result, Trace, optimise
from varmix.solvers._problems import Custom, Problem
from varmix.solvers._sgd import adagrad, sgd
from varmix.solvers._variance_reduced import saga, svrg

__all__ = [
    "Custom",
    "Linear",
    "Method",
    "Problem",
    "Result",
    "Trace",
    "adagrad",
    "coordinate_descent",
    "optimise",
    "saga",
    "schedules",
    "sgd",
    "svrg",
]
