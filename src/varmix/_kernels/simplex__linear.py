"""Small dense systems, written so that every inner loop runs along a row and is vectorised."""

import math

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel

# A pivot below this part of its diagonal entry is rounding: the matrix is singular there.
SINGULAR = 1e-15


@kernel
def factor(M: FloatArray, index: IntArray, size: int, last: int, force: float, upper: FloatArray) -> float:
    """Write U with U'U = D' M D, where D moves the coordinates `index` against `last`, so that their sum is kept.

    Gives the product of the pivots that are small beside their diagonal entries: how many digits are lost, which may
    happen little by little.  A singular direction gets the smallest pivot that is not rounding
    (nor so small that `force` over it overflows) and is cut off from the others: steps along it are long, and the
    bounds of the simplex stop them.  The diagonal of `upper` holds the inverses of U's: divisions are slow.
    """
    corner = M[last, last]
    for i in range(size):
        row = M[index[i]]
        offset = corner - row[last]
        for j in range(i, size):
            upper[i, j] = row[index[j]] - M[last, index[j]] + offset
    quality = 1.0
    for i in range(size):
        diagonal = M[index[i], index[i]] - 2.0 * M[index[i], last] + corner
        pivot = upper[i, i]
        if not pivot > SINGULAR * size * diagonal:
            pivot = max(SINGULAR * size * diagonal, 1e-30 * force, 1e-300)
            upper[i, i + 1 : size] = 0.0
        ratio = pivot / diagonal if diagonal > 0.0 else 0.0
        if ratio < 0.1:
            quality *= ratio
        inverse = 1.0 / math.sqrt(pivot)
        upper[i, i] = inverse
        for j in range(i + 1, size):
            upper[i, j] *= inverse
        for r in range(i + 1, size):
            part = upper[i, r]
            for j in range(r, size):
                upper[r, j] -= part * upper[i, j]
    return quality


@kernel
def solve(upper: FloatArray, size: int, b: FloatArray) -> None:
    """Solve U'U x = b in place."""
    for i in range(size):
        b[i] *= upper[i, i]
        part = b[i]
        for j in range(i + 1, size):
            b[j] -= part * upper[i, j]
    for i in range(size - 1, -1, -1):
        total = b[i]
        for j in range(i + 1, size):
            total -= upper[i, j] * b[j]
        b[i] = total * upper[i, i]
