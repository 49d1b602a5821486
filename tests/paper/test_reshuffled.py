"""Reshuffled mixtures through the public interface.

Groups are visited in shuffled order without replacement, and slots are carried from batch to batch.
"""

import numpy as np
import pytest

import varmix
from varmix import Groups
from varmix.allocate import Shuffled
from varmix.learners import Fixed

SIZES = np.array([5, 20, 75])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(3), SIZES))
N = len(LABELS)
SHARES = SIZES / N


def reshuffled(mixture=None, labels=LABELS, rng=0, allocate=None):
    learner = None if mixture is None else Fixed(mixture)
    return varmix.vrm(Groups(labels, replacement=False), learner=learner, allocate=allocate, rng=rng)


def drawn(sampler, count, m):
    return np.concatenate([sampler.draw(m).indices for _ in range(count // m)])


@pytest.mark.parametrize("m", [1, 7, 64])
def test_every_point_of_a_group_comes_once_per_round_of_its_cursor(m):
    atoms = drawn(reshuffled([0.3, 0.3, 0.2, 0.2]), 4480, m)
    for group, size in enumerate(SIZES):
        served = atoms[LABELS[atoms] == group]
        rounds = served[: len(served) // size * size].reshape(-1, size)
        assert len(rounds) > 5
        np.testing.assert_array_equal(np.sort(rounds), np.tile(np.flatnonzero(LABELS == group), (len(rounds), 1)))
        assert len({tuple(order) for order in rounds}) > 1


def test_every_point_of_a_group_comes_once_per_round_while_the_mixture_is_learned():
    sampler = reshuffled()
    atoms = []
    for _ in range(300):
        draw = sampler.draw(16)
        sampler.update(draw, (LABELS[draw.indices] == 1) * 1.0)
        atoms.append(draw.indices)
    atoms = np.concatenate(atoms)
    assert sampler.mixture[1] > 0.5
    served = atoms[LABELS[atoms] == 1]
    counts = np.bincount(served, minlength=N)[LABELS == 1]
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("mixture", [[0.3, 0.3, 0.2, 0.2], [0.0, 0.9, 0.0, 0.1], [0.05, 0.05, 0.05, 0.85]])
@pytest.mark.parametrize("m", [1, 32])
def test_counts_stay_within_two_of_their_shares(mixture, m):
    shares = np.array(mixture[:3]) + mixture[3] * SHARES
    groups = LABELS[drawn(reshuffled(mixture), 5024, m)]
    counts = np.cumsum(groups[:, None] == np.arange(3), axis=0)
    assert np.abs(counts - np.arange(1, len(groups) + 1)[:, None] * shares).max() < 2.0


@pytest.mark.parametrize("m", [1, 10, 50])
@pytest.mark.parametrize("allocate", [None, Shuffled(N)], ids=repr)
def test_every_point_comes_exactly_once_per_pass_under_the_uniform_mixture(m, allocate):
    atoms = drawn(reshuffled([0.0, 0.0, 0.0, 1.0], allocate=allocate), 3 * N, m).reshape(3, N)
    np.testing.assert_array_equal(np.sort(atoms), np.tile(np.arange(N), (3, 1)))


def test_one_group_is_plain_reshuffling():
    sampler = reshuffled(labels=np.zeros(40, dtype=int))
    epochs = drawn(sampler, 400, 8).reshape(10, 40)
    np.testing.assert_array_equal(np.sort(epochs), np.tile(np.arange(40), (10, 1)))
    assert len({tuple(epoch) for epoch in epochs}) == 10


def test_weights_are_the_share_in_the_target_over_the_share_of_the_draws():
    mixture = [0.3, 0.3, 0.2, 0.2]
    draw = reshuffled(mixture).draw(200)
    shares = np.array(mixture[:3]) + 0.2 * SHARES
    np.testing.assert_allclose(draw.weights, (SHARES / shares)[LABELS[draw.indices]], rtol=1e-12)


def values():
    """Give numbers that differ between groups and inside them."""
    return np.array([10.0, 2.0, 1.0])[LABELS] * np.random.default_rng(1).uniform(0.5, 1.5, size=N)


def test_the_mean_over_a_pass_is_exact_under_the_uniform_mixture():
    h = values()
    sampler = reshuffled([0.0, 0.0, 0.0, 1.0])
    for _ in range(5):
        draw = sampler.draw(N)
        assert np.mean(draw.weights * h[draw.indices]) == pytest.approx(h.mean(), rel=1e-12)


def test_the_mean_over_a_pass_is_nearly_unbiased_under_any_mixture():
    """At most about 0.5 %, which is what carrying less than a slot over from pass to pass can do."""
    h, mixture = values(), [0.25, 0.3, 0.25, 0.2]
    passes = np.array(
        [
            [np.mean(draw.weights * h[draw.indices]) for draw in (sampler.draw(N) for _ in range(10))]
            for sampler in (reshuffled(mixture, rng=seed) for seed in range(100))
        ]
    )
    bias, error = passes.mean() / h.mean() - 1, passes.mean(axis=1).std() / 10 / h.mean()
    assert error < 0.001
    assert abs(bias) < 0.005 + 3 * error
    assert np.abs(passes.mean(axis=0) / h.mean() - 1).max() < 0.005  # no single pass stands out


def test_single_draws_are_not_unbiased():
    """The status of reshuffling itself: which group serves the first slot is no matter of chance."""
    firsts = [reshuffled([0.25, 0.3, 0.25, 0.2], rng=seed).draw(1).indices[0] for seed in range(20)]
    assert set(LABELS[firsts]) == {2}


def test_single_draws_are_nearly_unbiased_where_groups_are_dealt_by_chance():
    """Every slot follows the shares on its own, where groups are owed whole slots a pass; carried slots are far off."""
    h, mixture, seeds = values(), [0.25, 0.3, 0.25, 0.2], 1500

    def bias(allocate):
        draws = [reshuffled(mixture, rng=seed, allocate=allocate).draw(N) for seed in range(seeds)]
        means = np.mean([draw.weights * h[draw.indices] for draw in draws], axis=0)
        return np.sqrt(np.mean((means / h.mean() - 1) ** 2))

    draw = reshuffled(mixture).draw(N)
    chance = np.std(draw.weights * h[draw.indices]) / h.mean() / np.sqrt(seeds)
    assert bias(Shuffled(N)) < 1.3 * chance
    assert bias(None) > 3 * chance


def test_the_bias_of_single_batches_falls_with_their_size():
    """Draw-wise bias: the expectation, over the shuffles, of the weighted mean of one batch against the true mean.

    `python -m lab bench bias` measures it on a larger problem.
    """
    h, mixture, seeds = values(), [0.25, 0.3, 0.25, 0.2], 400

    def bias(m):
        samplers = [reshuffled(mixture, rng=seed) for seed in range(seeds)]
        draws = [[sampler.draw(m) for _ in range(200 // m)] for sampler in samplers]
        means = np.array([[np.mean(d.weights * h[d.indices]) for d in batches] for batches in draws])
        return np.sqrt(np.mean((means.mean(axis=0) / h.mean() - 1) ** 2))

    assert bias(1) > 3 * bias(10) > 6 * bias(100)
    assert bias(10) < 0.05
    assert bias(100) < 0.01


def test_the_variance_over_a_pass_is_far_below_drawing_with_replacement():
    h, mixture = values(), [0.25, 0.3, 0.25, 0.2]

    def variance(replacement):
        samplers = [
            varmix.vrm(Groups(LABELS, replacement=replacement), learner=Fixed(mixture), rng=seed) for seed in range(200)
        ]
        draws = [sampler.draw(N) for sampler in samplers]
        return np.var([np.mean(draw.weights * h[draw.indices]) for draw in draws])

    assert variance(replacement=False) < 0.5 * variance(replacement=True)
