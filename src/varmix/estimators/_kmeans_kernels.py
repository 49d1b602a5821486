"""Compiled loops of k-means: nearest centers, steps, k-means++ and cells.

Rows are dense or CSR, see `varmix._kernels.rows`. `costs` are sample weights; an empty array means that all are one.
Rows are read in tiles: a tile is multiplied with all centers by one matrix product. The square of x - c is
|x|^2 - 2 (x.c - |c|^2 / 2), so the nearest center of a row is the one with the largest score x.c - |c|^2 / 2.
"""

import math

import numpy as np

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.rows import Rows, add_row

MAX_ROWS_PER_TILE = 256  # so many rows and their scores stay in the second-level cache


@kernel
def tile_size(count: int) -> int:
    """Return the size of tiles that cut `count` rows as evenly as possible."""
    tiles = (count + MAX_ROWS_PER_TILE - 1) // MAX_ROWS_PER_TILE
    return max((count + tiles - 1) // tiles, 1) if tiles else 1


@kernel
def halve_squares(centers: AnyArray, halves: AnyArray) -> None:
    """Write |c|^2 / 2 of every center."""
    for k in range(centers.shape[0]):
        halves[k] = 0.5 * square_length(centers[k])


@kernel
def square_length(x: AnyArray) -> float:
    """Return |x|^2, in four sums: in a single one every addition would wait for the one before."""
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
    """Write dense rows minus the shift into a block; reading them together overlaps their waits for memory."""
    for r in range(points.shape[0]):
        x = rows.dense[points[r]]
        for j in range(x.shape[0]):
            block[r, j] = x[j] - shift[j]


@kernel
def transpose_centers(rows: Rows, centers: AnyArray) -> AnyArray:
    """Return the centers as columns, (d, K), for CSR rows; an empty array for dense ones."""
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
    """Write x.c of every center and every row of a tile, (K, tile); rows are last so that comparisons vectorise.

    For CSR rows, every entry is multiplied with its coordinate of all centers at once.
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
    """Write the largest x.c - |c|^2 / 2 of every row, and the index of its center; the first one of equals."""
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
    """Return |x|^2 of a CSR row."""
    total = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        total += 1.0 * rows.data[p] * rows.data[p]
    return total


@kernel
def squared_distance(x: AnyArray, c: AnyArray, difference: AnyArray) -> float:
    """Write x - c, and return its squared length; the score has lost the digits of small distances."""
    for j in range(x.shape[0]):
        difference[j] = x[j] - c[j]
    return square_length(difference)


@kernel
def find_nearest(
    rows: Rows, shift: AnyArray, centers: AnyArray, begin: int, labels: AnyArray, squares: AnyArray
) -> None:
    """Write the nearest center, and the squared distance to it, of the rows from `begin` on."""
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
    """Take steps: assign the points of every batch to their nearest centers, and move these centers.

    `points` and `weights` hold the batches one after the other, as many as there are `losses`. With w the weight times
    the cost of a point, counts[c] += sum w and centers[c] += sum w (x - centers[c]) / counts[c].

    Written are `centers`, `counts`, the `norms` (cost times distance to the nearest center) and the `losses` (weighted
    mean squared distance of every batch). If `nearest` and `distances` are not empty, they take the nearest center and
    the distance of every drawn point, by the index of the point.
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
    looked = np.empty(tile, np.int64)  # a copy: drawn points are read-only arrays, another type to compile for
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


POINTS_PER_COMPARISON = 1024  # candidates for a center are compared on about so many points
POINTS_PER_BLOCK = 1024  # points with a sum of their own, so that a draw scans few sums and one block


@kernel
def distance_to(rows: Rows, i: int, c: FloatArray, length: float) -> float:
    """Return |x_i - c|^2, in four sums for dense rows; `length` is |c|^2, which a CSR row needs."""
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
    """Write CSR rows as dense ones."""
    for r in range(points.shape[0]):
        for j in range(out.shape[1]):
            out[r, j] = 0.0
        for p in range(rows.indptr[points[r]], rows.indptr[points[r] + 1]):
            out[r, rows.indices[p]] += rows.data[p]


@kernel
def pick_points(
    costs: FloatArray, squares: FloatArray, totals: FloatArray, uniforms: FloatArray, points: IntArray
) -> None:
    """Draw points in proportion to cost times squared distance, or to the cost alone if all distances are zero.

    `totals` holds the sums of the blocks.
    """
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
        if last < 0:  # rounding moved past the last point with a positive share
            for i in range(min(first * POINTS_PER_BLOCK, n) - 1, -1, -1):
                if (costs[i] if costs.shape[0] else 1.0) * (1.0 if nothing else squares[i]) > 0.0:
                    last = i
                    break
        points[t] = last


@kernel
def measure_rows(rows: Rows, lengths: FloatArray) -> None:
    """Write the squared length of every CSR row."""
    for i in range(lengths.shape[0]):
        lengths[i] = squared_length(rows, i)


@kernel
def write_potentials(
    rows: Rows,
    shift: FloatArray,
    squared_lengths: FloatArray,
    costs: FloatArray,
    candidates: FloatArray,
    squares: FloatArray,
    stride: int,
    begin: int,
    remaining: FloatArray,
) -> None:
    """Write the sum of cost times squared distance that would be left with each candidate as the next center.

    The sums are over the points begin, begin + stride, and so on. All candidates are compared with a tile of rows by
    one matrix product. It loses digits of small distances, which change no choice that matters.
    """
    trials, d = candidates.shape
    n = max((squares.shape[0] - begin + stride - 1) // stride, 0)
    looked = np.empty(n, np.int64)
    for r in range(n):
        looked[r] = begin + r * stride
    tile = tile_size(n)
    sparse = rows.indptr.shape[0] > 0
    near, block, scores = np.empty((trials, d)), np.empty((0 if sparse else tile, d)), np.empty((trials, tile))
    for t in range(trials):
        for j in range(d):
            near[t, j] = candidates[t, j] - (0.0 if sparse else shift[j])
    remaining[:] = 0.0
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
                s = min(max(length + squared_lengths[i] - 2.0 * scores[t, r], 0.0), squares[i])
                total += costs[i] * s if costs.shape[0] else s
            remaining[t] += total


@kernel
def absorb_points(
    rows: Rows,
    costs: FloatArray,
    centers: FloatArray,
    index: int,
    center_squares: FloatArray,
    labels: AnyArray,
    squares: FloatArray,
    totals: FloatArray,
) -> None:
    """Assign points to center `index` if it is nearer than their present center, and sum the costs of every block.

    A center that is at least twice as far from the new center as from its point stays nearer, by the triangle
    inequality, and the row of the point is not read. `center_squares` takes the squared distances of the new center to
    the earlier ones.
    """
    c = centers[index]
    for other in range(index):
        total = 0.0
        for j in range(c.shape[0]):
            total += (centers[other, j] - c[j]) ** 2
        center_squares[other] = total
    length = np.dot(c, c)
    for block in range(totals.shape[0]):
        total = 0.0
        for i in range(block * POINTS_PER_BLOCK, min((block + 1) * POINTS_PER_BLOCK, squares.shape[0])):
            if center_squares[labels[i]] < 4.0 * squares[i]:
                s = distance_to(rows, i, c, length)
                if s < squares[i]:
                    squares[i] = s
                    labels[i] = index
            total += (costs[i] if costs.shape[0] else 1.0) * squares[i]
        totals[block] = total


PARTS_PER_GROUP = 3
MIN_POINTS_TO_CUT = 16  # smaller groups are not cut
# Cuts of a group, in units of its mean score. About one half and seven eighths of the points are below.
NEAR_CUT_SCORE, FAR_CUT_SCORE = 1.0, 1.35


@kernel
def score_point(distances: AnyArray, costs: FloatArray, i: int) -> float:
    """Return the norm that point i is expected to have: cost times distance."""
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
    """Cut groups into cells: write the cell of every point, PARTS_PER_GROUP * group + part.

    Also write the number of points of every cell, and their mean squared score, which is zero for no points.
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
    """Replace the number of every cell by its place."""
    for i in range(cells.shape[0]):
        cells[i] = places[cells[i]]
