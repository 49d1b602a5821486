"""Steps of linear models over consecutive batches, between two updates of the mixture.

Common to all: `points` and `weights` hold the batches one after the other, as many as there are `steps`; `theta` is
moved in place; `norms` takes the length of every drawn point's gradient; what is given back is the weighted sum of the
losses.  The penalty l2/2 |theta|^2 is not sampled.  With `intercept` the last entry of theta is one, not penalised.
"""

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

SMALLEST_SCALE = 1e-6  # of the factor that shrinks theta, before it is multiplied out


@kernel
def sgd(
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
    """Step by step: theta <- theta - step (mean of weight * gradient + l2 theta).

    Theta is kept as a number times a vector, so that shrinking it costs the same for sparse rows as for none.
    """
    count = steps.shape[0]
    batch = points.shape[0] // count
    d = theta.shape[0] - (1 if intercept else 0)
    v = theta[:d]
    offset = theta[d] if intercept else 0.0
    pulls = np.empty(batch)
    scale, total, read = 1.0, 0.0, 0.0
    for t in range(count):
        read += fetch(rows, y, lengths, points[t * batch : (t + 1) * batch])
        for r in range(batch):
            slot = t * batch + r
            i = points[slot]
            z = scale * dot(rows, i, v) + offset
            cost = costs[i] if costs.shape[0] else 1.0
            slope = cost * loss_slope(loss, z, y[i])
            total += weights[slot] * cost * loss_value(loss, z, y[i])
            norms[slot] = abs(slope) * lengths[i]
            pulls[r] = weights[slot] * slope
        step = steps[t] / batch
        scale *= 1.0 - steps[t] * l2
        if abs(scale) < SMALLEST_SCALE:
            for j in range(d):
                v[j] *= scale
            scale = 1.0
        for r in range(batch):
            if pulls[r] != 0.0:
                add(rows, points[t * batch + r], -step * pulls[r] / scale, v)
                if intercept:
                    offset -= step * pulls[r]
    for j in range(d):
        v[j] *= scale
    if intercept:
        theta[d] = offset
    return total + 0.0 * read  # what was fetched counts for nothing, but must be used
