"""Bins: numbers cut at shares of the points, inside groups, equal numbers together."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray


def rounded(values: FloatArray) -> FloatArray:
    """Give the numbers with 16 bits each: what differs by rounding only is equal.

    Examples
    --------
    >>> bool(rounded(np.array([1 / 3])) == rounded(np.array([1 / 3 + 1e-9])))
    True
    """
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 65536.0), exponent))


def nested_bins(groups: IntArray, values: FloatArray, shares: Sequence[float]) -> IntArray:
    """Cut every group (0, 1, ...) where these shares of its points lie below; give `group * bins + bin`.

    The bin of a point follows from how many points of its group have smaller values, so equal values are never torn
    apart: they all go where the first of them would be.

    Examples
    --------
    >>> nested_bins(np.zeros(8, dtype=int), np.array([1.0, 2, 3, 4, 5, 6, 7, 8]), (0.5, 0.75))
    array([0, 0, 0, 0, 1, 1, 2, 2])
    >>> nested_bins(np.zeros(4, dtype=int), np.ones(4), (0.5, 0.75))
    array([0, 0, 0, 0])
    """
    labels = groups * (len(shares) + 1)
    for members in _members(groups):
        inside = values[members]
        places = sorted({math.ceil(share * len(inside)) - 1 for share in shares})
        if places:
            bounds = np.partition(inside, places)[[math.ceil(share * len(inside)) - 1 for share in shares]]
            labels[members] += np.searchsorted(bounds, inside)
    return labels


def _members(groups: IntArray) -> list[IntArray]:
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, ends)


def merge_small(labels: IntArray, bins: int, least: int) -> IntArray:
    """Let bins of fewer than `least` points join the next lower one of their group, the lowest the next higher one.

    A group that is small as a whole stays as it is, in one bin: it has no neighbour of its own kind.

    Examples
    --------
    >>> merge_small(np.array([0, 0, 1, 2, 3, 3, 4]), bins=3, least=2)
    array([0, 0, 1, 1, 3, 3, 3])
    """
    counts = np.bincount(labels, minlength=-(-(int(labels.max()) + 1) // bins) * bins)
    target = np.arange(len(counts))
    for first in range(0, len(counts), bins):
        filled = [label for label in range(first, first + bins) if counts[label]]
        for lower, label in reversed(list(pairwise(filled))):
            if counts[label] < least:
                _join(label, lower, counts, target)
        filled = [label for label in filled if counts[label]]
        if len(filled) > 1 and counts[filled[0]] < least:
            _join(filled[0], filled[1], counts, target)
    return np.asarray(target[labels])


def _join(label: int, other: int, counts: IntArray, target: IntArray) -> None:
    target[target == label] = other
    counts[other] += counts[label]
    counts[label] = 0
