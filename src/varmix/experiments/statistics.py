"""Statistics: intervals that say how sure a number is."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from varmix.meter import Interval

NOWHERE = Interval(math.nan, 0.0, math.inf)  # too few runs to tell


def mean(values: Sequence[float]) -> Interval:
    """Give the mean with Student's 95 % interval.

    Examples
    --------
    >>> str(mean([1.0, 2.0, 3.0]))
    '2 [-0.484, 4.48]'
    """
    sample = np.asarray(values, dtype=float)
    if len(sample) == 0:
        return NOWHERE
    center = float(sample.mean())
    if len(sample) == 1:
        return Interval(center, -math.inf, math.inf)
    half = float(student.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / math.sqrt(len(sample)))
    return Interval(center, center - half, center + half)


def ratio(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Give the ratio of the geometric means of two independent samples (Welch's interval of the logarithms).

    Examples
    --------
    >>> str(ratio([4.0, 4.0, 4.0], [2.0, 2.0, 2.0]))
    '2 [2, 2]'
    """
    a, b = np.log(np.asarray(above, dtype=float)), np.log(np.asarray(below, dtype=float))
    if min(len(a), len(b)) < 2:
        value = float(np.exp(a.mean() - b.mean())) if min(len(a), len(b)) else math.nan
        return Interval(value, 0.0, math.inf)
    parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    error = math.sqrt(sum(parts))
    if error == 0.0:
        value = float(np.exp(a.mean() - b.mean()))
        return Interval(value, value, value)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    half = float(student.ppf(0.975, freedom)) * error
    difference = float(a.mean() - b.mean())
    return Interval(math.exp(difference), math.exp(difference - half), math.exp(difference + half))


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Give the geometric mean of the ratios of pairs, with Student's interval of their logarithms."""
    logs = mean((np.log(np.asarray(above, dtype=float)) - np.log(np.asarray(below, dtype=float))).tolist())
    return Interval(*(math.exp(min(value, 700.0)) for value in logs))


def band(rows: Sequence[Sequence[float]]) -> tuple[list[float], list[float], list[float]]:
    """Give mean, low and high of every column of equally long rows, with Student's 95 % interval."""
    columns = [mean(column) for column in zip(*rows, strict=True)]
    return [c.value for c in columns], [c.low for c in columns], [c.high for c in columns]
