"""Laws with a floor: mirror descent in relative entropy over { q >= floor, mean q = 1 }, in amortised log n a step.

The projection of positive numbers v onto that set is q_i = max(floor, scale v_i), where scale makes the mean one.
Points at the floor are all alike, so they need no number of their own: they have v = 0.  `values` is the sum tree of
v, `floors` that of ones for the points at the floor, and `least` a tree of minima over the others (infinite at the
floor).  Then

    scale = (n - floor * floors[1]) / values[1]

A step only makes numbers larger, so that scale falls, points at the floor stay there, and the least of the others are
sent to it one by one.  Each of them was brought up by a step before, or was above the floor at the start: log n
a step, amortised.
"""

import math

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel
from varmix.components._literature.kernels__tree import build
from varmix.components._literature.kernels__tree import descend
from varmix.components._literature.kernels__tree import set_leaf

SMALL = 1e-100


@kernel
def build_floored(weights: FloatArray, values: FloatArray, floors: FloatArray, least: FloatArray) -> None:
    """Write the three trees of v = `weights`, zero for the points at the floor."""
    n = weights.shape[0]
    for i in range(n):
        values[n + i] = weights[i]
        floors[n + i] = 0.0 if weights[i] > 0.0 else 1.0
        least[n + i] = weights[i] if weights[i] > 0.0 else np.inf
    build(values)
    build(floors)
    for node in range(n - 1, 0, -1):
        least[node] = min(least[2 * node], least[2 * node + 1])


@kernel
def scale_of(values: FloatArray, floors: FloatArray, floor: float) -> float:
    """Give the factor from v to ratios."""
    return float((values.shape[0] // 2 - floor * floors[1]) / values[1])


@kernel
def place(values: FloatArray, floors: FloatArray, least: FloatArray, atom: int, value: float) -> None:
    """Give a point another v; zero sends it to the floor."""
    n = values.shape[0] // 2
    set_leaf(values, atom, value)
    if (floors[n + atom] > 0.0) != (value <= 0.0):
        set_leaf(floors, atom, 1.0 if value <= 0.0 else 0.0)
    node = n + atom
    least[node] = value if value > 0.0 else np.inf
    node //= 2
    while node >= 1:
        least[node] = min(least[2 * node], least[2 * node + 1])
        node //= 2


@kernel
def lowest(least: FloatArray) -> int:
    """Give the point of the least v above the floor."""
    n = least.shape[0] // 2
    node = 1
    while node < n:
        node = 2 * node if least[2 * node] <= least[2 * node + 1] else 2 * node + 1
    return int(node - n)


@kernel
def floored_rows(values: FloatArray, floors: FloatArray, floor: float, atoms: IntArray, out: FloatArray) -> None:
    """Write the ratios of these atoms."""
    n = values.shape[0] // 2
    scale = scale_of(values, floors, floor)
    for r in range(atoms.shape[0]):
        v = values[n + atoms[r]]
        out[r] = scale * v if v > 0.0 else floor


@kernel
def draw_floored(uniforms: FloatArray, values: FloatArray, floors: FloatArray, floor: float, atoms: IntArray) -> None:
    """Draw a point at the floor with their joint probability, else one of the others by v; one uniform serves both."""
    share = floor * floors[1] / (values.shape[0] // 2)
    for r in range(atoms.shape[0]):
        u = uniforms[r]
        if u < share:
            atoms[r] = descend(floors, u / share)
        else:
            atoms[r] = descend(values, (u - share) / (1.0 - share))


@kernel
def climb(
    values: FloatArray, floors: FloatArray, least: FloatArray, floor: float, atoms: IntArray, exponents: FloatArray
) -> None:
    """Multiply the ratios of distinct atoms by e^exponents, none negative, and project.

    Where a product is so large that all that was not multiplied falls to the floor, only the products count beside each
    other: all of them are divided by the same number, so that none overflows.
    """
    n = values.shape[0] // 2
    scale = scale_of(values, floors, floor)
    if scale < SMALL:
        weights = values[n:] * scale
        build_floored(weights, values, floors, least)
        scale = scale_of(values, floors, floor)
    ratios = np.empty(atoms.shape[0])
    floored_rows(values, floors, floor, atoms, ratios)
    logs = np.log(ratios) + exponents
    top = logs.max()
    ample = min(2.0 * math.log(n / floor), top)
    for r in range(atoms.shape[0]):
        product = math.exp(logs[r] if ample == top else (logs[r] - top) + ample)
        place(values, floors, least, atoms[r], max(product, 0.5 * floor) / scale)
    while True:
        atom = lowest(least)
        if scale_of(values, floors, floor) * least[1] >= floor:
            break
        place(values, floors, least, atom, 0.0)
