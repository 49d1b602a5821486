"""Compiled loops of k-means: steps, seeding and cells."""

import math

import numpy as np

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.rows import Rows, add_row

MAX_ROWS_PER_TILE = 256  # rows at most: they and their scores stay in the second-level cache


@kernel
def tile_size(count: int) -> int:
    """Give the size of tiles that so many rows are cut into, as evenly as can be."""
    tiles = (count + MAX_ROWS_PER_TILE - 1) // MAX_ROWS_PER_TILE
    return max((count + tiles - 1) // tiles, 1) if tiles else 1


@kernel
def halve_squares(centers: AnyArray, halves: AnyArray) -> None:
    """Write |c|^2 / 2 of every centre."""
    for k in range(centers.shape[0]):
        halves[k] = 0.5 * square_length(centers[k])


@kernel
def square_length(x: AnyArray) -> float:
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
def transpose_centers(rows: Rows, centers: AnyArray) -> AnyArray:
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
    return square_length(difference)


@kernel
def find_nearest(
    rows: Rows, shift: AnyArray, centers: AnyArray, begin: int, labels: AnyArray, squares: AnyArray
) -> None:
    """Write the nearest centre, and the squared distance to it, of the rows from `begin` on."""
    count = labels.shape[0]
    if count == 0:
        return
    tile = tile_size(count)
    k, d = centers.shape
    sparse = rows.indptr.shape[0] > 0
    block = np.empty((0 if sparse else tile, d), centers.dtype)
    scores, halves = np.empty((k, tile), centers.dtype), np.empty(k, centers.dtype)
    best, found, difference = np.empty(tile, centers.dtype), np.empty(tile, np.int32), np.empty(d, centers.dtype)
    rows_of_tile = np.empty(tile, np.int64)
    turned = transpose_centers(rows, centers)
    halve_squares(centers, halves)
    for first in range(0, count, tile):
        size = min(tile, count - first)
        for r in range(size):
            rows_of_tile[r] = begin + first + r
        points = rows_of_tile[:size]
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
def move_centers(
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
    distance to the nearest centre, `losses` the weighted mean of the squared distances of every batch.  `find_nearest`
    and `distances`, where they are not empty, take the nearest centre of a point and how far it was, by point.
    """
    steps = losses.shape[0]
    batch = points.shape[0] // steps
    tile = tile_size(batch)
    k, d = centers.shape
    sparse = rows.indptr.shape[0] > 0
    block = np.empty((0 if sparse else tile, d), centers.dtype)
    scores, halves = np.empty((k, tile), centers.dtype), np.empty(k, centers.dtype)
    best, labels, difference = np.empty(tile, centers.dtype), np.empty(tile, np.int32), np.empty(d, centers.dtype)
    sums, masses, touched, seen = np.empty((k, d)), np.empty(k), np.empty(k, np.int64), np.empty(k, np.bool_)
    looked = np.empty(tile, np.int64)  # drawn points cannot be written to, which would be another type to compile for
    masses[:] = 0.0
    seen[:] = False
    turned = transpose_centers(rows, centers)
    halve_squares(centers, halves)
    for t in range(steps):
        moved, total, mass = 0, 0.0, 0.0
        for first in range(0, batch, tile):
            size = min(tile, batch - first)
            begin = t * batch + first
            for r in range(size):
                looked[r] = points[begin + r]
            here = looked[:size]
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
                    add_row(rows, here[r], weight, sums[c])
                else:
                    distance = squared_distance(block[r], centers[c], difference)
                    pull = sums[c]
                    for j in range(d):
                        pull[j] += weight * difference[j]
                masses[c] += weight
                norms[begin + r] = cost * math.sqrt(distance)
                if nearest.shape[0]:
                    nearest[here[r]] = c
                    distances[here[r]] = math.sqrt(distance)
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
                halves[c] = 0.5 * square_length(center)
                for j in range(turned.shape[0]):
                    turned[j, c] = center[j]
            masses[c] = 0.0
            seen[c] = False


POINTS_PER_COMPARISON = 1024  # points, about, that candidates are compared on
POINTS_PER_BLOCK = 1024  # points whose costs are added up together, so that a draw looks through few sums


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
def unpack_rows(rows: Rows, points: IntArray, out: FloatArray) -> None:
    """Write rows of a sparse matrix, the entries that are not there as zeros."""
    for r in range(points.shape[0]):
        for j in range(out.shape[1]):
            out[r, j] = 0.0
        for p in range(rows.indptr[points[r]], rows.indptr[points[r] + 1]):
            out[r, rows.indices[p]] += rows.data[p]


@kernel
def pick_points(
    costs: FloatArray, squares: FloatArray, totals: FloatArray, uniforms: FloatArray, points: IntArray
) -> None:
    """Draw points in proportion to cost times squared distance; where all are zero, to the cost alone."""
    n = squares.shape[0]
    total = 0.0
    for block in range(totals.shape[0]):
        total += totals[block]
    nothing = not total > 0.0
    if nothing:
        total = 0.0 if costs.shape[0] else float(n)
        for i in range(costs.shape[0]):
            total += costs[i]
    for t in range(uniforms.shape[0]):
        rest = uniforms[t] * total
        first = 0
        while not nothing and first < totals.shape[0] - 1 and rest >= totals[first]:
            rest -= totals[first]
            first += 1
        last = -1
        for i in range(first * POINTS_PER_BLOCK, n):
            part = (costs[i] if costs.shape[0] else 1.0) * (1.0 if nothing else squares[i])
            if part > 0.0:
                last = i
                if rest < part:
                    break
                rest -= part
        if last < 0:  # rounding went beyond the last point that has any
            for i in range(min(first * POINTS_PER_BLOCK, n) - 1, -1, -1):
                if (costs[i] if costs.shape[0] else 1.0) * (1.0 if nothing else squares[i]) > 0.0:
                    last = i
                    break
        points[t] = last


@kernel
def measure_rows(rows: Rows, lengths: FloatArray) -> None:
    """Write the squared length of every row of a sparse matrix."""
    for i in range(lengths.shape[0]):
        lengths[i] = squared_length(rows, i)


@kernel
def write_potentials(
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
    n = max((squares.shape[0] - begin + every - 1) // every, 0)
    looked = np.empty(n, np.int64)
    for r in range(n):
        looked[r] = begin + r * every
    tile = tile_size(n)
    sparse = rows.indptr.shape[0] > 0
    near, block, scores = np.empty((trials, d)), np.empty((0 if sparse else tile, d)), np.empty((trials, tile))
    for t in range(trials):
        for j in range(d):
            near[t, j] = candidates[t, j] - (0.0 if sparse else shift[j])
    left[:] = 0.0
    turned = transpose_centers(rows, near)
    for first in range(0, n, tile):
        points = looked[first : min(first + tile, n)]
        if not sparse:
            read_tile(rows, shift, points, block)
        score_tile(rows, points, near, turned, block, scores)
        for t in range(trials):
            length, total = square_length(near[t]), 0.0
            for r in range(points.shape[0]):
                i = points[r]
                s = min(max(length + lengths[i] - 2.0 * scores[t, r], 0.0), squares[i])
                total += costs[i] * s if costs.shape[0] else s
            left[t] += total


@kernel
def absorb_points(
    rows: Rows,
    costs: FloatArray,
    centers: FloatArray,
    k: int,
    gaps: FloatArray,
    labels: AnyArray,
    squares: FloatArray,
    totals: FloatArray,
) -> None:
    """Give to centre k the points that are nearest to it, and add up what is left, block by block.

    A point whose centre is at least twice as far from the new one as from the point stays where it is, by the triangle
    inequality: its row is not even read.  `gaps` takes the squared distances of the new centre to the earlier ones.
    """
    c = centers[k]
    for other in range(k):
        total = 0.0
        for j in range(c.shape[0]):
            total += (centers[other, j] - c[j]) ** 2
        gaps[other] = total
    length = np.dot(c, c)
    for block in range(totals.shape[0]):
        total = 0.0
        for i in range(block * POINTS_PER_BLOCK, min((block + 1) * POINTS_PER_BLOCK, squares.shape[0])):
            if gaps[labels[i]] < 4.0 * squares[i]:
                s = distance_to(rows, i, c, length)
                if s < squares[i]:
                    squares[i] = s
                    labels[i] = k
            total += (costs[i] if costs.shape[0] else 1.0) * squares[i]
        totals[block] = total


PARTS_PER_GROUP = 3
MIN_POINTS_TO_CUT = 16  # points in a group that is cut
NEAR_CUT_SCORE, FAR_CUT_SCORE = (
    1.0,
    1.35,
)  # where a group is cut, in units of its mean score: about one half and seven eighths of it


@kernel
def score_point(distances: AnyArray, costs: FloatArray, i: int) -> float:
    """Give what the norm of point i is expected to be."""
    cost: float = costs[i] if costs.shape[0] else 1.0
    return cost * float(distances[i])


@kernel
def cut_cells(
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
    sizes, limits = np.empty(groups, np.int64), np.empty(groups)
    sizes[:] = 0
    limits[:] = 0.0
    for i in range(n):
        sizes[labels[i]] += 1
        limits[labels[i]] += score_point(distances, costs, i)
    for g in range(groups):
        limits[g] = limits[g] / sizes[g] if sizes[g] >= MIN_POINTS_TO_CUT else np.inf
    numbers[:] = 0
    means[:] = 0.0
    for i in range(n):
        value = score_point(distances, costs, i)
        limit = limits[labels[i]]
        cell = PARTS_PER_GROUP * labels[i] + (value > NEAR_CUT_SCORE * limit) + (value > FAR_CUT_SCORE * limit)
        cells[i] = cell
        numbers[cell] += 1
        means[cell] += value * value
    for c in range(means.shape[0]):
        means[c] /= max(numbers[c], 1)


@kernel
def renumber_cells(cells: AnyArray, places: AnyArray) -> None:
    """Put the place of every cell in place of its number."""
    for i in range(cells.shape[0]):
        cells[i] = places[cells[i]]
