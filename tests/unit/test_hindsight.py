import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varmix.hindsight import best_mixture, regret
from varmix.learners import Evidence


def _problem(seed, n=60, k=6):
    rng = np.random.default_rng(seed)
    ratios = rng.gamma(0.5, size=(n, k))
    ratios /= ratios.mean(axis=0)
    ratios[:, -1] = 1.0
    return Evidence(ratios, rng.gamma(0.5, size=n))


@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_gap_is_closed_to_ten_digits(seed, gamma):
    evidence = _problem(seed)
    best = best_mixture(evidence, gamma=gamma)
    assert best.mixture.min() >= 0
    assert best.mixture.sum() == pytest.approx(1, abs=1e-12)
    assert best.mixture[-1] >= gamma - 1e-12
    assert best.gap <= 1e-10 * best.cost
    assert best.cost == pytest.approx(evidence.value(best.mixture), rel=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_no_mixture_is_better(seed, other):
    evidence = _problem(seed)
    mixture = np.random.default_rng(other).dirichlet(np.full(6, 0.5))
    assert evidence.value(mixture) >= best_mixture(evidence).cost * (1 - 1e-10)


def test_disjoint_groups_have_a_closed_form():
    rng = np.random.default_rng(0)
    share, moment = rng.dirichlet(np.ones(5)), rng.gamma(1.0, size=5)
    n = 1000
    labels = np.repeat(np.arange(5), np.round(share * n).astype(int))
    share = np.bincount(labels) / len(labels)
    ratios = (labels[:, None] == np.arange(5)) / share
    best = best_mixture(Evidence(ratios, moment[labels]))
    assert best.mixture == pytest.approx(share * np.sqrt(moment) / (share * np.sqrt(moment)).sum(), abs=1e-6)
    assert best.cost == pytest.approx((share * np.sqrt(moment)).sum() ** 2, rel=1e-10)


def test_redundant_columns_have_one_cost():
    evidence = _problem(0)
    twice = Evidence(np.hstack([evidence.ratios, evidence.ratios]), evidence.coefficients)
    assert best_mixture(twice).cost == pytest.approx(best_mixture(evidence).cost, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_scale_does_not_matter(scale):
    evidence = _problem(3)
    scaled = best_mixture(Evidence(evidence.ratios, scale * evidence.coefficients))
    assert scaled.mixture == pytest.approx(best_mixture(evidence).mixture, abs=1e-6)
    assert scaled.cost == pytest.approx(scale * best_mixture(evidence).cost, rel=1e-10)


def test_no_losses_cost_nothing():
    assert best_mixture(Evidence(np.ones((3, 2)), np.zeros(3))).cost == 0


def test_regret_is_paid_minus_best():
    evidence = _problem(1, n=20, k=4)
    squares = np.random.default_rng(0).random((30, 20))
    total = Evidence(evidence.ratios, squares.sum(axis=0))
    best = best_mixture(total)
    played = np.tile(best.mixture, (30, 1))
    assert regret(evidence.ratios, squares, played) == pytest.approx(0, abs=1e-8 * best.cost)
    uniform = np.tile(np.eye(4)[-1], (30, 1))
    expected = squares.mean(axis=1).sum() - best.cost
    assert regret(evidence.ratios, squares, uniform) == pytest.approx(expected, rel=1e-9)
    assert regret(evidence.ratios, squares, uniform, gamma=0.5) < expected
