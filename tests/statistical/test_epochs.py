"""What the weights of an epoch add up to: what docs/quickstart.md promises of them, and where it does not.

Two common groups, and a rare one with an outlier in it whose norm is a thousand times that of the others.  Fixed seeds.
"""

import numpy as np

import varmix
from varmix.components import with_uniform

N, RARE, BATCH, SEEDS = 500, 12, 8, 200
LABELS = np.where(np.arange(N) < RARE, 1, np.where(np.arange(N) % 3 == 0, 2, 0))
NORMS = np.random.default_rng(1).uniform(0.5, 1.5, N) * np.where(LABELS == 1, 5.0, 1.0)
NORMS[0] = 1000.0
MIXTURE = [0.3, 0.4, 0.2, 0.1]


def epochs(learner, count=1, replacement=False):
    """Return what the rare group and the outlier weigh in each epoch, less what they should: (seeds, epochs, 2)."""
    found = np.empty((SEEDS, count, 2))
    for seed in range(SEEDS):
        sampler = varmix.vrm(varmix.Groups(LABELS, replacement=replacement), learner=learner, rng=seed)
        for epoch in range(count):
            weights = np.zeros(N)
            for start in range(0, N, BATCH):
                draw = sampler.draw(min(BATCH, N - start))
                np.add.at(weights, draw.indices, draw.weights)
                sampler.update(draw, NORMS[draw.indices])
            sampler.end_epoch()
            found[seed, epoch] = weights[:RARE].mean() - 1.0, weights[0] - 1.0
    return found


def z(found):
    """Return by how many standard errors the means over seeds are off."""
    return np.abs(found.mean(axis=0)) / (found.std(axis=0) / SEEDS**0.5)


def test_with_replacement_an_epoch_weighs_everything_as_it_should_while_the_mixture_moves():
    assert (z(epochs(varmix.learners.Cautious(), 2, replacement=True)) < 3.9).all()


def test_without_replacement_an_epoch_of_a_fixed_mixture_weighs_everything_as_it_should():
    assert with_uniform(varmix.Groups(LABELS)).k == len(MIXTURE)
    group, outlier = np.moveaxis(epochs(varmix.learners.Fixed(MIXTURE), 2), 2, 0)
    assert np.abs(group).max() < 0.02  # what is due to it in an epoch, to a slot or two
    assert np.abs(group.mean()) < 0.002
    assert (z(outlier) < 3.9).all()


def test_without_replacement_an_epoch_weighs_an_outlier_too_much_while_the_mixture_moves():
    first, _, third = epochs(varmix.learners.Cautious(), 3).mean(axis=0)
    assert 0.02 < first[0] < 0.05
    assert 0.18 < first[1] < 0.30
    assert np.abs(third).max() < 0.02


def test_a_mixture_that_moves_from_the_first_batch_on_is_off_by_less():
    first, _, third = epochs(varmix.learners.BarrierNewton(), 3).mean(axis=0)
    assert abs(first[0]) < 0.001
    assert 0.01 < first[1] < 0.09
    assert np.abs(third).max() < 0.01
