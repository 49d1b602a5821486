"""Tabulated laws against numpy's cumsum and searchsorted on the same uniforms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varmix._kernels.allocate import spread_slots
from varmix._kernels.cost import weigh_draws
from varmix.components._guide_table import Table
from varmix.components._tables_kernels import draw_rows, draw_stratified, draw_table, gather_rows, look_up, store_block

EMPTY = np.empty(0)
EDGES = np.array([0.0, 2.0**-53, 2.0**-30, 0.25, 0.5, 0.75, 1 - 2.0**-30, 1 - 2.0**-53])


def build(law):
    """Give the cumulative sums and guide of one law over n atoms."""
    law = np.asarray(law, dtype=np.float64)
    table = Table((law / law.mean())[:, None], None)
    return table.cumulative, table.guide


def searched(cumulative, u):
    return np.minimum(np.searchsorted(cumulative, u, side="right"), len(cumulative) - 1)


def found(cumulative, guide, u, lane=0):
    return np.array([look_up(cumulative, guide, lane, value) for value in u])


LAWS = {
    "one atom": [1.0],
    "two atoms": [0.3, 0.7],
    "uniform": np.ones(1000),
    "random": np.random.default_rng(0).gamma(0.3, size=997),
    "zeros first": [0, 0, 0, 0, 0, 1, 2, 3],
    "zeros in the middle": [1, 2, 0, 0, 0, 0, 0, 3],
    "zeros last": [1, 2, 3, 0, 0, 0, 0, 0],
    "zeros everywhere": np.random.default_rng(1).random(500) * (np.random.default_rng(2).random(500) < 0.1),
    "one heavy atom": np.where(np.arange(300) == 150, 0.999999, 1e-6 / 299),
    "one heavy atom first": np.where(np.arange(300) == 0, 0.999999, 1e-6 / 299),
    "twelve decades": np.geomspace(1e-12, 1.0, 200),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_look_up_is_a_search_of_the_cumulative_sum(law):
    cumulative, guide = build(law)
    u = np.concatenate([np.random.default_rng(3).random(2000), EDGES])
    np.testing.assert_array_equal(found(cumulative, guide, u), searched(cumulative[0], u))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_cumulative_sums_are_those_of_the_law_and_end_at_one(law):
    cumulative, _ = build(law)
    np.testing.assert_allclose(cumulative[0], np.cumsum(law) / np.sum(law), rtol=1e-12, atol=1e-15)
    assert cumulative[0, -1] == 1.0


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_every_atom_with_mass_is_drawn_from_its_jump_of_the_cumulative_sum(law):
    law = np.asarray(law)
    cumulative, guide = build(law)
    drawable = np.flatnonzero(law > 1e-9 * law.sum())
    ends = cumulative[0][drawable]
    starts = np.concatenate([[0.0], cumulative[0]])[drawable]
    for inside in (1e-4, 0.5, 1 - 1e-4):
        np.testing.assert_array_equal(found(cumulative, guide, starts + inside * (ends - starts)), drawable)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=40).filter(any), st.lists(st.floats(0, 1 - 2.0**-53), max_size=5)
)
def test_atoms_without_mass_are_never_drawn(counts, uniforms):
    cumulative, guide = build(counts)
    for u in [*uniforms, *EDGES]:
        assert counts[look_up(cumulative, guide, 0, u)] > 0


def test_atoms_without_mass_behind_the_last_one_are_not_drawn_whatever_the_rounding():
    """49 * (1 / 49) is below one in doubles, and the largest uniform is above it."""
    assert 49.0 * (1.0 / 49.0) < 1.0
    for total in range(1, 200):
        table = Table(np.array([[2.0 * total], [0.0]]), None)
        assert look_up(table.cumulative, table.guide, 0, 1 - 2.0**-53) == 0


def dense(seed=0, n=50, k=3, target=None):
    rng = np.random.default_rng(seed)
    ratios = rng.gamma(0.5, size=(n, k))
    mass = np.full(n, 1 / n) if target is None else target
    ratios[mass == 0] = 0.0
    return (ratios / (mass @ ratios)).astype(np.float32)


def test_a_table_follows_the_target():
    target = np.where(np.arange(50) % 5 == 0, 0.0, np.arange(50.0))
    target /= target.sum()
    ratios = dense(target=target)
    table = Table(ratios, target)
    law = ratios.astype(np.float64) * target[:, None]
    np.testing.assert_allclose(table.cumulative, (np.cumsum(law, axis=0) / law.sum(axis=0)).T, rtol=1e-12)
    np.testing.assert_allclose(table.scale, 1 / law.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(table.largest, ratios.max(axis=0) * table.scale, rtol=1e-12)


def test_stored_ratios_times_their_scale_are_the_law_that_is_drawn():
    ratios = dense()
    table = Table(ratios, None)
    jumps = np.diff(table.cumulative, prepend=0.0, axis=1).T * 50
    np.testing.assert_allclose(ratios * table.scale, jumps, rtol=1e-10, atol=1e-12)


def test_each_lane_draws_from_its_own_column_and_lanes_beyond_from_all_atoms():
    rng = np.random.default_rng(4)
    table = Table(dense(), None)
    lanes, u, atoms = rng.integers(5, size=400), rng.random(400), np.empty(400, dtype=np.int64)
    u[:2], lanes[:2] = 1 - 2.0**-53, [0, 4]
    draw_table(lanes, u, table.cumulative, table.guide, 50, atoms)
    expected = [searched(table.cumulative[j], v) if j < 3 else int(v * 50) for j, v in zip(lanes, u, strict=True)]
    np.testing.assert_array_equal(atoms, expected)


def test_gathered_rows_are_scaled_and_end_with_ones():
    ratios, scale = dense(), np.array([1.0, 2.0, 0.5])
    out = np.full((4, 5), np.nan)
    atoms = np.array([7, 0, 7, 49])
    gather_rows(ratios, scale, atoms, out)
    np.testing.assert_array_equal(out[:, :3], ratios[atoms].astype(np.float64) * scale)
    np.testing.assert_array_equal(out[:, 3:], 1.0)


def test_drawing_rows_is_drawing_and_gathering():
    rng = np.random.default_rng(5)
    ratios = dense()
    table = Table(ratios, None)
    lanes, u = rng.integers(4, size=30), rng.random(30)
    atoms, rows = np.empty(30, dtype=np.int64), np.empty((30, 4))
    draw_rows(lanes, u, table.cumulative, table.guide, ratios, table.scale, atoms, rows)
    expected, gathered = np.empty(30, dtype=np.int64), np.empty((30, 4))
    draw_table(lanes, u, table.cumulative, table.guide, 50, expected)
    gather_rows(ratios, table.scale, expected, gathered)
    np.testing.assert_array_equal(atoms, expected)
    np.testing.assert_array_equal(rows, gathered)


def test_a_stratified_draw_in_one_call_is_the_calls_it_stands_for():
    rng = np.random.default_rng(6)
    ratios, w = dense(), np.array([0.2, 0.3, 0.1, 0.4])
    table = Table(ratios, None)
    both = rng.random(80)
    slots, u = both[:40], both[40:]
    atoms, rows, density, weights = np.empty(40, dtype=np.int64), np.empty((40, 4)), np.empty(40), np.empty(40)
    draw_stratified(w, both, table.cumulative, table.guide, ratios, table.scale, atoms, rows, density, weights)
    lanes, expected = np.empty(40, dtype=np.int64), (np.empty(40, dtype=np.int64), np.empty((40, 4)))
    spread_slots(w, slots, lanes)
    draw_rows(lanes, u, table.cumulative, table.guide, ratios, table.scale, *expected)
    np.testing.assert_array_equal(atoms, expected[0])
    np.testing.assert_array_equal(rows, expected[1])
    d, r = np.empty(40), np.empty(40)
    weigh_draws(rows, w, d, r)
    np.testing.assert_array_equal(density, d)
    np.testing.assert_array_equal(weights, r)


@pytest.mark.parametrize("target", [None, [0.5, 0.25, 0.25, 0.0]])
@pytest.mark.parametrize("given_ratios", [False, True])
def test_stored_blocks_are_ratios_and_their_sums_are_masses(given_ratios, target):
    law = np.full(4, 0.25) if target is None else np.array(target)
    mass = np.array([[0.5, 0.1], [0.5, 0.2], [0.0, 0.7], [0.0, 0.0]])
    ratio = np.divide(mass, law[:, None], out=np.zeros((4, 2)), where=law[:, None] > 0)
    block = ratio if given_ratios else mass
    table, sums = np.full((4, 2), np.nan, dtype=np.float32), np.zeros(2)
    for start in (0, 2):
        assert (
            store_block(block[start : start + 2], EMPTY if target is None else law, given_ratios, start, table, sums)
            == -1
        )
    np.testing.assert_allclose(table, ratio, rtol=1e-7)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-15)


@pytest.mark.parametrize("bad", [-1e-300, np.nan, np.inf, -np.inf])
def test_storing_names_the_first_row_that_is_not_a_law(bad):
    block = np.array([[0.5], [bad], [bad]])
    assert store_block(block, EMPTY, False, 0, np.empty((3, 1), dtype=np.float32), np.zeros(1)) == 1


def test_storing_refuses_mass_where_the_target_is_zero():
    block, target = np.array([[0.5], [0.5]]), np.array([1.0, 0.0])
    assert store_block(block, target, False, 0, np.empty((2, 1), dtype=np.float32), np.zeros(1)) == 1
