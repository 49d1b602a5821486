"""Cursors through groups: a shuffled order, one swap of the shuffle at a time.

`members` lists the points group by group; group g owns members[start[g] : start[g + 1]].  A turn visits every point of
a group once, or if `due[g]` is above zero only the first so many of its order: the rest of a turn that was interrupted.
"""

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.random import mix


@kernel
def swap_target(key: np.uint64, position: int, size: int) -> int:
    """Give the partner of `position` in a Fisher-Yates shuffle of `size` entries whose order follows from `key`."""
    bits = mix(key + np.uint64(position) * np.uint64(0x9E3779B97F4A7C15))
    u = float(bits >> np.uint64(11)) * 2.0**-53
    return position + int(u * (size - position))


@kernel
def turn_key(seed: np.uint64, group: int, turn: int) -> np.uint64:
    """Give the key of the order in which `group` is visited in its turn `turn`."""
    return mix(mix(mix(seed) ^ np.uint64(group)) ^ np.uint64(turn))


@kernel
def advance(order: AnyArray, first: int, size: int, key: np.uint64, here: int) -> int:
    """Swap the point that comes at place `here` of a group's shuffled order into that place, and give it."""
    other = first + swap_target(key, here, size)
    chosen = order[other]
    order[other] = order[first + here]
    order[first + here] = chosen
    return int(chosen)


@kernel
def turn_size(due: int, size: int) -> int:
    """Give how many points a turn serves."""
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
    """Serve each lane the next point of its group's shuffled order.

    A group that has run out starts its next turn from `members`, so its order depends on (seed, group, turn) only.
    """
    for r in range(lanes.shape[0]):
        g = lanes[r]
        first = start[g]
        size = start[g + 1] - first
        if position[g] >= turn_size(due[g], size):
            position[g] = 0
            turn[g] += 1
            due[g] = 0
            order[first : first + size] = members[first : first + size]
        atoms[r] = advance(order, first, turn_size(due[g], size), turn_key(seed, g, turn[g]), position[g])
        position[g] += 1


@kernel
def replay_cursors(
    seed: np.uint64, start: IntArray, order: AnyArray, position: IntArray, turn: IntArray, due: IntArray
) -> None:
    """Bring `order`, unshuffled, to where cursors at `position` in turn `turn` have it."""
    for g in range(position.shape[0]):
        first = start[g]
        size = turn_size(due[g], start[g + 1] - first)
        key = turn_key(seed, g, turn[g])
        for here in range(min(position[g], size)):
            advance(order, first, size, key, here)


@kernel
def mark_waiting(
    start: IntArray, order: AnyArray, position: IntArray, due: IntArray, marks: AnyArray, shares: FloatArray
) -> None:
    """Mark the points that the present turns have still to serve; write their share of each group."""
    for g in range(position.shape[0]):
        size = start[g + 1] - start[g]
        end = turn_size(due[g], size)
        shares[g] = (end - position[g]) / size
        for i in range(start[g] + position[g], start[g] + end):
            marks[order[i]] = True


@kernel
def deal_in(seed: np.uint64, turn: IntArray, old: AnyArray, new: AnyArray, shares: FloatArray, marks: AnyArray) -> None:
    """Mark points that have changed their group by chance, as many as are still to come there.

    They must not all be last, nor first: why they moved has to do with when they came.
    """
    for i in range(old.shape[0]):
        if old[i] != new[i]:
            bits = mix(turn_key(seed, new[i], turn[new[i]]) ^ np.uint64(i))
            marks[i] = float(bits >> np.uint64(11)) * 2.0**-53 < shares[new[i]]


@kernel
def mark_due(start: IntArray, order: AnyArray, due: IntArray, marks: AnyArray) -> None:
    """Mark the points of the turns that are the rest of another, whether they have come or not."""
    for g in range(due.shape[0]):
        for i in range(start[g], start[g] + due[g]):
            marks[order[i]] = True


@kernel
def due_first(start: IntArray, members: AnyArray, marks: AnyArray, order: AnyArray, due: IntArray) -> None:
    """Write the members of each group with the marked ones first, and how many those are."""
    for g in range(due.shape[0]):
        place = start[g]
        for marked in (True, False):
            for i in range(start[g], start[g + 1]):
                if marks[members[i]] == marked:
                    order[place] = members[i]
                    place += 1
            if marked:
                due[g] = place - start[g]
