"""Allocations against naive oracles on the same uniforms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varmix._kernels.allocate import (
    draw_independent,
    find_lane,
    round_robin,
    shuffle_slots,
    spread_batches,
    spread_slots,
)

LAST = 1.0 - 2.0**-53  # the largest uniform there is


def naive(shares, position):
    """Give the first lane whose running sum is above the position; the last lane with a share takes what is left."""
    above = np.flatnonzero(np.cumsum(shares) > position)
    return above[0] if len(above) else np.flatnonzero(shares)[-1]


def assigned(kernel, shares, uniforms, m):
    lanes = np.empty(m, dtype=np.int64)
    kernel(shares, uniforms, lanes)
    return lanes


def random_shares(rng, k):
    shares = rng.dirichlet(np.full(k, 0.5))
    shares[rng.random(k) < 0.3] = 0.0
    shares[rng.integers(k)] += 0.1
    return shares / shares.sum()


@pytest.mark.parametrize("k", [1, 2, 7, 100])
def test_independent_inverts_every_uniform(k):
    rng = np.random.default_rng(k)
    for _ in range(20):
        shares, uniforms = random_shares(rng, k), rng.random(50)
        expected = [naive(shares, u) for u in uniforms]
        np.testing.assert_array_equal(assigned(draw_independent, shares, uniforms, 50), expected)
        assert [find_lane(shares, u) for u in uniforms] == expected


@pytest.mark.parametrize("m", [1, 2, 16, 129])
@pytest.mark.parametrize("k", [1, 2, 7, 100])
def test_stratified_inverts_one_uniform_in_each_of_m_parts(k, m):
    rng = np.random.default_rng([k, m])
    for _ in range(20):
        shares, uniforms = random_shares(rng, k), rng.random(m)
        expected = [naive(shares, (r + uniforms[r]) / m) for r in range(m)]
        np.testing.assert_array_equal(assigned(spread_slots, shares, uniforms, m), expected)


@pytest.mark.parametrize("m", [1, 2, 16, 129])
def test_systematic_inverts_the_same_uniform_in_each_of_m_parts(m):
    rng = np.random.default_rng(m)
    for _ in range(20):
        shares, uniforms = random_shares(rng, 7), rng.random(1)
        expected = [naive(shares, (r + uniforms[0]) / m) for r in range(m)]
        np.testing.assert_array_equal(assigned(spread_slots, shares, uniforms, m), expected)


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize(("batches", "m"), [(1, 5), (5, 1), (7, 16)])
def test_batches_are_spread_one_by_one(batches, m, common):
    rng = np.random.default_rng([batches, m])
    shares, uniforms = random_shares(rng, 7), rng.random((batches, 1 if common else m))
    lanes = np.empty((batches, m), dtype=np.int64)
    spread_batches(shares, uniforms, lanes)
    np.testing.assert_array_equal(lanes, [assigned(spread_slots, shares, row, m) for row in uniforms])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8).filter(any),
    st.lists(st.sampled_from([0.0, 2.0**-60, 0.25, 0.5, 0.75, LAST]), min_size=1, max_size=8),
)
def test_lanes_without_a_share_are_never_served(sizes, uniforms):
    """Also where uniforms fall on the borders between lanes, and where rounding leaves the shares short of one."""
    shares = np.array(sizes, dtype=np.float64) / (sum(sizes) * (1 + 4e-16))
    u = np.array(uniforms)
    served = [assigned(kernel, shares, u, len(u)) for kernel in (draw_independent, spread_slots)]
    served.append(assigned(spread_slots, shares, u[:1], 5))
    credit, lanes = np.zeros(len(shares)), np.empty(50, dtype=np.int64)
    round_robin(shares, credit, lanes)
    served.append(lanes)
    state, lanes = np.zeros(len(shares) + 1), np.empty(len(u), dtype=np.int64)
    state[:-1] = np.where(shares > 0.0, -3.0, 3.0)  # all is owed to those that have lost their shares
    state[-1] = 6.0
    shuffle_slots(shares, 7, u, state, lanes)
    assert (shares[np.concatenate([*served, lanes])] > 0.0).all()


@pytest.mark.parametrize("tail", [0, 1, 3])
def test_the_largest_uniform_belongs_to_the_last_lane_with_a_share(tail):
    shares = np.append(np.full(10, 0.1), np.zeros(tail))
    assert np.cumsum(np.full(10, 0.1))[-1] < 1.0  # rounding leaves a gap below one
    assert find_lane(shares, LAST) == 9
    assert assigned(spread_slots, shares, np.full(4, LAST), 4)[-1] == 9


def carry(shares, m, batch=None):
    credit, lanes = np.zeros(len(shares)), np.empty(m, dtype=np.int64)
    for part in np.split(lanes, range(batch, m, batch)) if batch else [lanes]:
        round_robin(shares, credit, part)
    return lanes, credit


def test_carried_is_deficit_round_robin():
    rng = np.random.default_rng(0)
    for k in (1, 3, 20):
        shares = random_shares(rng, k)
        credit, expected = np.zeros(k), []
        for _ in range(200):
            credit += shares
            lane = np.argmax(np.where(shares > 0.0, credit, -np.inf))
            credit[lane] -= 1.0
            expected.append(lane)
        lanes, left = carry(shares, 200)
        np.testing.assert_array_equal(lanes, expected)
        np.testing.assert_array_equal(left, credit)


def test_carried_does_not_notice_where_batches_end():
    shares = random_shares(np.random.default_rng(1), 9)
    np.testing.assert_array_equal(carry(shares, 1000)[0], carry(shares, 1000, batch=7)[0])


@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_carried_counts_stay_within_two_of_their_shares(k):
    rng = np.random.default_rng(k)
    slots = np.arange(1, 20_001)[:, None]
    for concentration in (0.1, 1.0, 10.0):
        shares = rng.dirichlet(np.full(k, concentration))
        lanes, _ = carry(shares, 20_000)
        counts = np.cumsum(lanes[:, None] == np.arange(k), axis=0)
        assert np.abs(counts - slots * shares).max() < 2.0


@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_carried_never_serves_a_lane_a_whole_slot_too_much(k):
    """No credit falls to -1, also while (positive) shares move: who is served has at least the mean credit, 1 / k."""
    rng = np.random.default_rng(k)
    credit, lane = np.zeros(k), np.empty(1, dtype=np.int64)
    lowest = 0.0
    for _ in range(2000):
        round_robin(rng.dirichlet(np.full(k, 0.3)), credit, lane)
        lowest = min(lowest, credit.min())
    assert 1 / k - 1 - 1e-12 < lowest < -0.4


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_carried_serves_every_group_its_size_in_one_pass(sizes):
    n = sum(sizes)
    lanes, credit = carry(np.array(sizes) / n, 3 * n)
    for part in np.split(lanes, 3):
        np.testing.assert_array_equal(np.bincount(part, minlength=len(sizes)), sizes)
    assert np.abs(credit).max() < 1e-9


def deal(shares, period, uniforms, batch=None):
    state, lanes = np.zeros(len(shares) + 1), np.empty(len(uniforms), dtype=np.int64)
    places = np.arange(len(uniforms))
    for part in np.split(places, range(batch, len(places), batch)) if batch else [places]:
        here = np.empty(len(part), dtype=np.int64)
        shuffle_slots(shares, period, uniforms[part], state, here)
        lanes[part] = here
    return lanes, state


def test_shuffled_deals_from_an_urn():
    """Against an urn of numbered cards: with whole counts, a lane has as many chances as cards that are left."""
    rng = np.random.default_rng(0)
    for sizes in ([1], [2, 3], [5, 0, 1, 14]):
        n, uniforms = sum(sizes), rng.random(3 * sum(sizes))
        expected, left = [], np.array(sizes)
        for u in uniforms:
            if not left.any():
                left = np.array(sizes)
            lane = naive(left / left.sum(), u)
            left[lane] -= 1
            expected.append(lane)
        lanes, state = deal(np.array(sizes) / n, n, uniforms)
        np.testing.assert_array_equal(lanes, expected)
        np.testing.assert_allclose(state, 0.0, atol=1e-9)


def test_shuffled_does_not_notice_where_batches_end():
    rng = np.random.default_rng(1)
    shares, uniforms = random_shares(rng, 9), rng.random(1000)
    np.testing.assert_array_equal(deal(shares, 300, uniforms)[0], deal(shares, 300, uniforms, batch=7)[0])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(0, 2**32))
def test_shuffled_serves_every_group_its_size_in_one_pass(sizes, seed):
    n = sum(sizes)
    lanes, _ = deal(np.array(sizes) / n, n, np.random.default_rng(seed).random(3 * n))
    for part in np.split(lanes, 3):
        np.testing.assert_array_equal(np.bincount(part, minlength=len(sizes)), sizes)


@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_shuffled_counts_keep_to_their_shares_pass_after_pass(k):
    """Up to what rounding leaves: a lane that is owed a part of a slot may be served a whole one."""
    rng = np.random.default_rng(k)

    def furthest(lanes, shares):
        counts = np.cumsum([np.bincount(part, minlength=k) for part in np.split(lanes, 20)], axis=0)
        return np.abs(counts - np.arange(1, 21)[:, None] * 1000 * shares).max()

    for concentration in (0.1, 1.0, 10.0):
        shares, uniforms = rng.dirichlet(np.full(k, concentration)), rng.random(20_000)
        assert furthest(deal(shares, 1000, uniforms)[0], shares) < 10.0
    assert furthest(assigned(draw_independent, shares, uniforms, 20_000), shares) > 20.0  # the control: by chance alone


def test_shuffled_credits_are_paid_back_when_shares_have_moved():
    """What a lane was served too much in half a pass, at other shares, it is not at the end of the pass."""
    rng = np.random.default_rng(0)
    state, lanes = np.zeros(4), np.empty(500, dtype=np.int64)
    served = np.zeros(3)
    for shares in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8]):
        shuffle_slots(np.array(shares), 1000, rng.random(500), state, lanes)
        served += np.bincount(lanes, minlength=3)
    np.testing.assert_allclose(served, [450, 100, 450], atol=2.0)
    assert np.abs(state[:3]).max() < 2.0
    assert state[3] == 0.0


@pytest.mark.parametrize("slot", [0, 4, 9])
def test_every_slot_of_a_pass_follows_the_shares_on_its_own(slot):
    """Unlike carried slots, of which each is the same every time."""
    rng = np.random.default_rng(slot)
    shares, counts = np.array([0.5, 0.3, 0.2]), np.zeros(3)
    for _ in range(4000):
        counts[deal(shares, 10, rng.random(10))[0][slot]] += 1
    error = np.sqrt(4000 * shares * (1 - shares))
    assert (np.abs(counts - 4000 * shares) < 4.5 * error).all()


def test_a_part_of_a_slot_is_served_whole_now_and_then():
    """Late in one pass and not in the next: over passes it is right, slot by slot it is not."""
    rng = np.random.default_rng(0)
    shares, served = np.array([0.005, 0.995]), np.zeros((2000, 4, 100))
    for row in served:
        row[:] = deal(shares, 100, rng.random(400))[0].reshape(4, 100) == 0
    assert served.sum(axis=(1, 2)).max() <= 3  # two are due
    assert served.mean(axis=0).sum() == pytest.approx(2.0, abs=0.1)
    first, second, third, _ = served.mean(axis=0).sum(axis=1)
    assert min(first, third) > 0.8 > 0.2 > second
    assert served[:, 0, 90:].mean() > 2 * served[:, 0, :10].mean()
