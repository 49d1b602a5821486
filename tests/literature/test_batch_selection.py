"""Online batch selection against the formula of its paper."""

import math

import numpy as np
import pytest

from varmix import Sampler, literature
from varmix.components import Ranks
from varmix.learners import Fixed
from varmix.testing import chi_square_z


def plain(losses, pressure):
    """Loshchilov and Hutter (2015): p_i = 1 / exp(log(s_e) / N)^i over ranks, then normalised."""
    n = len(losses)
    by_rank = [1.0 / math.exp(math.log(pressure) / n) ** i for i in range(n)]
    order = sorted(range(n), key=lambda i: -losses[i])
    p = [0.0] * n
    for rank, i in enumerate(order):
        p[i] = by_rank[rank] / sum(by_rank)
    return np.array(p)


@pytest.mark.parametrize("pressure", [1.0, 1.0 + 1e-9, 2.0, 100.0, 1e8])
@pytest.mark.parametrize("n", [1, 2, 37])
def test_probabilities_are_those_of_the_ranks(n, pressure):
    losses = np.random.default_rng(n).random(n)
    sampler = literature.batch_selection(n, pressure=pressure, rng=0)
    sampler.update(sampler.draw_all(), losses)
    np.testing.assert_allclose(sampler.draw_all().ratios[:, 0] / n, plain(losses, pressure), rtol=1e-10)
    assert sampler.components.c == pytest.approx(n * plain(losses, pressure).max(), rel=1e-12)


def test_losses_are_the_last_known_and_sorted_once_a_period():
    n, rng = 30, np.random.default_rng(0)
    sampler = literature.batch_selection(n, period=25, rng=1)
    latest, law, since = np.full(n, np.inf), np.full(n, 1 / n), 0
    for _ in range(300):
        np.testing.assert_allclose(sampler.draw_all().ratios[:, 0] / n, law, rtol=1e-10)
        draw = sampler.draw(4)
        losses = rng.random(4)
        sampler.update(draw, losses)
        for i, loss in zip(draw.indices, losses, strict=True):
            latest[i] = loss
        since += 4
        if since >= 25:
            law, since = plain(latest, 100.0), 0


@pytest.mark.parametrize("pressure", [1.0, 5.0, 1000.0])
def test_draws_follow_the_ranks(pressure):
    sampler = literature.batch_selection(40, pressure=pressure, rng=0)
    sampler.update(sampler.draw_all(), np.sin(np.arange(40)) ** 2)
    counts = np.bincount(sampler.draw(100_000).indices, minlength=40)
    assert chi_square_z(counts, plain(np.sin(np.arange(40)) ** 2, pressure)) < 3.9
    if pressure > 1:
        assert chi_square_z(counts, plain(np.cos(np.arange(40)) ** 2, pressure)) > 10  # negative control


def test_it_is_biased_and_says_so_and_exact_weights_would_not_be():
    losses = np.arange(20.0)
    sampler = literature.batch_selection(20, rng=0)
    sampler.update(sampler.draw_all(), losses)
    assert not sampler.reweight.unbiased
    draw = sampler.draw(500)
    assert (draw.weights == 1).all()
    p = sampler.draw_all().ratios[:, 0] / 20
    assert p @ losses > 1.4 * losses.mean()
    exact = Sampler(sampler.components, learner=Fixed(), rng=0)
    draw = exact.draw(500)
    np.testing.assert_allclose(draw.weights, 1 / (20 * p[draw.indices]), rtol=1e-12)
    assert (p * (1 / (20 * p))) @ losses == pytest.approx(losses.mean())


def test_pressure_may_be_lowered_during_training_and_is_saved():
    family = Ranks(10, pressure=50.0, period=1)
    sampler = Sampler(family, learner=Fixed(), rng=0)
    sampler.update(sampler.draw_all(), np.arange(10.0))
    family.pressure = 3.0
    np.testing.assert_allclose(family.ratios(np.arange(10))[:, 0] / 10, plain(np.arange(10.0), 3.0), rtol=1e-12)
    other = Ranks(10, pressure=50.0, period=1)
    other.load_state_dict(family.state_dict())
    assert other.pressure == 3.0
    with pytest.raises(ValueError, match=r"at least 1, got 0\.5"):
        family.pressure = 0.5
    assert family.pressure == 3.0


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_losses_does_not_matter(scale):
    one, other = (literature.batch_selection(15, rng=0) for _ in range(2))
    losses = np.sin(np.arange(15)) ** 2
    one.update(one.draw_all(), losses)
    other.update(other.draw_all(), scale * losses)
    assert np.array_equal(one.draw_all().ratios, other.draw_all().ratios)
