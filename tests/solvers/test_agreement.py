"""Compiled loops against the plain methods, which read as the textbook's formulas."""

import itertools

import numpy as np
import pytest

import varmix
from support.problems import KINDS, OVER_POINTS, coordinates, linear
from varmix.solvers import Linear
from varmix.solvers._coordinate import CompiledCoordinates, Coordinates

FLAGS = list(itertools.product([False, True], [0.0, 0.1], [False, True]))  # intercept, l2, costs
BATCHES = (1, 7)
TOLERANCE = {"rtol": 0, "atol": 1e-10}


def compare(plain, compiled, sampler, batch, length):
    """Run both over the same draws, in two epochs, and compare all that they give."""
    for epoch in (1, 2):
        assert plain.begin_epoch(epoch) == compiled.begin_epoch(epoch)
        draw = sampler.draw(batch, 12)
        steps = length / np.arange(1.0, 13.0)
        (norms, total), (given, sums) = (m.run(draw.indices, draw.weights, steps) for m in (plain, compiled))
        np.testing.assert_allclose(compiled.theta, plain.theta, **TOLERANCE)
        np.testing.assert_allclose(given, norms, **TOLERANCE)
        assert sums == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OVER_POINTS)
def test_compiled_and_plain_steps_agree_over_points(name, kind, loss):
    for (intercept, l2, costs), batch in itertools.product(FLAGS, BATCHES):
        problem = linear(loss=loss, kind=kind, intercept=intercept, l2=l2, costs=costs)
        theta = np.random.default_rng(1).normal(size=problem.dim)
        methods = (make(problem, theta.copy()) for make in OVER_POINTS[name])
        compare(*methods, varmix.importance(problem.lengths + 0.1, rng=2), batch, 0.2)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_and_plain_steps_agree_over_coordinates(kind, loss):
    rules = [False] if loss == "hinge" else [False, True]
    for (intercept, l2, costs), batch, lipschitz in itertools.product(FLAGS, BATCHES, rules):
        problem = linear(loss=loss, kind=kind, intercept=intercept, l2=l2, costs=costs)
        theta = np.random.default_rng(1).normal(size=problem.dim)
        for blocks in (None, np.arange(problem.dim) % 3):
            plain, compiled = (
                coordinates(make, problem, theta.copy(), blocks, batch, lipschitz)
                for make in (Coordinates, CompiledCoordinates)
            )
            sampler = varmix.importance(1.0 + np.arange(plain.atoms), rng=3)
            compare(plain, compiled, sampler, batch, 1.0 if lipschitz else 0.1)


@pytest.mark.parametrize("name", ["sgd", "svrg", "saga"])
def test_a_penalty_that_shrinks_theta_to_nothing_agrees_too(name):
    """A step of 1 / l2 multiplies theta by zero, and many long ones make its factor tiny."""
    problem = linear(l2=1.0)
    for length in (1.0, 0.999999):
        methods = [make(problem, np.full(problem.dim, 3.0)) for make in OVER_POINTS[name]]
        draw = varmix.uniform(30, rng=0).draw(2, 9)
        for method in methods:
            method.begin_epoch(1)
            method.run(draw.indices, draw.weights, np.full(9, length))
        np.testing.assert_allclose(methods[1].theta, methods[0].theta, **TOLERANCE)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_mean_of_the_table_is_that_of_its_entries_when_points_come_twice(kind, compiled):
    problem = linear(kind=kind, intercept=True, l2=0.1, costs=True)
    method = OVER_POINTS["saga"][compiled](problem, np.zeros(problem.dim))
    method.begin_epoch(1)
    draw = varmix.importance(problem.lengths**4, rng=0).draw(7, 40)
    assert max(np.bincount(batch).max() for batch in draw.indices.reshape(40, 7)) >= 3
    method.run(draw.indices, draw.weights, np.full(40, 0.1))
    entries = problem.combine(method.table) if compiled else method.table.mean(axis=0)
    np.testing.assert_allclose(method.mean, entries, rtol=0, atol=1e-14)
    before = method.mean.copy()
    method.begin_epoch(17)
    np.testing.assert_allclose(method.mean, before, rtol=0, atol=1e-14)


def test_repeated_entries_of_csr_are_added_up():
    from scipy.sparse import csr_matrix

    X = csr_matrix(([1.0, 2.0, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    problem, same = Linear(X, [1.0, -1.0]), Linear([[3.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    np.testing.assert_array_equal(problem.lengths, same.lengths)
    assert X.nnz == 3  # the caller's matrix is as it was
