"""Projections onto the restricted simplex, and quadratic steps inside it, for numbers of any scale."""

import math

import numpy as np

from varmix._core.validation import FloatArray, IntArray
from varmix._kernels.jit import kernel, part

SPLITTER = 134217729.0  # 2^27 + 1


@kernel
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return a + b as a double, and the exact rounding error."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


@kernel
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return a * b as a double, and the exact rounding error (if splitting a and b does not overflow)."""
    product = a * b
    t = SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def shifted_gradient(
    w: FloatArray,
    g: FloatArray,
    M: FloatArray,
    x: FloatArray,
    index: IntArray,
    size: int,
    anchor: int,
    out: FloatArray,
) -> None:
    """Write the entries `index` of g + M (x - w), minus its entry `anchor`.

    On the simplex only differences of gradient entries matter. They cancel at a minimum, so entries and differences are
    summed in doubled precision.
    """
    base, base_rest = _compute_entry(w, g, M, x, anchor)
    for i in range(size):
        high, low = _compute_entry(w, g, M, x, index[i])
        total, rest = two_sum(high, -base)
        out[i] = total + (rest + (low - base_rest))


@kernel
def _compute_entry(w: FloatArray, g: FloatArray, M: FloatArray, x: FloatArray, i: int) -> tuple[float, float]:
    """Return entry i of g + M (x - w) in doubled precision, as a high and a low part."""
    high = g[i]
    low = 0.0
    for j in range(w.shape[0]):
        move, move_rest = two_sum(x[j], -w[j])
        product, rest = two_product(M[i, j], move)
        high, carry = two_sum(high, product)
        low += carry + rest + M[i, j] * move_rest
    return high, low


# A pivot below this fraction of its diagonal entry is a rounding error: the matrix is singular in that direction.
MIN_PIVOT_RATIO = 1e-15


@kernel
def factor_metric(M: FloatArray, index: IntArray, size: int, last: int, force: float, upper: FloatArray) -> float:
    """Write U with U'U = D' M D, where D moves each coordinate of `index` up and `last` down; return the quality.

    The quality is the product of all ratios of pivot to diagonal entry that are below 0.1. It shows how many digits are
    lost. A singular direction gets the smallest pivot that is not a rounding error (and for which `force` over the
    pivot does not overflow) and is decoupled from the others. Steps along it are long, and the bounds of the simplex
    stop them. The diagonal of `upper` holds the inverses of the diagonal of U, because divisions are slow.
    """
    corner = M[last, last]
    for i in range(size):
        row = M[index[i]]
        offset = corner - row[last]
        for j in range(i, size):
            upper[i, j] = row[index[j]] - M[last, index[j]] + offset
    quality = 1.0
    for i in range(size):
        diagonal = M[index[i], index[i]] - 2.0 * M[index[i], last] + corner
        pivot = upper[i, i]
        if not pivot > MIN_PIVOT_RATIO * size * diagonal:
            pivot = max(MIN_PIVOT_RATIO * size * diagonal, 1e-30 * force, 1e-300)
            upper[i, i + 1 : size] = 0.0
        ratio = pivot / diagonal if diagonal > 0.0 else 0.0
        if ratio < 0.1:
            quality *= ratio
        inverse = 1.0 / math.sqrt(pivot)
        upper[i, i] = inverse
        for j in range(i + 1, size):
            upper[i, j] *= inverse
        for r in range(i + 1, size):
            part = upper[i, r]
            for j in range(r, size):
                upper[r, j] -= part * upper[i, j]
    return quality


@kernel
def solve_factored(upper: FloatArray, size: int, b: FloatArray) -> None:
    """Solve U'U x = b in place."""
    for i in range(size):
        b[i] *= upper[i, i]
        part = b[i]
        for j in range(i + 1, size):
            b[j] -= part * upper[i, j]
    for i in range(size - 1, -1, -1):
        total = b[i]
        for j in range(i + 1, size):
            total -= upper[i, j] * b[j]
        b[i] = total * upper[i, i]


# At this quality a factor has lost half of the digits of a double.
MIN_FACTOR_QUALITY = 1e-8
# A pivot factors the metric of the free coordinates in about size^3 / 6 products. The cubes of all sizes in a step may
# add up to this (about two seconds), or to ten times k^3 if that is more. Up to k = 170 no step reaches it.
MAX_PIVOT_WORK = 1e10
MIN_FACTORISATIONS = 10
# Gradient steps after a step that used up its budget before the minimum; each takes k^2 products.
MAX_GRADIENT_STEPS = 300
# A step that was cut short returns this number minus its pivots. -1 means that numbers were not finite.
CUT_SHORT = -2


@part
def copy_vector(source: FloatArray, out: FloatArray) -> None:
    """Copy one vector into another. `out[:] = source` would take a second to compile, mostly for its errors."""
    for j in range(source.shape[0]):
        out[j] = source[j]


@kernel
def project_simplex(v: FloatArray, z: float, out: FloatArray) -> None:
    """Write the Euclidean projection of `v` onto {x >= 0, sum x = z}: the function of Algorithm 3, lines 1 to 6.

    The largest entry is subtracted from all, which changes only rounding errors: sums are then as small as the result,
    even if `v` is large.
    """
    d = v.shape[0]
    top = v[0]
    for j in range(1, d):
        top = max(top, v[j])
    u = np.empty(d)
    for j in range(d):
        u[j] = v[j] - top
    sort_descending(u)
    total = 0.0
    shift = -z
    for j in range(d):
        if u[j] <= -z:  # such entries end at zero, and sums of them may overflow
            break
        total += u[j]
        candidate = (total - z) / (j + 1)
        if u[j] - candidate > 0.0:
            shift = candidate
    for j in range(d):
        out[j] = max((v[j] - top) - shift, 0.0)


@kernel
def sort_descending(u: FloatArray) -> None:
    """Sort in place, in descending order, by heap sort. NumPy's sort takes more than a second to compile."""
    d = u.shape[0]
    for root in range(d // 2 - 1, -1, -1):
        _sift_down(u, root, d)
    for end in range(d - 1, 0, -1):  # the smallest entry is on top of the heap and goes to the end
        u[0], u[end] = u[end], u[0]
        _sift_down(u, 0, end)


@kernel
def _sift_down(u: FloatArray, root: int, end: int) -> None:
    """Move the entry at `root` down the heap u[:end], in which no entry is larger than those below it."""
    value = u[root]
    child = 2 * root + 1
    while child < end:
        if child + 1 < end and u[child + 1] < u[child]:
            child += 1
        if not u[child] < value:
            break
        u[root] = u[child]
        root = child
        child = 2 * root + 1
    u[root] = value


@kernel
def project_restricted(v: FloatArray, gamma: float, out: FloatArray) -> None:
    """Write the Euclidean projection of `v` onto the restricted simplex: Algorithm 3, lines 8 to 13."""
    last = v.shape[0] - 1
    project_simplex(v, 1.0, out)
    if out[last] < gamma:
        if last > 0:
            head = np.empty(last)
            copy_vector(out[:last], head)
            project_simplex(head, 1.0 - gamma, out[:last])
        out[last] = gamma


@kernel
def clip_to_simplex(x: FloatArray, gamma: float) -> None:
    """Remove rounding from a nearly feasible `x`: no negative entry, `x_k >= gamma`, and a sum of one."""
    last = x.shape[0] - 1
    x[last] -= gamma
    total = 0.0
    for j in range(last + 1):
        x[j] = max(x[j], 0.0)
        total += x[j]
    scale = (1.0 - gamma) / total if total > 0.0 else 0.0
    for j in range(last + 1):
        x[j] *= scale
    x[last] += gamma
    if total <= 0.0:
        x[last] = 1.0


@kernel
def metric_step(w: FloatArray, g: FloatArray, M: FloatArray, gamma: float, x: FloatArray) -> int:
    """Write argmin <g, x> + 1/2 (x - w)' M (x - w) over the restricted simplex to `x`; return the number of pivots.

    See `bounded_step` for negative return values.
    """
    lower = np.zeros(w.shape[0])
    lower[-1] = gamma
    pivots = bounded_step(w, g, M, lower, max(MAX_PIVOT_WORK, MIN_FACTORISATIONS * float(w.shape[0]) ** 3), x)
    clip_to_simplex(x, gamma)
    return pivots


@kernel
def bounded_step(w: FloatArray, g: FloatArray, M: FloatArray, lower: FloatArray, budget: float, x: FloatArray) -> int:
    """Write argmin <g, x> + 1/2 (x - w)' M (x - w), subject to x >= lower and sum x = sum w, to `x`; return the pivots.

    A primal active-set method that starts at `w` with the bounds that `w` touches. Touched bounds hardly change between
    rounds, so one factorisation is usually enough. Each iteration minimises over the free coordinates with a fixed sum,
    and stops at the first bound on the way. At a minimum it drops the bound with the most negative multiplier. `w` must
    be feasible and `M` positive semi-definite. With non-finite numbers the result is `w` and the return value -1.

    There may be as many pivots as bounds, so the work is capped: the cubes of the sizes of all pivots add up to at most
    `budget`. A step that is cut short is feasible and no worse than `w`, because no pivot increases the objective. It
    returns `CUT_SHORT` minus the number of pivots; `descend_projected` can continue from there.
    """
    k = w.shape[0]
    # Few allocations, because each costs as much as a row of arithmetic for small k.
    marks = np.empty((2, k), dtype=np.int64)
    free, index = marks[0], marks[1]
    work = np.empty((k + 2, k))
    upper, gradient, descent = work[:k], work[k], work[k + 1]
    force = 0.0
    for j in range(k):
        x[j] = w[j]
        free[j] = w[j] > lower[j]
        gradient[j] = g[j]
        force = max(force, abs(g[j]))
    released = -1
    limit: int = 20 + 10 * k
    pivots: int = CUT_SHORT - limit
    done = 0.0
    for iteration in range(limit):
        size, last = _list_free(free, M, index)
        if last < 0:  # the bounds leave only one point
            pivots = iteration
            break
        done += float(size) ** 3
        if done > budget:
            pivots = CUT_SHORT - iteration
            break
        quality = factor_metric(M, index, size, last, force, upper)
        step, blocking = _descend_to_bound(x, gradient, lower, index, size, last, upper, descent)
        ill = quality < MIN_FACTOR_QUALITY
        if blocking < 0 and ill:
            _refine_minimum(w, g, M, x, lower, index, size, last, upper, descent)
        if blocking < 0 and size == k - 1:  # no bound touched, so none to drop
            pivots = iteration + 1
            break
        level, scale = _gradient_at(w, g, M, x, free, ill, gradient)
        if blocking >= 0:
            x[blocking] = lower[blocking]
            free[blocking] = 0
            if blocking == released and step == 0.0:
                pivots = iteration  # the multiplier that dropped this bound was only rounding
                break
            continue
        released = -1
        most_negative = -1e-15 * scale
        for j in range(k):
            if not free[j] and gradient[j] - level < most_negative:
                most_negative = gradient[j] - level
                released = j
        if released < 0:
            pivots = iteration + 1
            break
        free[released] = 1
    total = 0.0
    for j in range(k):
        total += x[j]
    if not math.isfinite(total):
        copy_vector(w, x)
        return -1
    return pivots


@kernel
def descend_projected(w: FloatArray, g: FloatArray, M: FloatArray, lower: FloatArray, x: FloatArray) -> None:
    """Continue a step of `bounded_step` that was cut short, by projected gradient steps scaled by the diagonal of M.

    Step lengths follow Barzilai and Borwein; each step ends at the minimum along its direction or earlier. `x` must be
    feasible. If it is worse than `w`, the descent starts at `w`. This is a separate kernel, so that others need not
    compile it.
    """
    k = w.shape[0]
    vectors = np.empty((5, k))
    gradient, moved, move, scale, aim = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    for j in range(k):
        move[j] = x[j] - w[j]
    _write_product(M, move, moved)
    change = 0.0
    largest = 0.0
    for j in range(k):
        change += move[j] * (g[j] + 0.5 * moved[j])
        largest = max(largest, M[j, j])
    better = change <= 0.0  # False for nan
    room = 0.0
    for j in range(k):
        gradient[j] = g[j] + moved[j] if better else g[j]
        if not better:
            x[j] = w[j]
        room += x[j] - lower[j]
        scale[j] = max(M[j, j] / largest, 1e-12) if largest > 0.0 else 1.0
    length = 1.0 / largest if largest > 0.0 else 1.0
    for _ in range(MAX_GRADIENT_STEPS):
        for j in range(k):
            aim[j] = (x[j] - lower[j]) - length * gradient[j] / scale[j]
        _project_scaled(aim, scale, room, move)
        slope = 0.0
        square = 0.0
        for j in range(k):
            move[j] -= x[j] - lower[j]
            slope += move[j] * gradient[j]
            square += move[j] * move[j] * scale[j]
        _write_product(M, move, moved)
        curvature = 0.0
        for j in range(k):
            curvature += move[j] * moved[j]
        if not (slope < 0.0 and math.isfinite(curvature)):
            return
        part = -slope / curvature if -slope < curvature else 1.0
        for j in range(k):
            x[j] = max(x[j] + part * move[j], lower[j])
            gradient[j] += part * moved[j]
        length = square / curvature if curvature > 0.0 else 2.0 * length


@kernel
def _project_scaled(v: FloatArray, scale: FloatArray, z: float, out: FloatArray) -> None:
    """Write the point of {x >= 0, sum x = z} nearest to `v` in the metric diag(scale): max(v - shift / scale, 0).

    Negative entries are removed and the shift is computed again from the others, until no entry is negative.
    """
    k = v.shape[0]
    for j in range(k):
        out[j] = 1.0  # not removed yet
    shift = 0.0
    left = k + 1
    for _ in range(k):
        total = -z
        weight = 0.0
        count = 0
        for j in range(k):
            if out[j] > 0.0 and (left > k or v[j] - shift / scale[j] > 0.0):
                total += v[j]
                weight += 1.0 / scale[j]
                count += 1
            else:
                out[j] = 0.0
        if count == left or count == 0:
            break
        left = count
        shift = total / weight
    total = 0.0
    for j in range(k):
        out[j] = max(v[j] - shift / scale[j], 0.0)
        total += out[j]
    for j in range(k):  # corrects rounding if v is far away
        out[j] = out[j] * (z / total) if total > 0.0 else z / k


@kernel
def _write_product(M: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Write M x for a symmetric M."""
    for i in range(x.shape[0]):
        out[i] = 0.0
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            for i in range(x.shape[0]):
                out[i] += M[j, i] * x[j]


@kernel
def _list_free(free: IntArray, M: FloatArray, index: IntArray) -> tuple[int, int]:
    """Write the free coordinates except the flattest to `index`; return their number and the flattest (-1: none).

    The flattest coordinate has the smallest M_jj. It follows from the others, because the sum is fixed. Eliminating it
    needs no curvature along the constraint and adds the least to the other coordinates.
    """
    last = -1
    for j in range(free.shape[0]):
        if free[j] and (last < 0 or M[j, j] < M[last, last]):
            last = j
    size = 0
    for j in range(free.shape[0]):
        if free[j] and j != last:
            index[size] = j
            size += 1
    return size, last


@kernel
def _descend_to_bound(
    x: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    index: IntArray,
    size: int,
    last: int,
    upper: FloatArray,
    descent: FloatArray,
) -> tuple[float, int]:
    """Move `x` to the minimum over the free coordinates or to the first bound; return step and bound (or -1)."""
    for i in range(size):
        descent[i] = gradient[last] - gradient[index[i]]
    solve_factored(upper, size, descent)
    rest = 0.0
    step = 1.0
    blocking = -1
    for i in range(size):
        rest -= descent[i]
        step, blocking = _shorten_step(x, lower, index[i], descent[i], step, blocking)
    step, blocking = _shorten_step(x, lower, last, rest, step, blocking)
    for i in range(size):
        x[index[i]] += step * descent[i]
    x[last] += step * rest
    return step, blocking


@part
def _shorten_step(
    x: FloatArray, lower: FloatArray, j: int, move: float, step: float, blocking: int
) -> tuple[float, int]:
    """Return the step, shortened so that x_j does not cross its bound, and the bound that stops it."""
    if move < 0.0:
        room = max(x[j] - lower[j], 0.0)
        if room < -move * step:
            return room / -move, j
    return step, blocking


@kernel
def _refine_minimum(
    w: FloatArray,
    g: FloatArray,
    M: FloatArray,
    x: FloatArray,
    lower: FloatArray,
    index: IntArray,
    size: int,
    last: int,
    upper: FloatArray,
    descent: FloatArray,
) -> None:
    """Refine a minimum over the free coordinates iteratively, with residuals in doubled precision."""
    for _ in range(4):
        shifted_gradient(w, g, M, x, index, size, last, descent)
        solve_factored(upper, size, descent)
        rest = 0.0
        largest = 0.0
        for i in range(size):
            rest += descent[i]
            largest = max(largest, abs(descent[i]))
            if not x[index[i]] - descent[i] >= lower[index[i]]:  # also for nan
                return
        if not x[last] + rest >= lower[last]:
            return
        for i in range(size):
            x[index[i]] -= descent[i]
        x[last] += rest
        if largest < 1e-17:
            return


@kernel
def _gradient_at(
    w: FloatArray,
    g: FloatArray,
    M: FloatArray,
    x: FloatArray,
    free: IntArray,
    accurate: bool,
    gradient: FloatArray,
) -> tuple[float, float]:
    """Write the gradient at `x`; return its mean over the free coordinates and the size of its largest terms."""
    k = w.shape[0]
    scale = 0.0
    copy_vector(g, gradient)
    for j in range(k):
        move = x[j] - w[j]
        if move != 0.0:
            for i in range(k):  # M is symmetric: row j is contiguous
                gradient[i] += M[j, i] * move
            scale = max(scale, abs(M[j, j] * move))
    level = 0.0
    count = 0
    for j in range(k):
        scale = max(scale, abs(g[j]))
        if free[j]:
            level += gradient[j]
            count += 1
    if accurate and count > 0:
        everything = np.empty(k, dtype=np.int64)
        for j in range(k):
            everything[j] = j
        anchor = 0
        while not free[anchor]:
            anchor += 1
        shifted_gradient(w, g, M, x, everything, k, anchor, gradient)
        return 0.0, scale
    return level / max(count, 1), scale


@kernel
def projected_descent(w: FloatArray, g: FloatArray, M: FloatArray, gamma: float, steps: int, x: FloatArray) -> None:
    """Write the result of `steps` projected gradient steps towards the metric step, each of length 1 / ||M||_inf.

    The largest row sum bounds the largest eigenvalue, so no step overshoots. A fixed length such as 0.2 would diverge
    as soon as that eigenvalue exceeds 10.
    """
    k = w.shape[0]
    copy_vector(w, x)
    norm = 0.0
    total = 0.0
    for j in range(k):
        total += abs(g[j])
    for i in range(k):
        row = 0.0
        for j in range(k):
            row += abs(M[i, j])
        norm = max(norm, row)
        total += row
    if not (norm > 0.0 and math.isfinite(total)):
        return
    moved = np.empty(k)
    for _ in range(steps):
        for i in range(k):
            slope = g[i]
            for j in range(k):
                slope += M[i, j] * (x[j] - w[j])
            moved[i] = x[i] - slope / norm
        project_restricted(moved, gamma, x)
