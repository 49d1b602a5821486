"""Factorisation and solves against numpy."""

import numpy as np
import pytest
from helpers import random_metric

from varmix.kernels.linear import factor, solve, solve_pair


def factored(M, index):
    upper = np.full(M.shape, np.nan)  # entries that must not be read
    quality = factor(M, np.array(index, dtype=np.int64), len(index), upper)
    return upper, quality


@pytest.mark.parametrize("index", [[0, 1, 2, 3, 4, 5], [4], [1, 3], [0, 2, 5]])
def test_factor_is_that_of_the_chosen_rows_and_columns(index):
    M = random_metric(np.random.default_rng(0), 6, 100.0)
    upper, _ = factored(M, index)
    size = len(index)
    U = np.triu(upper[:size, :size], 1) + np.diag(1.0 / np.diag(upper)[:size])
    np.testing.assert_allclose(U.T @ U, M[np.ix_(index, index)], rtol=0, atol=1e-15)


def test_quality_tells_singular_matrices_from_regular_ones():
    rng = np.random.default_rng(1)
    regular = random_metric(rng, 5, 10.0)
    column = rng.normal(size=(5, 1))
    _, good = factored(regular, range(5))
    _, bad = factored(column @ column.T, range(5))
    assert bad < 1e-8 < good


def test_factor_of_a_singular_matrix_stays_finite():
    for M in (np.zeros((3, 3)), np.ones((3, 3)), np.diag([1.0, 0.0, 1e-300])):
        upper, _ = factored(M, range(3))
        assert np.isfinite(upper[np.triu_indices(3)]).all()


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_solves_agree_with_numpy(k):
    rng = np.random.default_rng(k)
    M = random_metric(rng, k, 1000.0)
    upper, _ = factored(M, range(k))
    a, b = rng.normal(size=(2, k))
    x, y, z = a.copy(), a.copy(), b.copy()
    solve(upper, k, x)
    solve_pair(upper, k, y, z)
    np.testing.assert_allclose(x, np.linalg.solve(M, a), rtol=1e-10)
    np.testing.assert_allclose(y, np.linalg.solve(M, a), rtol=1e-10)
    np.testing.assert_allclose(z, np.linalg.solve(M, b), rtol=1e-10)
