"""The losses of linear models, as functions of the margin z = x.theta and the label: value and derivative."""

import math

from varmix._core.validation import FloatArray
from varmix._kernels.jit import kernel

LOSSES = ("hinge", "logistic", "squared")  # known to kernels by their place here


@kernel
def loss_value(loss: int, z: float, y: float) -> float:
    """Give the loss at the margin `z`; labels of classifiers are -1 and 1."""
    if loss == 2:
        return 0.5 * (z - y) * (z - y)
    if loss == 0:
        return max(1.0 - y * z, 0.0)
    t = y * z
    return math.log1p(math.exp(-t)) if t > 0.0 else math.log1p(math.exp(t)) - t


@kernel
def loss_slope(loss: int, z: float, y: float) -> float:
    """Give the derivative in `z`; that of the hinge at its corner is zero."""
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
def values_and_slopes(loss: int, z: FloatArray, y: FloatArray, values: FloatArray, slopes: FloatArray) -> None:
    """Write loss and derivative at every margin."""
    for i in range(z.shape[0]):
        values[i] = loss_value(loss, z[i], y[i])
        slopes[i] = loss_slope(loss, z[i], y[i])
