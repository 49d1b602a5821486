"""The parts of k-means: seeding, cells, steps, epochs over all points."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import varmix
from varmix.estimators._kmeans import StoppingRule, mean_variance
from varmix.estimators.clustering import (
    Descent,
    Seeding,
    assign_labels,
    find_nearest_centers,
    make_cell_sampler,
    mean_squared_distance,
    plus_plus,
)

RNG = np.random.default_rng(0)
N, K = 3000, 15
X = RNG.standard_t(2.5, size=(N, 4)) + 6.0 * RNG.integers(0, 5, size=(N, 1))
WEIGHTS = RNG.integers(0, 4, size=N).astype(float)
SEEDING = plus_plus(X, K, rng=0)


def all_squares(data, centers):
    return ((data[:, None, :] - centers[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, np.asfortranarray, lambda x: x.astype(np.float32)])
def test_seeding_says_which_center_is_nearest_and_how_far(form):
    data = form(X)
    for seeding in (plus_plus(data, K, rng=1), plus_plus(data, K, rng=1, points=np.arange(0, N, 3), trials=4)):
        squares = all_squares(X, seeding.centers)
        assert seeding.nearest.dtype == np.uint8
        assert seeding.distances.dtype == np.float32
        assert seeding.centers.dtype == data.dtype
        assert (seeding.nearest == squares.argmin(axis=1)).mean() > 0.999  # single precision may see ties otherwise
        np.testing.assert_allclose(seeding.distances, np.sqrt(squares.min(axis=1)), atol=2e-3)
        assert {tuple(c) for c in seeding.centers} <= {tuple(x) for x in X.astype(data.dtype)}


def test_seeds_among_some_points_are_some_of_them():
    some = np.array([5, 7, 100, 2000])
    chosen = plus_plus(X, 3, rng=0, points=some).centers
    assert {tuple(c) for c in chosen} <= {tuple(x) for x in X[some]}


def test_seeds_have_a_weight():
    for seed in range(20):
        chosen = plus_plus(X, K, rng=seed, sample_weight=np.where(np.arange(N) < 20, 1.0, 0.0)).centers
        assert {tuple(c) for c in chosen} <= {tuple(x) for x in X[:20]}


def test_more_trials_leave_less():
    mean = [np.mean([(plus_plus(X, K, rng=s, trials=t).distances ** 2).mean() for s in range(10)]) for t in (1, 5)]
    assert mean[1] < mean[0]


def test_one_seed_gives_one_seeding_and_other_seeds_others():
    again = plus_plus(X, K, rng=0)
    assert (again.centers == SEEDING.centers).all()
    assert (plus_plus(X, K, rng=1).centers != SEEDING.centers).any()


def test_fewer_distinct_points_than_centers_gives_some_twice():
    data = np.repeat([[0.0, 1.0], [2.0, 3.0]], 5, axis=0)
    seeding = plus_plus(data, 4, rng=0, trials=3)
    assert {tuple(c) for c in seeding.centers} == {(0.0, 1.0), (2.0, 3.0)}
    assert not seeding.distances.any()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_any_scale_will_do(scale):
    seeding = find_nearest_centers(scale * X, scale * SEEDING.centers)
    assert (seeding.nearest == SEEDING.nearest).all()
    np.testing.assert_allclose(seeding.distances, scale * SEEDING.distances, rtol=1e-3, atol=1e-5 * scale)


def test_passes_over_all_points_agree_with_plain_numpy():
    data = np.tile(X, (7, 1))  # more than a block
    squares = all_squares(X, SEEDING.centers)
    np.testing.assert_array_equal(assign_labels(data, SEEDING.centers), np.tile(squares.argmin(axis=1), 7))
    assert mean_squared_distance(data, SEEDING.centers) == pytest.approx(squares.min(axis=1).mean(), rel=1e-12)
    assert mean_squared_distance(csr_matrix(data), SEEDING.centers) == pytest.approx(
        squares.min(axis=1).mean(), rel=1e-9
    )


@pytest.mark.parametrize(("weight", "most"), [(None, 1.15), (WEIGHTS, 1.5)])
def test_cells_draw_by_the_norms_that_the_seeding_expects(weight, most):
    sampler = make_cell_sampler(SEEDING, sample_weight=weight, rng=0)
    draw_all = sampler.draw_all()
    density = draw_all.ratios @ sampler.mixture
    norms = SEEDING.distances * (1.0 if weight is None else weight)
    least = norms.mean() ** 2  # of any law
    assert least <= (norms**2 / density).mean() < most * least < (norms**2).mean()
    assert density.min() >= 0.1 - 1e-12


def test_an_outlier_that_is_a_seed_is_drawn_though_it_has_no_distance():
    data = np.vstack([X, [[500.0, 0, 0, 0]]])
    sampler = make_cell_sampler(plus_plus(data, K, rng=0), rng=0)
    assert sampler.draw_all().ratios[-1] @ sampler.mixture > 0.5


def test_cells_take_what_a_mixture_takes():
    assert make_cell_sampler(SEEDING, gamma=0.3).mixture[-1] == pytest.approx(0.3)
    learner = varmix.learners.BarrierNewton(gamma=0.2)
    sampler = make_cell_sampler(SEEDING, learner=learner, allocate=varmix.allocate.systematic)
    assert sampler.learner is learner
    assert sampler.allocate is varmix.allocate.systematic
    assert make_cell_sampler(SEEDING).allocate is varmix.allocate.stratified
    with pytest.raises(TypeError, match="pass gamma or a learner, not both"):
        make_cell_sampler(SEEDING, learner=learner, gamma=0.2)


def samplers():
    return {
        "cells": make_cell_sampler(SEEDING, rng=0),
        "weighted cells": make_cell_sampler(SEEDING, sample_weight=WEIGHTS, rng=0),
        "uniform": varmix.uniform(N, rng=0),
        "shuffle": varmix.uniform(N, replacement=False, rng=0),
        "vrb": varmix.literature.vrb(N, rng=0),
        "distances": varmix.vrm(varmix.Distances(X, X[:10]), rng=0),
    }


def expected_sums(sampler, weight, unit=False):
    """Return the expected counts and sums of w (x - c) of a step with one draw, computed over all points."""
    density = sampler.draw_all().ratios @ sampler.mixture
    counts, sums = np.zeros(K), np.zeros((K, 4))
    for i in range(0, N, 5):
        step = Descent(X, SEEDING.centers, batch=1, sample_weight=weight)
        step.take_steps(np.array([i]), np.ones(1) if unit else 1.0 / density[[i]])
        counts += density[i] * step.counts
        sums += density[i] * step.counts[:, None] * (step.centers - SEEDING.centers)
    return counts, sums


@pytest.mark.parametrize("weight", [None, WEIGHTS])
@pytest.mark.parametrize("name", list(samplers()))
def test_a_step_is_unbiased_under_any_sampler(name, weight):
    sampler = samplers()[name]
    for _ in range(30):  # somewhere on the way
        draw = sampler.draw(20)
        sampler.update(draw, np.linalg.norm(X[draw.indices], axis=1))
    points = np.arange(0, N, 5)
    nearest, parts = SEEDING.nearest[points], (np.ones(N) if weight is None else weight)[points]
    counts = np.bincount(nearest, parts, minlength=K)
    sums = np.zeros((K, 4))
    np.add.at(sums, nearest, parts[:, None] * (X[points] - SEEDING.centers[nearest]))
    found = expected_sums(sampler, weight)
    np.testing.assert_allclose(found[0], counts, rtol=1e-9)
    np.testing.assert_allclose(found[1], sums, atol=1e-7 * np.abs(sums).max())
    if name not in ("uniform", "shuffle"):  # the test can tell
        assert not np.allclose(expected_sums(sampler, weight, unit=True)[0], counts, rtol=1e-2)


@pytest.mark.parametrize("weight", [None, WEIGHTS])
@pytest.mark.parametrize("name", list(samplers()))
def test_every_sampler_brings_the_centers_down(name, weight):
    descent = Descent(X, SEEDING.centers, batch=50, sample_weight=weight)
    descent.run(samplers()[name], 300)
    parts = np.ones(N) if weight is None else weight
    mean = [parts @ all_squares(X, c).min(axis=1) / parts.sum() for c in (SEEDING.centers, descent.centers)]
    assert mean[1] < 0.85 * mean[0]
    assert descent.steps == 300
    assert descent.meter.draws == 300 * 50
    assert descent.counts.sum() == pytest.approx(300 * 50 * parts.mean(), rel=0.05)
    assert descent.loss == pytest.approx(mean[1], rel=0.35)


def test_runs_can_be_gone_on_with_and_are_repeated_by_their_seed():
    def run(*parts):
        descent, sampler = Descent(X, SEEDING.centers, batch=20), make_cell_sampler(SEEDING, rng=7)
        for steps in parts:
            descent.run(sampler, steps)
        return descent

    whole = run(120)
    assert (whole.centers == run(120).centers).all()
    assert (whole.centers != run(119).centers).any()
    halves = run(60, 60)
    assert halves.steps == 120
    assert mean_squared_distance(X, halves.centers) == pytest.approx(mean_squared_distance(X, whole.centers), rel=0.1)
    nothing = run(0)
    assert nothing.steps == 0
    assert np.isnan(nothing.loss)
    np.testing.assert_allclose(nothing.centers, SEEDING.centers, rtol=1e-12)


def test_the_mixture_beats_uniform_draws_and_the_meter_says_so():
    descent = Descent(X, SEEDING.centers, batch=50)
    descent.run(make_cell_sampler(SEEDING, rng=0), 200)
    assert descent.meter.gain.low > 1.2


def test_centers_with_too_few_points_go_where_points_are():
    centers = np.vstack([SEEDING.centers, [[1e4] * 4, [-1e4] * 4]])
    for data in (X, csr_matrix(X)):
        descent = Descent(data, centers, batch=100)
        descent.run(varmix.uniform(N, rng=0), 20)
        empty, least = descent.counts == 0.0, descent.counts[descent.counts > 0.0].min()
        assert empty[-2:].all()
        assert descent.reassign(0.0, np.random.default_rng(0)) == 0
        assert descent.reassign(1e-9, np.random.default_rng(0)) == empty.sum()
        assert np.sqrt(all_squares(descent.centers[empty], X).min(axis=1)).max() < 1e-9
        np.testing.assert_array_equal(descent.counts[empty], least)


def test_no_more_than_half_a_batch_is_reassigned():
    descent = Descent(X, SEEDING.centers, batch=8)
    descent.run(varmix.uniform(N, rng=0), 1)
    assert descent.reassign(1.0, np.random.default_rng(0)) == 4


def test_memory_beyond_the_points_is_at_most_32_bytes_a_point():
    n = 200_000
    data = np.random.default_rng(5).normal(size=(n, 3))
    for _ in range(2):  # the second time nothing is compiled
        tracemalloc.start()
        seeding = find_nearest_centers(data, data[:50])
        sampler = make_cell_sampler(seeding, rng=0)
        descent = Descent(data, seeding.centers, batch=100)
        descent.run(sampler, 50)
        mean_squared_distance(data, descent.centers)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert 4 * n < peak < 32 * n


def test_the_tolerance_is_relative_to_the_mean_variance_of_the_features():
    assert mean_variance(X + 1e6) == pytest.approx(X.var(axis=0).mean())
    assert mean_variance(csr_matrix(X)) == pytest.approx(X.var(axis=0).mean())


def test_it_stops_when_the_centers_stand_still_or_nothing_gets_better():
    still = StoppingRule(alpha=0.5, tolerance=1.0, patience=None)
    assert [still.see([1.0], moved) for moved in (0.5, 2.0, 0.9)] == [False, False, True]
    never = StoppingRule(alpha=0.5, tolerance=0.0, patience=None)
    assert not any(never.see([loss], 0.0) for loss in range(50))
    several = StoppingRule(alpha=1.0, patience=3)
    assert not several.see([9.0, 5.0, 6.0, 6.0])
    assert several.see([6.0])


HOLE = X.copy()
HOLE[77, 2] = np.nan


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plus_plus(X, 0), ValueError, "k must be at least 1"),
        (lambda: plus_plus(X, 2, trials=0), ValueError, "trials must be at least 1"),
        (lambda: plus_plus(X[:3], 4), ValueError, "k must be at most 3, the number of points"),
        (lambda: plus_plus(X, 2, points=[N]), ValueError, "points must lie in 0..2999"),
        (lambda: plus_plus(X, 2, points=[1]), ValueError, "k must be at most 1, the number of points"),
        (lambda: plus_plus(X[0], 2), ValueError, r"X must be \(n, d\)"),
        (lambda: plus_plus(HOLE, 2, rng=0), ValueError, "Point 77 of X is missing, infinite or too far"),
        (lambda: plus_plus(1e60 * X, 2, rng=0), ValueError, r"too far from the centers \(1e38 or more\)"),
        (lambda: plus_plus(X, 2, sample_weight=-WEIGHTS), ValueError, "must be non-negative and not all zero"),
        (lambda: plus_plus(X, 2, sample_weight=0 * WEIGHTS), ValueError, "got values from 0 to 0"),
        (lambda: plus_plus(X, 2, sample_weight=WEIGHTS[1:]), ValueError, r"shape \(3000,\)"),
        (lambda: find_nearest_centers(HOLE, X[:2]), ValueError, "Point 77 of X is missing"),
        (
            lambda: find_nearest_centers(X, X[:2, :3]),
            ValueError,
            r"at least one row, and 4 columns as X has; got an array of shape \(2, 3\)",
        ),
        (lambda: find_nearest_centers(X, X[0]), ValueError, "at least one row, and 4 columns"),
        (lambda: find_nearest_centers(X, HOLE[70:80]), ValueError, "centers must be finite"),
        (lambda: mean_squared_distance(HOLE, X[:2]), ValueError, "a squared distance to a center is not finite"),
        (lambda: Descent(X, X[:2], batch=0), ValueError, "batch must be at least 1"),
        (lambda: Descent(X, X[:2], batch=5).run(varmix.uniform(N), -1), ValueError, "steps must be at least 0"),
        (lambda: Descent(X, X[:2], batch=5).run(varmix.uniform(N - 1), 1), ValueError, "sampler draws from Points"),
        (lambda: Descent(X, X[:2], batch=5).run(X, 1), TypeError, "then a sampler"),
        (
            lambda: make_cell_sampler(Seeding(X[:2], SEEDING.nearest, SEEDING.distances), sample_weight=[1.0]),
            ValueError,
            "shape",
        ),
    ],
)
def test_invalid_arguments_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_a_point_that_is_not_finite_stops_the_steps_and_nothing_has_changed(form):
    descent, sampler = Descent(form(HOLE), X[:5], batch=N), varmix.uniform(N, replacement=False, rng=0)
    before = descent.centers
    with pytest.raises(ValueError, match="a squared distance to a center is not finite"):
        descent.run(sampler, 1)
    assert (descent.centers == before).all()
    assert not descent.counts.any()
    assert (descent.steps, descent.meter.batches) == (0, 0)
