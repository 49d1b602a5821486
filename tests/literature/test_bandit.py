"""Bandit sampling against the pseudo-code of MABS, in the paper's units."""

import math

import numpy as np
import pytest

from support.oracles import norms_at
from varmix import Sampler, literature
from varmix._core.draw import seal_draw
from varmix.components import Exponential, Points
from varmix.learners import Fixed


class PlainMABS:
    """Salehi, Celis and Thiran (2017): w <- w exp(delta a / p^3), p = (1 - eta) w / sum w + eta / n."""

    def __init__(self, n, eta, delta):
        self.n, self.eta, self.delta = n, eta, delta
        self.w = [1.0] * n

    def probabilities(self):
        total = sum(self.w)
        return [(1 - self.eta) * w / total + self.eta / self.n for w in self.w]

    def update(self, i, loss, p):
        reward = loss**2 / p**2
        self.w[i] *= math.exp(self.delta * reward / p)


@pytest.mark.parametrize(("m", "delay"), [(1, 0), (3, 0), (30, 0), (4, 9)])
def test_probabilities_are_those_of_the_paper(m, delay):
    n, eta, step = 19, 0.4, 0.02
    sampler, plain = literature.bandit(n, eta=eta, step=step, rng=1), PlainMABS(n, eta, step / n**3)
    waiting, order = [], np.random.default_rng(0)
    for t in range(400):
        probabilities = np.array(plain.probabilities())
        density = sampler.components.ratios(np.arange(n)) @ sampler.mixture
        np.testing.assert_allclose(density / n, probabilities, atol=1e-10, rtol=1e-10)
        draw = sampler.draw(m)
        waiting.append((draw, norms_at(t, draw.indices), probabilities[draw.indices]))
        if len(waiting) > delay:
            draw, norms, then = waiting.pop(order.integers(len(waiting)))
            sampler.update(draw, norms)
            for i, norm, p in zip(draw.indices, norms, then, strict=True):
                plain.update(i, norm, p)
    assert max(probabilities) > 1.5 / n  # it has learned something


def test_the_step_without_settings_is_the_theorems_with_the_largest_squared_norm():
    n, eta, rounds, largest = 19, 0.4, 5000, 0.0
    family = literature.bandit(n, eta=eta, rounds=rounds, rng=1)
    logs = np.zeros(n)
    for t in range(300):
        draw = family.draw(3)
        norms = norms_at(t, draw.indices)
        family.update(draw, norms)
        largest = max(largest, float((norms**2).max()))
        # The paper's exponents are delta l^2 / p^3, with p = d / n.
        delta = math.sqrt(eta**4 * math.log(n) / (rounds * n**5)) / largest
        for i, norm, d in zip(draw.indices, norms, draw.density, strict=True):
            logs[i] += delta * norm**2 / (d / n) ** 3
    weights = np.exp(logs - logs.max())
    np.testing.assert_allclose(family.draw_all().ratios[:, 0], weights / weights.mean(), rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_the_scale_of_the_norms_does_not_matter(scale):
    one, other = (literature.bandit(50, rng=3) for _ in range(2))
    for t in range(200):
        draw, again = one.draw(4), other.draw(4)
        one.update(draw, norms_at(t, draw.indices))
        other.update(again, scale * norms_at(t, again.indices))
    np.testing.assert_allclose(one.draw_all().ratios, other.draw_all().ratios, rtol=1e-9)


def test_steps_that_are_far_too_large_overflow_nothing():
    sampler = literature.bandit(40, step=1e3, rng=0)
    for t in range(300):
        draw = sampler.draw(5)
        sampler.update(draw, 1e3 * norms_at(t, draw.indices) if t % 3 else np.full(5, 1e100))
        ratios = sampler.draw_all().ratios[:, 0]
        assert np.isfinite(ratios).all()
        assert ratios.mean() == pytest.approx(1, abs=1e-9)
        assert sampler.draw(50).weights.max() <= 1 / 0.4 + 1e-12


def test_only_logarithms_grow_and_their_differences_are_the_law():
    """Logarithms far beyond 700, where weights themselves would have overflown long ago."""
    family = Exponential(4, step=1.0)
    sampler = literature.bandit(4, step=1.0, rng=0)
    sampler.components.load_state_dict(
        sampler.components.state_dict()
        | {"logs": np.array([5000.0, 4999.0, 4000.0, 0.0]), "offset": 5000.0, "largest": 1.0}
    )
    weights = np.array([1.0, math.exp(-1.0), 0.0, 0.0])
    np.testing.assert_allclose(sampler.draw_all().ratios[:, 0], 4 * weights / weights.sum(), rtol=1e-12)
    assert family.c == 1.0


def test_without_a_share_of_uniform_small_densities_are_no_danger():
    sampler = Sampler(Exponential(3, step=1.0), learner=Fixed(), rng=0)
    density = np.array([1e-200, 1.0, 1e-120])
    receipt = seal_draw(np.arange(3), np.ones(3), np.ones((3, 1)), density, 0, "")
    sampler.components.observe(receipt, np.array([0.0, 1.0, 1e-9]))
    ratios = sampler.draw_all().ratios[:, 0]
    assert ratios.tolist() == [0.0, 0.0, 3.0]


def test_it_ends_below_uniform():
    norms = np.exp(np.random.default_rng(3).normal(size=300))
    sampler = literature.bandit(300, rng=0)
    for _ in range(400):
        draw = sampler.draw(16)
        sampler.update(draw, norms[draw.indices])
    density = sampler.components.ratios(np.arange(300)) @ sampler.mixture
    assert np.mean(norms**2 / density) < 0.9 * np.mean(norms**2)


def test_under_a_target_gains_are_those_of_the_targets_second_moment():
    """Minus the slope of sum u l^2 / q along p, over the probability of the draw: l^2 / q^2 / (d u), up to n."""
    space = Points(4, [0.4, 0.3, 0.2, 0.1])
    sampler = literature.bandit(space, step=0.5, rng=0)
    draw = sampler.draw(1)
    i = int(draw.indices[0])
    sampler.update(draw, [0.3])
    law = np.array(space.target)
    law[i] *= math.exp(0.5 * 0.3**2 / (4 * space.target[i]))
    np.testing.assert_allclose(space.target * sampler.draw_all().ratios[:, 0], law / law.sum(), rtol=1e-12)
