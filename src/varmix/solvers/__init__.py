"""Solvers that build on unbiased estimates, each over any problem and any sampler."""

from varmix.solvers.linear import Linear
from varmix.solvers.loop import optimise
from varmix.solvers.problem import Problem
from varmix.solvers.sgd import sgd
from varmix.solvers.trace import Result, Trace

__all__ = ["Linear", "Problem", "Result", "Trace", "optimise", "sgd"]
