"""Lists by bucket, against plain Python lists."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from varmix.components import _replay_kernels as kernels
from varmix.components._replay import BUCKET_MAGNITUDES, empty_buckets
from varmix.components._replay_kernels import BUCKET_COUNT, CHUNK_BITS, MAX_MAGNITUDE, MIN_MAGNITUDE, PAGE_BITS


class Naive:
    """Buckets as lists."""

    def __init__(self):
        self.lists = [[] for _ in range(BUCKET_COUNT)]

    def append(self, bucket, item):
        self.lists[bucket].append(item)

    def remove(self, item):
        mine = next(items for items in self.lists if item in items)
        position = mine.index(item)
        mine[position] = mine[-1]
        mine.pop()


def listed(lists, bucket):
    found = []
    for position in range(lists.counts[bucket]):
        chunk, entry = kernels.find_entry(lists, bucket, position)
        found.append(int(lists.chunks[chunk, entry]))
    return found


def free(lists):
    """Count the free chunks and pages, along their links; a chunk that is free twice would make it endless."""
    counts = []
    for rows, head in zip((lists.chunks, lists.pages), lists.free, strict=True):
        count, at = 0, int(head)
        while at < len(rows):
            count, at = count + 1, int(rows[at, 0])
            assert count <= len(rows), "the free ones run in a circle"
        counts.append(count)
    return counts


def check_valid(lists, naive):
    for bucket, items in enumerate(naive.lists):
        assert listed(lists, bucket) == items
        for position, item in enumerate(items):
            assert lists.place[item].tolist() == [bucket, position]
    lengths = [len(items) for items in naive.lists]
    chunks = [math.ceil(n / (1 << CHUNK_BITS)) for n in lengths]
    pages = [math.ceil(n / (1 << PAGE_BITS)) for n in chunks]
    assert free(lists) == [len(lists.chunks) - sum(chunks), len(lists.pages) - sum(pages)]


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 3)), max_size=200))
def test_lists_are_those_of_plain_python(steps):
    lists, naive, present = empty_buckets(60), Naive(), set()
    for item, bucket in steps:
        if item in present:
            kernels.remove_item(lists, item)
            naive.remove(item)
        kernels.append_item(lists, bucket, item)
        naive.append(bucket, item)
        present.add(item)
    check_valid(lists, naive)


@pytest.mark.parametrize("capacity", [1, 2, 15, 16, 17, 640, 1023, 1024, 1025, 3000])
def test_all_items_fit_into_one_bucket_and_into_as_many_as_there_are(capacity):
    lists, naive = empty_buckets(capacity), Naive()
    for item in range(capacity):
        kernels.append_item(lists, 7, item)
        naive.append(7, item)
    check_valid(lists, naive)
    for item in range(capacity):
        kernels.remove_item(lists, item)
        naive.remove(item)
        kernels.append_item(lists, item % BUCKET_COUNT, item)
        naive.append(item % BUCKET_COUNT, item)
    check_valid(lists, naive)


def test_room_is_given_back_over_and_over():
    lists = empty_buckets(2100)
    rng = np.random.default_rng(0)
    for item in range(2100):
        kernels.append_item(lists, 0, item)
    for round_ in range(30):
        for item in rng.permutation(2100):
            kernels.remove_item(lists, item)
            kernels.append_item(lists, (round_ * 37 + item % 3) % BUCKET_COUNT, item)
    assert lists.counts.sum() == 2100
    assert sorted(item for bucket in range(BUCKET_COUNT) for item in listed(lists, bucket)) == list(range(2100))


@pytest.mark.parametrize("exponent", range(-40, 40))
def test_buckets_are_an_eighth_of_an_octave(exponent):
    for step in range(8):
        low, high = 2.0 ** (exponent + step / 8), 2.0 ** (exponent + (step + 1) / 8)
        inside = np.geomspace(low * (1 + 1e-12), high * (1 - 1e-12), 5)
        assert {kernels.bucket_of(x) for x in inside} == {(exponent + 40) * 8 + step}
        assert low < BUCKET_MAGNITUDES[(exponent + 40) * 8 + step] < high


@given(st.floats(1e-12, 1e12))
def test_every_magnitude_is_kept_within_an_eighth_of_an_octave(magnitude):
    kept = BUCKET_MAGNITUDES[kernels.bucket_of(magnitude)]
    assert 2 ** (-1 / 16) * (1 - 1e-9) <= kept / magnitude <= 2 ** (1 / 16) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("magnitude", "bucket"),
    [
        (0.0, 0),
        (5e-324, 0),
        (MIN_MAGNITUDE, 0),
        (MIN_MAGNITUDE / 2, 0),
        (MAX_MAGNITUDE, BUCKET_COUNT - 1),
        (1e300, BUCKET_COUNT - 1),
        (1.0, 320),
    ],
)
def test_what_lies_beyond_counts_as_the_nearest(magnitude, bucket):
    assert kernels.bucket_of(magnitude) == bucket


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_entry_that_is_not_finite_is_told(bad):
    assert kernels.buckets_of(np.array([1.0, bad, bad]), np.empty(3, np.int64)) == 1
    assert kernels.buckets_of(np.array([1.0, -2.0]), np.empty(2, np.int64)) == -1
