"""Draws inside groups: oracles on the same uniforms."""

import numpy as np
import pytest

from varmix.components._groups_kernels import (
    accumulate_groups,
    draw_members,
    draw_weighted,
    group_lanes,
    group_rows,
    sort_by_group,
)

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


def test_rows_of_groups_hold_inside_outside_and_the_uniform_component():
    rows = np.full((3, 6), np.nan)
    group_rows(np.array([2, 0, 2]), np.array([4.0, 5.0, 6.0, 7.0]), 0.2, rows)
    row2, row0 = [0.2, 0.2, 6.0, 0.2, 1.0, 1.0], [4.0, 0.2, 0.2, 0.2, 1.0, 1.0]
    np.testing.assert_array_equal(rows, [row2, row0, row2])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("uniform", [0, 1])
def test_lanes_of_groups_are_the_masses_of_the_mixture_on_the_groups(smoothing, uniform):
    rng = np.random.default_rng(4)
    shares = SIZES / SIZES.sum()
    w = rng.dirichlet(np.ones(4 + uniform))
    lanes = np.empty(4)
    group_lanes(w, shares, smoothing, lanes)
    laws = [(1 - smoothing) * np.eye(4)[j] + smoothing * shares for j in range(4)] + [shares] * uniform
    np.testing.assert_allclose(lanes, w @ laws, rtol=1e-14)
