"""Prioritised replay over buckets: every law depends on the bucket of an item alone.

Items are slots of a ring; the atom in a slot is the number of the item that was put there last.
"""

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.allocate import spread
from varmix.components._replay_kernels import Buckets
from varmix.components._replay_kernels import append
from varmix.components._replay_kernels import find
from varmix.components._replay_kernels import remove
from varmix._kernels.cost import weigh
from varmix._kernels.jit import kernel


@kernel
def insert(lists: Buckets, came: IntArray, buckets: IntArray) -> None:
    """Put in new items behind those that came before; each takes the slot of the oldest when all are taken.

    `came` (1,) counts the items.  It is counted up here, in the same call, so that no interrupt falls between the two.
    """
    capacity = lists.place.shape[0]
    for i in range(buckets.shape[0]):
        atom = came[0]
        slot = atom % capacity
        if atom >= capacity:
            remove(lists, slot)
        append(lists, buckets[i], slot)
        came[0] = atom + 1


@kernel
def move(lists: Buckets, total: int, atoms: IntArray, buckets: IntArray) -> int:
    """Move items to other buckets; give how many of them were not there (any more, or after going back in time yet)."""
    capacity = lists.place.shape[0]
    first = max(total - capacity, 0)
    gone = 0
    for i in range(atoms.shape[0]):
        if not first <= atoms[i] < total:
            gone += 1
            continue
        slot = atoms[i] % capacity
        if lists.place[slot, 0] != buckets[i]:
            remove(lists, slot)
            append(lists, buckets[i], slot)
    return gone


@kernel
def accumulate(lists: Buckets, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Give the buckets that hold items, and the running sums of count times value over them, a column per law.

    Anew for every draw: some hundred rows take a microsecond, and sums that are never updated do not drift.
    """
    taken = np.empty(lists.counts.shape[0], dtype=np.int64)
    rows = 0
    for bucket in range(lists.counts.shape[0]):
        taken[rows] = bucket
        rows += lists.counts[bucket] > 0
    sums = np.empty((rows, values.shape[1]))
    for row in range(rows):
        count = lists.counts[taken[row]]
        for j in range(values.shape[1]):
            before = sums[row - 1, j] if row > 0 else 0.0
            sums[row, j] = before + count * values[taken[row], j]
    return taken[:rows], sums


@kernel
def write_row(values: FloatArray, scale: FloatArray, bucket: int, row: FloatArray) -> None:
    """Write the ratios of an item in a bucket; a column beyond the laws (the anchor) is one."""
    for j in range(row.shape[0]):
        row[j] = values[bucket, j] * scale[j] if j < scale.shape[0] else 1.0


@kernel
def draw(
    lists: Buckets,
    values: FloatArray,
    total: int,
    lanes: IntArray,
    uniforms: FloatArray,
    atoms: IntArray,
    ratios: FloatArray,
) -> None:
    """Draw one atom per lane and write its ratios; a lane beyond the laws is uniform."""
    capacity = lists.place.shape[0]
    n = min(total, capacity)
    first = total - n
    taken, sums = accumulate(lists, values)
    scale = n / sums[-1]
    for r in range(lanes.shape[0]):
        lane = lanes[r]
        if lane < values.shape[1]:
            mass = uniforms[r] * sums[-1, lane]
            low, high = 0, taken.shape[0] - 1
            while low < high:
                middle = (low + high) // 2
                if sums[middle, lane] > mass:
                    high = middle
                else:
                    low = middle + 1
            bucket = taken[low]
            rest = mass - (sums[low - 1, lane] if low > 0 else 0.0)
            position = min(max(int(rest / values[bucket, lane]), 0), lists.counts[bucket] - 1)
            chunk, entry = find(lists, bucket, position)
            slot = int(lists.chunks[chunk, entry])
            atoms[r] = first + (slot - first) % capacity
        else:
            atoms[r] = first + min(int(uniforms[r] * n), n - 1)
            bucket = int(lists.place[atoms[r] % capacity, 0])
        write_row(values, scale, bucket, ratios[r])


@kernel
def draw_stratified(
    lists: Buckets,
    values: FloatArray,
    total: int,
    mixture: FloatArray,
    uniforms: FloatArray,
    atoms: IntArray,
    ratios: FloatArray,
    density: FloatArray,
    weights: FloatArray,
) -> None:
    """Allocate, draw and weigh in one call; the first half of the uniforms is for the slots of the batch."""
    m = atoms.shape[0]
    lanes = np.empty(m, dtype=np.int64)
    spread(mixture, uniforms[:m], lanes)
    draw(lists, values, total, lanes, uniforms[m:], atoms, ratios)
    weigh(ratios, mixture, density, weights)


@kernel
def rows(lists: Buckets, values: FloatArray, n: int, atoms: IntArray, ratios: FloatArray) -> None:
    """Write the ratios of atoms that are present."""
    _, sums = accumulate(lists, values)
    scale = n / sums[-1]
    capacity = lists.place.shape[0]
    for r in range(atoms.shape[0]):
        write_row(values, scale, int(lists.place[atoms[r] % capacity, 0]), ratios[r])


@kernel
def fill(lists: Buckets, slots: IntArray, buckets: IntArray) -> None:
    """Put slots into buckets that are empty, in this order."""
    for i in range(slots.shape[0]):
        append(lists, buckets[i], slots[i])
