"""The estimated cost f~(w) = mean[ c / (w.q) ] with c = l^2 / d_s, its gradient and its Hessian."""

import math

from varmix._core.validation import FloatArray, IntArray
from varmix._kernels.jit import kernel


@kernel
def weigh(ratios: FloatArray, mixture: FloatArray, density: FloatArray, weights: FloatArray) -> None:
    """Write the density w.q of every row and the exact importance weight 1 / density."""
    for r in range(ratios.shape[0]):
        total = 0.0
        for j in range(mixture.shape[0]):
            total += ratios[r, j] * mixture[j]
        density[r] = total
        weights[r] = 1.0 / total


@kernel
def weigh_groups(
    groups: IntArray, shares: FloatArray, masses: FloatArray, density: FloatArray, weights: FloatArray
) -> None:
    """The same for disjoint groups, whose density is their share of the draws over their mass."""
    for r in range(groups.shape[0]):
        g = groups[r]
        density[r] = shares[g] / masses[g]
        weights[r] = 1.0 / density[r]


@kernel
def coefficients(norms: FloatArray, density: FloatArray, out: FloatArray) -> int:
    """Write l^2 / d_s; give the first row whose norm or density is not allowed, or -1.

    Within 1e-250 and 1e250, so that no learner's squares overflow or lose their digits; what is smaller is zero.
    """
    for r in range(norms.shape[0]):
        value = norms[r] * norms[r] / density[r]
        if not (norms[r] >= 0.0 and value <= 1e250 and 0.0 < density[r] < math.inf):
            return r
        out[r] = value if value >= 1e-250 else 0.0
    return -1


@kernel
def moments(coefficients: FloatArray, density: FloatArray, out: FloatArray) -> float:
    """Write the means of c, c / d, 1 / d and 1 / d^2 over a batch, and give the largest 1 / d."""
    largest = 0.0
    out[:] = 0.0
    for r in range(density.shape[0]):
        weight = 1.0 / density[r]
        out[0] += coefficients[r]
        out[1] += coefficients[r] * weight
        out[2] += weight
        out[3] += weight * weight
        largest = max(largest, weight)
    out /= density.shape[0]
    return largest


@kernel
def tally(m: float, a: float, b: float, weight: float, square: float, decay: float, sums: FloatArray) -> None:
    """Add a receipt of m draws to sums that are multiplied by `decay` before.

    The sums are those of m, of m times weight, square, a and b; of m^2, (m a)^2, m^2 a b and (m b)^2; and, without
    decay, of m a and m b.
    """
    sums[0] = decay * sums[0] + m
    sums[1] = decay * sums[1] + m * weight
    sums[2] = decay * sums[2] + m * square
    sums[3] = decay * sums[3] + m * a
    sums[4] = decay * sums[4] + m * b
    sums[5] = decay * decay * sums[5] + m * m
    sums[6] = decay * decay * sums[6] + m * a * (m * a)
    sums[7] = decay * decay * sums[7] + m * a * (m * b)
    sums[8] = decay * decay * sums[8] + m * b * (m * b)
    sums[9] += m * a
    sums[10] += m * b


@kernel
def value_and_gradient(
    ratios: FloatArray, coefficients: FloatArray, mixture: FloatArray, gradient: FloatArray
) -> float:
    """Write the gradient -mean[ c q / (w.q)^2 ] and give the value mean[ c / (w.q) ]."""
    m = ratios.shape[0]
    k = mixture.shape[0]
    value: float = 0.0
    gradient[:] = 0.0
    for r in range(m):
        if coefficients[r] == 0.0:
            continue
        density = 0.0
        for j in range(k):
            density += ratios[r, j] * mixture[j]
        part = coefficients[r] / density
        value += part
        slope = part / density
        for j in range(k):
            gradient[j] -= slope * ratios[r, j]
    for j in range(k):
        gradient[j] /= m
    return float(value / m)


@kernel
def hessian(ratios: FloatArray, coefficients: FloatArray, mixture: FloatArray, out: FloatArray) -> None:
    """Write the Hessian mean[ 2 c q q' / (w.q)^3 ]."""
    m = ratios.shape[0]
    k = mixture.shape[0]
    out[:] = 0.0
    for r in range(m):
        if coefficients[r] == 0.0:
            continue
        density = 0.0
        for j in range(k):
            density += ratios[r, j] * mixture[j]
        curvature = 2.0 * coefficients[r] / density / density / density
        for i in range(k):
            part = curvature * ratios[r, i]
            if part != 0.0:
                for j in range(k):
                    out[i, j] += part * ratios[r, j]
    for i in range(k):
        for j in range(k):
            out[i, j] /= m
