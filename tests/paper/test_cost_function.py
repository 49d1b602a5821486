"""Section 2 and Equation (mod-loss): weights and estimates are unbiased, by summing over all that can happen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import varmix
from support.oracles import atom_probabilities, lane_probabilities, mixtures, problems, random_mixture, target_of
from varmix import Dense, Distances, Groups, Stack, Uniform
from varmix.allocate import independent, one_component, stratified, systematic
from varmix.components import Points, with_uniform
from varmix.learners import Evidence

N = 12
LABELS = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2])
TARGETS = {
    "uniform": None,
    "target": np.arange(1.0, N + 1),
    "target with zeros": np.array([0.0, 2, 1, 0, 0, 3, 1, 1, 0, 5, 1, 0]),
}


def dense(target):
    table = np.random.default_rng(0).gamma(0.5, size=(N, 3))
    table *= 1.0 if target is None else np.asarray(target)[:, None] > 0
    return Dense(table / table.sum(axis=0), target=target)


def distances(target):
    X = np.random.default_rng(1).normal(size=(N, 2))
    return Distances(X, X[[1, 5]], smoothing=0.1, target=target)


FAMILIES = {
    "dense": lambda target: with_uniform(dense(target)),
    "groups": lambda target: with_uniform(Groups(LABELS, target=target)),
    "groups without anchor": lambda target: Groups(LABELS, target=target),
    "smoothed groups": lambda target: with_uniform(Groups(LABELS, smoothing=0.2, target=target)),
    "smoothed groups without anchor": lambda target: Groups(LABELS, smoothing=0.2, target=target),
    "distances": lambda target: with_uniform(distances(target)),
    "uniform": lambda target: Uniform(Points(N, target)),
    "stack": lambda target: Stack(
        Groups(LABELS, smoothing=0.2, target=target), dense(target), Uniform(Points(N, target))
    ),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_lanes_and_atoms_together_follow_the_mixture(make, target):
    """I_t ~ w.p: what the lanes and the draws inside them make together is the density times the target."""
    family = make(target)
    law = target_of(family)
    for seed in range(3):
        w = random_mixture(np.random.default_rng(seed), family.k, 0.1, on_bounds=seed == 2)
        shares = family.lanes(w)
        drawn = shares @ atom_probabilities(family, len(shares))
        np.testing.assert_allclose(drawn, law * (family.ratios(np.arange(N)) @ w), rtol=0, atol=1e-12)
        assert (drawn[law == 0.0] == 0.0).all()


@pytest.mark.parametrize("allocation", [independent, stratified, systematic, one_component], ids=repr)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_weighted_batch_means_are_unbiased_under_every_allocation(make, target, allocation):
    """E[ mean_r r(I_r) h(I_r) ] is the mean of h under the target, for every h: r_i = 1 / (n w.p(i))."""
    family = make(target)
    w = random_mixture(np.random.default_rng(3), family.k, 0.1)
    shares = family.lanes(w)
    atoms = atom_probabilities(family, len(shares))
    weights = 1 / (family.ratios(np.arange(N)) @ w)
    for m in (1, 3, 8):
        lanes = lane_probabilities(allocation, shares, m)
        np.testing.assert_allclose(lanes.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(weights * (lanes @ atoms).mean(axis=0), target_of(family), rtol=0, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_receipts_carry_the_density_and_its_inverse(make, target):
    sampler = varmix.Sampler(make(target), learner=varmix.learners.Fixed(), rng=0)
    draw = sampler.draw(50)
    density = sampler.components.ratios(draw.indices) @ sampler.mixture
    np.testing.assert_allclose(draw.density, density, rtol=1e-13)
    np.testing.assert_allclose(draw.weights * draw.density, 1.0, rtol=1e-15)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_the_weighted_mean_of_a_census_is_the_mean_under_the_target(target):
    sampler = varmix.vrm(dense(target), rng=0)
    draw_all = sampler.draw_all()
    h = np.random.default_rng(4).normal(size=N)
    assert np.mean(draw_all.weights * h[draw_all.indices]) == pytest.approx(
        target_of(sampler.components) @ h, abs=1e-15
    )


@settings(max_examples=100, deadline=None)
@given(problems(), st.data())
def test_estimated_value_gradient_and_hessian_are_unbiased_at_every_mixture(problem, data):
    """Equation (mod-loss): l~^2(i) = l^2(i) 1[I = i] / (w_t.p(i)) has mean l^2(i), so f~_t has mean f_t."""
    ratios, norms, gamma, drawn_with = problem
    n, k = ratios.shape
    w = data.draw(mixtures(k, gamma))
    density = ratios @ drawn_with
    rounds = [Evidence(ratios[[i]], [norms[i] ** 2 / density[i]]) for i in range(n)]
    probability = density / n
    everything = Evidence(ratios, norms**2)  # f_t itself: full information
    for quantity in ("value", "gradient", "hessian"):
        expected = sum(p * getattr(one, quantity)(w) for p, one in zip(probability, rounds, strict=True))
        np.testing.assert_allclose(expected, getattr(everything, quantity)(w), rtol=1e-10, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_cost_in_ratios_is_the_papers_over_n_squared(problem):
    """f_t(w) = sum_i l^2(i) / (w.p(i)) with p = q / n; varmix works with f_t / n^2."""
    ratios, norms, _, w = problem
    n = len(ratios)
    p = ratios / n
    paper = np.sum(norms**2 / (p @ w))
    assert Evidence(ratios, norms**2).value(w) == pytest.approx(paper / n**2, rel=1e-12)
    gradient = -np.sum(norms[:, None] ** 2 * p / (p @ w)[:, None] ** 2, axis=0)
    np.testing.assert_allclose(Evidence(ratios, norms**2).gradient(w), gradient / n**2, rtol=1e-12)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_gradient_of_a_draw_has_factor_one(problem):
    """Algorithm 2 prints the value at w_t, l^2 / (w.p)^2; the density of the draw is a constant, not a second w."""
    ratios, norms, _, w = problem
    for q, norm in zip(ratios, norms, strict=True):
        d = q @ w
        gradient = Evidence([q], [norm**2 / d]).gradient(w)
        np.testing.assert_allclose(gradient, -(norm**2) * q / d**3, rtol=1e-12)


def test_the_variance_of_the_estimate_is_the_cost_minus_the_squared_mean():
    """Section 2: Var = f / n^2 - L^2."""
    rng = np.random.default_rng(5)
    family = with_uniform(dense(None))
    ratios, norms, w = family.ratios(np.arange(N)), rng.random(N), random_mixture(rng, 4, 0.1)
    density = ratios @ w
    probability, estimate = density / N, norms / density
    variance = probability @ estimate**2 - (probability @ estimate) ** 2
    assert variance == pytest.approx(Evidence(ratios, norms**2).value(w) - norms.mean() ** 2, rel=1e-12)
