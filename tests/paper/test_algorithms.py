"""Algorithms 1 and 2 (ONS and VRM) against a literal transcription, and what they converge to."""

import numpy as np
import pytest

import varmix
from support.oracles import cost, quadratic_program, random_mixture, random_ratios
from varmix import Dense, Groups
from varmix.hindsight import best_mixture
from varmix.learners import ONS, BarrierNewton, Evidence

N, K = 30, 5


def literal_algorithm_2(w, H, gradient, beta, gamma):
    """Lines 5, 6 and 7, as printed: the inverse of H, and a projection in its norm by another solver."""
    H = H + np.outer(gradient, gradient)
    newton = w - np.linalg.solve(H, gradient) / beta
    return quadratic_program(newton, np.zeros(len(w)), H, gamma), H


def rounds(seed, count, m):
    """Give evidence from draws of a random problem, as a stream that does not depend on the learner."""
    rng = np.random.default_rng(seed)
    ratios = random_ratios(rng, N, K - 1)
    for _ in range(count):
        atoms = rng.integers(N, size=m)
        density = ratios[atoms] @ random_mixture(rng, K, 0.1)
        yield Evidence(ratios[atoms], rng.random(m) ** 2 / density)


@pytest.mark.parametrize("m", [1, 8])
@pytest.mark.parametrize(("gamma", "beta", "eps"), [(0.01, 10.0, 0.1), (0.1, 0.1, 10.0), (0.2, 1.0, 1.0)])
def test_ons_is_algorithm_2_line_by_line(gamma, beta, eps, m):
    learner = ONS(gamma=gamma, beta=beta, eps=eps)
    state = learner.init(K)
    w, H = state.mixture, eps * np.eye(K)
    np.testing.assert_allclose(w, np.append(np.full(K - 1, (1 - max(gamma, 1 / K)) / (K - 1)), max(gamma, 1 / K)))
    for evidence in rounds(seed=1, count=30, m=m):
        w, H = literal_algorithm_2(w, H, evidence.gradient(w), beta, gamma)
        state = learner.step(state, evidence)
        np.testing.assert_allclose(state.hessian, H, rtol=1e-6)
        np.testing.assert_allclose(state.mixture, w, rtol=0, atol=1e-7)


def test_full_information_is_algorithm_1():
    """Fed with a draw_all, the learner sees f_t itself: every atom once, with density one."""
    rng = np.random.default_rng(2)
    ratios, norms = random_ratios(rng, N, K - 1), rng.random((20, N))
    learner = ONS(gamma=0.1, beta=0.5, eps=1.0)
    sampler = varmix.vrm(Dense(ratios=ratios[:, :-1]), learner=learner, rng=0)
    q = sampler.draw_all().ratios
    w, H = sampler.mixture, learner.eps * np.eye(K)
    for losses in norms:
        gradient = -np.mean(losses[:, None] ** 2 * q / (q @ w)[:, None] ** 2, axis=0)
        w, H = literal_algorithm_2(w, H, gradient, learner.beta, learner.gamma)
        sampler.update(sampler.draw_all(), losses)
        np.testing.assert_allclose(sampler.mixture, w, rtol=0, atol=1e-7)


def test_vrm_is_algorithm_2():
    """Through the sampler: draw, feedback, and the gradient -l^2 q / (w.q)^3 of line 5."""
    rng = np.random.default_rng(3)
    ratios = random_ratios(rng, N, K - 1)
    learner = ONS(gamma=0.1, beta=0.5, eps=1.0)
    sampler = varmix.vrm(Dense(ratios=ratios[:, :-1]), learner=learner, rng=0)
    w, H = sampler.mixture, learner.eps * np.eye(K)
    for _ in range(50):
        draw = sampler.draw(1)
        norm, q = rng.random(), draw.ratios[0]
        w, H = literal_algorithm_2(w, H, -(norm**2) * q / (q @ w) ** 3, learner.beta, learner.gamma)
        sampler.update(draw, [norm])
        np.testing.assert_allclose(sampler.mixture, w, rtol=0, atol=1e-6)


def distance_of_pgd(steps):
    """Give the largest distance of one projected-gradient step from the exact one, over a run of the exact one."""
    exact, approximate = ONS(beta=1.0, eps=1.0), ONS(beta=1.0, eps=1.0, projection="pgd", steps=steps)
    state, other, largest = exact.init(K), approximate.init(K), 0.0
    for evidence in rounds(seed=4, count=25, m=8):
        other = approximate.step(other._replace(mixture=state.mixture), evidence)
        state = exact.step(state, evidence)
        largest = max(largest, np.abs(state.mixture - other.mixture).max())
    return largest


def test_projected_gradient_steps_approach_the_exact_step():
    """Section 5: few steps of an iterative solver trade accuracy for speed, many do not."""
    assert distance_of_pgd(20_000) < 1e-6 < distance_of_pgd(2)


@pytest.mark.parametrize(("refactor", "tolerance"), [(10_000, 1e-9), (50, 1e-11)])
def test_sherman_morrison_keeps_the_inverse(refactor, tolerance):
    """Section 5: the inverse of H is updated in O(k^2), and drifts."""
    learner = ONS(beta=1.0, eps=1.0, projection="pgd", refactor=refactor)
    state = learner.init(K)
    for evidence in rounds(seed=5, count=400, m=1):
        state = learner.step(state, evidence)
    inverse = np.linalg.inv(state.hessian)
    assert state.rounds == 400
    np.testing.assert_allclose(state.inverse, inverse, rtol=0, atol=tolerance * np.abs(inverse).max())


@pytest.mark.parametrize("m", [1, 32])
def test_vrm_converges_to_the_best_mixture_in_hindsight(m):
    """A stationary problem: after 3,000 rounds the cost is within 1 % of the best restricted mixture."""
    rng = np.random.default_rng(6)
    ratios = random_ratios(rng, N, K - 1)
    norms = (ratios @ [0.7, 0.2, 0.0, 0.0, 0.1]) * rng.uniform(0.8, 1.2, size=N)
    sampler = varmix.vrm(Dense(ratios=ratios[:, :-1]), rng=0)
    start = cost(ratios, norms, sampler.mixture)
    for _ in range(3000):
        draw = sampler.draw(m)
        sampler.update(draw, norms[draw.indices])
    best = best_mixture(Evidence(ratios, norms**2), gamma=BarrierNewton().gamma)
    assert start > 1.1 * best.cost
    assert best.cost * (1 - 1e-6) <= cost(ratios, norms, sampler.mixture) < 1.01 * best.cost


def test_a_component_per_point_finds_importance_sampling_over_points():
    """Section 2: k = n with p_j(i) = 1[i = j], c = n, generalises sampling distributions over points.

    The best of those is p_i proportional to l_i, mixed with gamma of uniform.  Measured: within 6 % of its cost
    after 800 batches of 64, from a start 88 % above it.
    """
    rng = np.random.default_rng(0)
    n, gamma = 200, 0.1
    family = Groups(np.arange(n))
    assert family.c == pytest.approx(n)
    norms = rng.lognormal(size=n)
    pointwise = np.mean(norms**2 / ((1 - gamma) * norms / norms.mean() + gamma))
    sampler = varmix.vrm(family, gamma=gamma, rng=0)
    for _ in range(800):
        draw = sampler.draw(64)
        sampler.update(draw, norms[draw.indices])
    reached = cost(sampler.draw_all().ratios, norms, sampler.mixture)
    assert np.mean(norms**2) > 1.8 * pointwise
    assert reached < 1.1 * pointwise
