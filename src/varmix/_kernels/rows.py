"""Rows of a data matrix, dense or CSR, for linear models.

A dense matrix has an empty `indptr`, a CSR matrix an empty `dense`. The branch per row takes no measurable time.
"""

import math
from typing import NamedTuple

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.jit import kernel, part


class Rows(NamedTuple):
    """Matrix of shape (n, d): dense, or the three arrays of CSR."""

    dense: AnyArray
    data: AnyArray
    indices: AnyArray
    indptr: AnyArray


@part
def dot_row(rows: Rows, i: int, v: FloatArray) -> float:
    """Return the inner product of row i with `v`.

    Dense rows use four partial sums, because additions to a single sum would have to wait for each other.
    """
    a = b = c = e = 0.0
    if rows.indptr.shape[0]:
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            a += rows.data[p] * v[rows.indices[p]]
        return a
    x = rows.dense[i]
    d = x.shape[0]
    whole = d - d % 4
    for j in range(0, whole, 4):
        a += x[j] * v[j]
        b += x[j + 1] * v[j + 1]
        c += x[j + 2] * v[j + 2]
        e += x[j + 3] * v[j + 3]
    for j in range(whole, d):
        a += x[j] * v[j]
    return (a + b) + (c + e)


@kernel
def prefetch_rows(rows: Rows, y: FloatArray, lengths: FloatArray, points: IntArray) -> float:
    """Read one number in eight of these rows and their entries of `y` and `lengths`, to bring them into the cache.

    Rows in shuffled order come from main memory. Independent reads overlap their waiting times, which makes steps over
    small rows two to three times as fast. The returned sum keeps the compiler from removing the reads.
    """
    total = 0.0
    if rows.indptr.shape[0]:
        for i in points:
            total += y[i] + lengths[i]
            for p in range(rows.indptr[i], rows.indptr[i + 1], 8):
                total += rows.data[p] + rows.indices[p]
        return total
    for i in points:
        total += y[i] + lengths[i]
        for j in range(0, rows.dense.shape[1], 8):
            total += rows.dense[i, j]
    return total


@part
def add_row(rows: Rows, i: int, scale: float, v: FloatArray) -> None:
    """Add `scale` times row i to `v`."""
    if rows.indptr.shape[0]:
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            v[rows.indices[p]] += scale * rows.data[p]
        return
    x = rows.dense[i]
    for j in range(x.shape[0]):
        v[j] += scale * x[j]


@kernel
def multiply_rows(rows: Rows, v: FloatArray, out: FloatArray) -> None:
    """Write the inner product of every row with `v`."""
    for i in range(out.shape[0]):
        out[i] = dot_row(rows, i, v)


@kernel
def some_products(rows: Rows, points: IntArray, v: FloatArray, out: FloatArray) -> None:
    """Write the inner products of the rows `points` with `v`."""
    for r in range(points.shape[0]):
        out[r] = dot_row(rows, points[r], v)


@kernel
def scaled_rows(rows: Rows, points: IntArray, scales: FloatArray, out: FloatArray) -> None:
    """Add the rows `points`, each times its scale, to the rows of `out`."""
    for r in range(points.shape[0]):
        add_row(rows, points[r], scales[r], out[r])


@kernel
def combine_rows(rows: Rows, scales: FloatArray, out: FloatArray) -> None:
    """Add the sum of all rows, each times its scale, to `out`."""
    for i in range(scales.shape[0]):
        if scales[i] != 0.0:
            add_row(rows, i, scales[i], out)


@kernel
def write_lengths(rows: Rows, constant: float, out: FloatArray) -> None:
    """Write the Euclidean length of every row extended by the entry `constant`.

    The factor 1.0 converts float32 to float64.
    """
    for i in range(out.shape[0]):
        total = constant * constant
        if rows.indptr.shape[0]:
            for p in range(rows.indptr[i], rows.indptr[i + 1]):
                total += 1.0 * rows.data[p] * rows.data[p]
        else:
            x = rows.dense[i]
            for j in range(x.shape[0]):
                total += 1.0 * x[j] * x[j]
        out[i] = math.sqrt(total)
