"""Compiled loops of KDpp: determinants, exact draws and inclusion probabilities."""

import math

import numpy as np

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.allocate import find_lane, spread_slots
from varmix._kernels.cost import weigh_draws
from varmix._kernels.jit import kernel
from varmix._kernels.random import seed_state, uniform
from varmix.components._tables_kernels import look_up
from varmix.components._uniform_kernels import fill_uniformly, insert_point

# Limit for Cholesky. A pivot is the part that is left of its diagonal entry. Its relative error is a few eps over the
# fraction that is left. Several pivots may each lose some digits, so their fractions are multiplied. At 1e-4 the
# relative error is below 1e-11.
MIN_PART_LEFT = 1e-4

# Once the other columns are subtracted from one, entries below this fraction of their row's largest are rounding
# errors.
SPAN_TOLERANCE = 1e-14


@kernel
def by_cholesky(gram: FloatArray, scale: float, ridge: float, upper: FloatArray) -> float:
    """Return log det(scale * gram + ridge I), or nan if cancellation in the pivots would lose too many digits."""
    order = gram.shape[0]
    for i in range(order):
        for j in range(i, order):
            upper[i, j] = scale * gram[i, j]
        upper[i, i] += ridge
    total = 0.0
    product = 1.0
    part_left = 1.0
    for i in range(order):
        pivot = upper[i, i]
        diagonal = scale * gram[i, i] + ridge
        if not pivot > 0.1 * diagonal:  # other pivots lose at most a digit, and large sets have many of them
            part_left *= pivot / diagonal
            if not part_left > MIN_PART_LEFT:
                return math.nan
        product *= pivot
        if not 1e-100 < product < 1e100:  # one logarithm for many pivots, because it is slow
            total += math.log(product)
            product = 1.0
        inverse = 1.0 / pivot
        for k in range(i + 1, order):
            part = upper[i, k] * inverse
            for j in range(k, order):
                upper[k, j] -= part * upper[i, j]
    return total + math.log(product)


@kernel
def subtract_direction(vector: FloatArray, direction: FloatArray) -> float:
    """Subtract the part of a vector along a unit direction; return the squared length of the rest."""
    part = 0.0
    for a in range(vector.shape[0]):
        part += vector[a] * direction[a]
    square = 0.0
    for a in range(vector.shape[0]):
        vector[a] -= part * direction[a]
        square += vector[a] * vector[a]
    return square


@kernel
def scale_vector(vector: FloatArray, factor: float) -> None:
    """Multiply a vector by a factor, in place."""
    for a in range(vector.shape[0]):
        vector[a] *= factor


@kernel
def square_length(vector: FloatArray) -> float:
    """Return the squared length of a vector."""
    total = 0.0
    for a in range(vector.shape[0]):
        total += vector[a] * vector[a]
    return total


@kernel
def exceeds_rounding(vector: FloatArray, rounding: FloatArray) -> bool:
    """Return whether any of the first coordinates exceeds its rounding error."""
    for a in range(rounding.shape[0]):  # noqa: SIM110 (compiled code has no any() of a generator)
        if abs(vector[a]) > rounding[a]:
            return True
    return False


@kernel
def exchange_rows(values: FloatArray, i: int, j: int) -> None:
    """Exchange rows i and j."""
    for a in range(values.shape[1]):
        values[i, a], values[j, a] = values[j, a], values[i, a]


@kernel
def by_orthogonalising(rows: FloatArray, scale: float, ridge: float) -> float:
    """Return log det(scale * rows' rows + ridge I) by Gram-Schmidt; minus infinity if that is singular.

    Each column of [sqrt(scale) rows; sqrt(ridge) I] is divided by its length first, so that long and short points count
    alike. Each step takes the column with the largest remainder and subtracts the span of the earlier columns from it
    once more. If only rounding errors are left of its feature part, that part is set to zero and only the ridge
    remains. Coordinates may differ by many powers of ten, so each has its own limit for rounding errors.
    """
    length, order = rows.shape
    basis = np.zeros((order, length + order))
    left = np.ones((order, 1))  # squared length of the rest of each column
    rounding = np.zeros(length)
    total = 0.0
    for i in range(order):
        for a in range(length):
            basis[i, a] = math.sqrt(scale) * rows[a, i]
        basis[i, length + i] = math.sqrt(ridge)
        square = square_length(basis[i])
        if not square > 0.0:
            return -math.inf
        scale_vector(basis[i], 1.0 / math.sqrt(square))
        total += math.log(square)
        for a in range(length):
            rounding[a] = max(rounding[a], SPAN_TOLERANCE * order * abs(basis[i, a]))
    for count in range(order):
        longest = count
        for i in range(count + 1, order):
            if left[i, 0] > left[longest, 0]:
                longest = i
        exchange_rows(basis, count, longest)
        exchange_rows(left, count, longest)
        vector = basis[count]
        for b in range(count):
            subtract_direction(vector, basis[b])
        if not exceeds_rounding(vector, rounding):
            vector[:length] = 0.0
        square = square_length(vector)
        if not square > 0.0:
            return -math.inf
        scale_vector(vector, 1.0 / math.sqrt(square))
        total += math.log(square)
        for i in range(count + 1, order):
            left[i, 0] = subtract_direction(basis[i], vector)
    return total


@kernel
def set_ratios(atoms: IntArray, vectors: FloatArray, roots: FloatArray, laws: FloatArray, ratios: FloatArray) -> None:
    """Write the ratios of sets (m, size) under every law; columns beyond the laws (the uniform component) are one.

    A law is (scale, ridge, log factor, log limit). Its ratio is det(scale * gram + ridge I) times the factor, at most
    the limit. The smaller of the two Gram matrices is used: points by points, or columns by columns.
    """
    size = atoms.shape[1]
    columns = vectors.shape[1]
    by_points = size <= columns
    order = size if by_points else columns
    gram = np.empty((order, order))
    upper = np.empty((order, order))
    rows = np.empty((columns, size)) if by_points else np.empty((size, columns))
    for r in range(atoms.shape[0]):
        for i in range(size):
            for v in range(columns):
                value = vectors[atoms[r, i], v] * roots[v]
                if by_points:
                    rows[v, i] = value
                else:
                    rows[i, v] = value
        gram[:] = 0.0
        for v in range(rows.shape[0]):  # outer products, so that additions need not wait for each other
            for i in range(order):
                part = rows[v, i]
                for j in range(i, order):
                    gram[i, j] += part * rows[v, j]
        for j in range(laws.shape[0]):
            exponent = by_cholesky(gram, laws[j, 0], laws[j, 1], upper)
            if math.isnan(exponent):
                exponent = by_orthogonalising(rows, laws[j, 0], laws[j, 1])
            ratios[r, j] = math.exp(min(exponent + laws[j, 2], laws[j, 3]))
        for j in range(laws.shape[0], ratios.shape[1]):
            ratios[r, j] = 1.0


@kernel
def choose_vectors(keep: FloatArray, m: int, state: AnyArray, chosen: IntArray) -> None:
    """Choose m eigenvectors, from the last to the first: v is taken with probability keep[v, left]."""
    left = m
    v = keep.shape[0]
    while left > 0 and v > 0:
        v -= 1
        if v < left or uniform(state) < keep[v, left]:  # only as many vectors as needed are left: take all
            left -= 1
            chosen[left] = v


@kernel
def gather_entries(row: FloatArray, chosen: IntArray, m: int, out: FloatArray) -> float:
    """Write the chosen entries of a row; return its squared length."""
    square = 0.0
    for a in range(m):
        value = row[chosen[a]]
        out[a] = value
        square += value * value
    return square


@kernel
def dot_basis(vector: FloatArray, basis: FloatArray, b: int, m: int) -> float:
    """Return the inner product of a vector with row b of the basis."""
    total = 0.0
    for a in range(m):
        total += vector[a] * basis[b, a]
    return total


@kernel
def extend_basis(basis: FloatArray, count: int, m: int, vector: FloatArray) -> None:
    """Append the part of a vector that the basis does not span; two rounds, because of rounding errors."""
    for _ in range(2):
        for b in range(count):
            part = dot_basis(vector, basis, b, m)
            for a in range(m):
                vector[a] -= part * basis[b, a]
    square = 0.0
    for a in range(m):
        square += vector[a] * vector[a]
    inverse = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    for a in range(m):
        basis[count, a] = vector[a] * inverse


@kernel
def propose_point(
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
    """Propose a point from the table of a random chosen eigenvector; return it (-1 if rejected) and write its row.

    Point i is proposed in proportion to the squared length of its row. The probability that it is accepted is the
    fraction of that square that the basis does not span. In all, (m - count) / m of the proposals are accepted.
    """
    vector = chosen[min(int(uniform(state) * m), m - 1)]
    point = look_up(cumulative, guide, vector, uniform(state))
    left = gather_entries(vectors[point], chosen, m, row)
    if count > 0:
        limit = left * uniform(state)
        for b in range(count):
            left -= dot_basis(row, basis, b, m) ** 2
            if not limit < left:
                return -1
    return point


@kernel
def scan_points(
    vectors: FloatArray,
    chosen: IntArray,
    m: int,
    basis: FloatArray,
    points: IntArray,
    count: int,
    state: AnyArray,
    row: FloatArray,
) -> int:
    """Draw the next point without rejections, by a sum over all points; return it and write its row.

    A point counts with the part of its squared row that the basis does not span. This takes time in proportion to n.
    """
    total = 0.0
    for again in range(2):
        u = uniform(state) * total if again else math.inf
        last = -1
        total = 0.0
        here = 0  # the set is in ascending order, so only its next point can equal i
        for i in range(vectors.shape[0]):
            if here < count and points[here] == i:
                here += 1
                continue
            part = gather_entries(vectors[i], chosen, m, row)
            for b in range(count):
                part -= dot_basis(row, basis, b, m) ** 2
            if part > 0.0 or last < 0:
                last = i
                total += max(part, 0.0)
                if total > u:
                    break
    gather_entries(vectors[last], chosen, m, row)
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
    """Draw the set of each lane, using two uniforms for all of them; a lane beyond `ranks` is uniform.

    After `tries * m` proposals that were rejected or already in the set, the next point is found by a scan.
    """
    most = keep.shape[1] - 1
    state = seed_state(uniforms)
    chosen = np.empty(most, dtype=np.int64)
    basis = np.empty((most, most))
    row = np.empty(most)
    for r in range(lanes.shape[0]):
        points = atoms[r]
        m = find_lane(ranks[lanes[r]], uniform(state)) if lanes[r] < ranks.shape[0] else 0
        choose_vectors(keep, m, state, chosen)
        for count in range(m):
            found = False
            for _ in range(tries * m):
                point = propose_point(cumulative, guide, vectors, chosen, m, basis, count, state, row)
                if point >= 0 and insert_point(points, count, point):
                    found = True
                    break
            if not found:
                insert_point(points, count, scan_points(vectors, chosen, m, basis, points, count, state, row))
            extend_basis(basis, count, m, row)
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
    """Allocate slots, draw sets and weigh them in one call, because separate calls would take longer than the work.

    The first m uniforms are for the slots, the last two for the sets.
    """
    m = atoms.shape[0]
    lanes = np.empty(m, dtype=np.int64)
    spread_slots(mixture, uniforms[:m], lanes)
    draw_sets(lanes, uniforms[m:], cumulative, guide, vectors, ranks, keep, tries, atoms)
    set_ratios(atoms, vectors, roots, laws, ratios)
    weigh_draws(ratios, mixture, density, weights)


@kernel
def write_inclusion(
    points: IntArray, vectors: FloatArray, base: FloatArray, slope: FloatArray, out: FloatArray
) -> None:
    """Write base_j + sum_v slope_jv V_iv^2: the probability that a set includes point i, for every component j."""
    for r in range(points.shape[0]):
        for j in range(out.shape[1]):
            total = base[j]
            for v in range(vectors.shape[1]):
                total += slope[j, v] * vectors[points[r], v] ** 2
            out[r, j] = total


@kernel
def point_density(
    sets: IntArray, vectors: FloatArray, base: FloatArray, slope: FloatArray, mixture: FloatArray, out: FloatArray
) -> None:
    """Write, for each point of the sets, n / size times the probability that a set of the mixture includes it."""
    columns = vectors.shape[1]
    factor = vectors.shape[0] / sets.shape[1]
    mixed = np.zeros(columns)
    constant = 0.0
    for j in range(mixture.shape[0]):
        constant += factor * mixture[j] * base[j]
        for v in range(columns):
            mixed[v] += factor * mixture[j] * slope[j, v]
    for r in range(sets.shape[0]):
        for i in range(sets.shape[1]):
            total = constant
            for v in range(columns):
                total += mixed[v] * vectors[sets[r, i], v] ** 2
            out[r, i] = total
