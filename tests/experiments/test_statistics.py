import math

import numpy as np
import pytest
from scipy import stats

from lab.reproduce.findings import MAX_NUMBER_LENGTH, format_number
from lab.statistics import (
    combine_ratios,
    compute_band,
    estimate_difference,
    estimate_ratio,
    estimate_share,
    fit_line,
    geometric_mean,
    mean,
    median,
    times_sooner,
)
from varmix.meter import Interval

RNG = np.random.default_rng(0)
A = RNG.lognormal(1.0, 0.5, 9)


def test_the_mean_has_students_interval():
    expected = stats.t.interval(0.95, len(A) - 1, A.mean(), stats.sem(A))
    assert tuple(mean(A.tolist())) == pytest.approx((A.mean(), *expected))


def test_the_geometric_mean_has_the_interval_of_the_logarithms():
    found = geometric_mean(A.tolist())
    expected = stats.t.interval(0.95, len(A) - 1, np.log(A).mean(), stats.sem(np.log(A)))
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(expected)))


def test_a_single_run_or_none_says_nothing():
    assert (mean([2.0]).low, mean([2.0]).high) == (-math.inf, math.inf)
    for nothing in (mean([]), median([])):
        assert math.isnan(nothing.value)
        assert (nothing.low, nothing.high) == (-math.inf, math.inf)
    assert tuple(geometric_mean([2.0])) == pytest.approx((2, 0, math.inf))
    assert math.isnan(geometric_mean([]).value)
    assert (geometric_mean([]).low, geometric_mean([]).high) == (0, math.inf)
    assert (times_sooner([], [], 1.0).low, times_sooner([], [], 1.0).high) == (0, math.inf)


def test_equal_values_have_an_interval_of_no_width():
    assert tuple(geometric_mean([2.0, 2.0])) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize(("n", "rank"), [(6, 1), (8, 1), (9, 2), (20, 6), (40, 14)])
def test_the_medians_interval_is_that_of_the_tables(n, rank):
    """Ranks as in tables of distribution-free intervals, for instance Conover's."""
    found = median(list(range(1, n + 1)))
    assert (found.low, found.high) == (rank, n + 1 - rank)


def test_five_values_are_too_few_for_a_median_at_95_percent():
    assert median([1.0] * 5).low == -math.inf


def test_the_medians_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    covered = np.mean([i.low <= 0 <= i.high for i in (median(rng.standard_cauchy(15).tolist()) for _ in range(2000))])
    assert 0.95 <= covered <= 0.99


def test_what_never_happened_counts_against_the_one_that_missed():
    late = times_sooner([None] * 9 + [1.0], [100.0] * 10, end=1000.0)
    assert late.value == 0
    generous = times_sooner([10.0] * 9, [None] * 9, end=1000.0)
    assert tuple(generous) == (100, 100, 100)
    assert times_sooner([None] * 9, [None] * 9, end=1000.0).value == 0
    assert times_sooner([1.0, 1.0, 1.0], [None, None, None], end=[2.0, 3.0, 4.0]).value == 3


def test_a_band_is_the_mean_of_every_column():
    middle, low, high = compute_band([[1.0, 10.0], [3.0, 10.0], [2.0, 10.0]])
    assert middle == pytest.approx([2, 10])
    assert low[0] == pytest.approx(mean([1.0, 3.0, 2.0]).low)
    assert (low[1], high[1]) == pytest.approx((10, 10))


B = RNG.lognormal(0.0, 1.5, 14)


@pytest.mark.parametrize("form", ["{value} {bounds}", "{value}x {bounds}", "a {value} share of {bounds} points"])
@pytest.mark.parametrize("value", [1.0, -123.456, 1.23e-5, -9.87e123, math.inf])
def test_the_number_of_a_claim_has_room_for_any_interval(value, form):
    for bounds in ((value, value), (-abs(value) * 1.0567, abs(value) * 1.0567), (-math.inf, math.inf)):
        said = format_number(Interval(value, *bounds), form)
        assert 0 < len(said) <= MAX_NUMBER_LENGTH
        assert ("?" in said) == (not all(map(math.isfinite, bounds)))
        first = next(word for word in said.rstrip("]").replace("x", "").split() if word != "a")
        assert float(first) == pytest.approx(value, rel=0.25)  # one digit at least


def test_a_ratio_has_welchs_interval_of_the_logarithms():
    found = estimate_ratio(A.tolist(), B.tolist())
    welch = stats.ttest_ind(np.log(A), np.log(B), equal_var=False)
    assert found.value == pytest.approx(np.exp(np.log(A).mean() - np.log(B).mean()))
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(welch.confidence_interval(0.95))))


def test_a_ratio_of_too_few_or_of_what_diverged_is_not_sure():
    assert tuple(estimate_ratio([2.0], [1.0, 1.0])) == pytest.approx((2, 0, math.inf))
    assert tuple(estimate_ratio([2.0, 2.0], [1.0, 1.0])) == pytest.approx((2, 2, 2))
    assert estimate_ratio([1.0, math.inf], [1.0, 1.0]) == (math.inf, 0, math.inf)
    assert math.isnan(estimate_ratio([1.0, 1.0], [1.0, math.inf]).value)


def test_ratios_combine_to_an_interval_that_covers_as_often_as_it_says():
    rng, true = np.random.default_rng(2), np.array([0.1, 1.0, 5.0])
    covered = 0
    for _ in range(1000):
        each = [estimate_ratio((t * rng.lognormal(size=12)).tolist(), rng.lognormal(size=24).tolist()) for t in true]
        found = combine_ratios(each)
        covered += found.low <= np.exp(np.log(true).mean()) <= found.high
    assert 0.93 <= covered / 1000 <= 0.98


def test_one_ratio_that_is_infinite_leaves_nothing_sure():
    assert combine_ratios([Interval(0.5, 0.25, 1.0), Interval(math.inf, 0.0, math.inf)]) == (math.inf, 0, math.inf)
    assert combine_ratios([Interval(0.5, 0.0, math.inf)]) == pytest.approx((0.5, 0, math.inf))


def test_points_above_one_another_have_no_slope():
    assert np.isnan(fit_line(np.ones(3), np.arange(3.0))).all()
    assert np.isnan(fit_line(np.arange(3.0), np.ones(3))).all()


def test_a_difference_of_means_has_welchs_interval():
    other = np.random.default_rng(3).normal(2.0, 3.0, 14)
    expected = stats.ttest_ind(A, other, equal_var=False).confidence_interval(0.95)
    assert tuple(estimate_difference(A.tolist(), other.tolist())) == pytest.approx((A.mean() - other.mean(), *expected))
    assert estimate_difference([1.0, 1.0], [3.0, 3.0]) == Interval(-2.0, -2.0, -2.0)
    assert estimate_difference([1.0], [3.0, 4.0]) == Interval(-2.5, -math.inf, math.inf)


@pytest.mark.parametrize(("count", "of"), [(0, 1), (0, 50), (17, 21), (45, 50), (50, 50)])
def test_a_share_has_the_exact_binomial_interval(count, of):
    expected = stats.binomtest(count, of).proportion_ci(0.95, method="exact")
    assert tuple(estimate_share(count, of)) == pytest.approx((count / of, expected.low, expected.high))


def test_a_share_of_nothing_says_nothing():
    assert math.isnan(estimate_share(0, 0).value)
    assert (estimate_share(0, 0).low, estimate_share(0, 0).high) == (0, 1)


def test_what_half_never_did_has_no_mean_of_never_and_some_time():
    assert times_sooner([None, 2.0], [2.0, 2.0], end=2.0).value == 0.0
    assert times_sooner([None, 2.0, 2.0, 1.0], [2.0] * 4, end=2.0).value == 1.0
