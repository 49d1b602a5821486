"""Which lane serves which slot of a batch.  `shares` are non-negative with sum one, up to rounding."""

import numpy as np

from varmix._core.validation import FloatArray, IntArray
from varmix._kernels.jit import kernel


@kernel
def find_lane(shares: FloatArray, u: float) -> int:
    """Give the lane in whose part of [0, 1) the number `u` lies; never one of share zero."""
    total = 0.0
    chosen = 0
    for j in range(shares.shape[0]):
        if shares[j] > 0.0:
            chosen = j  # rounding may leave u above the last sum: the last lane with a share takes it
            total += shares[j]
            if u < total:
                return j
    return chosen


@kernel
def draw_independent(shares: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Every slot on its own."""
    for r in range(lanes.shape[0]):
        lanes[r] = find_lane(shares, uniforms[r])


@kernel
def spread_slots(shares: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Slot r at (r + U_r) / m: one uniform per slot is stratified, one for all is systematic."""
    m = lanes.shape[0]
    common = uniforms.shape[0] == 1
    lane = -1
    total = 0.0
    chosen = 0
    for r in range(m):  # the positions ascend, so one pass over the shares serves the whole batch
        position = (r + uniforms[0 if common else r]) / m
        while (lane < 0 or position >= total) and lane < shares.shape[0] - 1:
            lane += 1
            total += shares[lane]
            if shares[lane] > 0.0:
                chosen = lane
        lanes[r] = chosen


@kernel
def spread_batches(shares: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Spread every batch, a row of `lanes`, by its own row of uniforms."""
    for b in range(lanes.shape[0]):
        spread_slots(shares, uniforms[b], lanes[b])


@kernel
def round_robin(shares: FloatArray, credit: FloatArray, lanes: IntArray) -> None:
    """Deficit round robin: each slot adds the shares to the credits; the largest credit is served and pays 1."""
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
    """Every slot by chance, in proportion to what lanes are owed until the end of a pass of `period` slots.

    `state` holds the credits, what every lane is owed of the slots so far, and then the number of slots of the pass so
    far.  With r slots to go, a lane is owed its credit and r times its share: with shares that do not change that is an
    urn, from which a pass is dealt without replacement.  Who was served a part of a slot too much is owed nothing.
    """
    k = shares.shape[0]
    owed = np.empty(k)
    first = 0
    while first < lanes.shape[0]:
        left = float(period - state[k])
        if not 1.0 <= left <= period:  # whatever a damaged state says
            left = 1.0
        last = min(first + int(left), lanes.shape[0])
        # A slot adds the shares to the credits and takes them from what is to come: only the lane served is owed less.
        for j in range(k):
            owed[j] = left * shares[j] + state[j] if shares[j] > 0.0 else 0.0
        _deal_lanes(shares, owed, uniforms[first:last], lanes[first:last])
        for r in range(first, last):  # slot by slot, so that rounding does not know of batches
            for j in range(k):
                state[j] += shares[j]
            state[lanes[r]] -= 1.0
        state[k] = state[k] + (last - first) if left > last - first else 0.0
        first = last


@kernel
def _deal_lanes(shares: FloatArray, owed: FloatArray, uniforms: FloatArray, lanes: IntArray) -> None:
    """Draw lanes in proportion to what they are owed, each of which takes a slot off; who is owed nothing waits."""
    total = 0.0
    for j in range(owed.shape[0]):
        total += max(owed[j], 0.0)
    for r in range(lanes.shape[0]):
        chosen = -1
        rest = uniforms[r] * total
        for j in range(owed.shape[0]):
            if owed[j] > 0.0:
                chosen = j  # rounding may leave some of it: the last lane that is owed anything takes it
                rest -= owed[j]
                if rest < 0.0:
                    break
        if chosen < 0:  # all was owed to lanes that have lost their share
            chosen = find_lane(shares, uniforms[r])
        total -= min(max(owed[chosen], 0.0), 1.0)
        owed[chosen] -= 1.0
        lanes[r] = chosen
