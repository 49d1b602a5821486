"""Which sampler k-means begins with, and what takes over."""

import numpy as np
import pytest

import varmix
from varmix.estimators import MixtureKMeans
from varmix.estimators._seeding import POINTS_PER_WAITING_STEP, SMALL_GAIN, estimate_gain
from varmix.estimators.clustering import (
    Descent,
    SwitchAfter,
    assign_labels,
    find_nearest_centers,
    make_seeding_sampler,
    plus_plus,
)

RNG = np.random.default_rng(0)
EVEN = RNG.choice([-1.0, 1.0], size=(3000, 12)) + 0.01 * RNG.normal(size=(3000, 12))
MIDDLE, UNEVEN = RNG.normal(size=(3000, 2)), RNG.standard_t(1, size=(3000, 3))


@pytest.mark.parametrize("X", [EVEN, MIDDLE, UNEVEN], ids=["even", "middle", "uneven"])
def test_where_there_is_little_to_gain_cells_wait(X):
    seeding = plus_plus(X, 20, rng=0)
    chosen = make_seeding_sampler(seeding, rng=0)
    assert (estimate_gain(seeding.distances) < SMALL_GAIN) == (X is EVEN) == isinstance(chosen, SwitchAfter)
    descent = Descent(X, seeding.centers, batch=10)
    descent.run(chosen, 3000 // POINTS_PER_WAITING_STEP)
    if isinstance(chosen, SwitchAfter):
        assert len(chosen.mixture) == 1
        assert len(chosen.sampler_for(descent.steps).mixture) > 20
        np.testing.assert_array_equal(chosen.mixture, chosen.sampler_for(descent.steps).mixture)


def test_settings_of_a_mixture_are_for_cells():
    seeding = plus_plus(MIDDLE, 20, rng=0)
    assert make_seeding_sampler(seeding, rng=0, gamma=0.3).mixture[-1] == pytest.approx(0.3)


def test_points_that_are_all_centers_promise_nothing_known():
    assert estimate_gain(np.zeros(5)) == np.inf
    assert isinstance(make_seeding_sampler(plus_plus([[0.0], [1.0]], 2, rng=0), rng=0), varmix.Sampler)


@pytest.mark.parametrize("X", [EVEN, MIDDLE], ids=["even", "middle"])
def test_a_pass_of_steps_finds_what_a_seeding_of_all_points_would(X):
    seeding = plus_plus(X, 20, rng=0, points=np.arange(100))
    descent = Descent(X, seeding.centers, batch=64, remember=True)
    descent.run(varmix.uniform(len(X), replacement=False, rng=0), -(-len(X) // 64))
    known = descent.remembered()
    exact = find_nearest_centers(X, descent.centers)
    assert (known.nearest == exact.nearest).mean() > 0.8  # the centers have moved on the way
    assert np.corrcoef(known.distances, exact.distances)[0, 1] > 0.7
    assert known.nearest.max() < 20


def test_a_fit_from_a_subsample_reshuffles_first_and_then_samples_cells():
    short = MixtureKMeans(20, batch_size=64, max_steps=40, random_state=0).fit(MIDDLE)
    assert short.mixture_.tolist() == [1.0]
    assert short.gain_.value == pytest.approx(1.0)
    long = MixtureKMeans(20, batch_size=64, max_steps=200, max_no_improvement=None, random_state=0).fit(MIDDLE)
    assert len(long.mixture_) > 20
    assert long.gain_.low > 1.0
    uneven = MixtureKMeans(20, batch_size=64, max_steps=40, random_state=0).fit(UNEVEN)
    assert len(uneven.mixture_) > 20


@pytest.mark.parametrize("init", ["random", EVEN[:20], lambda X, k, random_state: X[:k]])
def test_other_inits_reshuffle_first_too_unless_a_mixture_is_asked_for(init):
    options = {"init": init, "batch_size": 64, "max_steps": 40, "random_state": 0}
    assert MixtureKMeans(20, **options).fit(EVEN).mixture_.tolist() == [1.0]
    assert MixtureKMeans(20, gamma=0.3, **options).fit(EVEN).mixture_[-1] == pytest.approx(0.3)


def test_a_fit_that_changes_its_sampler_gives_the_same_result_again():
    fits = [
        MixtureKMeans(8, batch_size=64, max_steps=100, max_no_improvement=None, random_state=3).fit(MIDDLE)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)
    np.testing.assert_array_equal(fits[0].labels_, assign_labels(MIDDLE, fits[0].cluster_centers_))
