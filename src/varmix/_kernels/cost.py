"""Estimated cost f~(w) = mean[ c / (w.q) ] with c = l^2 / d_s, its gradient and Hessian, and sums for gain meters."""

import math

from varmix._core.validation import FloatArray, IntArray
from varmix._kernels.jit import kernel


@kernel
def weigh_draws(ratios: FloatArray, mixture: FloatArray, density: FloatArray, weights: FloatArray) -> None:
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
    """Write density and exact weight for disjoint groups. The density is the share of the group over its mass."""
    for r in range(groups.shape[0]):
        g = groups[r]
        density[r] = shares[g] / masses[g]
        weights[r] = 1.0 / density[r]


@kernel
def write_coefficients(norms: FloatArray, density: FloatArray, out: FloatArray) -> int:
    """Write l^2 / d_s; return the first row whose norm or density is not allowed, or -1.

    Results are at most 1e250, and zero below 1e-250, so that squares of them neither overflow nor lose digits.
    """
    for r in range(norms.shape[0]):
        value = norms[r] * norms[r] / density[r]
        if not (norms[r] >= 0.0 and value <= 1e250 and 0.0 < density[r] < math.inf):
            return r
        out[r] = value if value >= 1e-250 else 0.0
    return -1


@kernel
def write_moments(coefficients: FloatArray, density: FloatArray, out: FloatArray) -> float:
    """Write the means of c, c / d, 1 / d and 1 / d^2 over a batch; return the largest 1 / d."""
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


# Indices into the array of a meter: five single numbers, then the starts of four blocks (sums, squares, sums since the
# last call, pairs of gradients) and the length. `varmix.meter` explains them.
BATCHES, DRAWS, LARGEST, UNIT, DECAY = 0, 1, 2, 3, 4
SUMS, SQUARES, RECENT, PAIRS, METER_SIZE = 5, 10, 14, 16, 21


@kernel
def add_moments(
    m: float, uniform: float, mixture: float, weight: float, square: float, largest: float, meter: FloatArray
) -> None:
    """Add the moments of a batch to the numbers of a meter.

    Second moments are stored in units of the largest one seen, so that their squares neither overflow nor vanish.
    """
    size = max(uniform, mixture)
    if size > meter[UNIT]:
        factor = meter[UNIT] / size
        for i in (SUMS + 3, SUMS + 4, RECENT, RECENT + 1, PAIRS + 1, PAIRS + 2, PAIRS + 3):
            meter[i] *= factor
        for i in (SQUARES + 1, SQUARES + 2, SQUARES + 3):
            meter[i] *= factor * factor
        meter[UNIT] = size
    unit = meter[UNIT] if meter[UNIT] > 0.0 else 1.0
    a, b, decay = uniform / unit, mixture / unit, meter[DECAY]
    meter[BATCHES] += 1.0
    meter[DRAWS] += m
    meter[LARGEST] = max(meter[LARGEST], largest)
    meter[SUMS] = decay * meter[SUMS] + m
    meter[SUMS + 1] = decay * meter[SUMS + 1] + m * weight
    meter[SUMS + 2] = decay * meter[SUMS + 2] + m * square
    meter[SUMS + 3] = decay * meter[SUMS + 3] + m * a
    meter[SUMS + 4] = decay * meter[SUMS + 4] + m * b
    meter[SQUARES] = decay * decay * meter[SQUARES] + m * m
    meter[SQUARES + 1] = decay * decay * meter[SQUARES + 1] + m * a * (m * a)
    meter[SQUARES + 2] = decay * decay * meter[SQUARES + 2] + m * a * (m * b)
    meter[SQUARES + 3] = decay * decay * meter[SQUARES + 3] + m * b * (m * b)
    meter[RECENT] += m * a
    meter[RECENT + 1] += m * b
    if decay < 1.0:
        for i in range(PAIRS, METER_SIZE):
            meter[i] *= decay


@kernel
def measure_receipt(coefficients: FloatArray, density: FloatArray, meter: FloatArray) -> None:
    """Add a receipt to the numbers of a meter, given its coefficients l^2 / d and densities d."""
    m = coefficients.shape[0]
    uniform, mixture, weight, square, largest = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(m):
        r = 1.0 / density[i]
        uniform += coefficients[i]
        mixture += coefficients[i] * r
        weight += r
        square += r * r
        largest = max(largest, r)
    add_moments(float(m), uniform / m, mixture / m, weight / m, square / m, largest, meter)


@kernel
def value_and_gradient(
    ratios: FloatArray, coefficients: FloatArray, mixture: FloatArray, gradient: FloatArray
) -> float:
    """Write the gradient -mean[ c q / (w.q)^2 ] and return the value mean[ c / (w.q) ]."""
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
def write_hessian(ratios: FloatArray, coefficients: FloatArray, mixture: FloatArray, out: FloatArray) -> None:
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
