"""Freedom from scales, and numbers that stay numbers over many rounds."""

import numpy as np
import pytest

import varmix
from support.oracles import random_ratios
from varmix import Dense, Groups
from varmix.learners import OGD, BarrierNewton


def mixtures_of(learner, scale, m, rounds=2000):
    """Give the mixtures of a run, every tenth round, with losses multiplied by `scale`."""
    rng = np.random.default_rng(0)
    ratios = random_ratios(rng, 50, 5)
    sampler = varmix.vrm(Dense(ratios=ratios[:, :-1]), learner=learner, rng=1)
    path = []
    for i in range(rounds):
        draw = sampler.draw(m)
        norms = scale * rng.random(m) * (ratios[draw.indices] @ [0.5, 0.3, 0.1, 0.0, 0.0, 0.1])
        norms[rng.random(m) < 0.2] = 0.0
        sampler.update(draw, norms)
        if i % 10 == 9:
            path.append(sampler.mixture)
    return np.array(path)


@pytest.mark.parametrize("m", [1, 16])
@pytest.mark.parametrize("learner", [BarrierNewton(), BarrierNewton(window=200), OGD()], ids=repr)
def test_multiplying_the_losses_changes_nothing(learner, m):
    plain = mixtures_of(learner, 1.0, m)
    assert np.abs(plain[-1] - learner.init(6).mixture).max() > 0.1
    assert np.abs(np.diff(plain[100:], axis=0)).max() > 1e-4  # it still moves
    for scale in (1e-6, 1e6):
        np.testing.assert_allclose(mixtures_of(learner, scale, m), plain, rtol=0, atol=1e-12)


def test_the_test_of_scales_catches_a_learner_with_a_fixed_step():
    """Negative control."""
    learner = OGD(step_size=0.01)
    assert np.abs(mixtures_of(learner, 3.0, 1, rounds=200) - mixtures_of(learner, 1.0, 1, rounds=200)).max() > 0.01


def test_a_hundred_thousand_rounds_leave_the_mixture_where_it_belongs():
    """Six groups and uniform, losses in two of them, as on the blobs: no drift, no NaN, w_k >= gamma, sum one."""
    rng = np.random.default_rng(2)
    labels = np.arange(600) // 100
    sampler = varmix.vrm(Groups(labels), rng=3)
    live, noise = (labels == 2) | (labels == 3), rng.random(100_000)
    mixtures = []
    for i in range(100_000):
        draw = sampler.draw(1)
        sampler.update(draw, live[draw.indices] * noise[i : i + 1])
        if i % 10 == 0:
            mixtures.append(sampler.mixture)
    path = np.array(mixtures)
    assert np.isfinite(path).all()
    assert path.min() >= 0.0
    assert path[:, -1].min() >= BarrierNewton().gamma
    assert np.abs(path.sum(axis=1) - 1.0).max() < 1e-12
    np.testing.assert_allclose(path[-1], [0.0, 0.0, 0.45, 0.45, 0.0, 0.0, 0.1], rtol=0, atol=0.02)
