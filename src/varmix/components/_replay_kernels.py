"""Items in buckets: any item of a bucket found, put in or taken out in as many operations for any number of items.

A bucket is a list of items.  An item is appended at its end, and taken out by moving the last one into its place.
Lists live in chunks of 16 items, chunks in pages of 64 and pages in a directory, as memory does in a computer: so all
buckets together take as much room as there are items, however these are spread, and nothing is ever copied to grow.

A bucket holds magnitudes within an eighth of an octave.
"""

import math
from typing import NamedTuple

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel

CHUNK, PAGE = 4, 6  # bits: 16 items in a chunk, 64 chunks in a page
STEPS = 8  # buckets an octave
OCTAVES = 40  # below one, and as many above it
BUCKETS = 2 * OCTAVES * STEPS
SMALLEST, LARGEST = 2.0**-OCTAVES, 2.0**OCTAVES
EDGES = tuple(2.0 ** (step / STEPS - 1) for step in range(1, STEPS))  # inside an octave, of numbers from 1/2 to 1


class Buckets(NamedTuple):
    """The lists of all buckets.

    Attributes
    ----------
    place
        (items, 2) int32: the bucket of an item and its position there.
    counts
        (BUCKETS,) int64 lengths of the lists.
    directory
        (BUCKETS, most pages of a list) int32.
    pages
        (pages, 64) int32 chunks; a page that is free holds the next free one first.
    chunks
        (chunks, 16) int32 items; a chunk that is free holds the next free one first.
    free
        (2,) int64: the first free chunk, and the first free page.
    """

    place: AnyArray
    counts: IntArray
    directory: AnyArray
    pages: AnyArray
    chunks: AnyArray
    free: IntArray


@kernel
def bucket_of(magnitude: float) -> int:
    """Give the bucket of a number of at least zero; what lies beyond the first or the last is in that one."""
    if not magnitude >= SMALLEST:
        return 0
    if magnitude >= LARGEST:
        return BUCKETS - 1
    fraction, exponent = math.frexp(magnitude)
    bucket = (exponent - 1 + OCTAVES) * STEPS
    for edge in EDGES:  # comparisons and not a logarithm: the same on every machine
        bucket += fraction >= edge
    return bucket


@kernel
def buckets_of(deltas: FloatArray, buckets: IntArray) -> int:
    """Write the buckets of magnitudes of any sign; give the first entry that is not finite, or -1."""
    for i in range(deltas.shape[0]):
        if not math.isfinite(deltas[i]):
            return i
        buckets[i] = bucket_of(abs(deltas[i]))
    return -1


@kernel
def find(lists: Buckets, bucket: int, position: int) -> tuple[int, int]:
    """Give the chunk and the entry in it of a position."""
    chunk = position >> CHUNK
    page = lists.directory[bucket, chunk >> PAGE]
    return lists.pages[page, chunk & ((1 << PAGE) - 1)], position & ((1 << CHUNK) - 1)


@kernel
def append(lists: Buckets, bucket: int, item: int) -> None:
    """Put an item at the end of a bucket."""
    position = lists.counts[bucket]
    if position & ((1 << CHUNK) - 1) == 0:
        _grow(lists, bucket, position >> CHUNK)
    chunk, entry = find(lists, bucket, position)
    lists.chunks[chunk, entry] = item
    lists.place[item, 0] = bucket
    lists.place[item, 1] = position
    lists.counts[bucket] = position + 1


@kernel
def remove(lists: Buckets, item: int) -> None:
    """Take an item out of its bucket; the last one takes its place."""
    bucket = lists.place[item, 0]
    position = lists.place[item, 1]
    last = lists.counts[bucket] - 1
    chunk, entry = find(lists, bucket, last)
    if position != last:
        moved = lists.chunks[chunk, entry]
        there, hole = find(lists, bucket, position)
        lists.chunks[there, hole] = moved
        lists.place[moved, 1] = position
    lists.counts[bucket] = last
    if entry == 0:
        _shrink(lists, bucket, last >> CHUNK, chunk)


@kernel
def _grow(lists: Buckets, bucket: int, number: int) -> None:
    """Give a bucket its chunk of this number, and a page for it where it is the first of one."""
    chunk = lists.free[0]
    lists.free[0] = lists.chunks[chunk, 0]
    inside = number & ((1 << PAGE) - 1)
    if inside == 0:
        page = lists.free[1]
        lists.free[1] = lists.pages[page, 0]
        lists.directory[bucket, number >> PAGE] = page
    lists.pages[lists.directory[bucket, number >> PAGE], inside] = chunk


@kernel
def _shrink(lists: Buckets, bucket: int, number: int, chunk: int) -> None:
    """Take back a chunk that is empty, and its page where it was the first of one."""
    lists.chunks[chunk, 0] = lists.free[0]
    lists.free[0] = chunk
    if number & ((1 << PAGE) - 1) == 0:
        page = lists.directory[bucket, number >> PAGE]
        lists.pages[page, 0] = lists.free[1]
        lists.free[1] = page
