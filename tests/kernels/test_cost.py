"""The cost kernels against numpy formulas and finite differences."""

import numpy as np
import pytest

from support.oracles import random_mixture, random_ratios
from varmix._kernels.cost import value_and_gradient, weigh_draws, write_coefficients, write_hessian


def problem(seed, m=30, k=5):
    rng = np.random.default_rng(seed)
    ratios = random_ratios(rng, m, k - 1)
    c = rng.random(m)
    c[::4] = 0.0
    return ratios, c, random_mixture(rng, k, 0.1)


def value(ratios, c, w):
    return value_and_gradient(ratios, c, w, np.empty(len(w)))


def gradient(ratios, c, w):
    out = np.full(len(w), np.nan)
    value_and_gradient(ratios, c, w, out)
    return out


def curvature(ratios, c, w):
    out = np.full((len(w), len(w)), np.nan)
    write_hessian(ratios, c, w, out)
    return out


def test_weights_are_one_over_the_density():
    ratios, _, w = problem(0)
    density, weights = np.empty(30), np.empty(30)
    weigh_draws(ratios, w, density, weights)
    np.testing.assert_allclose(density, ratios @ w, rtol=1e-14)
    np.testing.assert_array_equal(weights, 1.0 / density)


def test_coefficients_are_squared_norms_over_the_density():
    norms, density, out = np.array([0.0, 2.0, 3.0]), np.array([1.0, 0.5, 2.0]), np.empty(3)
    assert write_coefficients(norms, density, out) == -1
    np.testing.assert_array_equal(out, [0.0, 8.0, 4.5])


@pytest.mark.parametrize("bad", [-1e-300, -1.0, np.nan, np.inf, -np.inf, 1e200])
def test_coefficients_name_the_first_norm_that_is_not_allowed(bad):
    norms = np.array([1.0, 0.0, bad, bad])
    assert write_coefficients(norms, np.ones(4), np.empty(4)) == 2


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 1e-260])
def test_coefficients_name_the_first_density_that_is_not_allowed(bad):
    assert write_coefficients(np.ones(4), np.array([1.0, 1e-240, bad, bad]), np.empty(4)) == 2


def test_value_gradient_and_hessian_are_the_formulas():
    ratios, c, w = problem(1)
    d = ratios @ w
    assert value(ratios, c, w) == pytest.approx(np.mean(c / d), rel=1e-14)
    np.testing.assert_allclose(gradient(ratios, c, w), -(c / d**2) @ ratios / 30, rtol=1e-13)
    np.testing.assert_allclose(curvature(ratios, c, w), 2 * (ratios.T * (c / d**3)) @ ratios / 30, rtol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_and_hessian_are_the_slopes_of_the_value_and_the_gradient(seed):
    ratios, c, w = problem(seed)
    h = 1e-6
    for j, e in enumerate(np.eye(5)):
        slope = (value(ratios, c, w + h * e) - value(ratios, c, w - h * e)) / (2 * h)
        assert gradient(ratios, c, w)[j] == pytest.approx(slope, rel=1e-7)
        slopes = (gradient(ratios, c, w + h * e) - gradient(ratios, c, w - h * e)) / (2 * h)
        np.testing.assert_allclose(curvature(ratios, c, w)[j], slopes, rtol=1e-7)


def test_rows_without_loss_count_even_where_the_density_is_zero():
    ratios, c, w = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([3.0, 0.0]), np.array([1.0, 0.0])
    assert value(ratios, c, w) == 0.75
    np.testing.assert_array_equal(gradient(ratios, c, w), [-0.75, 0.0])
    np.testing.assert_array_equal(curvature(ratios, c, w), [[1.5, 0.0], [0.0, 0.0]])


def test_hessian_is_symmetric_to_the_last_bit():
    ratios, c, w = problem(2)
    H = curvature(ratios, c, w)
    np.testing.assert_allclose(H, H.T, rtol=1e-15)
