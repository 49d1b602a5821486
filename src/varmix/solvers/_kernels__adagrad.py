"""AdaGrad for linear models; see `kernels/descent.py` for what the arguments are."""

import math

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel
from varmix.solvers._kernels__losses import loss_slope
from varmix.solvers._kernels__losses import loss_value
from varmix._kernels.rows import Rows
from varmix._kernels.rows import add
from varmix._kernels.rows import dot
from varmix._kernels.rows import fetch


@kernel
def adagrad(
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
    """Step by step: theta_j <- theta_j - step g_j / (epsilon + sqrt squares_j), after squares_j <- squares_j + g_j^2.

    Where g_j is zero nothing changes, so that without a penalty only the columns of the batch are visited.
    """
    count = steps.shape[0]
    batch = points.shape[0] // count
    d = theta.shape[0] - (1 if intercept else 0)
    gradient = np.zeros(theta.shape[0])
    pulls = np.empty(batch)
    total, read = 0.0, 0.0
    for t in range(count):
        read += fetch(rows, y, lengths, points[t * batch : (t + 1) * batch])
        for r in range(batch):
            slot = t * batch + r
            i = points[slot]
            z = dot(rows, i, theta[:d]) + (theta[d] if intercept else 0.0)
            cost = costs[i] if costs.shape[0] else 1.0
            slope = cost * loss_slope(loss, z, y[i])
            total += weights[slot] * cost * loss_value(loss, z, y[i])
            norms[slot] = abs(slope) * lengths[i]
            pulls[r] = weights[slot] * slope / batch
        for r in range(batch):
            if pulls[r] != 0.0:
                add(rows, points[t * batch + r], pulls[r], gradient[:d])
                if intercept:
                    gradient[d] += pulls[r]
        if rows.indptr.shape[0] and l2 == 0.0:
            for r in range(batch):
                i = points[t * batch + r]
                for p in range(rows.indptr[i], rows.indptr[i + 1]):
                    move(rows.indices[p], gradient, steps[t], epsilon, squares, theta)
        else:
            for j in range(d):
                gradient[j] += l2 * theta[j]
                move(j, gradient, steps[t], epsilon, squares, theta)
        if intercept:
            move(d, gradient, steps[t], epsilon, squares, theta)
    return total + 0.0 * read  # as in `kernels/descent.py`


@kernel
def move(j: int, gradient: FloatArray, step: float, epsilon: float, squares: FloatArray, theta: FloatArray) -> None:
    """Move coordinate j, and clear its gradient: a column that comes twice in a batch is moved once."""
    g = gradient[j]
    if g != 0.0:
        squares[j] += g * g
        theta[j] -= step * g / (epsilon + math.sqrt(squares[j]))
        gradient[j] = 0.0
