import math

import numpy as np
import pytest
from scipy import stats

from varmix.experiments.statistics import band, mean, paired_ratio, ratio

RNG = np.random.default_rng(0)
A, B = RNG.lognormal(1.0, 0.5, 12), RNG.lognormal(0.2, 0.8, 9)


def test_the_mean_has_students_interval():
    expected = stats.t.interval(0.95, len(A) - 1, A.mean(), stats.sem(A))
    assert tuple(mean(A.tolist())) == pytest.approx((A.mean(), *expected))


def test_the_ratio_of_independent_samples_is_welchs():
    interval = stats.ttest_ind(np.log(A), np.log(B), equal_var=False).confidence_interval(0.95)
    found = ratio(A.tolist(), B.tolist())
    assert found.value == pytest.approx(math.exp(np.log(A).mean() - np.log(B).mean()))
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_the_ratio_of_pairs_uses_the_pairs():
    found = paired_ratio(A[:9].tolist(), B.tolist())
    interval = stats.ttest_rel(np.log(A[:9]), np.log(B)).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_a_single_run_or_none_says_nothing():
    assert (mean([2.0]).low, mean([2.0]).high) == (-math.inf, math.inf)
    assert math.isnan(mean([]).value)
    assert ratio([2.0], [1.0, 1.0]).value == pytest.approx(2)
    assert (ratio([2.0], [1.0]).low, ratio([2.0], [1.0]).high) == (0, math.inf)
    assert math.isnan(ratio([], [1.0]).value)
    assert paired_ratio([2.0], [1.0]).low == 0


def test_equal_values_have_an_interval_of_no_width():
    assert tuple(ratio([3.0, 3.0], [1.5, 1.5])) == pytest.approx((2, 2, 2))
    assert tuple(paired_ratio([3.0, 3.0], [1.5, 1.5])) == pytest.approx((2, 2, 2))


def test_a_band_is_the_mean_of_every_column():
    middle, low, high = band([[1.0, 10.0], [3.0, 10.0], [2.0, 10.0]])
    assert middle == pytest.approx([2, 10])
    assert low[0] == pytest.approx(mean([1.0, 3.0, 2.0]).low)
    assert (low[1], high[1]) == pytest.approx((10, 10))
