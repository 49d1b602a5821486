"""How often sets hold a point: with probability base + sum_v slope_v V_iv^2, under a component or under a mixture."""

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel


@kernel
def inclusion(points: IntArray, vectors: FloatArray, base: FloatArray, slope: FloatArray, out: FloatArray) -> None:
    """Write base_j + sum_v slope_jv V_iv^2: the probability that a set holds the point, for every column j of `out`."""
    for r in range(points.shape[0]):
        for j in range(out.shape[1]):
            total = base[j]
            for v in range(vectors.shape[1]):
                total += slope[j, v] * vectors[points[r], v] ** 2
            out[r, j] = total


@kernel
def point_density(
    sets: IntArray, vectors: FloatArray, base: FloatArray, slope: FloatArray, mixture: FloatArray, out: FloatArray
) -> None:
    """Write n / size times the probability that a set of the mixture holds the point, for the points of sets."""
    columns = vectors.shape[1]
    factor = vectors.shape[0] / sets.shape[1]
    mixed = np.zeros(columns)
    constant = 0.0
    for j in range(mixture.shape[0]):
        constant += factor * mixture[j] * base[j]
        for v in range(columns):
            mixed[v] += factor * mixture[j] * slope[j, v]
    for r in range(sets.shape[0]):
        for i in range(sets.shape[1]):
            total = constant
            for v in range(columns):
                total += mixed[v] * vectors[sets[r, i], v] ** 2
            out[r, i] = total
