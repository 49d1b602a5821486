"""Counts of draws from every family, through the public sampler, against exact probabilities.

Fixed seeds; z < 3.9 is a chi-square test at about 1e-4.  Wrong samplers must fail the same test.
"""

from itertools import permutations

import numpy as np
import pytest

import varmix
from support.families import FAMILIES, TARGET, N, probabilities
from support.oracles import random_mixture, target_of
from varmix import Dense, Groups, Sampler
from varmix.allocate import Shuffled, independent, one_component, round_robin, stratified, systematic
from varmix.components import Family, with_uniform
from varmix.learners import Fixed
from varmix.testing import all_atoms, chi_square_z, count_atoms

LIMIT = 3.9


def law_of(family, w):
    """Give the exact law of draws: density times target."""
    law = target_of(family) * (family.ratios(all_atoms(family.space)) @ w)
    assert law.sum() == pytest.approx(1.0, abs=1e-9)
    return law / law.sum()


def z_of_draws(family, w, *, allocate=independent, m=10_000, batches=20):
    sampler = Sampler(family, learner=Fixed(w), rng=0, allocate=allocate)
    atoms = np.concatenate([sampler.draw(m).indices for _ in range(batches)])
    return chi_square_z(count_atoms(atoms, family.space), law_of(family, w))


def some_mixtures(k):
    rng = np.random.default_rng(k)
    return [np.full(k, 1 / k), np.eye(k)[0], random_mixture(rng, k, 0.1), random_mixture(rng, k, 0.1, on_bounds=True)]


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_of_every_family_follow_density_times_target(name):
    k = FAMILIES[name]().k
    for w in some_mixtures(k):
        assert z_of_draws(FAMILIES[name](), w) < LIMIT


@pytest.mark.parametrize("allocate", [independent, stratified, systematic], ids=repr)
@pytest.mark.parametrize("name", ["dense, target", "groups, smoothed", "distances", "stack, uniform"])
def test_draws_follow_density_times_target_under_every_allocation(name, allocate):
    """Stratified counts vary less than independent ones, so the test is on the safe side for them."""
    family = FAMILIES[name]()
    w = random_mixture(np.random.default_rng(1), family.k, 0.1)
    for m, batches in ((1, 10_000), (16, 3000)):
        assert z_of_draws(family, w, allocate=allocate, m=m, batches=batches) < LIMIT


def z_of_orders(allocate):
    """Give how far the orders of a first pass over 2 + 3 points are from all orders being as likely."""
    orders = {order: number for number, order in enumerate(permutations(range(5)))}
    counts = np.zeros(len(orders), dtype=np.int64)
    for seed in range(6000):
        groups = Groups([0, 1, 0, 1, 1], replacement=False)
        sampler = varmix.vrm(groups, learner=Fixed([0.0, 0.0, 1.0]), allocate=allocate, rng=seed)
        counts[orders[tuple(sampler.draw(5).indices.tolist())]] += 1
    return chi_square_z(counts, np.full(len(orders), 1 / len(orders)))


def test_shuffled_groups_with_nothing_to_gain_are_plain_reshuffling_in_law():
    assert z_of_orders(Shuffled(5)) < LIMIT
    assert z_of_orders(round_robin) > 10 * LIMIT  # the control: even batches leave most orders out


def test_first_draws_of_shared_batches_follow_density_times_target():
    """The slots of one batch share their lane, so only one slot of each is independent of the rest."""
    family = FAMILIES["dense, uniform"]()
    w = random_mixture(np.random.default_rng(2), family.k, 0.1)
    sampler = Sampler(family, learner=Fixed(w), rng=3, allocate=one_component)
    atoms = np.array([sampler.draw(4).indices[2] for _ in range(20_000)])
    assert chi_square_z(np.bincount(atoms, minlength=N), law_of(family, w)) < LIMIT


def test_draws_follow_the_mixture_while_it_is_learned():
    """Each draw by the law of its own time: the probabilities of all rounds add up to the expected counts."""
    sampler = varmix.vrm(Dense(probabilities()), rng=4)
    draw_all, counts, expected = sampler.draw_all().ratios, np.zeros(N, dtype=np.int64), np.zeros(N)
    for _ in range(2000):
        expected += 20 * draw_all @ sampler.mixture / N
        draw = sampler.draw(20)
        counts += np.bincount(draw.indices, minlength=N)
        sampler.update(draw, draw.indices % 5 == 0)
    assert np.abs(draw_all @ sampler.mixture / N - expected / expected.sum()).max() > 1e-3
    assert chi_square_z(counts, expected / expected.sum()) < LIMIT


def test_points_of_target_zero_never_come():
    for name in ("uniform, target", "dense, target", "groups, target", "distances, target"):
        sampler = Sampler(FAMILIES[name](), learner=Fixed(), rng=5)
        assert (TARGET[sampler.draw(50_000).indices] > 0).all()


# Negative controls --------------------------------------------------------------------------------------------------


class Wrong(Family):
    """Right ratios, wrong draws: everything is a family's own, but for what `spoil` does to the atoms."""

    def __init__(self, right, spoil):
        self.right, self.spoil = right, spoil
        self.k, self.space, self.c = right.k, right.space, right.c

    def lanes(self, w):
        return self.right.lanes(w)

    def draw(self, lanes, uniforms):
        atoms = self.spoil(self.right.draw(lanes, uniforms)[0], uniforms)
        return atoms, self.ratios(atoms)

    def ratios(self, atoms):
        return self.right.ratios(atoms)


def tilted(atoms, uniforms):
    """Take two draws in a hundred of the second half of the points to the first half."""
    return np.where(uniforms.take(len(atoms)) < 0.02, atoms % (N // 2), atoms)


def shifted(atoms, uniforms):
    return (atoms + 1) % N


def never_the_last(atoms, uniforms):
    return np.where(atoms == N - 1, 0, atoms)


@pytest.mark.parametrize("spoil", [tilted, shifted, never_the_last])
@pytest.mark.parametrize("name", ["dense, uniform", "groups, uniform", "distances"])
def test_a_wrong_sampler_fails_the_same_test(name, spoil):
    right = FAMILIES[name]()
    w = random_mixture(np.random.default_rng(6), right.k, 0.1)
    assert z_of_draws(right, w) < LIMIT
    assert z_of_draws(Wrong(right, spoil), w) > LIMIT


def test_a_sampler_that_ignores_the_smoothing_fails_the_same_test():
    labels = np.repeat([0, 1], [10, 30])
    smoothed, plain = (with_uniform(Groups(labels, smoothing=s)) for s in (0.05, 0.0))

    class Unsmoothed(Wrong):
        def lanes(self, w):
            return plain.lanes(w)

    w = np.array([0.7, 0.1, 0.2])
    assert z_of_draws(smoothed, w) < LIMIT
    assert z_of_draws(Unsmoothed(smoothed, lambda atoms, uniforms: atoms), w) > LIMIT


def test_a_sampler_that_ignores_the_target_fails_the_same_test():
    right = FAMILIES["dense, target"]()
    w = np.full(right.k, 1 / right.k)
    blind = with_uniform(Dense(probabilities(target=TARGET)))
    wrong = Wrong(right, lambda atoms, uniforms: blind.draw(np.full(len(atoms), right.k - 1), uniforms)[0])
    assert z_of_draws(right, w) < LIMIT
    assert z_of_draws(wrong, w) == np.inf  # it draws points of target zero
