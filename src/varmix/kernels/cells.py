"""Cells: every group of points in three parts by a score, about half, three eighths and one eighth of it.

The parts are cut by a histogram, without a sort: equal scores stay together, and the order of the points is nothing.
"""

import numpy as np

from varmix.arrays import AnyArray, FloatArray, IntArray
from varmix.kernels.jit import kernel

PARTS = 3
LEAST = 16  # points in a group that is cut
BINS, REACH = 128, 8.0  # of the histogram, and how far it goes: of any scores 7/8 lie below 8 times their mean


@kernel
def score(distances: AnyArray, costs: FloatArray, i: int) -> float:
    """Give what the norm of point i is expected to be."""
    cost: float = costs[i] if costs.shape[0] else 1.0
    return cost * float(distances[i])


@kernel
def cut(labels: AnyArray, distances: AnyArray, costs: FloatArray, groups: int, cells: AnyArray) -> None:
    """Write the cell of every point, PARTS * group + part."""
    n = labels.shape[0]
    sizes, scales = np.zeros(groups, np.int64), np.zeros(groups)
    for i in range(n):
        sizes[labels[i]] += 1
        scales[labels[i]] += score(distances, costs, i)
    for g in range(groups):
        scales[g] = BINS / REACH * sizes[g] / scales[g] if scales[g] > 0.0 else 0.0
    histogram = np.zeros((groups, BINS), np.int32)
    for i in range(n):
        g = labels[i]
        histogram[g, min(int(score(distances, costs, i) * scales[g]), BINS - 1)] += 1
    for g in range(groups):
        number_bins(histogram[g], sizes[g])
    for i in range(n):
        g = labels[i]
        b = min(int(score(distances, costs, i) * scales[g]), BINS - 1)
        cells[i] = PARTS * g + histogram[g, b]


@kernel
def number_bins(histogram: IntArray, size: int) -> None:
    """Put the part that each bin belongs to in the place of its count: that in which its middle lies."""
    below = 0
    for b in range(histogram.shape[0]):
        middle = below + 0.5 * histogram[b]
        below += histogram[b]
        histogram[b] = 0 if size < LEAST or 2.0 * middle < size else 1 if 8.0 * middle < 7.0 * size else 2


@kernel
def mean_squares(cells: AnyArray, distances: AnyArray, costs: FloatArray, means: FloatArray) -> None:
    """Write the mean squared score of every cell; zero where it is empty."""
    sizes = np.zeros(means.shape[0], np.int64)
    means[:] = 0.0
    for i in range(cells.shape[0]):
        sizes[cells[i]] += 1
        means[cells[i]] += score(distances, costs, i) ** 2
    for c in range(means.shape[0]):
        means[c] /= max(sizes[c], 1)
