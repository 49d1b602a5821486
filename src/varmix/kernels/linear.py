"""Small dense systems, written so that every inner loop runs along a row and is vectorised."""

import math

from varmix.arrays import FloatArray, IntArray
from varmix.kernels.jit import kernel

# A pivot below this part of its diagonal entry is rounding: the matrix is singular there.
SINGULAR = 1e-15


@kernel
def factor(M: FloatArray, index: IntArray, size: int, upper: FloatArray) -> float:
    """Write U with U'U = M[index, index] into the upper triangle; give the smallest pivot over its diagonal entry.

    The diagonal of `upper` holds the inverses of U's: divisions are slow, and each is needed three times.

    A singular direction gets the smallest pivot that is not rounding, which makes steps along it long; the
    bounds of the simplex stop them.
    """
    if size == M.shape[0]:
        upper[:] = M
    else:
        for i in range(size):
            for j in range(i, size):
                upper[i, j] = M[index[i], index[j]]
    quality = 1.0
    for i in range(size):
        diagonal = M[index[i], index[i]]
        pivot = upper[i, i]
        if not pivot > SINGULAR * size * diagonal:
            pivot = max(SINGULAR * size * diagonal, 1e-300)
        quality = min(quality, pivot / diagonal if diagonal > 0.0 else 0.0)
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


@kernel
def solve_pair(upper: FloatArray, size: int, a: FloatArray, b: FloatArray) -> None:
    """Solve U'U x = a and U'U x = b in place, side by side: neither has to wait for the other's additions."""
    for i in range(size):
        a[i] *= upper[i, i]
        b[i] *= upper[i, i]
        left = a[i]
        right = b[i]
        for j in range(i + 1, size):
            a[j] -= left * upper[i, j]
            b[j] -= right * upper[i, j]
    for i in range(size - 1, -1, -1):
        left = a[i]
        right = b[i]
        for j in range(i + 1, size):
            left -= upper[i, j] * a[j]
            right -= upper[i, j] * b[j]
        a[i] = left * upper[i, i]
        b[i] = right * upper[i, i]
