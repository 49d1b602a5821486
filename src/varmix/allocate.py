"""Allocation: which lane serves which slot of a batch.

A lane is what a family draws from: one of its components, or one of its groups.

| allocation | slots | use it for |
|---|---|---|
| `stratified` | one in each of m equal parts of the cumulative shares | draws with replacement (the default) |
| `systematic` | equally spaced, with one random offset | often less variance, sometimes more |
| `independent` | each slot on its own | what the paper (Borsos et al., 2019) describes |
| `one_component` | one lane for the whole batch | what the paper's authors published as code; for comparison only |
| `Shuffled` | dealt like cards over an epoch | groups without replacement (the default) |
| `round_robin` | the lane furthest below its share, no randomness | groups without replacement, small batches |

The first four serve every lane `m * share` slots in expectation, so estimates are unbiased. The last two keep counts
close to the shares over time, which groups without replacement need.

With `stratified` and `systematic` the slots of a batch are ordered by lane, and only a whole batch follows the mixture:
take means over whole batches.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from varmix._core.allocation import Allocation
from varmix._core.rng import Uniforms
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, IntArray, as_count
from varmix._kernels import allocate as kernels

__all__ = [
    "Allocation",
    "Independent",
    "OneComponent",
    "RoundRobin",
    "Shuffled",
    "Stratified",
    "Systematic",
    "independent",
    "one_component",
    "round_robin",
    "stratified",
    "systematic",
]


@final
class Independent(Allocation):
    """Draw the lane of every slot independently, as in the paper.

    Use it as `varmix.allocate.independent`.

    Examples
    --------
    >>> lanes, _ = independent.assign(np.empty(0), np.array([0.5, 0.5]), 1000, Uniforms(0))
    >>> 400 < int(lanes.sum()) < 600
    True
    """

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw the lanes of `m` slots independently."""
        lanes = np.empty(m, np.int64)
        kernels.draw_independent(shares, uniforms.take(m), lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Draw all slots independently: batches make no difference."""
        return self.assign(state, shares, m * batches, uniforms)

    def __repr__(self) -> str:
        return "independent"


@final
class Stratified(Allocation):
    """Draw one lane from each of m equal parts of the cumulative shares.

    Slot r gets the lane whose interval of the cumulative shares contains (r + U_r) / m, with independent uniform U_r.

    The variance is never larger than with independent slots. Use it as `varmix.allocate.stratified`.

    Examples
    --------
    >>> stratified.assign(np.empty(0), np.array([0.5, 0.5]), 4, Uniforms(0))[0].tolist()
    [0, 0, 1, 1]
    """

    is_stratified: ClassVar[bool] = True

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one lane from each of `m` equal parts of the cumulative shares."""
        lanes = np.empty(m, np.int64)
        kernels.spread_slots(shares, uniforms.take(m), lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Draw every batch from its own `m` equal parts of the cumulative shares."""
        if batches == 1:
            return self.assign(state, shares, m, uniforms)
        lanes = np.empty((batches, m), np.int64)
        kernels.spread_batches(shares, uniforms.take(m * batches).reshape(batches, m), lanes)
        return lanes.ravel(), state

    def __repr__(self) -> str:
        return "stratified"


@final
class Systematic(Allocation):
    """Draw equally spaced lanes.

    Slot r gets the lane whose interval of the cumulative shares contains (r + U) / m, with one uniform U for the batch.

    The variance is usually below that of `stratified`, but it can be above that of independent slots.
    Use it as `varmix.allocate.systematic`.

    Examples
    --------
    >>> systematic.assign(np.empty(0), np.array([0.25, 0.75]), 4, Uniforms(0))[0].tolist()
    [0, 1, 1, 1]
    """

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw `m` equally spaced lanes with one uniform number."""
        lanes = np.empty(m, np.int64)
        kernels.spread_slots(shares, uniforms.take(1), lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Draw `m` equally spaced lanes for every batch, with one uniform number each."""
        if batches == 1:
            return self.assign(state, shares, m, uniforms)
        lanes = np.empty((batches, m), np.int64)
        kernels.spread_batches(shares, uniforms.take(batches).reshape(batches, 1), lanes)
        return lanes.ravel(), state

    def __repr__(self) -> str:
        return "systematic"


@final
class OneComponent(Allocation):
    """Draw one lane for the whole batch, as the authors' published code does.

    The variance is far larger than with the other allocations, so this is for comparison only.
    Use it as `varmix.allocate.one_component`.

    Examples
    --------
    >>> one_component.assign(np.empty(0), np.array([0.5, 0.5]), 3, Uniforms(0))[0].tolist()
    [1, 1, 1]
    """

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one lane and assign it to all `m` slots."""
        return np.full(m, kernels.find_lane(shares, uniforms.take(1)[0]), dtype=np.int64), state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Draw one lane for every batch."""
        if batches == 1:
            return self.assign(state, shares, m, uniforms)
        lanes = np.empty(batches, np.int64)
        kernels.draw_independent(shares, uniforms.take(batches), lanes)
        return np.repeat(lanes, m), state

    def __repr__(self) -> str:
        return "one_component"


@final
class RoundRobin(Allocation):
    """Serve the lane with the largest credit, slot by slot, across batches.

    Every slot adds the share of each lane to its credit, and the lane that is served pays one. Nothing is random. With
    fixed shares no lane ever gets a whole slot more than its share. Use it as `varmix.allocate.round_robin`.

    Examples
    --------
    >>> lanes, credits = round_robin.assign(round_robin.init(2), np.array([0.25, 0.75]), 4, Uniforms(0))
    >>> lanes.tolist(), credits.tolist()
    ([1, 0, 1, 1], [0.0, 0.0])
    """

    keeps_epochs: ClassVar[bool] = True

    def init(self, lanes: int) -> FloatArray:
        """Return a credit of zero for every lane."""
        return np.zeros(lanes)

    def check_state(self, state: FloatArray) -> None:
        """Raise `CheckpointError` if saved credits are not possible."""
        _check_credits(state, len(state) + 1)

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Serve the largest credit, slot by slot."""
        lanes = np.empty(m, np.int64)
        credit = state.copy()
        kernels.round_robin(shares, credit, lanes)
        return lanes, credit

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Serve the largest credit, slot by slot: batches make no difference."""
        return self.assign(state, shares, m * batches, uniforms)

    def __repr__(self) -> str:
        return "round_robin"


@final
@dataclass(frozen=True)
class Shuffled(Allocation):
    """Deal lanes like cards: with shares equal to the sizes of the groups, this is plain reshuffling.

    Each slot draws a lane in proportion to the slots that the lane should still get in this epoch. So the number of
    slots that a lane gets in an epoch is its share, up to rounding. The number in a single batch varies, as with
    `shuffle=True`. If the share of a lane is not a whole number of slots per epoch, it gets one slot more in some
    epochs.

    Parameters
    ----------
    period : int
        Slots in an epoch: the number of points that can be drawn.

    Examples
    --------
    >>> allocation, shares = Shuffled(period=6), np.array([0.5, 0.5])
    >>> lanes, state = allocation.assign(allocation.init(2), shares, 6, Uniforms(0))
    >>> np.bincount(lanes).tolist(), state.tolist()
    ([3, 3], [0.0, 0.0, 0.0])
    """

    keeps_epochs: ClassVar[bool] = True

    period: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", as_count(self.period, "period"))

    def init(self, lanes: int) -> FloatArray:
        """Return a credit of zero for every lane, and slot 0 of the epoch."""
        return np.zeros(lanes + 1)

    def check_state(self, state: FloatArray) -> None:
        """Raise `CheckpointError` if saved credits, or the place in the epoch, are not possible."""
        slots = float(state[-1])
        if not (0.0 <= slots < self.period and slots.is_integer()):
            raise CheckpointError(
                f"The saved allocation is at slot {slots:g} of an epoch of {self.period}: the state is damaged."
            )
        _check_credits(state[:-1], self.period + len(state))

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Deal a lane to every slot."""
        lanes, state = np.empty(m, np.int64), state.copy()
        kernels.shuffle_slots(shares, self.period, uniforms.take(m), state, lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Deal a lane to every slot: batches make no difference."""
        return self.assign(state, shares, m * batches, uniforms)


def _check_credits(credit: FloatArray, most: float) -> None:
    """Raise `CheckpointError` if credits do not sum to zero, or one is larger than possible."""
    if np.abs(credit).max() > most:  # checked first, because the sum below could overflow
        raise CheckpointError(
            f"The saved allocation has a credit of {np.abs(credit).max():.3g} slots; at most {most:g} are possible: "
            f"the state is damaged."
        )
    if abs(credit.sum()) > 1e-6 * len(credit):
        raise CheckpointError(
            f"The credits of the saved allocation sum to {credit.sum():.3g}; they must sum to zero: the state is "
            f"damaged."
        )


independent = Independent()
stratified = Stratified()
systematic = Systematic()
one_component = OneComponent()
round_robin = RoundRobin()
