"""Compiled loops of the laws of the literature: sum trees, weights with a floor, and scores."""

import math

import numpy as np

from varmix._core.validation import FloatArray, IntArray
from varmix._kernels.jit import kernel


@kernel
def build_tree(tree: FloatArray) -> None:
    """Write all sums above the leaves, which are in the second half of `tree`."""
    n = tree.shape[0] // 2
    for node in range(n - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@kernel
def set_leaf(tree: FloatArray, atom: int, value: float) -> None:
    """Change one leaf and the sums above it."""
    node = tree.shape[0] // 2 + atom
    tree[node] = value
    node //= 2
    while node >= 1:
        tree[node] = tree[2 * node] + tree[2 * node + 1]
        node //= 2


@kernel
def set_leaves(tree: FloatArray, atoms: IntArray, values: FloatArray) -> None:
    """Change several leaves. If an atom is listed twice, its last value counts."""
    for r in range(atoms.shape[0]):
        set_leaf(tree, atoms[r], values[r])


@kernel
def descend_tree(tree: FloatArray, u: float) -> int:
    """Return the leaf at position `u` in [0, 1) of the sums; never a leaf of weight zero, despite rounding."""
    n = tree.shape[0] // 2
    node = 1
    rest = u * tree[1]
    while node < n:
        left = tree[2 * node]
        right = tree[2 * node + 1]
        if right > 0.0 and (rest >= left or left <= 0.0):
            rest -= left
            node = 2 * node + 1
        else:
            node = 2 * node
    return int(node - n)


@kernel
def draw_tree(lanes: IntArray, uniforms: FloatArray, tree: FloatArray, atoms: IntArray) -> None:
    """Draw one atom for every slot of lane 0; any other lane is uniform on all atoms."""
    n = tree.shape[0] // 2
    for r in range(atoms.shape[0]):
        if lanes[r] == 0:
            atoms[r] = descend_tree(tree, uniforms[r])
        else:
            atoms[r] = min(max(int(uniforms[r] * n), 0), n - 1)


@kernel
def tree_rows(tree: FloatArray, masses: FloatArray, atoms: IntArray, out: FloatArray) -> None:
    """Write the ratios n leaf / (sum mass); other columns are one.

    The mass is n times the target, or one if `masses` is empty.
    """
    n = tree.shape[0] // 2
    scale = n / tree[1]
    uniform = masses.shape[0] == 0
    for r in range(atoms.shape[0]):
        i = atoms[r]
        mass = 1.0 if uniform else masses[i]
        out[r, 0] = scale * tree[n + i] / mass if mass > 0.0 else 0.0
        for j in range(1, out.shape[1]):
            out[r, j] = 1.0


MIN_RATIO_SCALE = 1e-100


@kernel
def build_floored(weights: FloatArray, values: FloatArray, floors: FloatArray, least: FloatArray) -> None:
    """Write the three trees of `weights`, which are zero for points at the floor.

    `values` holds sums of weights, `floors` numbers of points at the floor, `least` smallest weights above the floor.
    """
    n = weights.shape[0]
    for i in range(n):
        values[n + i] = weights[i]
        floors[n + i] = 0.0 if weights[i] > 0.0 else 1.0
        least[n + i] = weights[i] if weights[i] > 0.0 else np.inf
    build_tree(values)
    build_tree(floors)
    for node in range(n - 1, 0, -1):
        least[node] = min(least[2 * node], least[2 * node + 1])


@kernel
def scale_of(values: FloatArray, floors: FloatArray, floor: float) -> float:
    """Return the factor from weights to ratios."""
    return float((values.shape[0] // 2 - floor * floors[1]) / values[1])


@kernel
def place_point(values: FloatArray, floors: FloatArray, least: FloatArray, atom: int, value: float) -> None:
    """Set the weight of a point in all trees; zero puts it at the floor."""
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
def find_lowest(least: FloatArray) -> int:
    """Return the point with the least weight above the floor."""
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
    """Draw each atom with one uniform: a point at the floor with their joint probability, otherwise one by weight."""
    share = floor * floors[1] / (values.shape[0] // 2)
    for r in range(atoms.shape[0]):
        u = uniforms[r]
        if u < share:
            atoms[r] = descend_tree(floors, u / share)
        else:
            atoms[r] = descend_tree(values, (u - share) / (1.0 - share))


@kernel
def raise_ratios(
    values: FloatArray, floors: FloatArray, least: FloatArray, floor: float, atoms: IntArray, exponents: FloatArray
) -> None:
    """Multiply the ratios of distinct atoms by e^exponents (exponents >= 0), and project.

    If a product is so large that all other points fall to the floor, only the ratios between products matter. All
    products are then divided by the same number, so that none overflows.
    """
    n = values.shape[0] // 2
    scale = scale_of(values, floors, floor)
    if scale < MIN_RATIO_SCALE:
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
        place_point(values, floors, least, atoms[r], max(product, 0.5 * floor) / scale)
    while True:
        atom = find_lowest(least)
        if scale_of(values, floors, floor) * least[1] >= floor:
            break
        place_point(values, floors, least, atom, 0.0)


@kernel
def add_squares(
    squares: FloatArray, atoms: IntArray, norms: FloatArray, density: FloatArray, masses: FloatArray
) -> float:
    """Add l^2 / (d mass) to the sum of every drawn atom, as often as it was drawn; return the total of l^2 / d."""
    total: float = 0.0
    uniform = masses.shape[0] == 0
    for r in range(atoms.shape[0]):
        value = norms[r] * norms[r] / density[r]
        squares[atoms[r]] += value if uniform else value / masses[atoms[r]]
        total += value
    return total


@kernel
def root_scores(
    squares: FloatArray, gamma: FloatArray, level: float, masses: FloatArray, atoms: IntArray, out: FloatArray
) -> None:
    """Write mass * sqrt(squares + gamma); if `gamma` is empty, `level` is the gamma of all atoms."""
    for r in range(atoms.shape[0]):
        i = atoms[r]
        root = math.sqrt(squares[i] + (level if gamma.shape[0] == 0 else gamma[i]))
        out[r] = root if masses.shape[0] == 0 else masses[i] * root


@kernel
def exponential_scores(logs: FloatArray, offset: float, masses: FloatArray, atoms: IntArray, out: FloatArray) -> None:
    """Write mass * exp(log - offset)."""
    for r in range(atoms.shape[0]):
        i = atoms[r]
        weight = math.exp(logs[i] - offset)
        out[r] = weight if masses.shape[0] == 0 else masses[i] * weight
