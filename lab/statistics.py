"""Statistics: estimates with 95 % intervals."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import scipy  # imports scipy.stats when it is first used, which takes a second

from lab.arrays import FloatArray, IntArray
from varmix.meter import Interval

CONFIDENCE_LEVEL = 0.95
RESAMPLE_COUNT = 1000  # of the bootstrap

Rows: TypeAlias = IntArray | slice


def format_times(interval: Interval) -> str:
    """Write a ratio as "times" with its interval; a question mark replaces bounds that are not finite.

    Examples
    --------
    >>> format_times(Interval(4.71, 4.0, 5.9)), format_times(Interval(4.71, -math.inf, math.inf))
    ('4.71x [4, 5.9]', '4.71x [?]')
    """
    value, low, high = interval
    bounds = f"{low:.3g}, {high:.3g}" if math.isfinite(low) and math.isfinite(high) else "?"
    return f"{value:.3g}x [{bounds}]"


def mean(values: Sequence[float]) -> Interval:
    """Return the mean with Student's 95 % interval, which is infinite for fewer than two values.

    Examples
    --------
    >>> str(mean([1.0, 2.0, 3.0]))
    '2 [-0.484, 4.48]'
    """
    sample = np.asarray(values, dtype=float)
    center = float(sample.mean()) if len(sample) else math.nan
    if len(sample) < 2:
        return Interval(center, -math.inf, math.inf)
    half = float(
        scipy.stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, len(sample) - 1) * sample.std(ddof=1) / math.sqrt(len(sample))
    )
    return Interval(center, center - half, center + half)


def geometric_mean(values: Sequence[float]) -> Interval:
    """Return the geometric mean of positive values, with Student's interval of their logarithms.

    Examples
    --------
    >>> str(geometric_mean([1.0, 2.0, 4.0]))
    '2 [0.357, 11.2]'
    """
    return Interval(*map(_compute_exp, mean([math.log(value) for value in values])))


def median(values: Sequence[float]) -> Interval:
    """Return the median with an interval that holds for any distribution, by order statistics (at least 95 %).

    Values may be infinite, because only their order counts.

    Examples
    --------
    >>> str(median([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 7.0, float("inf")]))
    '4 [1, 7]'
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if len(ordered) == 0:
        return Interval(math.nan, -math.inf, math.inf)
    # The interval from the r-th smallest to the r-th largest misses the median with probability 2 P(B(n, 1/2) < r).
    rank = int(scipy.stats.binom.ppf((1 - CONFIDENCE_LEVEL) / 2, len(ordered), 0.5))
    center = float(np.median(ordered))
    if rank == 0:
        return Interval(center, -math.inf, math.inf)
    return Interval(center, float(ordered[rank - 1]), float(ordered[-rank]))


def times_sooner(
    mine: Sequence[float | None], theirs: Sequence[float | None], end: float | Sequence[float]
) -> Interval:
    """Return how many times sooner one arm is than another: the median of the ratios of paired times.

    Parameters
    ----------
    mine, theirs
        Paired times; None if the event never happened. In `mine` None counts as infinitely late, so its ratio is 0. In
        `theirs` it counts as the end of the run, which can only make the ratio smaller.
    end
        When the runs of `theirs` ended: one time, or one for every pair.

    Returns
    -------
    Interval
        The median ratio; 0 if half of `mine` or more are None.

    Examples
    --------
    >>> times_sooner([10.0, None, 5.0], [20.0, 30.0, None], end=100.0).value
    2.0
    """
    ends = [end] * len(mine) if isinstance(end, (int, float)) else end
    pairs = zip(mine, theirs, ends, strict=True)
    ratios = sorted(0.0 if a is None else (last if b is None else b) / a for a, b, last in pairs)
    center, low, high = median(ratios)
    if (
        ratios and ratios[(len(ratios) - 1) // 2] == 0.0
    ):  # half of `mine` are None: do not take the mean of 0 and a ratio
        center = 0.0
    return Interval(center, max(low, 0.0), high)


def compute_band(rows: Sequence[Sequence[float]]) -> tuple[list[float], list[float], list[float]]:
    """Return mean, low and high of every column of equally long rows, with Student's 95 % interval."""
    columns = [mean(column) for column in zip(*rows, strict=True)]
    return [c.value for c in columns], [c.low for c in columns], [c.high for c in columns]


def _compute_exp(x: float) -> float:
    return math.inf if x > 700.0 else math.exp(x)


def estimate_ratio(mine: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Return the ratio of the geometric means of independent positive samples, with Welch's interval of the logarithms.

    The ratio is infinite if a value of `mine` is. The interval is then (0, infinity): callers must count it as a loss.

    Examples
    --------
    >>> str(estimate_ratio([1.0, 2.0, 4.0], [2.0, 4.0, 8.0, 4.0]))
    '0.5 [0.126, 1.99]'
    """
    if not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        return Interval(math.inf if np.isfinite(theirs).all() else math.nan, 0.0, math.inf)
    a, b = np.log(mine), np.log(theirs)
    center = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2:
        return Interval(_compute_exp(center), 0.0, math.inf)
    half = _compute_welch_margin(a, b)
    return Interval(_compute_exp(center), _compute_exp(center - half), _compute_exp(center + half))


def widen_interval(interval: Interval, count: int) -> Interval:
    """Widen the interval of a ratio so that `count` intervals hold together (Bonferroni).

    The factor comes from normal quantiles. For few runs, whose intervals are Student's, the result is a little too
    narrow: by 4 % with thirty degrees of freedom.

    Examples
    --------
    >>> str(widen_interval(Interval(1.2, 1.0, 1.44), 16)), widen_interval(Interval(2.0, 0.0, math.inf), 16).low
    ('1.2 [0.912, 1.58]', 0.0)
    """
    if not (interval.low > 0 and math.isfinite(interval.high)):
        return interval
    wider = float(
        scipy.stats.norm.isf((1 - CONFIDENCE_LEVEL) / 2 / count) / scipy.stats.norm.isf((1 - CONFIDENCE_LEVEL) / 2)
    )
    center, low, high = map(math.log, interval)
    return Interval(
        interval.value, _compute_exp(center - wider * (center - low)), _compute_exp(center + wider * (high - center))
    )


def estimate_difference(mine: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Return the difference of the means of two independent samples, with Welch's interval.

    Examples
    --------
    >>> str(estimate_difference([1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 4.0]))
    '-2 [-4.58, 0.585]'
    """
    a, b = np.asarray(mine, dtype=float), np.asarray(theirs, dtype=float)
    center = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2:
        return Interval(center, -math.inf, math.inf)
    half = _compute_welch_margin(a, b)
    return Interval(center, center - half, center + half)


def estimate_share(count: int, of: int) -> Interval:
    """Return a share with Clopper and Pearson's interval, which holds for any number of trials.

    Examples
    --------
    >>> str(estimate_share(19, 20))
    '0.95 [0.751, 0.999]'
    """
    if of == 0:
        return Interval(math.nan, 0.0, 1.0)
    rest = (1 - CONFIDENCE_LEVEL) / 2
    low = float(scipy.stats.beta.ppf(rest, count, of - count + 1)) if count else 0.0
    high = float(scipy.stats.beta.ppf(1 - rest, count + 1, of - count)) if count < of else 1.0
    return Interval(count / of, low, high)


def _compute_welch_margin(a: FloatArray, b: FloatArray) -> float:
    """Return half the width of Welch's interval of a difference of means."""
    parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    total = float(sum(parts))
    if total == 0.0:
        return 0.0
    freedom = total**2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    return float(scipy.stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom)) * math.sqrt(total)


def combine_ratios(ratios: Sequence[Interval]) -> Interval:
    """Return the geometric mean of independent ratios, with an interval that follows from theirs.

    The interval is for the mean over these cases only, not for other cases. It is infinite if a ratio is.

    Examples
    --------
    >>> str(combine_ratios([Interval(0.5, 0.25, 1.0), Interval(2.0, 1.0, 4.0)]))
    '1 [0.613, 1.63]'
    """
    center = float(np.mean([_compute_log(r.value) for r in ratios]))
    if not math.isfinite(center):
        return Interval(_compute_exp(center), 0.0, math.inf)
    halves = [(_compute_log(r.high) - _compute_log(r.low)) / 2 for r in ratios]
    half = math.sqrt(sum(half**2 for half in halves)) / len(ratios)
    return Interval(_compute_exp(center), _compute_exp(center - half), _compute_exp(center + half))


def _compute_log(x: float) -> float:
    return -math.inf if x <= 0 else math.log(x)


def fit_line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return the slope of the least-squares line through points, and Spearman's rank correlation.

    Both are NaN if all `x` or all `y` are equal.

    Examples
    --------
    >>> slope, rank = fit_line(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 4.0]))
    >>> round(slope, 6), round(rank, 6)
    (2.0, 1.0)
    """
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan, math.nan
    slope = float(np.polyfit(x, y, 1)[0])
    return slope, float(scipy.stats.spearmanr(x, y).statistic)


def bootstrap_interval(statistic: Callable[[Rows, Rows], float], mine: int, theirs: int) -> Interval:
    """Return a statistic of two independent samples, with the 95 % percentile interval of the bootstrap.

    Parameters
    ----------
    statistic
        Function of the rows of both samples: all of them as a slice, or the indices of a resample.
    mine, theirs
        Numbers of rows of the samples.

    Returns
    -------
    Interval
        The statistic of all rows; its bounds are quantiles over 1000 resamples, the same ones every time.

    Examples
    --------
    >>> a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0, 4.0])
    >>> str(bootstrap_interval(lambda i, j: a[i].mean() - b[j].mean(), len(a), len(b)))
    '-2 [-3.67, -0.333]'
    """
    rng = np.random.default_rng(0)
    resampled = [
        statistic(rng.integers(mine, size=mine), rng.integers(theirs, size=theirs)) for _ in range(RESAMPLE_COUNT)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Interval(statistic(slice(None), slice(None)), float(low), float(high))
