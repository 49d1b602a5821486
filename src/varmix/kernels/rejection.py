"""Draws in proportion to scores without any table: uniform points, kept in proportion to their score.

Scores count as at least `low` and at most `high`, so that of `high / mean` tries one is kept on average.
"""

from varmix.arrays import AnyArray, FloatArray, IntArray
from varmix.kernels.jit import kernel
from varmix.kernels.random import start, uniform


@kernel
def total(scores: AnyArray, low: float, high: float) -> float:
    """Give the sum of the scores within the limits, in eight sums that do not wait for one another."""
    a = b = c = d = e = f = g = h = rest = 0.0
    whole = scores.shape[0] - scores.shape[0] % 8
    for i in range(0, whole, 8):
        a += min(max(scores[i], low), high)
        b += min(max(scores[i + 1], low), high)
        c += min(max(scores[i + 2], low), high)
        d += min(max(scores[i + 3], low), high)
        e += min(max(scores[i + 4], low), high)
        f += min(max(scores[i + 5], low), high)
        g += min(max(scores[i + 6], low), high)
        h += min(max(scores[i + 7], low), high)
    for i in range(whole, scores.shape[0]):
        rest += min(max(scores[i], low), high)
    return ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest


@kernel
def draw_kept(
    lanes: IntArray, uniforms: FloatArray, scores: AnyArray, low: float, high: float, atoms: IntArray
) -> None:
    """Draw lane 0 by the scores, and other lanes uniformly; the numbers follow from two uniforms."""
    n = scores.shape[0]
    state = start(uniforms)
    for r in range(lanes.shape[0]):
        i = min(int(uniform(state) * n), n - 1)
        while lanes[r] == 0 and uniform(state) * high >= min(max(scores[i], low), high):
            i = min(int(uniform(state) * n), n - 1)
        atoms[r] = i


@kernel
def score_ratios(atoms: IntArray, scores: AnyArray, low: float, high: float, mean: float, out: FloatArray) -> None:
    """Write score over mean, and one for the anchor."""
    for r in range(atoms.shape[0]):
        out[r, 0] = min(max(scores[atoms[r]], low), high) / mean
        for j in range(1, out.shape[1]):
            out[r, j] = 1.0
