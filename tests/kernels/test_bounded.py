"""Kernels end, and stay inside their arrays, whatever they are fed."""

import faulthandler

import numpy as np
import pytest

from varmix._kernels import allocate, cost
from varmix._kernels.simplex import factor_metric, solve_factored
from varmix.components import _groups_kernels as groups
from varmix.components import _tables_kernels as table

BAD = [np.nan, np.inf, -np.inf, -1.0, 2.0, 1e300]


@pytest.fixture(scope="module")
def _compiled():
    """Compile before the clock starts: call every kernel once with numbers that are harmless."""
    test_lanes_exist_for_any_shares_and_uniforms(allocate.draw_independent, 0.5)
    test_lanes_exist_for_any_shares_and_uniforms(allocate.spread_slots, 0.5)
    test_carried_lanes_exist_for_any_shares_and_credit(0.5)
    test_shuffled_lanes_exist_for_any_shares_uniforms_and_credit(0.5)
    test_atoms_exist_for_any_uniforms(0.5)
    test_costs_and_factors_of_anything_end(1.0)


@pytest.fixture(autouse=True)
def _time_limit(_compiled):
    faulthandler.dump_traceback_later(120, exit=True)  # compiled code cannot be interrupted otherwise
    yield
    faulthandler.cancel_dump_traceback_later()


def _spoilt(values, bad):
    """Give copies of `values` with `bad` at the start, at the end, and everywhere."""
    for place in (0, -1, slice(None)):
        copy = np.array(values, dtype=np.float64)
        copy.reshape(-1)[place] = bad
        yield copy


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kernel", [allocate.draw_independent, allocate.spread_slots])
def test_lanes_exist_for_any_shares_and_uniforms(kernel, bad):
    shares, uniforms = np.array([0.2, 0.0, 0.8]), np.linspace(0, 0.99, 6)
    for s in [shares, *_spoilt(shares, bad)]:
        for u in [uniforms, *_spoilt(uniforms, bad)]:
            lanes = np.full(6, -1)
            kernel(s, u, lanes)
            assert ((lanes >= 0) & (lanes < 3)).all()


@pytest.mark.parametrize("bad", BAD)
def test_carried_lanes_exist_for_any_shares_and_credit(bad):
    for shares in _spoilt([0.2, 0.0, 0.8], bad):
        for credit in _spoilt([0.0, 0.0, 0.0], bad):
            lanes = np.full(6, -1)
            allocate.round_robin(shares, credit, lanes)
            assert ((lanes >= 0) & (lanes < 3)).all()


@pytest.mark.parametrize("bad", BAD)
def test_shuffled_lanes_exist_for_any_shares_uniforms_and_credit(bad):
    uniforms = np.linspace(0, 0.99, 6)
    for shares in [np.array([0.2, 0.0, 0.8]), *_spoilt([0.2, 0.0, 0.8], bad)]:
        for state in [np.zeros(4), *_spoilt([0.0, 0.0, 0.0, 0.0], bad)]:
            for u in [uniforms, *_spoilt(uniforms, bad)]:
                lanes = np.full(6, -1)
                allocate.shuffle_slots(shares, 10, u, state.copy(), lanes)
                assert ((lanes >= 0) & (lanes < 3)).all()


@pytest.mark.parametrize("bad", BAD)
def test_atoms_exist_for_any_uniforms(bad):
    cumulative, guide = np.empty((1, 50)), np.empty((1, 13), dtype=np.int32)
    table.accumulate_sums(np.ones((50, 1)), np.empty(0), cumulative, np.empty(1))
    table.finish_sums(cumulative, guide, np.empty(1))
    start, members, running = (
        np.array([0, 20, 50]),
        np.arange(50),
        np.concatenate([np.arange(1.0, 21), np.arange(1.0, 31)]),
    )
    for u in _spoilt(np.linspace(0, 0.99, 6), bad):
        for lane in (0, 1):
            atoms, lanes = np.full(6, -1), np.full(6, lane)
            table.draw_table(lanes, u, cumulative, guide, 50, atoms)
            assert ((atoms >= 0) & (atoms < 50)).all()
            groups.draw_members(lanes, u, start, members, atoms)
            assert ((atoms >= start[lane]) & (atoms < start[lane + 1])).all()
            groups.draw_weighted(lanes, u, start, members, running, atoms)
            assert ((atoms >= start[lane]) & (atoms < start[lane + 1])).all()


@pytest.mark.parametrize("bad", BAD)
def test_tables_of_anything_have_guides_inside_them(bad):
    for ratios in _spoilt(np.ones((30, 2)), bad):
        cumulative, guide = np.empty((2, 30)), np.empty((2, 8), dtype=np.int32)
        table.accumulate_sums(ratios, np.empty(0), cumulative, np.empty(2))
        table.finish_sums(cumulative, guide, np.empty(2))
        assert ((guide >= 0) & (guide < 30)).all()


@pytest.mark.parametrize("bad", BAD)
def test_costs_and_factors_of_anything_end(bad):
    ratios, c, w = np.ones((4, 3)), np.ones(4), np.full(3, 1 / 3)
    for q in _spoilt(ratios, bad):
        cost.value_and_gradient(q, c, w, np.empty(3))
        cost.write_hessian(q, c, w, np.empty((3, 3)))
        cost.weigh_draws(q, w, np.empty(4), np.empty(4))
    for M in _spoilt(np.eye(3), bad):
        upper, b = np.empty((3, 3)), np.ones(3)
        factor_metric(M, np.array([0, 1]), 2, 2, 1.0, upper)
        solve_factored(upper, 2, b)
