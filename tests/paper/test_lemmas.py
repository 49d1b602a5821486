"""The paper's lemmas and bounds as properties, in units of f / n^2 (so that n appears in none of them).

Lemmas and theorems share one counter in the paper: Lemma 1 bounds the cost of the restriction, Lemma 2 is
exp-concavity, Lemma 3 and Theorem 4 are the regret with full information, Lemma 6 is the projection.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import varmix
from support.oracles import mixtures, problems, quadratic_program
from varmix.hindsight import best_mixture, regret
from varmix.learners import Evidence
from varmix.simplex import RestrictedSimplex
from varmix.theory import full_information, partial_information, theorem_1_bound

L = 1.0  # the norms of `problems` are at most one
MANY = settings(max_examples=100, deadline=None)


def smallest_eigenvalue(H):
    return np.linalg.eigvalsh(H).min() / max(np.abs(H).max(), 1e-300)


@MANY
@given(problems())
def test_restriction_costs_at_most_gamma_L_a_round(problem):
    """Lemma 1: (B) <= gamma L T."""
    ratios, norms, gamma, _ = problem
    evidence = Evidence(ratios, norms**2)
    restricted, full = best_mixture(evidence, gamma=gamma), best_mixture(evidence)
    assert restricted.cost - full.cost <= gamma * L + restricted.gap + 1e-9


@MANY
@given(problems())
def test_restriction_costs_at_most_a_factor_of_one_over_one_minus_gamma(problem):
    """Not in the paper: (1 - gamma) w* + gamma e_k has at least 1 - gamma of the density of w*."""
    ratios, norms, gamma, _ = problem
    evidence = Evidence(ratios, norms**2)
    restricted, full = best_mixture(evidence, gamma=gamma), best_mixture(evidence)
    assert restricted.cost <= full.cost / (1 - gamma) + restricted.gap + 1e-9


@MANY
@given(problems())
def test_cost_is_exp_concave_on_the_restricted_simplex(problem):
    """Lemma 2: the Hessian minus alpha g g' is positive semi-definite for alpha = 2 gamma / L."""
    ratios, norms, gamma, w = problem
    evidence = Evidence(ratios, norms**2)
    g, alpha = evidence.gradient(w), 2 * gamma / L
    assert smallest_eigenvalue(evidence.hessian(w) - alpha * np.outer(g, g)) >= -1e-12


@MANY
@given(problems(), st.data())
def test_estimated_cost_is_exp_concave_on_the_restricted_simplex(problem, data):
    """Theorem 5's proof: with partial information alpha = 2 gamma^2 / L, wherever in the simplex the draw was made."""
    ratios, norms, gamma, w = problem
    density = ratios @ data.draw(mixtures(len(w), gamma))
    for q, norm, d in zip(ratios, norms, density, strict=True):
        evidence = Evidence([q], [norm**2 / d])
        g, alpha = evidence.gradient(w), 2 * gamma**2 / L
        assert smallest_eigenvalue(evidence.hessian(w) - alpha * np.outer(g, g)) >= -1e-12


def test_exp_concavity_constants_cannot_be_doubled():
    """Both bounds are attained: one point, drawn and judged at w = gamma e_k, with all of its loss at L."""
    gamma, w = 0.1, np.array([0.9, 0.1])
    evidence = Evidence([[0.0, 1.0]], [L])
    g = evidence.gradient(w)
    assert smallest_eigenvalue(evidence.hessian(w) - 1.99 * gamma / L * np.outer(g, g)) >= 0.0
    assert smallest_eigenvalue(evidence.hessian(w) - 2.01 * gamma / L * np.outer(g, g)) < 0.0


@MANY
@given(problems())
def test_gradients_with_full_information_are_bounded(problem):
    """Section 3: |gradient| <= G = L sqrt(k) / gamma^2."""
    ratios, norms, gamma, w = problem
    bound = L * np.sqrt(len(w)) / gamma**2
    assert np.linalg.norm(Evidence(ratios, norms**2).gradient(w)) <= bound * (1 + 1e-12)


@MANY
@given(problems(), st.data())
def test_gradients_with_partial_information_are_bounded(problem, data):
    """Section 4: |gradient| <= L c sqrt(k) / gamma^3, where c is the largest ratio (Assumption 1)."""
    ratios, norms, gamma, w = problem
    density = ratios @ data.draw(mixtures(len(w), gamma))
    bound = L * ratios.max() * np.sqrt(len(w)) / gamma**3
    for q, norm, d in zip(ratios, norms, density, strict=True):
        assert np.linalg.norm(Evidence([q], [norm**2 / d]).gradient(w)) <= bound * (1 + 1e-12)


def test_theory_uses_these_constants():
    full, partial = full_information(10**7, k=3, L=2.0), partial_information(10**7, k=3, c=5.0, L=2.0)
    assert full.alpha == pytest.approx(2 * full.gamma / 2.0)
    assert full.gradient_bound == pytest.approx(2.0 * 3**0.5 / full.gamma**2)
    assert partial.alpha == pytest.approx(2 * partial.gamma**2 / 2.0)
    assert partial.gradient_bound == pytest.approx(2.0 * 5.0 * 3**0.5 / partial.gamma**3)


@MANY
@given(problems(), st.integers(0, 2**32))
def test_density_is_at_least_gamma_and_weights_at_most_its_inverse(problem, seed):
    """Section 3: w.p(i) >= gamma / n on the restricted simplex, here through a real sampler."""
    ratios, norms, gamma, _ = problem
    sampler = varmix.vrm(varmix.Dense(ratios=ratios[:, :-1]), gamma=gamma, rng=seed)
    for _ in range(3):
        draw = sampler.draw(8)
        assert draw.density.min() >= gamma * (1 - 1e-12)
        assert draw.weights.max() <= (1 + 1e-12) / gamma
        sampler.update(draw, norms[draw.indices])
        assert sampler.mixture[-1] >= gamma


@MANY
@given(problems())
def test_no_mixture_costs_more_than_uniform_over_gamma(problem):
    """C <= U / gamma: the worst that adapting can do."""
    ratios, norms, gamma, w = problem
    evidence = Evidence(ratios, norms**2)
    assert evidence.value(w) <= np.mean(norms**2) / gamma * (1 + 1e-12)


@MANY
@given(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=9), st.sampled_from([0.01, 0.1, 0.7, 1.0]))
def test_algorithm_3_is_the_euclidean_projection(values, gamma):
    """Lemma 6, against a quadratic program."""
    v = np.array(values, dtype=np.float64)
    projected = RestrictedSimplex(gamma).project(v)
    expected = quadratic_program(v, np.zeros(len(v)), np.eye(len(v)), gamma)
    np.testing.assert_allclose(projected, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("losses", ["random", "alternating", "adversarial"])
def test_regret_with_full_information_is_far_below_the_bounds(k, losses):
    """Lemma 3: (A) <= 10 L k^(3/2) log(T) / gamma^2.  Theorem 4: regret <= 5 L k^(1/2) T^(2/3) log(T)^(1/3).

    Hardly any learner could reach those bounds, so they are divided by fifty: staying at a vertex exceeds that.
    """
    rng = np.random.default_rng(k)
    T, n = 300, 20
    table = rng.gamma(0.3, size=(n, k - 1)) + 1e-3
    setting = full_information(T, k)
    sampler = varmix.vrm(varmix.Dense(ratios=table / table.mean(axis=0)), learner=setting.ons(), rng=0)
    ratios = sampler.draw_all().ratios
    squares, played = np.empty((T, n)), np.empty((T, k))
    for t in range(T):
        played[t] = sampler.mixture
        if losses == "random":
            squares[t] = rng.random(n)
        elif losses == "alternating":
            squares[t] = np.arange(n) % 2 == t % 2
        else:
            squares[t] = (ratios @ played[t]).argsort().argsort() < 3
        sampler.update(sampler.draw_all(), np.sqrt(squares[t]))
    restricted = regret(ratios, squares, played, gamma=setting.gamma)
    assert restricted <= 10 * L * k**1.5 * np.log(T) / setting.gamma**2 / 50
    assert 0.0 < regret(ratios, squares, played) <= theorem_1_bound(T, k) / 50
    vertex = np.tile((1 - setting.gamma) * np.eye(k)[0] + setting.gamma * np.eye(k)[-1], (T, 1))
    assert regret(ratios, squares, vertex) > theorem_1_bound(T, k) / 50
