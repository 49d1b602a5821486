"""Steps with reduced variance for linear models: SAGA, and SVRG, whose table is only written at the snapshot.

The gradient of a point is its slope times its row, so the table of gradients is one slope per point.  See
`kernels/descent.py` for the other arguments.
"""

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix.solvers._kernels__descent import SMALLEST_SCALE
from varmix._kernels.jit import kernel
from varmix.solvers._kernels__losses import loss_slope
from varmix.solvers._kernels__losses import loss_value
from varmix._kernels.rows import Rows
from varmix._kernels.rows import add
from varmix._kernels.rows import dot
from varmix._kernels.rows import fetch


@kernel
def reduced(
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
    """Step by step: theta <- theta - step (mean of weight * (gradient - table entry) + mean of the table + l2 theta).

    `mean` is the mean of the table's gradients.  With `replace` the drawn entries are then written anew, and `mean`
    follows.  Theta is kept as scale * v + along * mean: the dense parts of a step change the two numbers only, and
    when `mean` moves along a row, v moves against it along the same row.  Sparse rows cost their own columns.
    """
    count = steps.shape[0]
    batch = points.shape[0] // count
    d = theta.shape[0] - (1 if intercept else 0)
    v, g = theta[:d], mean[:d]
    offset = theta[d] if intercept else 0.0
    fresh, pulls = np.empty(batch), np.empty(batch)
    scale, along, total, read = 1.0, 0.0, 0.0, 0.0
    for t in range(count):
        read += fetch(rows, y, lengths, points[t * batch : (t + 1) * batch])
        for r in range(batch):
            read += table[points[t * batch + r]]
        for r in range(batch):
            slot = t * batch + r
            i = points[slot]
            z = scale * dot(rows, i, v) + along * dot(rows, i, g) + offset
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
        if abs(scale) < SMALLEST_SCALE:
            settle(scale, along, v, g)
            scale, along = 1.0, 0.0
        step = steps[t] / batch
        for r in range(batch):
            i = points[t * batch + r]
            change = 0.0
            if replace:  # a point that comes again in the batch finds its own entry, and changes nothing
                change = (fresh[r] - table[i]) / table.shape[0]
                table[i] = fresh[r]
            if change != 0.0:
                add(rows, i, change, g)
                if intercept:
                    mean[d] += change
            push = step * pulls[r] + along * change
            if push != 0.0:
                add(rows, i, -push / scale, v)
            if intercept:
                offset -= step * pulls[r]
    settle(scale, along, v, g)
    if intercept:
        theta[d] = offset
    return total + 0.0 * read  # as in `kernels/descent.py`


@kernel
def settle(scale: float, along: float, v: FloatArray, g: FloatArray) -> None:
    """Multiply out: v <- scale v + along g."""
    for j in range(v.shape[0]):
        v[j] = scale * v[j] + along * g[j]
