"""Minibatch k-means: the nearest centre of many rows, and steps over consecutive batches.

Rows are read in tiles that stay in the cache, less a `shift` (dense rows alone): far from the origin the squares of the
coordinates would lose the digits of their differences.  Centres are relative to the same shift.  The nearest centre is
the one with the largest score x.c - |c|^2 / 2, from one matrix product for a tile.
"""

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.rows import Rows
from varmix._kernels.rows import add

TILE = 256  # rows at most: they and their scores stay in the second-level cache


@kernel
def tile_size(count: int) -> int:
    """Give the size of tiles that so many rows are cut into, as evenly as can be."""
    tiles = (count + TILE - 1) // TILE
    return max((count + tiles - 1) // tiles, 1) if tiles else 1


@kernel
def halve_squares(centers: AnyArray, halves: AnyArray) -> None:
    """Write |c|^2 / 2 of every centre."""
    for k in range(centers.shape[0]):
        halves[k] = 0.5 * square(centers[k])


@kernel
def square(x: AnyArray) -> float:
    """Give |x|^2, in four sums: strict addition of one would wait for itself."""
    a = b = c = e = 0.0
    whole = x.shape[0] - x.shape[0] % 4
    for j in range(0, whole, 4):
        a += x[j] * x[j]
        b += x[j + 1] * x[j + 1]
        c += x[j + 2] * x[j + 2]
        e += x[j + 3] * x[j + 3]
    for j in range(whole, x.shape[0]):
        a += x[j] * x[j]
    return (a + b) + (c + e)


@kernel
def read_tile(rows: Rows, shift: AnyArray, points: IntArray, block: AnyArray) -> None:
    """Write dense rows less the shift, one below the other; these reads are waited for together."""
    for r in range(points.shape[0]):
        x = rows.dense[points[r]]
        for j in range(x.shape[0]):
            block[r, j] = x[j] - shift[j]


@kernel
def turn(rows: Rows, centers: AnyArray) -> AnyArray:
    """Give the centres as columns, (d, K), for sparse rows; nothing for dense ones."""
    k, d = centers.shape
    turned = np.empty((d if rows.indptr.shape[0] else 0, k), centers.dtype)
    for c in range(k):
        for j in range(turned.shape[0]):
            turned[j, c] = centers[c, j]
    return turned


@kernel
def score_tile(
    rows: Rows, points: IntArray, centers: AnyArray, turned: AnyArray, block: AnyArray, scores: AnyArray
) -> None:
    """Write x.c of every centre and every row of a tile, (K, tile): rows last, so that they are compared together.

    A number of a sparse row is multiplied with that coordinate of all centres at once.
    """
    if rows.indptr.shape[0] == 0:
        np.dot(centers, block.T, scores)
        return
    sums = np.empty(centers.shape[0], centers.dtype)
    for r in range(points.shape[0]):
        sums[:] = 0.0
        for p in range(rows.indptr[points[r]], rows.indptr[points[r] + 1]):
            value = rows.data[p]
            column = turned[rows.indices[p]]
            for k in range(sums.shape[0]):
                sums[k] += value * column[k]
        for k in range(sums.shape[0]):
            scores[k, r] = sums[k]


@kernel
def best_of_tile(scores: AnyArray, halves: AnyArray, best: AnyArray, labels: AnyArray) -> None:
    """Write the largest score less |c|^2 / 2 of every row, and whose it is; the first of several."""
    tile = best.shape[0]
    for r in range(tile):
        best[r] = scores[0, r] - halves[0]
        labels[r] = 0
    for k in range(1, scores.shape[0]):
        half = halves[k]
        row = scores[k]
        for r in range(tile):
            value = row[r] - half
            better = value > best[r]
            best[r] = value if better else best[r]
            labels[r] = k if better else labels[r]


@kernel
def squared_length(rows: Rows, i: int) -> float:
    """Give |x|^2 of a sparse row."""
    total = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        total += 1.0 * rows.data[p] * rows.data[p]
    return total


@kernel
def squared_distance(x: AnyArray, c: AnyArray, difference: AnyArray) -> float:
    """Write x - c, and give its squared length: directly, because the score has lost the digits of what is near."""
    for j in range(x.shape[0]):
        difference[j] = x[j] - c[j]
    return square(difference)


@kernel
def nearest(rows: Rows, shift: AnyArray, centers: AnyArray, begin: int, labels: AnyArray, squares: AnyArray) -> None:
    """Write the nearest centre, and the squared distance to it, of the rows from `begin` on."""
    count = labels.shape[0]
    if count == 0:
        return
    tile = tile_size(count)
    k, d = centers.shape
    sparse = rows.indptr.shape[0] > 0
    block = np.zeros((0 if sparse else tile, d), centers.dtype)
    scores, halves = np.empty((k, tile), centers.dtype), np.empty(k, centers.dtype)
    best, found, difference = np.empty(tile, centers.dtype), np.empty(tile, np.int32), np.empty(d, centers.dtype)
    turned = turn(rows, centers)
    halve_squares(centers, halves)
    for first in range(0, count, tile):
        size = min(tile, count - first)
        points = np.arange(begin + first, begin + first + size)
        if not sparse:
            read_tile(rows, shift, points, block)
        score_tile(rows, points, centers, turned, block, scores)
        best_of_tile(scores, halves, best, found)
        for r in range(size):
            labels[first + r] = found[r]
            if sparse:
                squares[first + r] = max(squared_length(rows, points[r]) - 2.0 * best[r], 0.0)
            else:
                squares[first + r] = squared_distance(block[r], centers[found[r]], difference)


@kernel
def descend(
    rows: Rows,
    shift: AnyArray,
    costs: FloatArray,
    points: IntArray,
    weights: FloatArray,
    centers: AnyArray,
    counts: FloatArray,
    norms: FloatArray,
    losses: FloatArray,
    nearest: AnyArray,
    distances: AnyArray,
) -> None:
    """Step by step: every point adds its weight to its nearest centre's count, which moves towards their mean.

    `points` and `weights` hold the batches one after the other, as many as there are `losses`.  With w the weight times
    the cost of a point, counts[c] += sum w and c += sum w (x - c) / counts[c].  `norms` takes the cost times the
    distance to the nearest centre, `losses` the weighted mean of the squared distances of every batch.  `nearest` and
    `distances`, where they are not empty, take the nearest centre of a point and how far it was, by point.
    """
    steps = losses.shape[0]
    batch = points.shape[0] // steps
    tile = tile_size(batch)
    k, d = centers.shape
    sparse = rows.indptr.shape[0] > 0
    block = np.zeros((0 if sparse else tile, d), centers.dtype)
    scores, halves = np.empty((k, tile), centers.dtype), np.empty(k, centers.dtype)
    best, labels, difference = np.empty(tile, centers.dtype), np.empty(tile, np.int32), np.empty(d, centers.dtype)
    sums, masses, touched, seen = np.empty((k, d)), np.zeros(k), np.empty(k, np.int64), np.zeros(k, np.bool_)
    turned = turn(rows, centers)
    halve_squares(centers, halves)
    for t in range(steps):
        moved, total, mass = 0, 0.0, 0.0
        for first in range(0, batch, tile):
            size = min(tile, batch - first)
            begin = t * batch + first
            here = points[begin : begin + size]
            if not sparse:
                read_tile(rows, shift, here, block)
            score_tile(rows, here, centers, turned, block, scores)
            best_of_tile(scores, halves, best, labels)
            for r in range(size):
                c = labels[r]
                if not seen[c]:
                    seen[c] = True
                    touched[moved] = c
                    moved += 1
                    sums[c] = 0.0
                cost = costs[here[r]] if costs.shape[0] else 1.0
                weight = weights[begin + r] * cost
                if sparse:
                    distance = max(squared_length(rows, here[r]) - 2.0 * best[r], 0.0)
                    add(rows, here[r], weight, sums[c])
                else:
                    distance = squared_distance(block[r], centers[c], difference)
                    pull = sums[c]
                    for j in range(d):
                        pull[j] += weight * difference[j]
                masses[c] += weight
                norms[begin + r] = cost * np.sqrt(distance)
                if nearest.shape[0]:
                    nearest[here[r]] = c
                    distances[here[r]] = np.sqrt(distance)
                total += weight * distance
                mass += weight
        losses[t] = total / mass if mass > 0.0 else 0.0
        for m in range(moved):
            c = touched[m]
            if masses[c] > 0.0:
                counts[c] += masses[c]
                step, own = 1.0 / counts[c], masses[c] / counts[c] if sparse else 0.0
                center, pull = centers[c], sums[c]
                for j in range(d):
                    center[j] += step * pull[j] - own * center[j]
                halves[c] = 0.5 * square(center)
                for j in range(turned.shape[0]):
                    turned[j, c] = center[j]
            masses[c] = 0.0
            seen[c] = False
