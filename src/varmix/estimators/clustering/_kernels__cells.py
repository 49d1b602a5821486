"""Cells: every group of points in three parts by a score, near its mean, around it and far beyond.

Two passes and no sort: the order of the points is nothing, and equal scores stay together.
"""

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel

PARTS = 3
LEAST = 16  # points in a group that is cut
NEAR, FAR = 1.0, 1.35  # where a group is cut, in units of its mean score: about one half and seven eighths of it


@kernel
def score(distances: AnyArray, costs: FloatArray, i: int) -> float:
    """Give what the norm of point i is expected to be."""
    cost: float = costs[i] if costs.shape[0] else 1.0
    return cost * float(distances[i])


@kernel
def cut(
    labels: AnyArray,
    distances: AnyArray,
    costs: FloatArray,
    groups: int,
    cells: AnyArray,
    numbers: IntArray,
    means: FloatArray,
) -> None:
    """Write the cell of every point, PARTS * group + part; of every cell how many points, and their mean squared score.

    The mean of no points is zero.
    """
    n = labels.shape[0]
    sizes, limits = np.zeros(groups, np.int64), np.zeros(groups)
    for i in range(n):
        sizes[labels[i]] += 1
        limits[labels[i]] += score(distances, costs, i)
    for g in range(groups):
        limits[g] = limits[g] / sizes[g] if sizes[g] >= LEAST else np.inf
    numbers[:] = 0
    means[:] = 0.0
    for i in range(n):
        value = score(distances, costs, i)
        limit = limits[labels[i]]
        cell = PARTS * labels[i] + (value > NEAR * limit) + (value > FAR * limit)
        cells[i] = cell
        numbers[cell] += 1
        means[cell] += value * value
    for c in range(means.shape[0]):
        means[c] /= max(numbers[c], 1)


@kernel
def renumber(cells: AnyArray, places: AnyArray) -> None:
    """Put the place of every cell in place of its number."""
    for i in range(cells.shape[0]):
        cells[i] = places[cells[i]]
