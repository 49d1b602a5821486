"""Mirror descent against the two lines of its paper, in the paper's units."""

import numpy as np
import pytest

from support.oracles import norms_at
from varmix import literature


def projected(w, least):
    """Return argmin KL(p | w) over { p >= least, sum p = 1 }, by bisection for the factor in max(least, factor w)."""
    low, high = 0.0, 1.0 / w.min()
    for _ in range(200):
        factor = (low + high) / 2
        low, high = (factor, high) if np.maximum(least, factor * w).sum() < 1 else (low, factor)
    return np.maximum(least, high * w)


class PlainMirror:
    """Namkoong et al. (2017): w = p exp(step a / p^3) for the point that was drawn, then the projection in KL."""

    def __init__(self, n, least, step):
        self.p, self.least, self.step = np.full(n, 1 / n), least, step

    def update(self, atoms, losses, then):
        w = self.p.copy()
        for i, loss, p in zip(atoms, losses, then, strict=True):
            w[i] *= np.exp(self.step * loss**2 / (self.p[i] ** 2 * p))
        self.p = projected(w, self.least)


@pytest.mark.parametrize(("m", "delay"), [(1, 0), (3, 0), (30, 0), (4, 9)])
@pytest.mark.parametrize(("floor", "step"), [(0.2, 0.003), (0.6, 0.1)])
def test_probabilities_are_the_papers(m, delay, floor, step):
    n = 17
    sampler = literature.mirror_descent(n, floor=floor, step=step, rng=1)
    plain = PlainMirror(n, floor / n, step / n**3)
    waiting, order, at_floor = [], np.random.default_rng(0), 0
    for t in range(300):
        np.testing.assert_allclose(sampler.draw_all().ratios[:, 0] / n, plain.p, atol=1e-10, rtol=0)
        draw = sampler.draw(m)
        waiting.append((draw, norms_at(t, draw.indices), draw.density / n))
        if len(waiting) > delay:
            draw, norms, then = waiting.pop(order.integers(len(waiting)))
            sampler.update(draw, norms)
            plain.update(draw.indices, norms, then)
        at_floor += int((plain.p <= floor / n * (1 + 1e-9)).sum())
    assert plain.p.max() > 1.2 / n
    assert at_floor > 0 or floor < 0.5  # the projection has had something to do


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_the_scale_of_the_norms_does_not_matter(scale):
    one, other = (literature.mirror_descent(50, rng=3) for _ in range(2))
    for t in range(200):
        draw, again = one.draw(4), other.draw(4)
        one.update(draw, norms_at(t, draw.indices))
        other.update(again, scale * norms_at(t, again.indices))
    np.testing.assert_allclose(one.draw_all().ratios, other.draw_all().ratios, rtol=1e-9)


def test_the_step_without_settings_follows_from_the_horizon_and_the_largest_squared_norm():
    sampler = literature.mirror_descent(10, floor=0.3, rounds=700, rng=0)
    draw = sampler.draw(1)
    sampler.update(draw, [8.0])
    grown = np.exp(0.3**2 * np.sqrt(2 * 10 * np.log(10) / 700))  # l^2 / L = 1 and q = d = 1
    assert sampler.components.ratios(draw.indices)[0, 0] == pytest.approx(10 * grown / (9 + grown), rel=1e-12)


def test_steps_that_are_far_too_large_overflow_nothing():
    sampler = literature.mirror_descent(40, step=1e3, rng=0)
    for t in range(300):
        draw = sampler.draw(5)
        sampler.update(draw, 1e3 * norms_at(t, draw.indices) if t % 3 else np.full(5, 1e100))
        ratios = sampler.draw_all().ratios[:, 0]
        assert ratios.min() >= 0.2
        assert ratios.mean() == pytest.approx(1, abs=1e-9)


def test_it_ends_below_uniform_and_norms_of_zero_change_nothing():
    norms = np.exp(np.random.default_rng(3).normal(size=300))
    sampler = literature.mirror_descent(300, rng=0)
    sampler.update(sampler.draw(4), np.zeros(4))
    assert (sampler.draw_all().ratios == 1).all()
    for _ in range(400):
        draw = sampler.draw(16)
        sampler.update(draw, norms[draw.indices])
    assert np.mean(norms**2 / sampler.draw_all().ratios[:, 0]) < 0.95 * np.mean(norms**2)


@pytest.mark.parametrize("floor", [1e-100, 0.2, 1.0 - 1e-12])
def test_the_largest_losses_come_to_an_end_at_any_floor(floor):
    """A floor of 1e-300 was allowed, overflowed, and was projected for ever."""
    sampler = literature.mirror_descent(7, floor=floor, step=1e280, rng=0)
    for size in (1.0, 1e-100, 1e100, 1e-3):
        draw = sampler.draw(3)
        sampler.update(draw, np.full(3, size))
        ratios = sampler.components.ratios(np.arange(7))[:, 0]
        assert np.isfinite(ratios).all()
        assert ratios.min() >= floor
        assert ratios.mean() == pytest.approx(1.0)
