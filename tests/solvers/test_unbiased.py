"""The expected step of every solver under every sampler is the step along the full gradient: all atoms, no chance."""

import itertools

import numpy as np
import pytest

from support.oracles import atom_probabilities, lane_probabilities
from support.problems import OVER_POINTS, coordinates, law, linear, samplers, step_of
from varmix.allocate import independent, stratified
from varmix.solvers._coordinate import CompiledCoordinates, Coordinates
from varmix.solvers._sgd import Adagrad

N = 7
NAMES = [
    "uniform",
    "static",
    "partially biased",
    "stratified",
    "vrb",
    "bandit",
    "mirror descent",
    "vrm, groups",
    "vrm, smoothed groups",
    "vrm, dense",
    "vrm, distances",
]
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
THETA, ELSEWHERE = np.linspace(-0.5, 0.8, 5), np.linspace(0.6, -0.3, 5)


def problem():
    return linear(N, 4, "logistic", intercept=True, l2=0.1, costs=True)


def method_over_points(name, compiled):
    """Return a method in the middle of a run: snapshots and tables are of other places than theta."""
    made = OVER_POINTS[name][compiled](problem(), ELSEWHERE.copy())
    made.begin_epoch(1)
    some = np.array([0, 3, 3, 5])
    some.setflags(write=False)
    made.run(some, np.ones(4), np.full(2, 0.3))
    made.theta = THETA.copy()
    return made


def method_over_coordinates(compiled, blocks):
    made = coordinates(CompiledCoordinates if compiled else Coordinates, problem(), THETA.copy(), blocks)
    made.begin_epoch(1)
    return made


def estimate(method, atoms, weights):
    """Return the estimate of the gradient that a step is made of."""
    direction, after = step_of(method, atoms, weights)
    if isinstance(method, Adagrad):  # its steps are not linear in the estimate, but the sums of squares reveal it
        return np.sign(direction) * np.sqrt(after.squares - method.squares)
    return direction


def expected(method, slots, weights):
    """Return the expected estimate over batches whose slots are independent, each with its own law."""
    batches = itertools.product(range(len(weights)), repeat=len(slots))
    return sum(
        np.prod([p[a] for p, a in zip(slots, batch, strict=True)]) * estimate(method, batch, weights[list(batch)])
        for batch in batches
    )


def check(method, sampler, slots=None, unweighted=False):
    """Return how far the expected estimate is off the gradient of F."""
    probabilities, weights = law(sampler)
    assert probabilities.sum() == pytest.approx(1)
    if unweighted:
        weights = np.ones(len(weights))
    gradient = method.problem.full_gradient(method.theta)
    return np.abs(expected(method, slots or [probabilities], weights) - gradient).max()


def point_samplers():
    return samplers(N, problem().norms(THETA, np.arange(N)))


def test_no_sampler_but_the_uniform_one_is_uniform():
    """Or the checks below would show nothing."""
    for name, sampler in point_samplers().items():
        assert (np.abs(law(sampler)[1] - 1).max() > 0.1) == (name != "uniform")


@COMPILED
@pytest.mark.parametrize("name", OVER_POINTS)
@pytest.mark.parametrize("sampler", NAMES)
def test_a_step_over_a_point_is_unbiased(name, compiled, sampler):
    assert check(method_over_points(name, compiled), point_samplers()[sampler]) < 1e-12


@COMPILED
@pytest.mark.parametrize("name", OVER_POINTS)
@pytest.mark.parametrize("sampler", ["static", "vrm, groups"])
def test_a_step_over_two_independent_points_is_unbiased(name, compiled, sampler):
    chosen = point_samplers()[sampler]
    assert check(method_over_points(name, compiled), chosen, [law(chosen)[0]] * 2) < 1e-12


@COMPILED
@pytest.mark.parametrize("allocation", [independent, stratified], ids=str)
@pytest.mark.parametrize("name", OVER_POINTS)
@pytest.mark.parametrize("sampler", ["vrm, groups", "vrm, dense"])
def test_a_step_over_two_allocated_points_is_unbiased(name, compiled, sampler, allocation):
    """The real allocation and the real draws of every slot, integrated: the slots' laws differ, their mean does not."""
    chosen = point_samplers()[sampler]
    family = chosen.components
    shares = family.lanes(chosen.mixture)
    slots = lane_probabilities(allocation, shares, 2) @ atom_probabilities(family, len(shares))
    if allocation is stratified:
        assert np.abs(slots[0] - slots[1]).max() > 0.05
    assert check(method_over_points(name, compiled), chosen, list(slots)) < 1e-12


@COMPILED
@pytest.mark.parametrize("blocks", [None, [0, 1, 0, 2, 1]], ids=["coordinates", "blocks"])
@pytest.mark.parametrize("sampler", NAMES)
def test_a_step_over_coordinates_is_unbiased(compiled, blocks, sampler):
    method = method_over_coordinates(compiled, blocks)
    chosen = samplers(method.atoms, np.linspace(0.1, 2, method.atoms))[sampler]
    assert check(method, chosen) < 1e-12
    assert check(method, chosen, [law(chosen)[0]] * 2) < 1e-12


@COMPILED
@pytest.mark.parametrize("name", OVER_POINTS)
def test_without_weights_the_same_check_fails(name, compiled):
    chosen = point_samplers()["static"]
    assert check(method_over_points(name, compiled), chosen, unweighted=True) > 1e-3


@COMPILED
def test_without_weights_coordinates_fail_the_same_check(compiled):
    method = method_over_coordinates(compiled, None)
    assert check(method, samplers(5, np.linspace(0.1, 2, 5))["static"], unweighted=True) > 1e-3
