"""Sum trees against plain lists on the same changes and the same uniforms."""

import bisect
import itertools

import numpy as np
import pytest

from varmix.components._literature.kernels import build_tree, descend_tree, draw_tree, set_leaves, tree_rows

SIZES = [1, 2, 3, 5, 8, 13, 100, 257]


class NaiveTree:
    """A list of weights; it draws by running through them, in the order in which a tree has its leaves."""

    def __init__(self, weights):
        self.weights = list(weights)
        self.order = self._leaves(1)

    def _leaves(self, node):
        n = len(self.weights)
        return [node - n] if node >= n else self._leaves(2 * node) + self._leaves(2 * node + 1)

    def draw(self, u):
        sums = list(itertools.accumulate(self.weights[i] for i in self.order))
        return self.order[min(bisect.bisect_right(sums, u * sums[-1]), len(sums) - 1)]


def grown(weights):
    tree = np.concatenate([np.zeros(len(weights)), weights])
    build_tree(tree)
    return tree


@pytest.mark.parametrize("n", SIZES)
def test_the_tree_draws_what_a_list_draws_after_any_changes(n):
    rng = np.random.default_rng(n)
    naive, tree = NaiveTree(rng.random(n)), None
    tree = grown(np.array(naive.weights))
    for _ in range(50):
        atoms = rng.integers(n, size=rng.integers(1, 6))
        values = rng.gamma(0.3, size=len(atoms)) * (rng.random(len(atoms)) < 0.7) + (rng.random() < 0.5) * 0.1
        if not any(values[-1:]):
            values[-1] = 1.0
        set_leaves(tree, atoms, values)
        for atom, value in zip(atoms, values, strict=True):
            naive.weights[atom] = value
        assert tree[1] == pytest.approx(sum(naive.weights), rel=1e-12)
        for u in rng.random(20):
            assert descend_tree(tree, u) == naive.draw(u)


@pytest.mark.parametrize("n", SIZES)
def test_a_tree_follows_from_its_leaves_to_the_last_bit(n):
    rng = np.random.default_rng(n)
    tree = grown(rng.random(n))
    for _ in range(300):
        set_leaves(tree, rng.integers(n, size=3), 10.0 ** rng.uniform(-200, 100, size=3))
    assert np.array_equal(tree[1:], grown(tree[n:])[1:])  # after changes over 300 decades nothing has drifted


@pytest.mark.parametrize("u", [0.0, 2.0**-53, 0.5, 1 - 2.0**-53])
def test_leaves_of_weight_zero_never_come(u):
    for weights in ([0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 1e-300, 0], [1e300, 0, 0, 1e-300]):
        tree = grown(np.array(weights, dtype=float))
        assert weights[descend_tree(tree, u)] > 0


def test_lanes_beyond_the_first_are_uniform_and_rows_are_ratios():
    tree, atoms = grown(np.array([0.0, 0.0, 0.0, 2.0])), np.empty(4, dtype=np.int64)
    draw_tree(np.array([0, 1, 1, 0]), np.array([0.1, 0.1, 0.99, 0.9]), tree, atoms)
    assert atoms.tolist() == [3, 0, 3, 3]
    rows = np.empty((4, 2))
    tree_rows(tree, np.empty(0), np.arange(4), rows)
    assert rows.tolist() == [[0, 1], [0, 1], [0, 1], [4, 1]]
    tree_rows(tree, np.array([0.0, 1.0, 1.0, 2.0]), np.arange(4), rows)
    assert rows[:, 0].tolist() == [0, 0, 0, 2]
