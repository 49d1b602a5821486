"""Draws inside groups: oracles on the same uniforms, and the shuffled cursors."""

import itertools

import numpy as np
import pytest

from varmix.kernels.groups import (
    accumulate_groups,
    draw_cursor,
    draw_members,
    draw_weighted,
    group_lanes,
    group_rows,
    replay_cursors,
    sort_by_group,
    swap_target,
)
from varmix.testing import chi_square_z

LAST = 1.0 - 2.0**-53
SIZES = np.array([1, 5, 2, 30])
CODES = np.random.default_rng(0).permutation(np.repeat(np.arange(4), SIZES))
START = np.concatenate([[0], np.cumsum(SIZES)])
MEMBERS = np.argsort(CODES, kind="stable").astype(np.int32)


def groups_and_uniforms(m, seed):
    rng = np.random.default_rng(seed)
    lanes, u = rng.integers(4, size=m), rng.random(m)
    lanes[:8], u[:8] = [0, 1, 2, 3, 0, 1, 2, 3], [0.0] * 4 + [LAST] * 4
    return lanes, u


def test_points_are_sorted_by_group_in_ascending_order():
    members = np.empty(len(CODES), dtype=np.int32)
    sort_by_group(CODES.astype(np.uint8), np.empty(0), START, members)
    np.testing.assert_array_equal(members, MEMBERS)


def test_members_are_drawn_evenly_from_the_group_of_the_lane():
    lanes, u = groups_and_uniforms(500, 1)
    atoms = np.empty(500, dtype=np.int64)
    draw_members(lanes, u, START, MEMBERS, atoms)
    expected = [np.flatnonzero(CODES == g)[int(v * SIZES[g])] for g, v in zip(lanes, u, strict=True)]
    np.testing.assert_array_equal(atoms, expected)


def test_weighted_members_are_drawn_by_the_target_inside_the_group():
    rng = np.random.default_rng(2)
    target = rng.gamma(0.3, size=len(CODES))
    target /= target.sum()
    lanes, u = groups_and_uniforms(500, 3)
    cumulative, atoms = np.empty(len(CODES)), np.empty(500, dtype=np.int64)
    accumulate_groups(target, START, MEMBERS, cumulative)
    draw_weighted(lanes, u, START, MEMBERS, cumulative, atoms)
    for g, v, atom in zip(lanes, u, atoms, strict=True):
        points = np.flatnonzero(CODES == g)
        law = np.cumsum(target[points]) / target[points].sum()
        assert atom == points[min(np.searchsorted(law, v, side="right"), len(points) - 1)]


def test_running_sums_of_the_target_start_anew_in_every_group():
    """A rare group beside a heavy one keeps its digits."""
    target = np.where(CODES == 3, 1.0, 1e-18)
    cumulative = np.empty(len(CODES))
    accumulate_groups(target, START, MEMBERS, cumulative)
    for g in range(4):
        expected = np.cumsum(target[CODES == g])
        np.testing.assert_allclose(cumulative[START[g] : START[g + 1]], expected, rtol=1e-14)


def test_rows_of_groups_hold_inside_outside_and_the_anchor():
    rows = np.full((3, 6), np.nan)
    group_rows(np.array([2, 0, 2]), np.array([4.0, 5.0, 6.0, 7.0]), 0.2, rows)
    row2, row0 = [0.2, 0.2, 6.0, 0.2, 1.0, 1.0], [4.0, 0.2, 0.2, 0.2, 1.0, 1.0]
    np.testing.assert_array_equal(rows, [row2, row0, row2])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("anchor", [0, 1])
def test_lanes_of_groups_are_the_masses_of_the_mixture_on_the_groups(smoothing, anchor):
    rng = np.random.default_rng(4)
    shares = SIZES / SIZES.sum()
    w = rng.dirichlet(np.ones(4 + anchor))
    lanes = np.empty(4)
    group_lanes(w, shares, smoothing, lanes)
    laws = [(1 - smoothing) * np.eye(4)[j] + smoothing * shares for j in range(4)] + [shares] * anchor
    np.testing.assert_allclose(lanes, w @ laws, rtol=1e-14)


# Cursors ------------------------------------------------------------------------------------------------------------


class Cursors:
    """The arrays behind a set of cursors."""

    def __init__(self, seed, start=START, members=MEMBERS):
        self.seed, self.start, self.members = np.uint64(seed), start, members
        self.order = members.copy()
        self.position, self.turn = np.zeros((2, len(start) - 1), dtype=np.int64)

    def draw(self, lanes):
        lanes = np.asarray(lanes, dtype=np.int64)
        atoms = np.empty(len(lanes), dtype=np.int64)
        draw_cursor(lanes, self.seed, self.start, self.members, self.order, self.position, self.turn, atoms)
        return atoms


@pytest.mark.parametrize("g", range(4))
def test_every_point_of_a_group_comes_once_per_round(g):
    rounds = Cursors(seed=1).draw(np.full(50 * SIZES[g], g)).reshape(50, SIZES[g])
    np.testing.assert_array_equal(np.sort(rounds, axis=1), np.tile(np.flatnonzero(CODES == g), (50, 1)))


def test_the_order_of_a_group_changes_from_round_to_round():
    rounds = Cursors(seed=1).draw(np.full(300, 3)).reshape(10, 30)
    assert len({tuple(order) for order in rounds}) == 10


def test_the_order_of_a_group_does_not_depend_on_when_the_others_are_served():
    rng = np.random.default_rng(5)
    lanes = np.repeat(np.arange(4), 100)
    orders = []
    for shuffled in (lanes, rng.permutation(lanes), rng.permutation(lanes)):
        cursors = Cursors(seed=7)
        atoms = np.concatenate([cursors.draw(part) for part in np.split(shuffled, [1, 10, 200])])
        orders.append([atoms[shuffled == g].tolist() for g in range(4)])
    assert orders[0] == orders[1] == orders[2]


def test_the_order_of_a_group_depends_on_the_seed_and_on_the_group():
    start = np.array([0, 30, 60])
    first, second = (Cursors(seed, start, np.arange(60, dtype=np.int32)) for seed in (1, 2))
    lanes = np.repeat([0, 1], 30)
    a, b = first.draw(lanes), second.draw(lanes)
    assert (a[:30] != b[:30]).any()
    assert (a[:30] != a[30:] - 30).any()


@pytest.mark.parametrize("drawn", [0, 1, 37, 38, 76, 500])
def test_replayed_cursors_stand_where_the_real_ones_do(drawn):
    rng = np.random.default_rng(drawn)
    real, replayed = Cursors(seed=11), Cursors(seed=11)
    real.draw(rng.integers(4, size=drawn))
    replayed.order[:] = -1
    replayed.position[:], replayed.turn[:] = real.position, real.turn
    replayed.order[:] = MEMBERS
    replay_cursors(np.uint64(11), START, replayed.order, replayed.position, replayed.turn)
    np.testing.assert_array_equal(replayed.order, real.order)
    lanes = rng.integers(4, size=200)
    np.testing.assert_array_equal(replayed.draw(lanes), real.draw(lanes))


PERMUTATIONS = {order: i for i, order in enumerate(itertools.permutations(range(4)))}


def permutation_z(orders):
    counts = np.bincount([PERMUTATIONS[tuple(order)] for order in orders], minlength=24)
    return chi_square_z(counts, np.full(24, 1 / 24))


def shuffles(vary):
    """Give 12,000 orders of four points, from as many rounds, groups or seeds."""
    count = 12_000
    if vary == "round":
        return Cursors(3, np.array([0, 4]), np.arange(4, dtype=np.int32)).draw(np.zeros(4 * count)).reshape(-1, 4)
    if vary == "group":
        cursors = Cursors(3, np.arange(0, 4 * count + 1, 4), np.tile(np.arange(4, dtype=np.int32), count))
        return cursors.draw(np.repeat(np.arange(count), 4)).reshape(-1, 4)
    one = np.array([0, 4]), np.arange(4, dtype=np.int32)
    return np.array([Cursors(seed, *one).draw(np.zeros(4)) for seed in range(count)])


@pytest.mark.parametrize("vary", ["round", "group", "seed"])
def test_all_orders_are_equally_likely(vary):
    assert permutation_z(shuffles(vary)) < 4


def test_the_test_of_orders_catches_a_biased_shuffle():
    """Negative control: swapping each entry with any other, not only with later ones, is a well-known mistake."""
    rng = np.random.default_rng(6)
    orders = np.tile(np.arange(4), (12_000, 1))
    for order in orders:
        for here, other in enumerate(rng.integers(4, size=4)):
            order[[here, other]] = order[[other, here]]
    assert permutation_z(orders) > 4


def test_orders_of_consecutive_rounds_are_independent():
    orders = np.array([PERMUTATIONS[tuple(order)] for order in shuffles("round")])
    pairs = np.bincount(24 * orders[:-1] + orders[1:], minlength=576)
    assert chi_square_z(pairs, np.full(576, 1 / 576)) < 4


def test_swaps_reach_every_later_entry_and_no_earlier_one():
    keys = np.random.default_rng(7).integers(2**64, size=3000, dtype=np.uint64)
    for position in range(5):
        targets = np.array([swap_target(key, position, 5) for key in keys])
        assert chi_square_z(np.bincount(targets, minlength=5)[position:], np.full(5 - position, 1 / (5 - position))) < 4
        assert targets.min() == position
