"""Assign lanes to the slots of a batch. `shares` are non-negative and sum to one, up to rounding."""

import numpy as np

from varmix._core.validation import FloatArray, IntArray
from varmix._kernels.jit import kernel


@kernel
def find_lane(shares: FloatArray, u: float) -> int:
    """Return the lane whose part of [0, 1) contains `u`; never return a lane with share zero."""
    total = 0.0
    chosen = 0
    for j in range(shares.shape[0]):
        if shares[j] > 0.0:
            chosen = j  # if rounding leaves u above the last sum, the last lane with a share takes it
            total += shares[j]
            if u < total:
                return j
    return chosen


@kernel
def draw_independent(shares: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Draw the lane of every slot independently."""
    for r in range(lanes.shape[0]):
        lanes[r] = find_lane(shares, uniforms[r])


@kernel
def spread_slots(shares: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Assign to slot r the lane at position (r + U_r) / m of the shares, where m is the number of slots.

    One uniform per slot makes stratified slots, a single uniform for all makes systematic ones.
    """
    m = lanes.shape[0]
    common = uniforms.shape[0] == 1
    lane = -1
    total = 0.0
    chosen = 0
    for r in range(m):  # positions ascend, so the shares are read only once
        position = (r + uniforms[0 if common else r]) / m
        while (lane < 0 or position >= total) and lane < shares.shape[0] - 1:
            lane += 1
            total += shares[lane]
            if shares[lane] > 0.0:
                chosen = lane
        lanes[r] = chosen


@kernel
def spread_batches(shares: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Call `spread_slots` for every batch: row b of `lanes` uses row b of `uniforms`."""
    for b in range(lanes.shape[0]):
        spread_slots(shares, uniforms[b], lanes[b])


@kernel
def round_robin(shares: FloatArray, credit: FloatArray, lanes: IntArray) -> None:
    """Deficit round robin: every slot adds the shares to the credits, serves the largest and subtracts 1 from it."""
    k = shares.shape[0]
    for r in range(lanes.shape[0]):
        richest = -1
        for j in range(k):
            credit[j] += shares[j]
            if shares[j] > 0.0 and (richest < 0 or credit[j] > credit[richest]):
                richest = j
        richest = max(richest, 0)
        credit[richest] -= 1.0
        lanes[r] = richest


@kernel
def shuffle_slots(shares: FloatArray, period: int, uniforms: FloatArray, state: FloatArray, lanes: IntArray) -> None:
    """Draw the lane of each slot in proportion to the slots that lanes are still owed in an epoch of `period` slots.

    `state` has k + 1 entries: the credit of each lane (slots owed so far minus slots served), then the number of slots
    of the epoch so far. With r slots left, a lane is owed its credit plus r times its share, or nothing if that is
    negative. With constant shares this is the same as drawing from an urn without replacement.
    """
    k = shares.shape[0]
    owed = np.empty(k)
    first = 0
    while first < lanes.shape[0]:
        left = float(period - state[k])
        if not 1.0 <= left <= period:  # only with a damaged state
            left = 1.0
        last = min(first + int(left), lanes.shape[0])
        # Each slot adds a share to the credit and leaves one slot fewer, so only the served lane is owed less
        # afterwards.
        for j in range(k):
            owed[j] = left * shares[j] + state[j] if shares[j] > 0.0 else 0.0
        _deal_lanes(shares, owed, uniforms[first:last], lanes[first:last])
        for r in range(first, last):  # slot by slot, so that rounding does not depend on the batch size
            for j in range(k):
                state[j] += shares[j]
            state[lanes[r]] -= 1.0
        state[k] = state[k] + (last - first) if left > last - first else 0.0
        first = last


@kernel
def _deal_lanes(shares: FloatArray, owed: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Draw lanes in proportion to `owed`, which falls by one for the drawn lane; skip lanes that are owed nothing."""
    total = 0.0
    for j in range(owed.shape[0]):
        total += max(owed[j], 0.0)
    for r in range(lanes.shape[0]):
        chosen = -1
        rest = uniforms[r] * total
        for j in range(owed.shape[0]):
            if owed[j] > 0.0:
                chosen = j  # if rounding leaves a rest, the last lane that is owed something takes it
                rest -= owed[j]
                if rest < 0.0:
                    break
        if chosen < 0:  # only lanes without a share are owed something
            chosen = find_lane(shares, uniforms[r])
        total -= min(max(owed[chosen], 0.0), 1.0)
        owed[chosen] -= 1.0
        lanes[r] = chosen
