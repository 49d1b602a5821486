"""Coordinate descent for linear models: columns of the data, margins and slopes that are kept up to date."""

import math

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel
from varmix.solvers._kernels__losses import loss_slope
from varmix._kernels.rows import Rows
from varmix._kernels.rows import add
from varmix._kernels.rows import dot


@kernel
def descend(
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
    """Step over consecutive batches of blocks; block b holds the coordinates members[start[b]:start[b + 1]].

    Without `inverses` the blocks of a batch move together, each by step * weight * number of blocks / batch times its
    gradient.  With them they move one after the other, by step * inverse times their gradient, and weights play no
    part.  `norms` takes the length of every drawn block's gradient.
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
                partial = dot(columns, j, slopes) / n + penalties[j] * theta[j]
                partials[r, m - start[b]] = partial
                total += partial * partial
            norms[first + r] = math.sqrt(total)
        for r in range(together):
            b = atoms[first + r]
            length = step * (inverses[b] if exact else weights[first + r] * blocks / batch)
            for m in range(start[b], start[b + 1]):
                move = -length * partials[r, m - start[b]]
                theta[members[m]] += move
                add(columns, members[m], move, margins)
        for r in range(together):
            b = atoms[first + r]
            for m in range(start[b], start[b + 1]):
                if columns.indptr.shape[0] or (r == 0 and m == start[b]):  # a dense column is all rows: once is enough
                    renew(columns, members[m], y, costs, loss, margins, slopes)


@kernel
def renew(
    columns: Rows, j: int, y: FloatArray, costs: FloatArray, loss: int, margins: FloatArray, slopes: FloatArray
) -> None:
    """Compute the slopes of the points that column j touches."""
    if columns.indptr.shape[0]:
        for p in range(columns.indptr[j], columns.indptr[j + 1]):
            i = columns.indices[p]
            slopes[i] = (costs[i] if costs.shape[0] else 1.0) * loss_slope(loss, margins[i], y[i])
        return
    for i in range(slopes.shape[0]):
        slopes[i] = (costs[i] if costs.shape[0] else 1.0) * loss_slope(loss, margins[i], y[i])


@kernel
def transpose(rows: Rows, n: int, starts: IntArray, points: IntArray, data: AnyArray) -> None:
    """Write CSR as CSC: `starts` counts the entries before each column, zeros when it is given."""
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
def squares(columns: Rows, costs: FloatArray, out: FloatArray) -> None:
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
