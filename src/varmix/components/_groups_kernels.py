"""Draws inside groups, with replacement: uniform, or by a weighted law.

`members` lists the points group by group; group g owns members[start[g] : start[g + 1]].
"""

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel


@kernel
def weigh_groups(codes: AnyArray, target: FloatArray, counts: IntArray, masses: FloatArray) -> None:
    """Add up the points with a target, and the target, of every group; an empty target is uniform."""
    n = codes.shape[0]
    uniform = target.shape[0] == 0
    for i in range(n):
        if uniform or target[i] > 0.0:
            counts[codes[i]] += 1
            if not uniform:
                masses[codes[i]] += target[i]
    if uniform:
        for g in range(counts.shape[0]):
            masses[g] = counts[g] / n


@kernel
def sort_by_group(codes: AnyArray, target: FloatArray, start: IntArray, members: AnyArray) -> None:
    """Counting sort: write the points of each group that have a target, in ascending order."""
    fill = start[:-1].copy()
    uniform = target.shape[0] == 0
    for i in range(codes.shape[0]):
        if uniform or target[i] > 0.0:
            g = codes[i]
            members[fill[g]] = i
            fill[g] += 1


@kernel
def first_uneven(target: FloatArray, start: IntArray, members: AnyArray) -> int:
    """Give the first group whose members differ in target by more than rounding, or -1."""
    for g in range(start.shape[0] - 1):
        first = target[members[start[g]]]
        for i in range(start[g], start[g + 1]):
            if not abs(target[members[i]] - first) <= 1e-9 * first:
                return g
    return -1


@kernel
def accumulate_groups(target: FloatArray, start: IntArray, members: AnyArray, cumulative: FloatArray) -> None:
    """Write the running sums of the target over the members, afresh in every group: small ones keep their digits."""
    for g in range(start.shape[0] - 1):
        total = 0.0
        for i in range(start[g], start[g + 1]):
            total += target[members[i]]
            cumulative[i] = total


@kernel
def draw_members(lanes: IntArray, uniforms: FloatArray, start: IntArray, members: AnyArray, atoms: IntArray) -> None:
    """Draw uniformly inside the group of each lane, with replacement."""
    for r in range(lanes.shape[0]):
        g = lanes[r]
        size = start[g + 1] - start[g]
        atoms[r] = members[start[g] + min(max(int(uniforms[r] * size), 0), size - 1)]


@kernel
def draw_weighted(
    lanes: IntArray,
    uniforms: FloatArray,
    start: IntArray,
    members: AnyArray,
    cumulative: FloatArray,
    atoms: IntArray,
) -> None:
    """Draw inside the group of each lane by the running sums that `accumulate_groups` wrote."""
    for r in range(lanes.shape[0]):
        low = start[lanes[r]]
        high = start[lanes[r] + 1] - 1
        u = uniforms[r] * cumulative[high]
        while low < high:
            middle = (low + high) // 2
            if cumulative[middle] > u:
                high = middle
            else:
                low = middle + 1
        atoms[r] = members[low]


@kernel
def group_rows(group: IntArray, inside: FloatArray, outside: float, out: FloatArray) -> None:
    """Write a row of ratios per group: inside[g] in its own column, `outside` in the others, one for the anchor."""
    groups = inside.shape[0]
    for r in range(group.shape[0]):
        g = group[r]
        for j in range(groups):
            out[r, j] = outside
        out[r, g] = inside[g]
        for j in range(groups, out.shape[1]):
            out[r, j] = 1.0


@kernel
def group_lanes(w: FloatArray, masses: FloatArray, smoothing: float, out: FloatArray) -> None:
    """Write the share of every group: its own weight, and its part of all that is spread over the target."""
    spread = w[masses.shape[0] :].sum()
    for j in range(masses.shape[0]):
        spread += smoothing * w[j]
    for j in range(masses.shape[0]):
        out[j] = (1.0 - smoothing) * w[j] + spread * masses[j]
