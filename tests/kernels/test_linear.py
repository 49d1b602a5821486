"""Factorisation and solves against numpy."""

import numpy as np
import pytest

from support.oracles import random_metric
from varmix._kernels.simplex import factor_metric, solve_factored


def factored(M, index, last):
    upper = np.full(M.shape, np.nan)  # entries that must not be read
    quality = factor_metric(M, np.array(index, dtype=np.int64), len(index), last, 1.0, upper)
    return upper, quality


def reduced(M, index, last):
    """Give D' M D, where column i of D moves coordinate index[i] up and `last` down."""
    D = np.zeros((len(M), len(index)))
    D[list(index), np.arange(len(index))] = 1.0
    D[last] = -1.0
    return D.T @ M @ D


@pytest.mark.parametrize(("index", "last"), [([0, 1, 2, 3, 4], 5), ([4], 2), ([1, 3], 0), ([0, 2, 5], 4), ([], 3)])
def test_factor_is_that_of_the_moves_that_keep_the_sum(index, last):
    M = random_metric(np.random.default_rng(0), 6, 100.0)
    upper, _ = factored(M, index, last)
    size = len(index)
    U = np.triu(upper[:size, :size], 1) + np.diag(1.0 / np.diag(upper)[:size])
    np.testing.assert_allclose(U.T @ U, reduced(M, index, last), rtol=0, atol=1e-14)


def test_quality_tells_singular_matrices_from_regular_ones():
    rng = np.random.default_rng(1)
    regular = random_metric(rng, 5, 10.0)
    column = rng.normal(size=(5, 1))
    _, good = factored(regular, range(4), 4)
    _, bad = factored(column @ column.T, range(4), 4)
    assert bad < 1e-8 < good <= 1.0


@pytest.mark.parametrize("k", [3, 4, 5, 7])
def test_quality_tells_ill_conditioned_matrices_even_when_no_single_pivot_is_tiny(k):
    """Refinement depends on it: a condition of 1e12 may be spread over several pivots of 1e-4."""
    rng = np.random.default_rng(k)
    for _ in range(200):
        M = random_metric(rng, k, 1e12)
        condition = np.linalg.cond(reduced(M, range(k - 1), k - 1))
        if condition > 1e10:
            assert factored(M, range(k - 1), k - 1)[1] < 1e-8


def test_factor_of_a_singular_matrix_stays_finite():
    for M in (np.zeros((4, 4)), np.ones((4, 4)), np.diag([1.0, 0.0, 1e-300, 0.0])):
        upper, _ = factored(M, range(3), 3)
        assert np.isfinite(upper[:3, :3][np.triu_indices(3)]).all()


@pytest.mark.parametrize("k", [2, 3, 7, 40])
def test_solves_agree_with_numpy(k):
    rng = np.random.default_rng(k)
    M = random_metric(rng, k, 1000.0)
    upper, _ = factored(M, range(k - 1), k - 1)
    b = rng.normal(size=k - 1)
    x = b.copy()
    solve_factored(upper, k - 1, x)
    np.testing.assert_allclose(x, np.linalg.solve(reduced(M, range(k - 1), k - 1), b), rtol=1e-9)
