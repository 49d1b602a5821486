"""Compiled loops of Groups: ratios, shuffled cursors, and splits of groups by norms."""

import numpy as np

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.random import mix_bits


@kernel
def sum_masses(codes: AnyArray, target: FloatArray, counts: IntArray, masses: FloatArray) -> None:
    """Add up, per group, the number of points with a target above zero and their target; an empty target is uniform."""
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
    """Write the points of each group that have a target above zero, in ascending order (a counting sort)."""
    fill = start[:-1].copy()
    uniform = target.shape[0] == 0
    for i in range(codes.shape[0]):
        if uniform or target[i] > 0.0:
            g = codes[i]
            members[fill[g]] = i
            fill[g] += 1


@kernel
def first_uneven(target: FloatArray, start: IntArray, members: AnyArray) -> int:
    """Return the first group whose members differ in target by more than rounding, or -1."""
    for g in range(start.shape[0] - 1):
        first = target[members[start[g]]]
        for i in range(start[g], start[g + 1]):
            if not abs(target[members[i]] - first) <= 1e-9 * first:
                return g
    return -1


@kernel
def accumulate_groups(target: FloatArray, start: IntArray, members: AnyArray, cumulative: FloatArray) -> None:
    """Write running sums of the target over the members; each group starts at zero, to keep small digits."""
    for g in range(start.shape[0] - 1):
        total = 0.0
        for i in range(start[g], start[g + 1]):
            total += target[members[i]]
            cumulative[i] = total


@kernel
def draw_members(lanes: IntArray, uniforms: FloatArray, start: IntArray, members: AnyArray, atoms: IntArray) -> None:
    """Draw uniformly from the group of each lane, with replacement."""
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
    """Draw from the group of each lane by target, using the running sums of `accumulate_groups`."""
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
    """Write a row of ratios per group: inside[g] in its own column, `outside` in others, 1 in the uniform column."""
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
    """Write the share of every group: its own weight, plus its part of the weight spread over the target."""
    spread = 0.0
    for j in range(masses.shape[0], w.shape[0]):
        spread += w[j]
    for j in range(masses.shape[0]):
        spread += smoothing * w[j]
    for j in range(masses.shape[0]):
        out[j] = (1.0 - smoothing) * w[j] + spread * masses[j]


@kernel
def swap_target(key: np.uint64, position: int, size: int) -> int:
    """Return the partner of `position` in the Fisher-Yates shuffle of `size` entries that `key` determines."""
    bits = mix_bits(key + np.uint64(position) * np.uint64(0x9E3779B97F4A7C15))
    u = float(bits >> np.uint64(11)) * 2.0**-53
    return position + int(u * (size - position))


@kernel
def turn_key(seed: np.uint64, group: int, turn: int) -> np.uint64:
    """Return the key of the order in which `group` is visited in turn `turn`."""
    return mix_bits(mix_bits(mix_bits(seed) ^ np.uint64(group)) ^ np.uint64(turn))


@kernel
def advance_shuffle(order: AnyArray, first: int, size: int, key: np.uint64, here: int) -> int:
    """Swap the next point of a group's shuffled order to place `here` and return it."""
    other = first + swap_target(key, here, size)
    chosen = order[other]
    order[other] = order[first + here]
    order[first + here] = chosen
    return int(chosen)


@kernel
def turn_size(due: int, size: int) -> int:
    """Return how many points a turn serves."""
    return due if due > 0 else size


@kernel
def draw_cursor(
    lanes: IntArray,
    seed: np.uint64,
    start: IntArray,
    members: AnyArray,
    order: AnyArray,
    position: IntArray,
    turn: IntArray,
    due: IntArray,
    atoms: IntArray,
) -> None:
    """Write the next point of the group's shuffled order for each lane.

    A finished group starts its next turn from `members`, so its order depends only on (seed, group, turn).
    """
    for r in range(lanes.shape[0]):
        g = lanes[r]
        first = start[g]
        size = start[g + 1] - first
        if position[g] >= turn_size(due[g], size):
            position[g] = 0
            turn[g] += 1
            due[g] = 0
            for i in range(first, first + size):
                order[i] = members[i]
        atoms[r] = advance_shuffle(order, first, turn_size(due[g], size), turn_key(seed, g, turn[g]), position[g])
        position[g] += 1


@kernel
def replay_cursors(
    seed: np.uint64, start: IntArray, order: AnyArray, position: IntArray, turn: IntArray, due: IntArray
) -> None:
    """Shuffle `order`, which lists the members, up to `position` of turn `turn` in every group."""
    for g in range(position.shape[0]):
        first = start[g]
        size = turn_size(due[g], start[g + 1] - first)
        key = turn_key(seed, g, turn[g])
        for here in range(min(position[g], size)):
            advance_shuffle(order, first, size, key, here)


@kernel
def mark_waiting(
    start: IntArray, order: AnyArray, position: IntArray, due: IntArray, marks: AnyArray, shares: FloatArray
) -> None:
    """Mark the points that the current turns have not served yet; write their share of each group."""
    for g in range(position.shape[0]):
        size = start[g + 1] - start[g]
        end = turn_size(due[g], size)
        shares[g] = (end - position[g]) / size
        for i in range(start[g] + position[g], start[g] + end):
            marks[order[i]] = True


@kernel
def deal_in(seed: np.uint64, turn: IntArray, old: AnyArray, new: AnyArray, shares: FloatArray, marks: AnyArray) -> None:
    """Mark each point that changed its group with a probability equal to the unserved share of its new group.

    Points move because they were served, so marking all or none of them would always serve them early or late.
    """
    for i in range(old.shape[0]):
        if old[i] != new[i]:
            bits = mix_bits(turn_key(seed, new[i], turn[new[i]]) ^ np.uint64(i))
            marks[i] = float(bits >> np.uint64(11)) * 2.0**-53 < shares[new[i]]


@kernel
def mark_due(start: IntArray, order: AnyArray, due: IntArray, marks: AnyArray) -> None:
    """Mark all points of the shortened turns, whether they were served or not."""
    for g in range(due.shape[0]):
        for i in range(start[g], start[g] + due[g]):
            marks[order[i]] = True


@kernel
def due_first(start: IntArray, members: AnyArray, marks: AnyArray, order: AnyArray, due: IntArray) -> None:
    """Write the members of each group with the marked ones first, and the number of marked ones."""
    for g in range(due.shape[0]):
        place = start[g]
        for marked in (True, False):
            for i in range(start[g], start[g + 1]):
                if marks[members[i]] == marked:
                    order[place] = members[i]
                    place += 1
            if marked:
                due[g] = place - start[g]


MAX_STORED_NORM = float(np.finfo(np.float32).max)
GOLDEN_RATIO_BITS = np.uint64(0x9E3779B97F4A7C15)


@kernel
def remember_norms(atoms: IntArray, norms: FloatArray, seen: AnyArray) -> None:
    """Write the norms of these atoms. If an atom occurs twice, its later norm is kept."""
    for r in range(atoms.shape[0]):
        seen[atoms[r]] = min(
            abs(norms[r]), MAX_STORED_NORM
        )  # abs, because the bits of -0.0 are those of a large number


@kernel
def rank_key(bits: np.uint32, point: int) -> np.uint64:
    """Return the sort key of a point: the bits of its norm, which sort like the norm, then its scrambled number.

    The scrambled number breaks ties independently of the order of the data.
    """
    chance = mix_bits(np.uint64(point) + GOLDEN_RATIO_BITS) >> np.uint64(32)
    return (np.uint64(bits) << np.uint64(32)) | chance


@kernel
def partition_points(keys: AnyArray, points: AnyArray, low: int, high: int, place: int) -> None:
    """Reorder places low..high-1 of both arrays: smaller keys before `place`, larger keys after it (quickselect).

    Pivots are random, so that no order of the data makes it slow.
    """
    while high - low > 1:
        turn = mix_bits((np.uint64(low) << np.uint64(32)) + np.uint64(high))
        pivot = keys[low + int(turn % np.uint64(high - low))]
        i = low
        j = high - 1
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                key, point = keys[i], points[i]
                keys[i], points[i] = keys[j], points[j]
                keys[j], points[j] = key, point
                i += 1
                j -= 1
        if place <= j:
            high = j + 1
        elif place >= i:
            low = i
        else:
            return


@kernel
def rank_points(norms: AnyArray, bits: AnyArray, points: AnyArray, keys: AnyArray) -> None:
    """Reorder a group's points, seen ones first, and write their sort keys; unseen points get the median norm."""
    size = points.shape[0]
    known = 0
    for i in range(size):
        point = points[i]
        if norms[point] >= 0.0:
            keys[known] = rank_key(bits[point], point)
            points[i] = points[known]
            points[known] = point
            known += 1
    middle = np.uint32(0)
    if 0 < known < size:
        partition_points(keys, points, 0, known, known // 2)
        middle = np.uint32(keys[known // 2] >> np.uint64(32))
    for i in range(known, size):
        keys[i] = rank_key(middle, points[i])


@kernel
def split_groups(
    first: IntArray, start: IntArray, norms: AnyArray, bits: AnyArray, members: AnyArray, codes: AnyArray
) -> None:
    """Write the sub-group of every member: rank the members of each group by norm and cut where `start` says.

    Group g owns the sub-groups first[g]..first[g + 1] - 1, sub-group j the places start[j]..start[j + 1] - 1 of
    `members`, which are reordered. `bits` are the bits of the norms.
    """
    groups = first.shape[0] - 1
    largest = 0
    for g in range(groups):
        largest = max(largest, start[first[g + 1]] - start[first[g]])
    scratch = np.empty(largest, dtype=np.uint64)
    for g in range(groups):
        low = start[first[g]]
        points = members[low : start[first[g + 1]]]
        size = points.shape[0]
        keys = scratch[:size]
        rank_points(norms, bits, points, keys)
        for j in range(first[g], first[g + 1]):
            begin = start[j] - low
            end = start[j + 1] - low
            if end < size:
                partition_points(keys, points, begin, size, end)
            for i in range(begin, end):
                codes[points[i]] = j
