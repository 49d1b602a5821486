"""The variance of a batch mean under the allocations, computed exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.oracles import Constant, lane_probabilities, pieces
from varmix.allocate import independent, one_component, stratified, systematic


def variance_of_independent_slots(allocation, shares, means, squares, m):
    """Give the variance of a batch mean whose slots are independent, from the moments of the value in each lane."""
    lanes = lane_probabilities(allocation, shares, m)
    return float(np.sum(lanes @ squares - (lanes @ means) ** 2) / m**2)


def variance_of_common_uniform(allocation, shares, means, squares, m):
    """Give the variance of a batch mean whose lanes follow from one uniform: that inside lanes, and that of lanes."""
    edges = np.cumsum(shares)
    mean = square = inside = 0.0
    for low, high in pieces([edges, *(m * edges - r for r in range(m))]):
        lanes, _ = allocation.assign(np.empty(0), shares, m, Constant((low + high) / 2))
        average = means[lanes].mean()
        inside += (high - low) * np.sum(squares[lanes] - means[lanes] ** 2) / m**2
        mean += (high - low) * average
        square += (high - low) * average**2
    return float(inside + square - mean**2)


@st.composite
def lanes_with_values(draw):
    k = draw(st.integers(1, 6))
    numbers = st.lists(st.integers(-5, 5), min_size=k, max_size=k)
    parts = np.array(draw(st.lists(st.integers(0, 9), min_size=k, max_size=k).filter(any)), dtype=np.float64)
    means, spread = np.array(draw(numbers), dtype=np.float64), np.array(draw(numbers), dtype=np.float64)
    return parts / parts.sum(), means, means**2 + spread**2, draw(st.integers(1, 9))


@settings(max_examples=200, deadline=None)
@given(lanes_with_values())
def test_stratified_variance_is_never_above_independent(lanes):
    assert (
        variance_of_independent_slots(stratified, *lanes) <= variance_of_independent_slots(independent, *lanes) + 1e-12
    )


def test_stratified_variance_is_well_below_independent_where_lanes_differ():
    lanes = np.full(4, 0.25), np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 4.0, 9.0]), 8
    assert variance_of_independent_slots(stratified, *lanes) == pytest.approx(0.0, abs=1e-12)
    assert variance_of_independent_slots(independent, *lanes) == pytest.approx(1.25 / 8)


def test_systematic_variance_can_be_above_independent():
    """Means 1, 0, 1, 0 and m = 2: one uniform serves both lanes of mean one, or neither."""
    means = np.array([1.0, 0.0, 1.0, 0.0])
    lanes = np.full(4, 0.25), means, means**2, 2
    assert variance_of_common_uniform(systematic, *lanes) == pytest.approx(1 / 4)
    assert variance_of_independent_slots(independent, *lanes) == pytest.approx(1 / 8)
    assert variance_of_independent_slots(stratified, *lanes) == pytest.approx(1 / 8)


@settings(max_examples=50, deadline=None)
@given(lanes_with_values())
def test_shared_variance_is_never_below_independent(lanes):
    """The authors' published code draws one component for the whole batch."""
    independently = variance_of_independent_slots(independent, *lanes)
    assert variance_of_common_uniform(one_component, *lanes) >= independently - 1e-12


def test_shared_variance_does_not_fall_with_the_batch_where_only_lanes_differ():
    means = np.array([0.0, 1.0])
    lanes = np.full(2, 0.5), means, means**2
    assert variance_of_common_uniform(one_component, *lanes, 64) == pytest.approx(1 / 4)
    assert variance_of_independent_slots(independent, *lanes, 64) == pytest.approx(1 / 256)
