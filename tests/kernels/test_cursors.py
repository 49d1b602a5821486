"""Cursors: every point of a group once a turn, in orders that are equally likely, and those first that are due."""

import itertools

import numpy as np
import pytest

from varmix.components._groups_kernels import (
    deal_in,
    draw_cursor,
    due_first,
    mark_due,
    mark_waiting,
    replay_cursors,
    swap_target,
)
from varmix.testing import chi_square_z

SIZES = np.array([1, 5, 2, 30])
CODES = np.random.default_rng(0).permutation(np.repeat(np.arange(4), SIZES))
START = np.concatenate([[0], np.cumsum(SIZES)])
MEMBERS = np.argsort(CODES, kind="stable").astype(np.int32)


class Cursors:
    """The arrays behind a set of cursors."""

    def __init__(self, seed, start=START, members=MEMBERS):
        self.seed, self.start, self.members = np.uint64(seed), start, members
        self.order = members.copy()
        self.position, self.turn, self.due = np.zeros((3, len(start) - 1), dtype=np.int64)

    def draw(self, lanes):
        lanes = np.asarray(lanes, dtype=np.int64)
        atoms = np.empty(len(lanes), dtype=np.int64)
        places = self.order, self.position, self.turn, self.due
        draw_cursor(lanes, self.seed, self.start, self.members, *places, atoms)
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
    replay_cursors(np.uint64(11), START, replayed.order, replayed.position, replayed.turn, replayed.due)
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


# Points that are due -------------------------------------------------------------------------------------------------


def with_due(seed, marks):
    """Cursors at the beginning of a turn in which the marked points come first."""
    cursors = Cursors(seed)
    due_first(START, MEMBERS, marks, cursors.order, cursors.due)
    return cursors


def marked_due(cursors):
    marks = np.zeros(len(CODES), dtype=np.bool_)
    mark_due(START, cursors.order, cursors.due, marks)
    return marks


def waiting(cursors):
    marks, shares = np.zeros(len(CODES), dtype=np.bool_), np.empty(4)
    mark_waiting(START, cursors.order, cursors.position, cursors.due, marks, shares)
    return marks, shares


@pytest.mark.parametrize("seed", range(20))
def test_a_turn_serves_those_due_and_the_next_serves_all(seed):
    marks = np.random.default_rng(seed).random(len(CODES)) < 0.4
    cursors, plain = with_due(seed, marks), Cursors(seed)
    for g in range(4):
        due = np.flatnonzero((CODES == g) & marks)
        assert cursors.due[g] == len(due)
        np.testing.assert_array_equal(np.sort(cursors.draw(np.full(len(due), g))), due)
        if len(due):
            plain.draw(np.full(SIZES[g], g))
        # The turn after is that of any cursors.
        np.testing.assert_array_equal(cursors.draw(np.full(SIZES[g], g)), plain.draw(np.full(SIZES[g], g)))
        assert cursors.due[g] == 0


@pytest.mark.parametrize("drawn", [0, 3, 10, 30, 31, 100])
def test_those_waiting_are_what_is_left_of_the_turn(drawn):
    marks = np.random.default_rng(2).random(len(CODES)) < 0.4
    cursors = with_due(3, marks)
    served = cursors.draw(np.full(drawn, 3))
    due = np.flatnonzero((CODES == 3) & marks)
    if drawn > len(due):  # full turns of thirty have followed; one is over when the next begins
        later = drawn - len(due)
        left = set(np.flatnonzero(CODES == 3).tolist()) - set(served[len(due) + (later - 1) // 30 * 30 :].tolist())
    else:
        left = set(due.tolist()) - set(served.tolist())
    found, shares = waiting(cursors)
    assert set(np.flatnonzero(found & (CODES == 3)).tolist()) == left
    assert shares[3] == len(left) / 30


def test_points_that_have_moved_are_dealt_in_at_the_rate_of_their_new_group():
    n, rng = 40_000, np.random.default_rng(8)
    old, new = rng.integers(2, size=(2, n))
    marks, shares, turn = rng.random(n) < 0.5, np.array([0.1, 0.7]), np.array([3, 5])
    found = marks.copy()
    deal_in(np.uint64(9), turn, old, new, shares, found)
    np.testing.assert_array_equal(found[old == new], marks[old == new])
    for g, share in enumerate(shares):
        moved = found[(new == g) & (old != g)]
        assert chi_square_z(np.bincount(moved, minlength=2), np.array([1 - share, share])) < 4
    again = marks.copy()
    deal_in(np.uint64(9), turn + 1, old, new, shares, again)
    assert (again != found).any()  # other turns, other chances


@pytest.mark.parametrize("drawn", [0, 5, 60, 500])
def test_cursors_are_replayed_with_their_due_points(drawn):
    rng = np.random.default_rng(drawn)
    real = with_due(4, rng.random(len(CODES)) < 0.5)
    real.draw(rng.integers(4, size=drawn))
    replayed = with_due(4, marked_due(real))
    np.testing.assert_array_equal(replayed.due, real.due)
    replayed.position[:], replayed.turn[:] = real.position, real.turn
    replay_cursors(np.uint64(4), START, replayed.order, replayed.position, replayed.turn, replayed.due)
    lanes = rng.integers(4, size=200)
    np.testing.assert_array_equal(replayed.draw(lanes), real.draw(lanes))


def test_orders_of_those_due_are_equally_likely():
    start, members, marks = np.array([0, 8]), np.arange(8, dtype=np.int32), np.arange(8) % 2 == 0
    orders = []
    for seed in range(12_000):
        cursors = Cursors(seed, start, members)
        due_first(start, members, marks, cursors.order, cursors.due)
        orders.append(cursors.draw(np.zeros(4)) // 2)
    assert permutation_z(np.array(orders)) < 4
