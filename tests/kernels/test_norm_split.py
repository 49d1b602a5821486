"""Cuts by norm against sorting."""

import numpy as np
import pytest

from varmix.components._groups_kernels import partition_points, rank_key, rank_points, remember_norms, split_groups


@pytest.mark.parametrize("kind", ["random", "ascending", "descending", "equal", "few values", "organ pipe"])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
def test_select_puts_the_smaller_keys_first(kind, size):
    rng = np.random.default_rng(size)
    i = np.arange(size)
    keys = {
        "random": rng.integers(2**64, size=size, dtype=np.uint64),
        "ascending": i,
        "descending": size - i,
        "equal": np.zeros(size),
        "few values": rng.integers(3, size=size),
        "organ pipe": np.minimum(i, size - i),
    }[kind].astype(np.uint64)
    for place in {0, size // 3, size - 1}:
        mine, points = keys.copy(), i.astype(np.int32)
        partition_points(mine, points, 0, size, place)
        np.testing.assert_array_equal(mine, keys[points])
        np.testing.assert_array_equal(np.sort(points), i)
        assert mine[:place].max(initial=0) <= mine[place] <= mine[place:].min()
        assert mine[place] == np.sort(keys)[place]


def test_select_touches_nothing_outside_its_range():
    keys = np.arange(20, dtype=np.uint64)[::-1].copy()
    points = np.arange(20)
    partition_points(keys, points, 5, 15, 9)
    np.testing.assert_array_equal(points[:5], np.arange(5))
    np.testing.assert_array_equal(points[15:], np.arange(15, 20))


def test_keys_ascend_with_the_norm_and_differ_between_points():
    norms = np.sort(np.random.default_rng(0).gamma(0.1, size=200)).astype(np.float32)
    norms[0] = 0.0
    keys = [rank_key(bits, 7) for bits in norms.view(np.uint32)]
    assert keys == sorted(keys)
    zeros = [rank_key(np.uint32(0), point) for point in range(1000)]
    assert len(set(zeros)) == 1000
    assert abs(np.corrcoef(np.argsort(zeros), np.arange(1000))[0, 1]) < 0.1


def ranked(norms, points):
    norms, points = np.asarray(norms, dtype=np.float32), np.array(points, dtype=np.int32)
    keys = np.empty(len(points), dtype=np.uint64)
    rank_points(norms, norms.view(np.uint32), points, keys)
    values = (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)
    return dict(zip(points.tolist(), values.tolist(), strict=True))


def test_points_not_seen_rank_with_the_median_of_their_group():
    assert ranked([5, -1, 1, 3, -1, 100], [0, 1, 2, 3, 4]) == {0: 5, 1: 3, 2: 1, 3: 3, 4: 3}
    assert ranked([-1, -1, 7], [0, 1]) == {0: 0, 1: 0}
    assert ranked([2, 0, 7], [0, 1, 2]) == {0: 2, 1: 0, 2: 7}


@pytest.mark.parametrize("unseen", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("ties", [False, True])
def test_a_split_is_that_of_a_full_sort(unseen, ties):
    rng = np.random.default_rng(1)
    sizes = [[1], [1, 1], [1, 1, 1], [40, 20, 9], [5, 3, 1]]
    flat = np.concatenate(sizes)
    first = np.concatenate([[0], np.cumsum([len(part) for part in sizes])])
    start = np.concatenate([[0], np.cumsum(flat)])
    members = rng.permutation(flat.sum()).astype(np.int32)
    norms = (rng.integers(3, size=len(members)) if ties else rng.random(len(members))).astype(np.float32)
    norms[rng.random(len(members)) < unseen] = -1.0
    codes, expected = np.full((2, len(members)), 255, dtype=np.uint8)
    for g, part in enumerate(sizes):
        points = members[start[first[g]] : start[first[g + 1]]]
        values = ranked(norms, points)
        keys = [rank_key(np.float32(values[p]).view(np.uint32), p) for p in points.tolist()]
        expected[points[np.argsort(keys)]] = np.repeat(np.arange(first[g], first[g + 1]), part)
    split_groups(first, start, norms, norms.view(np.uint32), members, codes)
    np.testing.assert_array_equal(codes, expected)


def test_the_last_norm_of_a_point_is_remembered_and_none_becomes_infinite_or_negative():
    seen = np.full(5, -1.0, dtype=np.float32)
    remember_norms(np.array([1, 3, 1, 4, 2]), np.array([1.0, 1e100, 2.0, -0.0, 1e-100]), seen)
    np.testing.assert_array_equal(seen, np.array([-1.0, 2.0, 0.0, np.finfo(np.float32).max, 0.0], dtype=np.float32))
    assert not np.signbit(seen[1:]).any()
