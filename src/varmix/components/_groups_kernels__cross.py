"""Groups cut by the norms last seen: which points of a group have the small ones, found without sorting it.

A norm below zero is that of a point not seen yet.
"""

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.random import mix

LARGEST = float(np.finfo(np.float32).max)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def remember(atoms: IntArray, norms: FloatArray, seen: AnyArray) -> None:
    """Write the norms of these atoms; of an atom that comes twice the later one stays."""
    for r in range(atoms.shape[0]):
        seen[atoms[r]] = min(abs(norms[r]), LARGEST)  # not -0.0, whose bits are those of a large number


@kernel
def rank_key(bits: np.uint32, point: int) -> np.uint64:
    """Give what a point is ranked by: the bits of its norm, which ascend with it, then chance: no file has an order."""
    chance = mix(np.uint64(point) + GOLDEN) >> np.uint64(32)
    return (np.uint64(bits) << np.uint64(32)) | chance


@kernel
def select(keys: AnyArray, points: AnyArray, low: int, high: int, place: int) -> None:
    """Reorder places low..high-1 of both arrays: before `place` come the smaller keys, behind it the larger ones.

    Quickselect.  Pivots are chosen by chance, so that no order of the data makes it slow.
    """
    while high - low > 1:
        turn = mix((np.uint64(low) << np.uint64(32)) + np.uint64(high))
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
    """Write the keys of a group's points, reordering these; points not seen yet rank with the median of the others."""
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
        select(keys, points, 0, known, known // 2)
        middle = np.uint32(keys[known // 2] >> np.uint64(32))
    for i in range(known, size):
        keys[i] = rank_key(middle, points[i])


@kernel
def split_groups(
    first: IntArray, start: IntArray, norms: AnyArray, bits: AnyArray, members: AnyArray, codes: AnyArray
) -> None:
    """Write the sub-group of every member, ranking the members of each group by norm and cutting where `start` says.

    Group g owns the sub-groups first[g]..first[g + 1] - 1, sub-group j the places start[j]..start[j + 1] - 1 of
    `members`, which are reordered.  `bits` are those of the norms.
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
                select(keys, points, begin, size, end)
            for i in range(begin, end):
                codes[points[i]] = j
