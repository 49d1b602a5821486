"""A million sets of every small k-DPP against the probabilities of all sets, listed.

Fixed seeds; |z| < 4.  Wrong samplers must fail the same test.
"""

import math

import numpy as np
import pytest

from support.kdpps import features, ratios_by_enumeration
from varmix import KDpp, Uniform
from varmix._core.rng import Uniforms
from varmix._core.spaces import Subsets
from varmix._sampler import Sampler
from varmix.allocate import independent
from varmix.components._guide_table import Table
from varmix.learners import Fixed
from varmix.testing import chi_square_z, count_atoms

RIDGES = [0.1, 1.0, 10.0]
DRAWS, LIMIT = 1_000_000, 4.0


def z_of_draws(family, lane, ratios, draws=DRAWS, seed=0, batch=250_000):
    uniforms, lanes, counts = Uniforms(seed), np.full(batch, lane), np.zeros(len(ratios), dtype=np.int64)
    for _ in range(draws // batch):
        counts += count_atoms(family.draw(lanes, uniforms)[0], family.space)
    return chi_square_z(counts, ratios / len(ratios))


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("n", [8, 9])
def test_sets_come_with_the_probabilities_of_their_determinants(n, size, d):
    X = features(n, d)
    family = KDpp(X, size, RIDGES)
    for lane, ridge in enumerate(RIDGES):
        assert abs(z_of_draws(family, lane, ratios_by_enumeration(X @ X.T, size, ridge), seed=lane)) < LIMIT


@pytest.mark.parametrize(("n", "size"), [(8, 3), (9, 4)])
def test_sets_of_a_given_kernel_come_with_the_probabilities_of_their_determinants(n, size):
    X = features(n, 3)
    L = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2)
    family = KDpp.from_kernel(L, size, [0.0, 0.5])
    for lane, ridge in enumerate([0.0, 0.5]):
        assert abs(z_of_draws(family, lane, ratios_by_enumeration(L, size, ridge))) < LIMIT


@pytest.mark.parametrize("tries", [0, 1])
def test_points_found_by_a_scan_follow_the_same_law(tries):
    """Without proposals every point is scanned for; with one for every chosen eigenvector about a third of them."""
    X = features(8, 4)
    family = KDpp(X, 4, [0.0, 1.0])
    family._tries = tries
    for lane, ridge in enumerate([0.0, 1.0]):
        assert abs(z_of_draws(family, lane, ratios_by_enumeration(X @ X.T, 4, ridge))) < LIMIT


@pytest.mark.parametrize("size", [1, 3, 7, 8])
def test_uniform_sets_are_uniform(size):
    ratios = np.ones(math.comb(8, size))
    assert abs(z_of_draws(Uniform(Subsets(8, size)), 0, ratios)) < LIMIT
    assert abs(z_of_draws(KDpp(features(8, 2), size, [1.0]).with_uniform(), 1, ratios)) < LIMIT


def test_mixtures_of_sets_follow_their_density():
    X = features(9, 3)
    family, w = KDpp(X, 3, RIDGES).with_uniform(), np.array([0.4, 0.1, 0.2, 0.3])
    columns = [ratios_by_enumeration(X @ X.T, 3, ridge) for ridge in RIDGES]
    density = np.column_stack([*columns, np.ones(len(columns[0]))]) @ w
    sampler = Sampler(family, learner=Fixed(w), rng=0, allocate=independent)
    counts = sum(count_atoms(sampler.draw(100_000).indices, family.space) for _ in range(10))
    assert abs(chi_square_z(counts, density / len(density))) < LIMIT


# Negative controls --------------------------------------------------------------------------------------------------


def _other_ridge(family):
    """Split the ranks as a ridge that is five hundredths larger would."""
    return {3: KDpp(features(9, 4), 3, [1.05])._draws[3]}


def _largest_eigenvectors(family):
    """Take an eigenvector with its chance in a DPP of any size, not with that of the polynomials."""
    values = family._values
    keep = np.tile((values / (1 + values))[:, None], (1, family._draws[4].shape[1]))
    return {4: keep}


def _proposals_by_nothing(family):
    """Propose uniformly, and accept as if it had been in proportion to the squared entries."""
    table = Table(np.ones_like(family._draws[2]), None)
    return {0: table.cumulative, 1: table.guide}


def _not_orthogonal(family):
    """Spoil the eigenvectors a little."""
    vectors = family._draws[2].copy()
    vectors[:, 0] += 0.1 * vectors[:, 1]
    return {2: vectors}


@pytest.mark.parametrize("spoil", [_other_ridge, _largest_eigenvectors, _proposals_by_nothing, _not_orthogonal])
def test_a_wrong_sampler_fails_the_same_test(spoil):
    X = features(9, 4)
    ratios, family = ratios_by_enumeration(X @ X.T, 3, 1.0), KDpp(X, 3, [1.0])
    assert abs(z_of_draws(family, 0, ratios)) < LIMIT
    parts = list(family._draws)
    for place, part in spoil(family).items():
        parts[place] = part
    family._draws = tuple(parts)
    assert abs(z_of_draws(family, 0, ratios)) > LIMIT
