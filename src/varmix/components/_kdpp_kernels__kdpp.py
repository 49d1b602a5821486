"""Exact draws of k-DPPs with the kernel V diag(values) V' + ridge I; no n x n object.

A determinant with a ridge is a sum over the ranks m: det(K_S + ridge I) = sum_m ridge^(size - m) e_m(K_S), and e_m(K_S)
is the sum of det(K_A) over the A in S of m points.  So a set is m points of the m-DPP of K = V diag(values) V', and
size - m uniform ones beside them.  The m-DPP is drawn by its eigenvectors: m of them are chosen, and then points one
by one, in proportion to the squared rows of the chosen columns of V, less what the points before span.
"""

import math

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.allocate import invert
from varmix._kernels.allocate import spread
from varmix._kernels.cost import weigh
from varmix.components._kdpp_kernels import set_ratios
from varmix._kernels.jit import kernel
from varmix._kernels.random import start
from varmix._kernels.random import uniform
from varmix.components._uniform_kernels import fill_uniformly
from varmix.components._uniform_kernels import insert
from varmix.components._tables_kernels import look_up


@kernel
def choose_vectors(keep: FloatArray, m: int, state: AnyArray, chosen: IntArray) -> None:
    """Choose m eigenvectors: the last one, v, with probability keep[v, left], and so on down."""
    left = m
    v = keep.shape[0]
    while left > 0 and v > 0:
        v -= 1
        if v < left or uniform(state) < keep[v, left]:  # no more vectors than are needed: all of them
            left -= 1
            chosen[left] = v


@kernel
def gather(row: FloatArray, chosen: IntArray, m: int, out: FloatArray) -> float:
    """Write the chosen entries of a row; give the square of its length."""
    square = 0.0
    for a in range(m):
        value = row[chosen[a]]
        out[a] = value
        square += value * value
    return square


@kernel
def along(vector: FloatArray, basis: FloatArray, b: int, m: int) -> float:
    """Give the inner product of a vector with row b of the basis."""
    total = 0.0
    for a in range(m):
        total += vector[a] * basis[b, a]
    return total


@kernel
def extend(basis: FloatArray, count: int, m: int, vector: FloatArray) -> None:
    """Add to the basis what it does not span of a vector, taken out twice: rounding leaves something the first time."""
    for _ in range(2):
        for b in range(count):
            part = along(vector, basis, b, m)
            for a in range(m):
                vector[a] -= part * basis[b, a]
    square = 0.0
    for a in range(m):
        square += vector[a] * vector[a]
    inverse = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    for a in range(m):
        basis[count, a] = vector[a] * inverse


@kernel
def propose(
    cumulative: FloatArray,
    guide: AnyArray,
    vectors: FloatArray,
    chosen: IntArray,
    m: int,
    basis: FloatArray,
    count: int,
    state: AnyArray,
    row: FloatArray,
) -> int:
    """Propose a point from the table of a chosen eigenvector, and give it and its row, or -1 if it is not accepted.

    So point i comes in proportion to the square of its row, and is accepted with the part of it that the basis does
    not span: in all (m - count) / m of the proposals.
    """
    vector = chosen[min(int(uniform(state) * m), m - 1)]
    point = look_up(cumulative, guide, vector, uniform(state))
    left = gather(vectors[point], chosen, m, row)
    if count > 0:
        limit = left * uniform(state)
        for b in range(count):
            left -= along(row, basis, b, m) ** 2
            if not limit < left:
                return -1
    return point


@kernel
def scan(
    vectors: FloatArray,
    chosen: IntArray,
    m: int,
    basis: FloatArray,
    points: IntArray,
    count: int,
    state: AnyArray,
    row: FloatArray,
) -> int:
    """Give the next point and its row, by adding up what the basis does not span of all of them: exact, in time n."""
    total = 0.0
    for again in range(2):
        u = uniform(state) * total if again else math.inf
        last = -1
        total = 0.0
        here = 0  # the points of the set ascend, so the next of them is the only one that i may be
        for i in range(vectors.shape[0]):
            if here < count and points[here] == i:
                here += 1
                continue
            part = gather(vectors[i], chosen, m, row)
            for b in range(count):
                part -= along(row, basis, b, m) ** 2
            if part > 0.0 or last < 0:
                last = i
                total += max(part, 0.0)
                if total > u:
                    break
    gather(vectors[last], chosen, m, row)
    return last


@kernel
def draw_sets(
    lanes: IntArray,
    uniforms: FloatArray,
    cumulative: FloatArray,
    guide: AnyArray,
    vectors: FloatArray,
    ranks: FloatArray,
    keep: FloatArray,
    tries: int,
    atoms: IntArray,
) -> None:
    """Draw the set of each lane; a lane beyond `ranks` is uniform.  Two uniforms are enough for all of them.

    After `tries` times m proposals that were not accepted, or were there already, the next point is found by a scan.
    """
    most = keep.shape[1] - 1
    state = start(uniforms)
    chosen = np.empty(most, dtype=np.int64)
    basis = np.empty((most, most))
    row = np.empty(most)
    for r in range(lanes.shape[0]):
        points = atoms[r]
        m = invert(ranks[lanes[r]], uniform(state)) if lanes[r] < ranks.shape[0] else 0
        choose_vectors(keep, m, state, chosen)
        for count in range(m):
            found = False
            for _ in range(tries * m):
                point = propose(cumulative, guide, vectors, chosen, m, basis, count, state, row)
                if point >= 0 and insert(points, count, point):
                    found = True
                    break
            if not found:
                insert(points, count, scan(vectors, chosen, m, basis, points, count, state, row))
            extend(basis, count, m, row)
        fill_uniformly(points, m, vectors.shape[0], state)


@kernel
def draw_stratified(
    mixture: FloatArray,
    uniforms: FloatArray,
    cumulative: FloatArray,
    guide: AnyArray,
    vectors: FloatArray,
    ranks: FloatArray,
    keep: FloatArray,
    tries: int,
    roots: FloatArray,
    laws: FloatArray,
    atoms: IntArray,
    ratios: FloatArray,
    density: FloatArray,
    weights: FloatArray,
) -> None:
    """Allocate, draw and weigh in one call: for single sets the calls cost more than the work.

    The first uniforms are for the slots, the last two for the sets.
    """
    m = atoms.shape[0]
    lanes = np.empty(m, dtype=np.int64)
    spread(mixture, uniforms[:m], lanes)
    draw_sets(lanes, uniforms[m:], cumulative, guide, vectors, ranks, keep, tries, atoms)
    set_ratios(atoms, vectors, roots, laws, ratios)
    weigh(ratios, mixture, density, weights)
