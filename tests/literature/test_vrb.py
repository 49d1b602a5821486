"""VRB against the pseudo-code of its paper, in the paper's units."""

import math

import numpy as np
import pytest

import varmix
from support.oracles import norms_at
from varmix import literature
from varmix._core.draw import seal_draw
from varmix.components import Cumulative, Points, with_uniform
from varmix.literature import vrb


class PlainVRB:
    """Borsos, Levy and Krause (2018): weights, probabilities, pseudo-losses."""

    def __init__(self, n, theta, gamma):
        self.n, self.theta, self.gamma = n, theta, gamma
        self.w = [0.0] * n

    def probabilities(self):
        gamma = self.gamma if isinstance(self.gamma, list) else [self.gamma] * self.n
        roots = [math.sqrt(w + g) for w, g in zip(self.w, gamma, strict=True)]
        total = sum(roots)
        return [(1 - self.theta) * root / total + self.theta / self.n for root in roots]

    def update(self, i, loss, probability_then):
        self.w[i] += loss**2 / probability_then


def pinned(sampler, plain, rounds=400, m=3, delay=0, seed=0):
    """Run both on the same draws; feedback comes back late and in random order."""
    waiting, order = [], np.random.default_rng(seed)
    for t in range(rounds):
        probabilities = np.array(plain.probabilities())
        draw_all = sampler.components.ratios(np.arange(plain.n)) @ sampler.mixture
        np.testing.assert_allclose(draw_all / plain.n, probabilities, atol=1e-10, rtol=1e-10)
        draw = sampler.draw(m)
        np.testing.assert_allclose(draw.density / plain.n, probabilities[draw.indices], rtol=1e-10)
        waiting.append((draw, norms_at(t, draw.indices), probabilities[draw.indices]))
        if len(waiting) > delay:
            draw, norms, then = waiting.pop(order.integers(len(waiting)))
            sampler.update(draw, norms)
            for i, norm, p in zip(draw.indices, norms, then, strict=True):
                plain.update(i, norm, p)
    return plain


@pytest.mark.parametrize(("m", "delay"), [(1, 0), (3, 0), (40, 0), (4, 9)])
def test_probabilities_are_those_of_the_paper(m, delay):
    n, theta, gamma = 23, 0.3, 0.7
    # The paper's sums, and so its gamma, are n times ours.  With 40 draws of 23 points some come twice.
    pinned(vrb(n, theta=theta, gamma=gamma, rng=1), PlainVRB(n, theta, n * gamma), m=m, delay=delay)


def test_gamma_may_differ_from_point_to_point():
    gamma = 0.1 + np.arange(23.0)
    sampler = vrb(23, theta=0.2, gamma=gamma, rng=1)
    pinned(sampler, PlainVRB(23, 0.2, (23 * gamma).tolist()))
    assert np.array_equal(sampler.components.gamma, gamma)


def test_without_gamma_it_is_the_mean_squared_norm_within_a_factor_of_two():
    sampler = vrb(50, rng=2)
    total, rows, gammas = 0.0, 0, []
    assert sampler.components.gamma == 1.0
    for t in range(500):
        draw = sampler.draw(4)
        norms = norms_at(t, draw.indices) * (1 if t < 250 else 30)
        sampler.update(draw, norms)
        total, rows = total + float((norms**2 / draw.density).sum()), rows + 4
        assert 0.5 <= (total / rows) / sampler.components.gamma <= 2
        gammas.append(sampler.components.gamma)
    assert gammas[0] == pytest.approx(
        float((norms_at(0, varmix.literature.vrb(50, rng=2).draw(4).indices) ** 2).mean())
    )
    assert 2 <= len(set(gammas)) <= 12  # it moves, and seldom
    # With that gamma the law is the paper's.
    squares = sampler.components.state_dict()["squares"]
    roots = np.sqrt(squares + gammas[-1])
    np.testing.assert_allclose(sampler.draw_all().ratios[:, 0], roots / roots.mean(), rtol=1e-10)


def test_theory_settings_are_the_papers_in_our_units():
    settings = literature.vrb_theory(1000, 64_000, L=4.0)
    assert settings["theta"] == pytest.approx((1000 / 64_000) ** (1 / 3))
    assert 1000 * settings["gamma"] == pytest.approx(1000 * 4.0 / settings["theta"])  # n L / theta
    with pytest.raises(ValueError, match="rounds = 9 and n = 10"):
        literature.vrb_theory(10, 9)
    with pytest.raises(ValueError, match="above zero"):
        literature.vrb_theory(10, 90, L=0.0)


def test_expected_sums_are_those_of_full_information():
    """Sum over all atoms of probability times what it adds: l_i^2 / n for every point, whatever the law was."""
    n = 12
    sampler = vrb(n, gamma=0.5, rng=0)
    for t in range(20):
        draw = sampler.draw(5)
        sampler.update(draw, norms_at(t, draw.indices))
    density = sampler.components.ratios(np.arange(n)) @ sampler.mixture
    norms, before = norms_at(0, np.arange(n)), sampler.components.state_dict()["squares"]
    expected = np.zeros(n)
    for i in range(n):
        family = with_uniform(Cumulative(n, gamma=0.5))
        family.load_state_dict(sampler.components.state_dict())
        family.observe(seal_draw(np.array([i]), np.ones(1), np.ones((1, 2)), density[[i]], 0, ""), norms[[i]])
        expected += density[i] / n * (family.state_dict()["squares"] - before)
    np.testing.assert_allclose(expected, norms**2 / n, rtol=1e-10)


def test_draw_all_is_full_information():
    sampler = vrb(9, gamma=0.3, rng=0)
    norms = np.arange(9.0)
    sampler.update(sampler.draw_all(), norms)
    roots = np.sqrt(norms**2 + 0.3)
    np.testing.assert_allclose(sampler.draw_all().ratios[:, 0], roots / roots.mean(), rtol=1e-12)


def test_under_a_target_the_law_tends_to_target_times_norm():
    rng = np.random.default_rng(0)
    target, norms = rng.random(30) * (np.arange(30) % 5 > 0), rng.lognormal(size=30)
    sampler = vrb(Points(30, target), theta=0.1, gamma=1e-9, rng=0)
    target = target / target.sum()
    for _ in range(3000):
        draw = sampler.draw(20)
        assert target[draw.indices].min() > 0
        sampler.update(draw, norms[draw.indices])
    best = target * norms / (target @ norms)
    law = target * sampler.components.ratios(np.arange(30))[:, 0]
    np.testing.assert_allclose(law, best, atol=0.05 * best.max())


def second_moment(sampler, norms):
    density = sampler.components.ratios(np.arange(len(norms))) @ sampler.mixture
    return float(np.mean(norms**2 / density))


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1.0, 1e6, 1e100])
def test_the_second_moment_ends_near_the_best_whatever_the_scale(scale):
    norms = scale * np.exp(np.random.default_rng(3).normal(size=500))
    uniform, best = np.mean((norms / scale) ** 2), np.mean(norms / scale) ** 2
    sampler = vrb(500, rng=0)
    for _ in range(600):
        draw = sampler.draw(16)
        sampler.update(draw, norms[draw.indices])
    reached = second_moment(sampler, norms / scale)
    assert best < reached < 1.1 * best < 0.6 * uniform


def test_the_theorys_settings_end_below_uniform_too():
    norms = np.exp(np.random.default_rng(3).normal(size=100))
    settings = literature.vrb_theory(100, 100_000, L=float(norms.max()) ** 2)
    sampler = vrb(100, **settings, rng=0)
    for _ in range(1000):
        draw = sampler.draw(100)
        sampler.update(draw, norms[draw.indices])
    assert second_moment(sampler, norms) < 0.8 * np.mean(norms**2)


def test_norms_of_zero_leave_the_law_even():
    sampler = vrb(5, rng=0)
    for _ in range(5):
        sampler.update(sampler.draw(3), np.zeros(3))
    assert sampler.draw_all().ratios.tolist() == [[1, 1]] * 5
    sampler.update(sampler.draw(1), [1e-3])
    assert sampler.draw_all().ratios[:, 0].max() > 1


def test_a_component_of_its_own_can_be_one_of_many():
    norms = np.where(np.arange(200) < 5, 20.0, 0.1)
    sampler = varmix.vrm(Cumulative(200), varmix.Groups(np.arange(200) % 3), rng=0)
    for _ in range(500):
        draw = sampler.draw(16)
        sampler.update(draw, norms[draw.indices])
    assert sampler.mixture.argmax() == 0


def test_adding_the_uniform_component_makes_a_copy_of_what_was_learned():
    family = Cumulative(6, gamma=1.0)
    extended = with_uniform(family)
    extended.observe(seal_draw(np.array([2]), np.ones(1), np.ones((1, 2)), np.ones(1), 0, ""), np.array([5.0]))
    assert family.c == 1.0
    assert extended.c > 2.0
