"""Doubled precision against exact fractions."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from varmix._kernels.simplex import shifted_gradient, two_product, two_sum

numbers = st.floats(-1e100, 1e100).filter(lambda x: x == 0.0 or abs(x) > 1e-100)


@settings(max_examples=200, deadline=None)
@given(numbers, numbers)
def test_a_sum_and_its_rest_are_exact(a, b):
    total, rest = two_sum(a, b)
    assert total == a + b
    assert Fraction(total) + Fraction(rest) == Fraction(a) + Fraction(b)


@settings(max_examples=200, deadline=None)
@given(numbers, numbers)
def test_a_product_and_its_rest_are_exact(a, b):
    product, rest = two_product(a, b)
    assert product == a * b
    assert Fraction(product) + Fraction(rest) == Fraction(a) * Fraction(b)


def test_shifted_gradient_keeps_the_digits_that_doubles_lose():
    rng = np.random.default_rng(0)
    k = 6
    w, x = rng.dirichlet(np.ones(k), size=2)
    M = rng.normal(size=(k, k))
    M = 1e6 * (M + M.T)
    g = 1.0 - M @ (x - w)  # the gradient at x is one up to rounding: what remains are the digits that count
    index = np.array([4, 0, 3], dtype=np.int64)
    out = np.empty(3)
    shifted_gradient(w, g, M, x, index, 3, 1, out)
    moves = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(x, w, strict=True)]
    exact = [Fraction(float(g[i])) + sum(Fraction(float(M[i, j])) * moves[j] for j in range(k)) for i in range(k)]
    expected = [float(exact[i] - exact[1]) for i in index]
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    plain = g + M @ (x - w)
    assert np.abs((plain[index] - plain[1]) / expected - 1.0).max() > 1e-3
