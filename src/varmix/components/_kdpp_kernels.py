"""Determinants of sets, det(scale * K_S + ridge I), and the ratios they make.

Two ways.  Cholesky's of the Gram matrix is fast, and loses twice the digits that the condition of the rows costs.
Where it would lose more than a few, the rows themselves are made orthogonal, with the ridge as more coordinates:
det(A'A + ridge I) is the squared volume of the columns of [A; sqrt(ridge) I], and only eps * condition is lost.
Which way is taken depends on the set and the law alone, so a set has one ratio, whenever it is asked for.
"""

import math

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel

# What Cholesky may lose.  The errors of a pivot are a few eps of its diagonal entry, over the part that is left of it;
# parts multiply where digits are lost little by little.  With a part of 1e-4 left, the relative error is below 1e-11.
LEAST_PART = 1e-4

# What is left of a column when the others are taken out, beside the largest entry of each row, is rounding below this.
SPANNED = 1e-14


@kernel
def by_cholesky(gram: FloatArray, scale: float, ridge: float, upper: FloatArray) -> float:
    """Give log det(scale * gram + ridge I), or nan where so much of the pivots cancels that digits would be missing."""
    order = gram.shape[0]
    for i in range(order):
        for j in range(i, order):
            upper[i, j] = scale * gram[i, j]
        upper[i, i] += ridge
    total = 0.0
    product = 1.0
    part_left = 1.0
    for i in range(order):
        pivot = upper[i, i]
        diagonal = scale * gram[i, i] + ridge
        if not pivot > 0.1 * diagonal:  # others lose a digit at most, and large sets have many of them
            part_left *= pivot / diagonal
            if not part_left > LEAST_PART:
                return math.nan
        product *= pivot
        if not 1e-100 < product < 1e100:  # logarithms are slow: one for many pivots
            total += math.log(product)
            product = 1.0
        inverse = 1.0 / pivot
        for k in range(i + 1, order):
            part = upper[i, k] * inverse
            for j in range(k, order):
                upper[k, j] -= part * upper[i, j]
    return total + math.log(product)


@kernel
def take_out(vector: FloatArray, direction: FloatArray) -> float:
    """Subtract from a vector what lies along a direction; give the square of what is left."""
    part = 0.0
    for a in range(vector.shape[0]):
        part += vector[a] * direction[a]
    square = 0.0
    for a in range(vector.shape[0]):
        vector[a] -= part * direction[a]
        square += vector[a] * vector[a]
    return square


@kernel
def stretch(vector: FloatArray, factor: float) -> None:
    """Multiply a vector in place."""
    for a in range(vector.shape[0]):
        vector[a] *= factor


@kernel
def squared(vector: FloatArray) -> float:
    """Give the square of a vector's length."""
    total = 0.0
    for a in range(vector.shape[0]):
        total += vector[a] * vector[a]
    return total


@kernel
def stands_out(vector: FloatArray, rounding: FloatArray) -> bool:
    """Whether any of the first coordinates is above its rounding."""
    for a in range(rounding.shape[0]):  # noqa: SIM110 (compiled code has no any() of a generator)
        if abs(vector[a]) > rounding[a]:
            return True
    return False


@kernel
def exchange(values: FloatArray, i: int, j: int) -> None:
    """Exchange two rows."""
    for a in range(values.shape[1]):
        values[i, a], values[j, a] = values[j, a], values[i, a]


@kernel
def by_orthogonalising(rows: FloatArray, scale: float, ridge: float) -> float:
    """Give log det(scale * rows' rows + ridge I) by Gram-Schmidt; minus infinity where that is singular.

    Every column of [sqrt(scale) rows; sqrt(ridge) I] is first divided by its length, so that long and short points
    are alike; the one of which most is left comes next, and what the others span is taken out of it once more before
    it is used.  What is then left of the features may be rounding: they are spanned, and only the ridge is left.
    Rounding follows the size of the coordinates, which may differ by many powers of ten: each is judged by its own.
    """
    length, order = rows.shape
    basis = np.zeros((order, length + order))
    left = np.ones((order, 1))  # the square of what is left of a column
    rounding = np.zeros(length)
    total = 0.0
    for i in range(order):
        for a in range(length):
            basis[i, a] = math.sqrt(scale) * rows[a, i]
        basis[i, length + i] = math.sqrt(ridge)
        square = squared(basis[i])
        if not square > 0.0:
            return -math.inf
        stretch(basis[i], 1.0 / math.sqrt(square))
        total += math.log(square)
        for a in range(length):
            rounding[a] = max(rounding[a], SPANNED * order * abs(basis[i, a]))
    for count in range(order):
        longest = count
        for i in range(count + 1, order):
            if left[i, 0] > left[longest, 0]:
                longest = i
        exchange(basis, count, longest)
        exchange(left, count, longest)
        vector = basis[count]
        for b in range(count):
            take_out(vector, basis[b])
        if not stands_out(vector, rounding):
            vector[:length] = 0.0
        square = squared(vector)
        if not square > 0.0:
            return -math.inf
        stretch(vector, 1.0 / math.sqrt(square))
        total += math.log(square)
        for i in range(count + 1, order):
            left[i, 0] = take_out(basis[i], vector)
    return total


@kernel
def set_ratios(atoms: IntArray, vectors: FloatArray, roots: FloatArray, laws: FloatArray, ratios: FloatArray) -> None:
    """Write the ratios of sets under every law; columns beyond the laws (the anchor) are one.

    A law is (scale, ridge, log factor, log limit): its ratio is det(scale * gram + ridge I) times the factor, and the
    limit where rounding would lift it above.  Of the two matrices with that determinant, points by points and columns
    by columns, the smaller one is used.
    """
    size = atoms.shape[1]
    columns = vectors.shape[1]
    by_points = size <= columns
    order = size if by_points else columns
    gram = np.empty((order, order))
    upper = np.empty((order, order))
    rows = np.empty((columns, size)) if by_points else np.empty((size, columns))
    for r in range(atoms.shape[0]):
        for i in range(size):
            for v in range(columns):
                value = vectors[atoms[r, i], v] * roots[v]
                if by_points:
                    rows[v, i] = value
                else:
                    rows[i, v] = value
        gram[:] = 0.0
        for v in range(rows.shape[0]):  # outer products: the sums of the inner loop do not wait for one another
            for i in range(order):
                part = rows[v, i]
                for j in range(i, order):
                    gram[i, j] += part * rows[v, j]
        for j in range(laws.shape[0]):
            exponent = by_cholesky(gram, laws[j, 0], laws[j, 1], upper)
            if math.isnan(exponent):
                exponent = by_orthogonalising(rows, laws[j, 0], laws[j, 1])
            ratios[r, j] = math.exp(min(exponent + laws[j, 2], laws[j, 3]))
        for j in range(laws.shape[0], ratios.shape[1]):
            ratios[r, j] = 1.0
