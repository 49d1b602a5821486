"""Compiled loops of Replay: priorities in buckets, drawn from and updated in constant time."""

import math
from typing import NamedTuple

import numpy as np

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.allocate import spread_slots
from varmix._kernels.cost import weigh_draws
from varmix._kernels.jit import kernel

CHUNK_BITS, PAGE_BITS = 4, 6  # bits: 16 items in a chunk, 64 chunks in a page
BUCKETS_PER_OCTAVE = 8
OCTAVES_BELOW_ONE = 40  # and as many above one
BUCKET_COUNT = 2 * OCTAVES_BELOW_ONE * BUCKETS_PER_OCTAVE
MIN_MAGNITUDE, MAX_MAGNITUDE = 2.0**-OCTAVES_BELOW_ONE, 2.0**OCTAVES_BELOW_ONE
# Edges of the buckets inside one octave, for numbers from 1/2 to 1.
BUCKET_EDGES = tuple(2.0 ** (step / BUCKETS_PER_OCTAVE - 1) for step in range(1, BUCKETS_PER_OCTAVE))


class Buckets(NamedTuple):
    """Lists of all buckets. A list consists of chunks of items, a page lists chunks, and the directory lists pages.

    Attributes
    ----------
    place : array of shape (items, 2), int32
        Bucket of every item, and its position in that bucket.
    counts : array of shape (BUCKET_COUNT,), int64
        Lengths of the lists.
    directory : array of shape (BUCKET_COUNT, pages per list), int32
        Pages of every list.
    pages : array of shape (pages, 64), int32
        Chunks of every page. The first entry of a free page is the next free page.
    chunks : array of shape (chunks, 16), int32
        Items of every chunk. The first entry of a free chunk is the next free chunk.
    free : array of shape (2,), int64
        First free chunk, and first free page.
    """

    place: AnyArray
    counts: IntArray
    directory: AnyArray
    pages: AnyArray
    chunks: AnyArray
    free: IntArray


@kernel
def bucket_of(magnitude: float) -> int:
    """Return the bucket of a number of at least zero. Numbers out of range belong to the first or the last bucket."""
    if not magnitude >= MIN_MAGNITUDE:
        return 0
    if magnitude >= MAX_MAGNITUDE:
        return BUCKET_COUNT - 1
    fraction, exponent = math.frexp(magnitude)
    bucket = (exponent - 1 + OCTAVES_BELOW_ONE) * BUCKETS_PER_OCTAVE
    for edge in BUCKET_EDGES:  # comparisons give the same bucket on every machine, a logarithm may not
        bucket += fraction >= edge
    return bucket


@kernel
def buckets_of(deltas: FloatArray, buckets: IntArray) -> int:
    """Write the buckets of errors of any sign, and return the first entry that is not finite, or -1."""
    for i in range(deltas.shape[0]):
        if not math.isfinite(deltas[i]):
            return i
        buckets[i] = bucket_of(abs(deltas[i]))
    return -1


@kernel
def find_entry(lists: Buckets, bucket: int, position: int) -> tuple[int, int]:
    """Return the chunk that holds a position of a bucket, and the entry in the chunk."""
    chunk = position >> CHUNK_BITS
    page = lists.directory[bucket, chunk >> PAGE_BITS]
    return lists.pages[page, chunk & ((1 << PAGE_BITS) - 1)], position & ((1 << CHUNK_BITS) - 1)


@kernel
def append_item(lists: Buckets, bucket: int, item: int) -> None:
    """Append an item to a bucket."""
    position = lists.counts[bucket]
    if position & ((1 << CHUNK_BITS) - 1) == 0:
        _add_chunk(lists, bucket, position >> CHUNK_BITS)
    chunk, entry = find_entry(lists, bucket, position)
    lists.chunks[chunk, entry] = item
    lists.place[item, 0] = bucket
    lists.place[item, 1] = position
    lists.counts[bucket] = position + 1


@kernel
def remove_item(lists: Buckets, item: int) -> None:
    """Remove an item from its bucket; the last item moves into the gap."""
    bucket = lists.place[item, 0]
    position = lists.place[item, 1]
    last = lists.counts[bucket] - 1
    chunk, entry = find_entry(lists, bucket, last)
    if position != last:
        moved = lists.chunks[chunk, entry]
        there, hole = find_entry(lists, bucket, position)
        lists.chunks[there, hole] = moved
        lists.place[moved, 1] = position
    lists.counts[bucket] = last
    if entry == 0:
        _free_chunk(lists, bucket, last >> CHUNK_BITS, chunk)


@kernel
def _add_chunk(lists: Buckets, bucket: int, number: int) -> None:
    """Add a chunk to a bucket, and a page if the chunk is the first one of a page."""
    chunk = lists.free[0]
    lists.free[0] = lists.chunks[chunk, 0]
    inside = number & ((1 << PAGE_BITS) - 1)
    if inside == 0:
        page = lists.free[1]
        lists.free[1] = lists.pages[page, 0]
        lists.directory[bucket, number >> PAGE_BITS] = page
    lists.pages[lists.directory[bucket, number >> PAGE_BITS], inside] = chunk


@kernel
def _free_chunk(lists: Buckets, bucket: int, number: int, chunk: int) -> None:
    """Free the last chunk of a bucket, and its page if the chunk is the first one of the page."""
    lists.chunks[chunk, 0] = lists.free[0]
    lists.free[0] = chunk
    if number & ((1 << PAGE_BITS) - 1) == 0:
        page = lists.directory[bucket, number >> PAGE_BITS]
        lists.pages[page, 0] = lists.free[1]
        lists.free[1] = page


@kernel
def insert_items(lists: Buckets, total: IntArray, buckets: IntArray) -> None:
    """Insert new items; each overwrites the oldest one if all slots are taken.

    `total` (1,) counts the items. The kernel increments it, so that an interrupt cannot leave a wrong count.
    """
    capacity = lists.place.shape[0]
    for i in range(buckets.shape[0]):
        atom = total[0]
        slot = atom % capacity
        if atom >= capacity:
            remove_item(lists, slot)
        append_item(lists, buckets[i], slot)
        total[0] = atom + 1


@kernel
def move_items(lists: Buckets, total: int, atoms: IntArray, buckets: IntArray) -> int:
    """Move items to other buckets, and return how many of them are not in the buffer.

    An item may be overwritten, or not inserted yet if the buffer was loaded from an older state.
    """
    capacity = lists.place.shape[0]
    first = max(total - capacity, 0)
    gone = 0
    for i in range(atoms.shape[0]):
        if not first <= atoms[i] < total:
            gone += 1
            continue
        slot = atoms[i] % capacity
        if lists.place[slot, 0] != buckets[i]:
            remove_item(lists, slot)
            append_item(lists, buckets[i], slot)
    return gone


@kernel
def accumulate_buckets(lists: Buckets, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the buckets that hold items, and cumulative sums of count times value over them, one column per setting.

    Every draw computes the sums anew: this takes a microsecond for a hundred buckets, and rounding errors cannot add
    up from one draw to the next.
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
    """Write the ratios of an item in a bucket; columns beyond the settings (the uniform component) are one."""
    for j in range(row.shape[0]):
        row[j] = values[bucket, j] * scale[j] if j < scale.shape[0] else 1.0


@kernel
def draw_atoms(
    lists: Buckets,
    values: FloatArray,
    total: int,
    lanes: IntArray,
    uniforms: FloatArray,
    atoms: IntArray,
    ratios: FloatArray,
) -> None:
    """Draw one atom per lane and write its ratios; a lane beyond the settings is the uniform component.

    A setting draws a bucket by its cumulative sums, and then an item of the bucket uniformly.
    """
    capacity = lists.place.shape[0]
    n = min(total, capacity)
    first = total - n
    taken, sums = accumulate_buckets(lists, values)
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
            chunk, entry = find_entry(lists, bucket, position)
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
    """Allocate slots, draw atoms and compute weights.  The allocation uses the first half of the uniforms."""
    m = atoms.shape[0]
    lanes = np.empty(m, dtype=np.int64)
    spread_slots(mixture, uniforms[:m], lanes)
    draw_atoms(lists, values, total, lanes, uniforms[m:], atoms, ratios)
    weigh_draws(ratios, mixture, density, weights)


@kernel
def write_ratios(lists: Buckets, values: FloatArray, n: int, atoms: IntArray, ratios: FloatArray) -> None:
    """Write the ratios of atoms that are in the buffer."""
    _, sums = accumulate_buckets(lists, values)
    scale = n / sums[-1]
    capacity = lists.place.shape[0]
    for r in range(atoms.shape[0]):
        write_row(values, scale, int(lists.place[atoms[r] % capacity, 0]), ratios[r])


@kernel
def fill_buckets(lists: Buckets, slots: IntArray, buckets: IntArray) -> None:
    """Append slots to empty buckets, in this order."""
    for i in range(slots.shape[0]):
        append_item(lists, buckets[i], slots[i])
