"""The kernels of the restricted simplex against brute force, a quadratic-programming solver and 50-digit arithmetic."""

import faulthandler
import itertools
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.oracles import quadratic_program, random_metric, random_mixture
from varmix._kernels import simplex
from varmix._kernels.simplex import clip_to_simplex, metric_step, project_restricted, project_simplex, projected_descent
from varmix.simplex import RestrictedSimplex

GAMMA = 0.1


@pytest.fixture(autouse=True)
def _end_instead_of_hanging():
    """End the process with a traceback if a compiled loop does not return: nothing gentler can interrupt it."""
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def project(v, gamma):
    x = np.empty(len(v))
    project_restricted(np.asarray(v, dtype=np.float64), gamma, x)
    return x


def step(w, g, H, gamma=GAMMA):
    x = np.empty(len(w))
    metric_step(w, g, H, gamma, x)
    return x


def objective(x, w, g, H):
    return g @ (x - w) + 0.5 * (x - w) @ H @ (x - w)


def bounds_of(k, gamma):
    return np.append(np.zeros(k - 1), gamma)


def assert_feasible(x, gamma):
    assert np.isfinite(x).all()
    assert x.min() >= 0.0
    assert x[-1] >= gamma
    assert abs(x.sum() - 1.0) < 1e-14 * max(len(x), 10)


# Projection ---------------------------------------------------------------------------------------------------------


def nearest_by_enumeration(v, gamma):
    """Try every set of coordinates that may lie on their bounds, and keep the nearest feasible point."""
    bounds = bounds_of(len(v), gamma)
    best, least = None, np.inf
    for free in itertools.product([False, True], repeat=len(v)):
        free = np.array(free)
        x = bounds.copy()
        if free.any():
            x[free] = v[free] - (v[free].sum() - (1.0 - bounds[~free].sum())) / free.sum()
        if x.sum() > 1.0 - 1e-9 and (x >= bounds - 1e-15).all() and np.sum((x - v) ** 2) < least:
            best, least = x, np.sum((x - v) ** 2)
    return best


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_projection_is_the_nearest_point_of_all_supports(k, gamma):
    rng = np.random.default_rng(k)
    for size in (0.1, 1.0, 10.0):
        for v in rng.normal(size=(5, k)) * size:
            np.testing.assert_allclose(project(v, gamma), nearest_by_enumeration(v, gamma), rtol=0, atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=12),
    st.sampled_from([0.001, 0.1, 0.5, 1.0]),
)
def test_no_feasible_direction_leads_from_a_projection_towards_the_point(values, gamma):
    v = np.array(values, dtype=np.float64)
    x = project(v, gamma)
    assert_feasible(x, gamma)
    vertices = (1.0 - gamma) * np.eye(len(v)) + gamma * np.eye(len(v))[-1]
    assert ((vertices - x) @ (v - x)).max() < 1e-12


def test_projection_spreads_what_ties_evenly():
    np.testing.assert_allclose(project([2.0, 2.0, 2.0, -5.0], 0.1), [0.3, 0.3, 0.3, 0.1], rtol=0, atol=1e-15)


def test_projection_leaves_feasible_points_alone():
    rng = np.random.default_rng(0)
    for k in (1, 2, 7, 50):
        w = random_mixture(rng, k, GAMMA)
        np.testing.assert_allclose(project(w, GAMMA), w, rtol=0, atol=1e-15)


@pytest.mark.parametrize("size", [1e3, 1e10, 1e20, 1e300])
def test_projection_keeps_its_digits_far_from_the_simplex(size):
    np.testing.assert_allclose(project([0.0, size, 0.0, 0.0], GAMMA), [0.0, 0.9, 0.0, 0.1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(project([0.0, -size, -size, 0.0], GAMMA), [0.5, 0.0, 0.0, 0.5], rtol=0, atol=1e-12)


def test_projection_leaves_out_entries_whose_sum_overflows():
    np.testing.assert_array_equal(project([-1.7e308, 0.9, -1.7e308, -np.inf, 0.1], GAMMA), [0.0, 0.9, 0.0, 0.0, 0.1])


def test_projection_onto_a_simplex_of_another_size_sums_to_it():
    x = np.empty(3)
    project_simplex(np.array([0.5, 0.4, -1.0]), 0.3, x)
    np.testing.assert_allclose(x, [0.2, 0.1, 0.0], rtol=0, atol=1e-15)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(allow_nan=False), max_size=70))
def test_sorting_is_that_of_numpy(values):
    u = np.array(values)
    simplex.sort_descending(u)
    np.testing.assert_array_equal(u, np.sort(values)[::-1])


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1 / 3, 0.7, 1.0])
def test_the_projection_without_a_kernel_is_the_same_to_the_last_bit(gamma):
    """Learners start with it, so that nothing is compiled for that alone."""
    rng = np.random.default_rng(3)
    for k in range(1, 200):
        size = 10.0 ** rng.integers(-3, 300)
        for v in (
            np.append(np.full(k, 0.5 / k), 0.5),
            np.full(k, 1.0 / k),
            rng.normal(size=k),
            size * rng.normal(size=k),
        ):
            expected = project(v, gamma)
            clip_to_simplex(expected, gamma)
            np.testing.assert_array_equal(RestrictedSimplex(gamma).project(v), expected)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from([1e-3, 0.1, 0.5, 1.0]))
def test_settle_removes_rounding_and_hardly_moves(seed, k, gamma):
    rng = np.random.default_rng(seed)
    w = random_mixture(rng, k, gamma, on_bounds=seed % 2 == 0)
    x = w + 1e-10 * rng.normal(size=k)
    clip_to_simplex(x, gamma)
    assert_feasible(x, gamma)
    np.testing.assert_allclose(x, w, rtol=0, atol=1e-10 * (6 + k))


# The metric step ----------------------------------------------------------------------------------------------------


def problems(rng, k, condition, count):
    """Give starts inside and on bounds, metrics of several sizes, and gradients of which every third leads inside."""
    for i in range(count):
        w = random_mixture(rng, k, GAMMA, on_bounds=i % 2 == 1)
        H = random_metric(rng, k, condition) * 10.0 ** rng.integers(-3, 4)
        if i % 3 == 0:
            yield w, H @ (w - random_mixture(rng, k, GAMMA)), H
        elif i % 3 == 1:
            yield w, H @ (w - 1.5 * random_mixture(rng, k, 0.0, on_bounds=True) + 0.5 / k), H
        else:
            yield w, rng.normal(size=k) * np.abs(H).max() * 10.0 ** rng.integers(-6, 2), H


@pytest.mark.parametrize("condition", [1.0, 1e4])
@pytest.mark.parametrize("k", [2, 3, 7, 20, 100])
def test_metric_step_agrees_with_an_interior_point_solver(k, condition):
    rng = np.random.default_rng(k)
    for w, g, H in problems(rng, k, condition, 3 if k == 100 else 15):
        x = step(w, g, H)
        assert_feasible(x, GAMMA)
        np.testing.assert_allclose(x, quadratic_program(w, g, H, GAMMA), rtol=0, atol=1e-7)


@pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("k", [2, 3, 7, 20, 100])
def test_metric_step_agrees_with_an_interior_point_solver_in_a_nearly_singular_metric(k, size):
    """Gradients that decide: where they do not, only the 50 digits below can tell who is right."""
    rng = np.random.default_rng(k)
    for i in range(2 if k == 100 else 6):
        w = random_mixture(rng, k, GAMMA, on_bounds=i % 2 == 1)
        g, H = size * rng.normal(size=k), random_metric(rng, k, 1e12)
        np.testing.assert_allclose(step(w, g, H), quadratic_program(w, g, H, GAMMA), rtol=0, atol=1e-7)


def exact_step(w, g, H, gamma, free):
    """Solve the step in 50 digits.  `free` is a guess: bounds are taken and let go until every condition holds."""
    with mpmath.workdps(50):
        bounds = [mpmath.mpf(0)] * (len(w) - 1) + [mpmath.mpf(gamma)]
        w, g = [[mpmath.mpf(float(value)) for value in vector] for vector in (w, g)]
        H = [[mpmath.mpf(float(value)) for value in row] for row in H]
        everything = range(len(w))
        free = set(free)
        for _ in range(100):
            x, level = _minimum_on(free, w, g, H, bounds)
            gradient = [g[i] + mpmath.fdot(H[i], [x[j] - w[j] for j in everything]) for i in everything]
            room = {i: x[i] - bounds[i] for i in free}
            multiplier = {i: gradient[i] - level for i in everything if i not in free}
            if room and min(room.values()) < 0:
                free.remove(min(room, key=room.get))
            elif multiplier and min(multiplier.values()) < 0:
                free.add(min(multiplier, key=multiplier.get))
            else:
                return np.array([float(value) for value in x])
    raise AssertionError("no active set satisfies the conditions")


def _minimum_on(free, w, g, H, bounds):
    order = sorted(free)
    size = len(order)
    fixed = [j for j in range(len(w)) if j not in free]
    system, right = mpmath.zeros(size + 1), mpmath.zeros(size + 1, 1)
    for a, i in enumerate(order):
        for b, j in enumerate(order):
            system[a, b] = H[i][j]
        system[a, size] = system[size, a] = 1
        right[a] = -g[i] - mpmath.fsum(H[i][j] * (bounds[j] - w[j]) for j in fixed)
        right[a] += mpmath.fsum(H[i][j] * w[j] for j in order)
    right[size] = 1 - mpmath.fsum(bounds[j] for j in fixed)
    solution = mpmath.lu_solve(system, right)
    x = list(bounds)
    for a, i in enumerate(order):
        x[i] = solution[a]
    return x, -solution[size]


def assert_exact(w, g, H, gamma=GAMMA):
    x = step(w, g, H, gamma)
    exact = exact_step(w, g, H, gamma, free=np.flatnonzero(x > bounds_of(len(w), gamma)))
    np.testing.assert_allclose(x, exact, rtol=0, atol=1e-7)


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8, 1e10, 1e12])
@pytest.mark.parametrize("k", [2, 3, 7, 20])
def test_metric_step_is_exact_to_seven_digits(k, condition):
    rng = np.random.default_rng([k, int(np.log10(condition))])
    for w, g, H in problems(rng, k, condition, 6 if k == 20 else 60):
        assert_exact(w, g, H)


@pytest.mark.parametrize("k", [2, 3, 7, 12])
def test_metric_step_is_exact_when_the_diagonal_spans_ten_decades(k):
    """The barrier's diagonal 1 / w^2 does that."""
    rng = np.random.default_rng(k)
    for i in range(10 if k == 12 else 50):
        w = random_mixture(rng, k, GAMMA, on_bounds=i % 2 == 1)
        d = rng.permutation(np.geomspace(1e-5, 1.0, k))
        H = random_metric(rng, k, 10.0) * d[:, None] * d
        assert_exact(w, H @ (w - random_mixture(rng, k, GAMMA, on_bounds=i % 3 == 1)), H)


def redundant_evidence(rng, live, groups=6, rounds=50):
    """Give H = sum of g g' and the last g, from draws of equal groups with losses in the `live` ones.

    The uniform column is the mean of the group columns, so H is singular; groups without losses leave it zero rows.
    """
    H = np.zeros((groups + 1, groups + 1))
    for _ in range(rounds):
        w = random_mixture(rng, groups + 1, GAMMA)
        row = np.append(groups * (np.arange(groups) == rng.choice(live)), 1.0)
        g = -rng.random() * row / (row @ w) ** 3
        H += np.outer(g, g)
    return H, g


@pytest.mark.parametrize("live", [range(6), [2, 3]], ids=["all groups", "two groups"])
def test_metric_step_finds_the_least_objective_of_an_exactly_redundant_mixture(live):
    rng = np.random.default_rng(0)
    for i in range(40):
        H, g = redundant_evidence(rng, live)
        w = random_mixture(rng, 7, GAMMA, on_bounds=i % 2 == 1)
        assert np.linalg.matrix_rank(H) == len(live)
        best = objective(quadratic_program(w, g, H, GAMMA), w, g, H)
        excess = objective(step(w, g, H), w, g, H) - best
        assert excess <= 1e-9 * abs(best) + 1e-16 * H.max()  # the second term is the rounding of the objective


def test_metric_step_in_a_metric_of_zero_goes_to_the_steepest_vertex():
    w = np.array([0.3, 0.3, 0.4])
    np.testing.assert_allclose(step(w, np.array([1.0, -1.0, 0.0]), np.zeros((3, 3))), [0.0, 0.9, 0.1], atol=1e-12)


def test_metric_step_of_a_zero_gradient_stays():
    rng = np.random.default_rng(0)
    for k in (2, 7, 50):
        w = random_mixture(rng, k, GAMMA, on_bounds=True)
        np.testing.assert_allclose(step(w, np.zeros(k), random_metric(rng, k, 1e4)), w, rtol=0, atol=1e-14)


def test_metric_step_with_gamma_one_has_one_answer():
    w = np.array([0.0, 0.0, 1.0])
    np.testing.assert_array_equal(step(w, np.array([-1.0, 2.0, 5.0]), np.eye(3), gamma=1.0), w)


def test_metric_step_with_one_component_has_one_answer():
    np.testing.assert_array_equal(step(np.ones(1), np.array([3.0]), np.eye(1)), [1.0])


def test_metric_step_lets_go_of_bounds_that_the_start_touches():
    w = np.array([0.0, 0.0, 1.0])
    x = step(w, np.array([-1.0, -0.5, 0.0]), np.eye(3))
    np.testing.assert_allclose(x, [0.5, 0.0, 0.5], rtol=0, atol=1e-15)


def test_metric_step_counts_one_factorisation_when_no_bound_changes():
    w = np.array([0.3, 0.3, 0.4])
    assert metric_step(w, np.array([0.01, -0.01, 0.0]), np.eye(3), GAMMA, np.empty(3)) == 1


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_metric_step_ends_and_stays_feasible_whatever_it_is_fed(bad, k):
    w, inputs = spoilt(bad, k)
    for g, H in inputs:
        assert_feasible(step(w, g, H), GAMMA)


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_projected_descent_ends_and_stays_feasible_whatever_it_is_fed(bad, k):
    w, inputs = spoilt(bad, k)
    for g, H in inputs:
        assert_feasible(descend(w, g, H, 50), GAMMA)


def spoilt(bad, k):
    """Give a start, and all pairs of a gradient and a metric with `bad` nowhere, at one place or everywhere."""
    rng = np.random.default_rng(k)
    w, clean, metric = random_mixture(rng, k, GAMMA), rng.normal(size=k), random_metric(rng, k, 10.0)
    one_bad, all_bad = clean.copy(), np.full(k, bad)
    one_bad[0] = bad
    bad_diagonal, bad_corner = metric.copy(), metric.copy()
    bad_diagonal[0, 0] = bad_corner[0, -1] = bad_corner[-1, 0] = bad
    metrics = [metric, bad_diagonal, bad_corner, np.full((k, k), bad)]
    return w, list(itertools.product([clean, one_bad, all_bad], metrics))[1:]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_metric_step_gives_its_start_back_where_nothing_can_be_decided(bad):
    w, x = np.array([0.2, 0.3, 0.5]), np.empty(3)
    assert metric_step(w, np.full(3, bad), np.eye(3), GAMMA, x) == -1
    np.testing.assert_array_equal(x, w)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_projections_end_whatever_they_are_fed(bad):
    for v in ([bad, 0.0, 0.5], [0.0, 0.5, bad], [bad, bad, bad], [bad]):
        assert project(v, GAMMA).shape == (len(v),)


# The cap of pivots ---------------------------------------------------------------------------------------------------


def hard_steps(rng, k):
    """Give steps that reach most bounds, one after another: plain, badly scaled, nearly singular, of rank one."""
    w = np.full(k, 1.0 / k)
    g = rng.normal(size=k)
    for decades in (0, 6):
        d = rng.permutation(np.geomspace(10.0**-decades, 1.0, k))
        for condition in (10.0, 1e4, 1e12):
            yield w, 10.0 ** rng.integers(-3, 2) * g, random_metric(rng, k, condition) * d[:, None] * d
    yield random_mixture(rng, k, GAMMA, on_bounds=True), g, random_metric(rng, k, 10.0)
    yield w, g, np.outer(g, g)
    yield w, 1e200 * g, 1e200 * random_metric(rng, k, 10.0)
    yield w, g, np.zeros((k, k))
    yield w, g, -random_metric(rng, k, 10.0)  # no metric at all


def test_a_step_over_many_components_has_few_pivots():
    """It took hundreds, each with a factor of its own: 21 seconds at k = 1,000, where 10,000 pivots were allowed."""
    rng, k = np.random.default_rng(0), 500
    w, A, x = np.full(k, 1.0 / k), rng.normal(size=(500, 500)), np.empty(k)
    g, H = 0.1 * rng.normal(size=k), A @ A.T / k + 1e-3 * np.eye(k)
    assert 0 < simplex.CUT_SHORT - metric_step(w, g, H, 1e-3, x) < 150
    assert_feasible(x, 1e-3)
    assert objective(x, w, g, H) < 0.0
    x = RestrictedSimplex(1e-3).step(w, g, H)  # goes on from there
    assert_feasible(x, 1e-3)
    gradient = g + H @ (x - w)
    free = x[:-1] > 1e-9
    assert 10 < free.sum() < 200  # most bounds are touched
    level = gradient[:-1][free].mean()
    np.testing.assert_allclose(gradient[:-1][free], level, rtol=0, atol=1e-6)
    assert gradient[:-1].min() > level - 1e-6


@pytest.mark.parametrize("k", [2, 3, 20, 60])
@pytest.mark.parametrize("factors", [0, 1, 3, 10])
def test_a_capped_step_is_feasible_and_no_worse_than_its_start(k, factors):
    rng, lower = np.random.default_rng(k), bounds_of(k, 0.01)
    for w, g, H in hard_steps(rng, k):
        x = np.empty(k)
        simplex.bounded_step(w, g, H, lower, factors * float(k) ** 3, x)
        clip_to_simplex(x, 0.01)
        assert_feasible(x, 0.01)
        assert objective(x, w, g, H) <= 1e-12 * (np.abs(g).max() + np.abs(H).max())


@pytest.mark.parametrize("k", [20, 60])
def test_a_capped_step_comes_close_to_the_best(k):
    rng, lower, gaps = np.random.default_rng(k), bounds_of(k, 0.01), []
    for w, g, H in list(hard_steps(rng, k))[:7]:
        x, best = np.empty(k), np.empty(k)
        few = simplex.bounded_step(w, g, H, lower, 3.0 * k**3, x)
        if few <= simplex.CUT_SHORT:
            simplex.descend_projected(w, g, H, lower, x)
        many = simplex.bounded_step(w, g, H, lower, np.inf, best)
        assert abs(few - simplex.CUT_SHORT if few < 0 else few) <= many
        least = objective(best, w, g, H)
        gaps.append((objective(x, w, g, H) - least) / -least)
        assert gaps[-1] < 0.2
    assert np.median(gaps) < 1e-6


def test_pivots_stop_when_their_budget_is_spent():
    rng, k = np.random.default_rng(0), 60
    w, g, H = next(hard_steps(rng, k))
    g = 100.0 * g
    lower, x = bounds_of(k, 0.01), np.empty(k)
    whole = simplex.bounded_step(w, g, H, lower, np.inf, x)
    assert whole > 30
    counts = [simplex.bounded_step(w, g, H, lower, factors * float(k - 1) ** 3, x) for factors in (0, 1, 2, 5)]
    assert counts[:3] == [simplex.CUT_SHORT, simplex.CUT_SHORT - 1, simplex.CUT_SHORT - 2]
    assert 5 <= simplex.CUT_SHORT - counts[3] < 10  # later ones are smaller


def test_what_goes_on_from_a_step_that_was_cut_short_never_leads_up():
    rng, k = np.random.default_rng(1), 60
    lower = bounds_of(k, 0.01)
    for w, g, H in list(hard_steps(rng, k))[:7]:
        x = np.empty(k)
        simplex.bounded_step(w, g, H, lower, 0.0, x)
        before = objective(x, w, g, H)
        simplex.descend_projected(w, g, H, lower, x)
        assert objective(x, w, g, H) <= before + 1e-12 * (np.abs(g).max() + np.abs(H).max())


def test_the_nearest_point_in_a_scaled_metric_is_that_of_a_program():
    rng = np.random.default_rng(0)
    for k in (1, 2, 5, 30):
        for size in (0.1, 1.0, 1e3):
            v, scale, x = size * rng.normal(size=k), 10.0 ** rng.uniform(-3, 0, size=k), np.empty(k)
            simplex._project_scaled(v, scale, 0.7, x)
            assert x.min() >= 0.0
            assert x.sum() == pytest.approx(0.7)
            multipliers = scale * (v - x)
            free = x > 1e-12
            np.testing.assert_allclose(multipliers[free], multipliers[free][0], rtol=1e-6, atol=1e-9 * size)
            assert (multipliers[~free] <= multipliers[free][0] + 1e-9 * size).all()


# Projected descent --------------------------------------------------------------------------------------------------


def descend(w, g, H, steps):
    x = np.empty(len(w))
    projected_descent(w, g, H, GAMMA, steps, x)
    return x


@pytest.mark.parametrize("largest", [1e-6, 1.0, 11.0, 1e6])
@pytest.mark.parametrize("k", [2, 7, 20])
def test_projected_descent_never_raises_the_objective(k, largest):
    """A fixed step of 0.2 diverges as soon as the largest eigenvalue passes 10; the step 1 / ||H||_inf never does."""
    rng = np.random.default_rng(k)
    H = largest * random_metric(rng, k, 100.0)
    w = random_mixture(rng, k, GAMMA)
    g = H @ (w - rng.dirichlet(np.ones(k)))
    path = [objective(descend(w, g, H, steps), w, g, H) for steps in range(60)]
    assert path[0] == 0.0
    assert path[-1] < 0.0
    assert np.diff(path).max() <= 1e-15 * largest


@pytest.mark.parametrize("k", [2, 7, 20])
def test_projected_descent_approaches_the_metric_step(k):
    rng = np.random.default_rng(k)
    H, w = random_metric(rng, k, 30.0), random_mixture(rng, k, GAMMA)
    g = H @ (w - rng.dirichlet(np.ones(k)))
    x = step(w, g, H)
    far, near = (np.abs(descend(w, g, H, steps) - x).max() for steps in (3, 3000))
    assert near < 1e-9 < far


def test_one_step_of_projected_descent_is_a_projected_gradient():
    w, g = np.array([0.3, 0.3, 0.4]), np.array([0.3, -0.1, 0.0])
    H = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -1.0], [0.0, -1.0, 3.0]])
    np.testing.assert_allclose(descend(w, g, H, 1), project(w - g / 4.0, GAMMA), rtol=0, atol=1e-15)
