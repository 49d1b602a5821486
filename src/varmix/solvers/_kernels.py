"""Compiled loops of the solvers over linear models, dense and sparse."""

import math

import numpy as np

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.rows import Rows, add_row, dot_row, prefetch_rows

LOSS_NAMES = ("hinge", "logistic", "squared")  # kernels get the index in this tuple


@kernel
def loss_value(loss: int, z: float, y: float) -> float:
    """Return the loss at the margin `z`. Labels of classifiers are -1 and 1."""
    if loss == 2:
        return 0.5 * (z - y) * (z - y)
    if loss == 0:
        return max(1.0 - y * z, 0.0)
    t = y * z
    return math.log1p(math.exp(-t)) if t > 0.0 else math.log1p(math.exp(t)) - t


@kernel
def loss_slope(loss: int, z: float, y: float) -> float:
    """Return the derivative of the loss with respect to `z`. At the corner of the hinge it is zero."""
    if loss == 2:
        return z - y
    if loss == 0:
        return -y if y * z < 1.0 else 0.0
    t = y * z
    if t > 0.0:
        e = math.exp(-t)
        return -y * e / (1.0 + e)
    return -y / (1.0 + math.exp(t))


@kernel
def write_values_and_slopes(loss: int, z: FloatArray, y: FloatArray, values: FloatArray, slopes: FloatArray) -> None:
    """Write the loss and its derivative at every margin."""
    for i in range(z.shape[0]):
        values[i] = loss_value(loss, z[i], y[i])
        slopes[i] = loss_slope(loss, z[i], y[i])


@kernel
def descend_blocks(
    columns: Rows,
    y: FloatArray,
    costs: FloatArray,
    loss: int,
    penalties: FloatArray,
    start: IntArray,
    members: IntArray,
    atoms: IntArray,
    weights: FloatArray,
    steps: FloatArray,
    inverses: FloatArray,
    margins: FloatArray,
    slopes: FloatArray,
    theta: FloatArray,
    norms: FloatArray,
) -> None:
    """Take one step per batch of blocks. Block b holds the coordinates members[start[b]:start[b + 1]].

    If `inverses` is empty, the blocks of a batch move together, each by step * weight * number of blocks / batch times
    its gradient. Otherwise they move one after the other, by step * inverse times their gradient, without weights.
    The length of every drawn block's gradient is written to `norms`.
    """
    blocks, n = start.shape[0] - 1, margins.shape[0]
    batch = atoms.shape[0] // steps.shape[0]
    exact = inverses.shape[0] > 0
    together = 1 if exact else batch
    largest = 0
    for b in range(blocks):
        largest = max(largest, start[b + 1] - start[b])
    partials = np.empty((together, largest))
    for first in range(0, atoms.shape[0], together):
        step = steps[first // batch]
        for r in range(together):
            b, total = atoms[first + r], 0.0
            for m in range(start[b], start[b + 1]):
                j = members[m]
                partial = dot_row(columns, j, slopes) / n + penalties[j] * theta[j]
                partials[r, m - start[b]] = partial
                total += partial * partial
            norms[first + r] = math.sqrt(total)
        for r in range(together):
            b = atoms[first + r]
            length = step * (inverses[b] if exact else weights[first + r] * blocks / batch)
            for m in range(start[b], start[b + 1]):
                move = -length * partials[r, m - start[b]]
                theta[members[m]] += move
                add_row(columns, members[m], move, margins)
        for r in range(together):
            b = atoms[first + r]
            for m in range(start[b], start[b + 1]):
                if columns.indptr.shape[0] or (r == 0 and m == start[b]):  # a dense column touches all rows
                    renew_slopes(columns, members[m], y, costs, loss, margins, slopes)


@kernel
def renew_slopes(
    columns: Rows, j: int, y: FloatArray, costs: FloatArray, loss: int, margins: FloatArray, slopes: FloatArray
) -> None:
    """Compute the slopes of the points that column j touches from their margins."""
    if columns.indptr.shape[0]:
        for p in range(columns.indptr[j], columns.indptr[j + 1]):
            i = columns.indices[p]
            slopes[i] = (costs[i] if costs.shape[0] else 1.0) * loss_slope(loss, margins[i], y[i])
        return
    for i in range(slopes.shape[0]):
        slopes[i] = (costs[i] if costs.shape[0] else 1.0) * loss_slope(loss, margins[i], y[i])


@kernel
def transpose_rows(rows: Rows, n: int, starts: IntArray, points: IntArray, data: AnyArray) -> None:
    """Write the CSC form of CSR rows. `starts` must be zero; it gets the number of entries before each column."""
    for p in range(rows.indices.shape[0]):
        starts[rows.indices[p] + 1] += 1
    for j in range(1, starts.shape[0]):
        starts[j] += starts[j - 1]
    place = starts[:-1].copy()
    for i in range(n):
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[p]
            points[place[j]] = i
            data[place[j]] = rows.data[p]
            place[j] += 1


@kernel
def write_squares(columns: Rows, costs: FloatArray, out: FloatArray) -> None:
    """Write the sum of cost * entry^2 over every column."""
    for j in range(out.shape[0]):
        total = 0.0
        if columns.indptr.shape[0]:
            for p in range(columns.indptr[j], columns.indptr[j + 1]):
                cost = costs[columns.indices[p]] if costs.shape[0] else 1.0
                total += cost * columns.data[p] * columns.data[p]
        else:
            x = columns.dense[j]
            for i in range(x.shape[0]):
                total += (costs[i] if costs.shape[0] else 1.0) * x[i] * x[i]
        out[j] = total


MIN_SCALE = 1e-6  # theta is multiplied out when its factor falls below this


@kernel
def take_sgd_steps(
    rows: Rows,
    y: FloatArray,
    costs: FloatArray,
    lengths: FloatArray,
    loss: int,
    intercept: bool,
    l2: float,
    points: IntArray,
    weights: FloatArray,
    steps: FloatArray,
    theta: FloatArray,
    norms: FloatArray,
) -> float:
    """Take one step per batch: theta <- theta - step (mean of weight * gradient + l2 theta).

    Theta is stored as a number times a vector. The penalty shrinks the number, so a step only touches the entries of
    its rows.
    """
    count = steps.shape[0]
    batch = points.shape[0] // count
    d = theta.shape[0] - (1 if intercept else 0)
    v = theta[:d]
    offset = theta[d] if intercept else 0.0
    pulls = np.empty(batch)
    scale, total, read = 1.0, 0.0, 0.0
    for t in range(count):
        read += prefetch_rows(rows, y, lengths, points[t * batch : (t + 1) * batch])
        for r in range(batch):
            slot = t * batch + r
            i = points[slot]
            z = scale * dot_row(rows, i, v) + offset
            cost = costs[i] if costs.shape[0] else 1.0
            slope = cost * loss_slope(loss, z, y[i])
            total += weights[slot] * cost * loss_value(loss, z, y[i])
            norms[slot] = abs(slope) * lengths[i]
            pulls[r] = weights[slot] * slope
        step = steps[t] / batch
        scale *= 1.0 - steps[t] * l2
        if abs(scale) < MIN_SCALE:
            for j in range(d):
                v[j] *= scale
            scale = 1.0
        for r in range(batch):
            if pulls[r] != 0.0:
                add_row(rows, points[t * batch + r], -step * pulls[r] / scale, v)
                if intercept:
                    offset -= step * pulls[r]
    for j in range(d):
        v[j] *= scale
    if intercept:
        theta[d] = offset
    return total + 0.0 * read  # adding zero keeps the compiler from removing the prefetching


@kernel
def take_adagrad_steps(
    rows: Rows,
    y: FloatArray,
    costs: FloatArray,
    lengths: FloatArray,
    loss: int,
    intercept: bool,
    l2: float,
    epsilon: float,
    points: IntArray,
    weights: FloatArray,
    steps: FloatArray,
    squares: FloatArray,
    theta: FloatArray,
    norms: FloatArray,
) -> float:
    """Take one step per batch: theta_j <- theta_j - step g_j / (epsilon + sqrt squares_j).

    First, g_j^2 is added to squares_j. Coordinates with g_j = 0 do not change, so without a penalty only the columns of
    the batch are visited.
    """
    count = steps.shape[0]
    batch = points.shape[0] // count
    d = theta.shape[0] - (1 if intercept else 0)
    gradient = np.zeros(theta.shape[0])
    pulls = np.empty(batch)
    total, read = 0.0, 0.0
    for t in range(count):
        read += prefetch_rows(rows, y, lengths, points[t * batch : (t + 1) * batch])
        for r in range(batch):
            slot = t * batch + r
            i = points[slot]
            z = dot_row(rows, i, theta[:d]) + (theta[d] if intercept else 0.0)
            cost = costs[i] if costs.shape[0] else 1.0
            slope = cost * loss_slope(loss, z, y[i])
            total += weights[slot] * cost * loss_value(loss, z, y[i])
            norms[slot] = abs(slope) * lengths[i]
            pulls[r] = weights[slot] * slope / batch
        for r in range(batch):
            if pulls[r] != 0.0:
                add_row(rows, points[t * batch + r], pulls[r], gradient[:d])
                if intercept:
                    gradient[d] += pulls[r]
        if rows.indptr.shape[0] and l2 == 0.0:
            for r in range(batch):
                i = points[t * batch + r]
                for p in range(rows.indptr[i], rows.indptr[i + 1]):
                    move_coordinate(rows.indices[p], gradient, steps[t], epsilon, squares, theta)
        else:
            for j in range(d):
                gradient[j] += l2 * theta[j]
                move_coordinate(j, gradient, steps[t], epsilon, squares, theta)
        if intercept:
            move_coordinate(d, gradient, steps[t], epsilon, squares, theta)
    return total + 0.0 * read  # adding zero keeps the compiler from removing the prefetching


@kernel
def move_coordinate(
    j: int, gradient: FloatArray, step: float, epsilon: float, squares: FloatArray, theta: FloatArray
) -> None:
    """Move coordinate j and clear its gradient, so that a column that occurs twice in a batch moves once."""
    g = gradient[j]
    if g != 0.0:
        squares[j] += g * g
        theta[j] -= step * g / (epsilon + math.sqrt(squares[j]))
        gradient[j] = 0.0


@kernel
def take_variance_reduced_steps(
    rows: Rows,
    y: FloatArray,
    costs: FloatArray,
    lengths: FloatArray,
    loss: int,
    intercept: bool,
    l2: float,
    replace: bool,
    points: IntArray,
    weights: FloatArray,
    steps: FloatArray,
    table: FloatArray,
    mean: FloatArray,
    theta: FloatArray,
    norms: FloatArray,
) -> float:
    """Take one step per batch: theta <- theta - step (mean of weight * (gradient - entry) + mean entry + l2 theta).

    `table` holds a slope per point, and `mean` the mean gradient that follows from these slopes. With `replace`, the
    entries of the drawn points are then replaced and `mean` is updated. Theta is stored as scale * v + along * mean.
    The dense parts of a step change these two numbers only. When `mean` moves along a row, v moves back along the
    same row. A step over sparse rows therefore only touches their own columns.
    """
    count = steps.shape[0]
    batch = points.shape[0] // count
    d = theta.shape[0] - (1 if intercept else 0)
    v, g = theta[:d], mean[:d]
    offset = theta[d] if intercept else 0.0
    fresh, pulls = np.empty(batch), np.empty(batch)
    scale, along, total, read = 1.0, 0.0, 0.0, 0.0
    for t in range(count):
        read += prefetch_rows(rows, y, lengths, points[t * batch : (t + 1) * batch])
        for r in range(batch):
            read += table[points[t * batch + r]]
        for r in range(batch):
            slot = t * batch + r
            i = points[slot]
            z = scale * dot_row(rows, i, v) + along * dot_row(rows, i, g) + offset
            cost = costs[i] if costs.shape[0] else 1.0
            fresh[r] = cost * loss_slope(loss, z, y[i])
            total += weights[slot] * cost * loss_value(loss, z, y[i])
            change = fresh[r] - table[i]
            norms[slot] = abs(change) * lengths[i]
            pulls[r] = weights[slot] * change
        shrink = 1.0 - steps[t] * l2
        scale *= shrink
        along = along * shrink - steps[t]
        if intercept:
            offset -= steps[t] * mean[d]
        if abs(scale) < MIN_SCALE:
            multiply_out(scale, along, v, g)
            scale, along = 1.0, 0.0
        step = steps[t] / batch
        for r in range(batch):
            i = points[t * batch + r]
            change = 0.0
            if replace:  # if a point occurs twice, its second entry changes nothing
                change = (fresh[r] - table[i]) / table.shape[0]
                table[i] = fresh[r]
            if change != 0.0:
                add_row(rows, i, change, g)
                if intercept:
                    mean[d] += change
            push = step * pulls[r] + along * change
            if push != 0.0:
                add_row(rows, i, -push / scale, v)
            if intercept:
                offset -= step * pulls[r]
    multiply_out(scale, along, v, g)
    if intercept:
        theta[d] = offset
    return total + 0.0 * read  # adding zero keeps the compiler from removing the prefetching


@kernel
def multiply_out(scale: float, along: float, v: FloatArray, g: FloatArray) -> None:
    """Write scale * v + along * g to v."""
    for j in range(v.shape[0]):
        v[j] = scale * v[j] + along * g[j]
