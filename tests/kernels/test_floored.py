"""Mirror descent above a floor against the projection by sorting."""

import numpy as np
import pytest

from varmix.components._literature.kernels import build_floored, draw_floored, floored_rows, raise_ratios, scale_of


def projected(w, floor):
    """Give argmin KL(q | w) over { q >= floor, mean q = 1 }: the least k go to the floor, for the least k that fits."""
    n, order = len(w), np.argsort(w)
    for k in range(n):
        above = order[k:]
        scale = (n - k * floor) / w[above].sum()
        if scale * w[above[0]] >= floor:
            break
    q = np.full(n, floor)
    q[above] = scale * w[above]
    return q


class Trees:
    def __init__(self, n):
        self.trees = [np.zeros(2 * n) for _ in range(3)]
        build_floored(np.ones(n), *self.trees)
        self.n = n

    def ratios(self, floor):
        out = np.empty(self.n)
        floored_rows(self.trees[0], self.trees[1], floor, np.arange(self.n), out)
        return out


@pytest.mark.parametrize("n", [2, 3, 8, 50, 129])
@pytest.mark.parametrize("floor", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("size", [0.1, 1.0, 20.0])
def test_steps_are_projected_exactly(n, floor, size):
    rng = np.random.default_rng(n)
    trees, q = Trees(n), np.ones(n)
    for _ in range(200):
        atoms = rng.choice(n, size=rng.integers(1, min(n, 4) + 1), replace=False)
        exponents = rng.exponential(size, size=len(atoms))
        w = q.copy()
        w[atoms] *= np.exp(exponents)
        q = projected(w, floor)
        raise_ratios(*trees.trees, floor, atoms, exponents)
        found = trees.ratios(floor)
        np.testing.assert_allclose(found, q, rtol=1e-10)
        assert found.mean() == pytest.approx(1, abs=1e-12)
        q = found


def test_trees_follow_from_their_weights_to_the_last_bit():
    rng, trees = np.random.default_rng(0), Trees(37)
    for _ in range(300):
        raise_ratios(*trees.trees, 0.2, rng.choice(37, 3, replace=False), rng.exponential(2.0, size=3))
        again = [np.zeros(74) for _ in range(3)]
        build_floored(trees.trees[0][37:], *again)
        for tree, other in zip(trees.trees, again, strict=True):
            assert np.array_equal(tree[1:], other[1:])


def test_nothing_overflows_and_the_largest_products_keep_their_proportions():
    trees = Trees(5)
    raise_ratios(*trees.trees, 0.1, np.array([1, 3]), np.array([1e6, 1e6 + np.log(2.0)]))
    np.testing.assert_allclose(trees.ratios(0.1), [0.1, 4.7 / 3, 0.1, 2 * 4.7 / 3, 0.1], rtol=1e-9)
    for i in range(100):  # the factor falls again and again, and is taken up into the weights
        raise_ratios(*trees.trees, 0.1, np.array([i % 5]), np.array([1e280]))
        assert trees.ratios(0.1)[i % 5] == pytest.approx(4.6)
        assert scale_of(*trees.trees[:2], 0.1) > 1e-150


def test_draws_follow_the_ratios():
    rng, trees = np.random.default_rng(1), Trees(20)
    raise_ratios(*trees.trees, 0.4, np.arange(6), rng.exponential(3.0, size=6))
    q, grid, atoms = trees.ratios(0.4), (np.arange(100_000) + 0.5) / 100_000, np.empty(100_000, dtype=np.int64)
    assert 0 < (q == 0.4).sum() < 20
    draw_floored(grid, trees.trees[0], trees.trees[1], 0.4, atoms)
    np.testing.assert_allclose(np.bincount(atoms, minlength=20) / 100_000, q / 20, atol=3e-5)
