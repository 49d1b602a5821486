"""The compiled rounds of the learners against plain numpy."""

import numpy as np
import pytest

from support.oracles import quadratic_program, random_mixture, random_ratios
from varmix.learners._kernels import average_groups, barrier_newton, group_of_rows, leader, neyman

BETA, EPS, GAMMA = 0.25, 3.0, 0.1


def rows(rng, m, k):
    return random_ratios(rng, m, k - 1), rng.random(m) * (rng.random(m) < 0.8)


def newton(ratios, c, w, R, cost, weight, decay):
    mixture, curvature = np.empty(len(w)), np.empty(R.shape)
    cost, weight = barrier_newton(ratios, c, w, R, cost, weight, GAMMA, BETA, EPS, decay, mixture, curvature)
    return mixture, curvature, cost, weight


def plain_newton(ratios, c, w, R, cost, weight, decay):
    """The docstring of BarrierNewton, line by line."""
    d = ratios @ w
    f, g = np.mean(c / d), -(c / d**2) @ ratios / len(c)
    cost, weight = decay * cost + f, decay * weight + 1.0
    R = decay * R + 2 * np.outer(np.sqrt(w) * g, np.sqrt(w) * g) / f
    s = cost / weight
    k = len(w)
    inverse = np.diag(1 / np.maximum(w, 1e-3 / k))
    B = np.eye(k)
    B[:-1, :-1] -= (k - 2) / (k - 1) ** 2
    metric = BETA * np.sqrt(inverse) @ R @ np.sqrt(inverse) + EPS * s * inverse @ B @ inverse
    lower = np.where(w > 1e-3 / k, w / 2, 0.0)
    return quadratic_program(w, g, metric, GAMMA, lower), R, cost, weight


@pytest.mark.parametrize("decay", [1.0, 0.9])
@pytest.mark.parametrize(("m", "k"), [(1, 2), (1, 7), (16, 7), (16, 20)])
def test_barrier_newton_is_its_definition(m, k, decay):
    rng = np.random.default_rng([m, k])
    state = (random_mixture(rng, k, GAMMA), np.zeros((k, k)), 0.0, 0.0)
    for _ in range(25):
        ratios, c = rows(rng, m, k)
        c[0] = 1.0
        expected = plain_newton(ratios, c, *state, decay)
        state = newton(ratios, c, *state, decay)
        for mine, theirs in zip(state, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-8)


def test_barrier_newton_counts_rounds_without_loss_and_stays():
    rng = np.random.default_rng(0)
    w, R = random_mixture(rng, 4, GAMMA), np.eye(4)
    mixture, curvature, cost, weight = newton(random_ratios(rng, 3, 3), np.zeros(3), w, R, 5.0, 2.0, 0.5)
    np.testing.assert_array_equal(mixture, w)
    np.testing.assert_array_equal(curvature, 0.5 * R)
    assert (cost, weight) == (2.5, 2.0)


def test_barrier_newton_halves_no_more_in_one_round_whatever_the_loss():
    ratios, w = np.array([[0.0, 3.0, 1.0]]), np.array([0.3, 0.2, 0.5])
    mixture, *_ = newton(ratios, np.array([1e6]), w, np.zeros((3, 3)), 100.0, 100.0, 1.0)
    assert mixture[0] == pytest.approx(0.15)
    assert mixture[1] > 0.2


def test_barrier_newton_has_nothing_to_choose_with_one_component():
    mixture, _, cost, _ = newton(np.ones((2, 1)), np.array([1.0, 3.0]), np.ones(1), np.zeros((1, 1)), 0.0, 0.0, 1.0)
    np.testing.assert_array_equal(mixture, [1.0])
    assert cost == 2.0


def follow(ratios, c, w, steps=1):
    mixture = np.empty(len(w))
    leader(ratios, c, w, GAMMA, steps, mixture)
    return mixture


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_leader_is_its_definition(steps):
    rng = np.random.default_rng(steps)
    ratios, c = rows(rng, 50, 5)
    w = random_mixture(rng, 5, GAMMA)
    expected = w.copy()
    for _ in range(steps):
        expected *= np.sqrt((c / (ratios @ expected) ** 2) @ ratios)
        expected = np.maximum(expected / expected.sum(), 1e-6 / 5)
        expected = (1 - GAMMA) * expected / expected.sum()
        expected[-1] += GAMMA
    np.testing.assert_allclose(follow(ratios, c, w, steps), expected, rtol=1e-12)


def test_leader_lets_no_component_die():
    ratios, c = np.array([[2.0, 0.0, 1.0]]), np.ones(1)
    w = follow(ratios, c, np.array([0.4, 0.0, 0.6]), steps=200)
    assert 0.0 < w[1] < 1e-6


def test_leader_stays_where_there_is_no_loss():
    w = np.array([0.2, 0.3, 0.5])
    np.testing.assert_array_equal(follow(np.ones((4, 3)), np.zeros(4), w), w)


def allocate(ratios, norms, masses, state, decay=0.9, parents=()):
    mixture, squares, counts = (np.array(part) for part in state)
    groups = np.empty(len(ratios), dtype=np.int64)
    group_of_rows(ratios, groups)
    average_groups(groups, norms, decay, squares, counts)
    neyman(squares, counts, masses, np.array(parents, dtype=np.int64), state[0], GAMMA, mixture)
    return mixture, squares, counts


def plain_neyman(ratios, norms, masses, state, decay=0.9, parents=()):
    """The docstring of Neyman, row by row."""
    mixture, squares, counts = (np.array(part) for part in state)
    for row, norm in zip(ratios, norms, strict=True):
        group = np.argmax(row[:-1])
        squares[group] = decay * squares[group] + norm**2
        counts[group] = decay * counts[group] + 1.0
    seen = counts > 0
    means = np.divide(squares, counts, out=np.zeros_like(squares), where=seen)
    families = np.array(parents) if len(parents) else np.zeros(len(masses), dtype=int)
    above = np.full(len(masses), (masses * means)[seen].sum() / masses[seen].sum())
    for parent in set(families[seen].tolist()):
        heard = seen & (families == parent)
        above[families == parent] = (masses * means)[heard].sum() / masses[heard].sum()
    means[~seen] = above[~seen]
    wanted, inherited = masses * np.sqrt(means), masses * np.sqrt(above)
    if wanted.sum() > 0:
        share = wanted / wanted.sum()
        share = (share + inherited / inherited.sum()) / 2 if len(parents) else share
        mixture = np.append((1 - GAMMA) * share, GAMMA)
    return mixture, squares, counts


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize(("m", "groups"), [(1, 1), (1, 5), (7, 5), (64, 20)])
def test_neyman_is_its_definition(m, groups, smoothing, nested):
    rng = np.random.default_rng([m, groups])
    masses = rng.dirichlet(np.ones(groups))
    parents = np.arange(groups) // 3 if nested else ()
    state = np.append((1 - GAMMA) * masses, GAMMA), np.zeros(groups), np.zeros(groups)
    expected = state
    for i in range(30):
        rows = np.full((m, groups + 1), smoothing)
        group = rng.integers(groups, size=m)
        rows[np.arange(m), group] = (1 - smoothing) / masses[group] + smoothing
        rows[:, -1] = 1.0
        norms = rng.gamma(0.5, size=m) * (i != 3)
        state = allocate(rows, norms, masses, state, parents=parents)
        expected = plain_neyman(rows, norms, masses, expected, parents=parents)
        for mine, theirs in zip(state, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-14)


def test_neyman_takes_the_first_of_equal_ratios_and_stays_where_there_is_no_loss():
    masses, start = np.array([0.5, 0.5]), (np.array([0.2, 0.7, 0.1]), np.zeros(2), np.zeros(2))
    mixture, squares, counts = allocate(np.ones((4, 3)), np.zeros(4), masses, start, decay=1.0)
    np.testing.assert_array_equal(mixture, start[0])
    assert (squares.tolist(), counts.tolist()) == ([0.0, 0.0], [4.0, 0.0])


def test_neyman_stays_where_only_groups_without_mass_were_seen():
    masses, start = np.array([0.0, 1.0]), (np.array([0.0, 0.9, 0.1]), np.zeros(2), np.zeros(2))
    mixture, *_ = allocate(np.array([[2.0, 0.0, 1.0]]), np.ones(1), masses, start)
    np.testing.assert_array_equal(mixture, start[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_rounds_end_and_stay_feasible_whatever_they_are_fed(bad):
    """A loop that does not end would hang here: an active-set loop given an infinite Hessian once did."""
    rng = np.random.default_rng(0)
    w = random_mixture(rng, 4, GAMMA)
    for spoil in ("c", "ratios", "R", "cost"):
        ratios, c = rows(rng, 6, 4)
        R, cost = np.eye(4), 1.0
        if spoil == "c":
            c[:] = bad
        elif spoil == "ratios":
            ratios[2, 1] = bad
        elif spoil == "R":
            R[0, 1] = R[1, 0] = bad
        else:
            cost = bad
        for mixture in (newton(ratios, c, w, R, cost, 1.0, 1.0)[0], follow(ratios, c, w, steps=3)):
            assert np.isfinite(mixture).all()
            assert mixture[-1] >= GAMMA
            assert mixture.sum() == pytest.approx(1.0, abs=1e-12)
