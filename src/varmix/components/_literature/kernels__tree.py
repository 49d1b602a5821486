"""Sum trees: a law over n atoms whose weights change, at the cost of log n a change and log n a draw.

A tree is one array of 2 n numbers: leaf i is entry n + i, and every entry v from 1 to n - 1 is the sum of the entries
2 v and 2 v + 1, so that entry 1 is the sum of all leaves.  A parent is always computed afresh from its children and
never by differences: nothing drifts, and a tree follows from its leaves to the last bit, whatever the order of the
changes.
"""

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel


@kernel
def build(tree: FloatArray) -> None:
    """Write all sums above the leaves."""
    n = tree.shape[0] // 2
    for node in range(n - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@kernel
def set_leaf(tree: FloatArray, atom: int, value: float) -> None:
    """Change one leaf, and the sums above it."""
    node = tree.shape[0] // 2 + atom
    tree[node] = value
    node //= 2
    while node >= 1:
        tree[node] = tree[2 * node] + tree[2 * node + 1]
        node //= 2


@kernel
def set_leaves(tree: FloatArray, atoms: IntArray, values: FloatArray) -> None:
    """Change some leaves; of an atom that is listed twice the last value stays."""
    for r in range(atoms.shape[0]):
        set_leaf(tree, atoms[r], values[r])


@kernel
def descend(tree: FloatArray, u: float) -> int:
    """Give the leaf that `u` in [0, 1) falls on; never one of weight zero, whatever rounding does."""
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
            atoms[r] = descend(tree, uniforms[r])
        else:
            atoms[r] = min(max(int(uniforms[r] * n), 0), n - 1)


@kernel
def tree_rows(tree: FloatArray, masses: FloatArray, atoms: IntArray, out: FloatArray) -> None:
    """Write ratios n leaf / (sum mass); mass is n target, or one where `masses` is empty.  Other columns are one."""
    n = tree.shape[0] // 2
    scale = n / tree[1]
    uniform = masses.shape[0] == 0
    for r in range(atoms.shape[0]):
        i = atoms[r]
        mass = 1.0 if uniform else masses[i]
        out[r, 0] = scale * tree[n + i] / mass if mass > 0.0 else 0.0
        for j in range(1, out.shape[1]):
            out[r, j] = 1.0
