"""Seeding of k-means: centres far from one another, and cells of points that are about as far from theirs."""

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._kernels.jit import kernel
from varmix.estimators.clustering._kernels import read_tile
from varmix.estimators.clustering._kernels import score_tile
from varmix.estimators.clustering._kernels import square
from varmix.estimators.clustering._kernels import squared_length
from varmix.estimators.clustering._kernels import tile_size
from varmix.estimators.clustering._kernels import turn
from varmix._kernels.rows import Rows

LOOK = 1024  # points, about, that candidates are compared on
BLOCK = 1024  # points whose costs are added up together, so that a draw looks through few sums


@kernel
def distance_to(rows: Rows, i: int, c: FloatArray, length: float) -> float:
    """Give |x_i - c|^2 in four sums; `length` is |c|^2, which a sparse row needs."""
    if rows.indptr.shape[0]:
        total = length
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            total += rows.data[p] * (rows.data[p] - 2.0 * c[rows.indices[p]])
        return max(total, 0.0)
    x = rows.dense[i]
    a = b = e = f = 0.0
    whole = x.shape[0] - x.shape[0] % 4
    for j in range(0, whole, 4):
        a += (x[j] - c[j]) ** 2
        b += (x[j + 1] - c[j + 1]) ** 2
        e += (x[j + 2] - c[j + 2]) ** 2
        f += (x[j + 3] - c[j + 3]) ** 2
    for j in range(whole, x.shape[0]):
        a += (x[j] - c[j]) ** 2
    return (a + b) + (e + f)


@kernel
def unpack(rows: Rows, i: int, out: FloatArray) -> None:
    """Write row i."""
    if rows.indptr.shape[0]:
        out[:] = 0.0
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            out[rows.indices[p]] += rows.data[p]
    else:
        for j in range(out.shape[0]):
            out[j] = rows.dense[i, j]


@kernel
def pick(costs: FloatArray, squares: FloatArray, totals: FloatArray, u: float) -> int:
    """Draw a point in proportion to cost times squared distance; where all are zero, to the cost alone."""
    n = squares.shape[0]
    total = totals.sum()
    nothing = not total > 0.0
    if nothing:
        total = costs.sum() if costs.shape[0] else float(n)
    rest = u * total
    block = 0
    if not nothing:
        while block < totals.shape[0] - 1 and rest >= totals[block]:
            rest -= totals[block]
            block += 1
    last = -1
    for i in range(block * BLOCK, n):
        part = (costs[i] if costs.shape[0] else 1.0) * (1.0 if nothing else squares[i])
        if part > 0.0:
            last = i
            if rest < part:
                return i
            rest -= part
    if last < 0:  # rounding went beyond the last point that has any
        for i in range(min(block * BLOCK, n) - 1, -1, -1):
            if (costs[i] if costs.shape[0] else 1.0) * (1.0 if nothing else squares[i]) > 0.0:
                return i
    return last


@kernel
def measure(rows: Rows, shift: FloatArray, lengths: FloatArray) -> None:
    """Write the squared length of every row, less the shift where it is dense."""
    for i in range(lengths.shape[0]):
        lengths[i] = squared_length(rows, i) if rows.indptr.shape[0] else distance_to(rows, i, shift, 0.0)


@kernel
def potentials(
    rows: Rows,
    shift: FloatArray,
    lengths: FloatArray,
    costs: FloatArray,
    candidates: FloatArray,
    squares: FloatArray,
    every: int,
    begin: int,
    left: FloatArray,
) -> None:
    """Write the sum of cost times squared distance that there would be with each candidate as one more centre.

    The sums are over `every` so many points from `begin` on.  All candidates are compared with a tile of rows by one
    matrix product; what it cancels changes no choice that matters.
    """
    trials, d = candidates.shape
    looked = np.arange(begin, squares.shape[0], every)
    n = looked.shape[0]
    tile = tile_size(n)
    sparse = rows.indptr.shape[0] > 0
    near, block, scores = np.empty((trials, d)), np.zeros((0 if sparse else tile, d)), np.empty((trials, tile))
    for t in range(trials):
        for j in range(d):
            near[t, j] = candidates[t, j] - (0.0 if sparse else shift[j])
    left[:] = 0.0
    turned = turn(rows, near)
    for first in range(0, n, tile):
        points = looked[first : min(first + tile, n)]
        if not sparse:
            read_tile(rows, shift, points, block)
        score_tile(rows, points, near, turned, block, scores)
        for t in range(trials):
            length, total = square(near[t]), 0.0
            for r in range(points.shape[0]):
                i = points[r]
                s = min(max(length + lengths[i] - 2.0 * scores[t, r], 0.0), squares[i])
                total += costs[i] * s if costs.shape[0] else s
            left[t] += total


@kernel
def absorb(
    rows: Rows,
    costs: FloatArray,
    c: FloatArray,
    k: int,
    gaps: FloatArray,
    labels: AnyArray,
    squares: FloatArray,
    totals: FloatArray,
) -> None:
    """Give to centre k the points that are nearest to it, and add up what is left, block by block.

    A point whose centre is at least twice as far from the new one as from the point stays where it is, by the triangle
    inequality: its row is not even read.  `gaps` are the squared distances of the new centre to the earlier ones.
    """
    length = np.dot(c, c)
    for block in range(totals.shape[0]):
        total = 0.0
        for i in range(block * BLOCK, min((block + 1) * BLOCK, squares.shape[0])):
            if gaps[labels[i]] < 4.0 * squares[i]:
                s = distance_to(rows, i, c, length)
                if s < squares[i]:
                    squares[i] = s
                    labels[i] = k
            total += (costs[i] if costs.shape[0] else 1.0) * squares[i]
        totals[block] = total


@kernel
def plus_plus(
    rows: Rows, costs: FloatArray, uniforms: FloatArray, centers: FloatArray, labels: AnyArray, squares: FloatArray
) -> None:
    """k-means++ (Arthur and Vassilvitskii, 2007): every centre by the squared distances to those before it.

    Row k of `uniforms` has one for every candidate that is tried for centre k; the one that leaves the least is taken,
    as far as some thousand points can tell: others each time, evenly spread.
    """
    n, d = squares.shape[0], centers.shape[1]
    totals, gaps = np.zeros((n + BLOCK - 1) // BLOCK), np.zeros(centers.shape[0])
    squares[:] = np.inf
    labels[:] = 0
    trials, every = uniforms.shape[1], max(n // LOOK, 1)
    candidates, left, lengths = np.empty((trials, d)), np.empty(trials), np.empty(n if trials > 1 else 0)
    for k in range(centers.shape[0]):
        tried = trials if k else 1
        for t in range(tried):
            unpack(rows, pick(costs, squares, totals, uniforms[k, t]), candidates[t])
        if tried > 1:
            if k == 1:
                measure(rows, centers[0], lengths)
            potentials(rows, centers[0], lengths, costs, candidates, squares, every, k % every, left)
            centers[k] = candidates[np.argmin(left)]
        else:
            centers[k] = candidates[0]
        separate(centers[:k], centers[k], gaps)
        absorb(rows, costs, centers[k], k, gaps, labels, squares, totals)


@kernel
def separate(centers: FloatArray, c: FloatArray, gaps: FloatArray) -> None:
    """Write the squared distance of every centre to `c`."""
    for k in range(centers.shape[0]):
        total = 0.0
        for j in range(c.shape[0]):
            total += (centers[k, j] - c[j]) ** 2
        gaps[k] = total
