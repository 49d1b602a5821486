"""Allocation: which lane serves which slot of a batch.

Shares are lane probabilities pi.  `independent`, `stratified`, `systematic` and `one_component` serve every lane m * pi
slots in expectation, so estimates stay unbiased.  `round_robin` has no randomness: its counts stay close to the sum of
the shares over time, which is what reshuffled groups need.  `Shuffled` has that over a pass, and chance within it.

Under `stratified` and `systematic` the slots of a batch are ordered by lane and only the batch as a whole follows the
mixture: take means over whole batches.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, final, runtime_checkable

import numpy as np

from varmix._core.rng import Uniforms
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, IntArray, as_count
from varmix._kernels import allocate as kernels


class Allocation(Protocol):
    """How slots are given to lanes.  The state is one array, kept and saved by the sampler.

    An allocation whose state is not empty may have `check_state(state)`, which raises `ValueError` if a saved state
    cannot be one of its own.  One that serves every lane its due over an epoch, so that groups without replacement are
    visited as by shuffling, says so with `keeps_epochs = True`.
    """

    def init(self, lanes: int) -> FloatArray:
        """Give the state before the first batch (an empty array where nothing is kept)."""
        ...

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Give the lane of each of `m` slots, and the next state; `state` itself stays as it is."""
        ...


@runtime_checkable
class InBatches(Protocol):
    """An allocation that serves several batches in one call; others are asked batch by batch."""

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Give the lanes of `batches` batches of `m` slots, one behind the other, and the next state."""
        ...


def assign_batches(
    allocation: Allocation, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
) -> tuple[IntArray, FloatArray]:
    """Give the lanes of several batches, one behind the other: by the law of as many calls of `assign`.

    Examples
    --------
    >>> lanes, _ = assign_batches(stratified, np.empty(0), np.array([0.5, 0.5]), 2, 3, Uniforms(0))
    >>> lanes.tolist()
    [0, 1, 0, 1, 0, 1]
    """
    if isinstance(allocation, InBatches):
        return allocation.assign_batches(state, shares, m, batches, uniforms)
    lanes = []
    for _ in range(batches):
        batch, state = allocation.assign(state, shares, m, uniforms)
        lanes.append(batch)
    return np.concatenate(lanes), state


def _check_credits(credit: FloatArray, most: float) -> None:
    """Raise `CheckpointError` if credits do not cancel, or one is more than can be owed."""
    if np.abs(credit).max() > most:  # first, for their sum may overflow
        raise CheckpointError(
            f"The saved allocation owes up to {np.abs(credit).max():.3g} slots, where at most {most:g} can be owed: it "
            f"is damaged."
        )
    if abs(credit.sum()) > 1e-6 * len(credit):
        raise CheckpointError(
            f"The saved allocation owes {credit.sum():.3g} slots in all, where nothing can be owed: it is damaged."
        )


class _Stateless:
    def init(self, lanes: int) -> FloatArray:
        """Nothing is kept between batches."""
        return np.empty(0)

    def __repr__(self) -> str:
        return type(self).__name__.lower()


@final
class Independent(_Stateless):
    """Every slot draws its lane on its own, as in the paper."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw the lanes of `m` slots independently."""
        lanes = np.empty(m, np.int64)
        kernels.draw_independent(shares, uniforms.take(m), lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Slots do not know of batches."""
        return self.assign(state, shares, m * batches, uniforms)


@final
class Stratified(_Stateless):
    """Slot r at (r + U_r) / m of the cumulative shares.  Its variance is never above independent draws."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one lane from each of `m` equal parts of the cumulative shares."""
        lanes = np.empty(m, np.int64)
        kernels.spread_slots(shares, uniforms.take(m), lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Spread every batch over the shares, with a uniform for every slot."""
        lanes = np.empty((batches, m), np.int64)
        kernels.spread_batches(shares, uniforms.take(m * batches).reshape(batches, m), lanes)
        return lanes.ravel(), state


@final
class Systematic(_Stateless):
    """Slot r at (r + U) / m with one U.  Usually below stratified, but it can be worse than independent draws."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw `m` equally spaced lanes with one uniform."""
        lanes = np.empty(m, np.int64)
        kernels.spread_slots(shares, uniforms.take(1), lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Spread every batch over the shares, with a uniform of its own."""
        lanes = np.empty((batches, m), np.int64)
        kernels.spread_batches(shares, uniforms.take(batches).reshape(batches, 1), lanes)
        return lanes.ravel(), state


@final
class OneComponent(_Stateless):
    """One lane for the whole batch, as in the authors' published code: far more variance, for comparison only."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one lane and give it all `m` slots."""
        return np.full(m, kernels.find_lane(shares, uniforms.take(1)[0]), dtype=np.int64), state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Draw one lane for every batch."""
        lanes = np.empty(batches, np.int64)
        kernels.draw_independent(shares, uniforms.take(batches), lanes)
        return np.repeat(lanes, m), state


@final
class RoundRobin:
    """Deficit round robin across batches.  With fixed shares no lane is ever served a whole slot more than its due."""

    keeps_epochs: ClassVar[bool] = True

    def init(self, lanes: int) -> FloatArray:
        """Give every lane a credit of zero."""
        return np.zeros(lanes)

    def check_state(self, state: FloatArray) -> None:
        """Raise `CheckpointError` if these cannot be what lanes are owed."""
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
        """Credits do not know of batches."""
        return self.assign(state, shares, m * batches, uniforms)

    def __repr__(self) -> str:
        return "round_robin"


@final
@dataclass(frozen=True)
class Shuffled:
    """Lanes in the order of a shuffled pass: with shares like the groups' sizes, plain reshuffling in law.

    A lane is drawn by chance, in proportion to what it is owed until the end of a pass of `period` slots, as cards are
    dealt from a deck.  So counts over a pass are those of `round_robin`, up to rounding, but a batch has as many points
    of a group as chance gives it.  With fixed shares every slot follows them on its own where lanes are owed whole
    slots a pass; one that is owed a part of a slot gets a whole one late in some passes, and none in others.

    Parameters
    ----------
    period
        Slots in a pass: the number of points, so that with nothing to gain every point comes once a pass.

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
        """Give every lane a credit of zero, at the beginning of a pass."""
        return np.zeros(lanes + 1)

    def check_state(self, state: FloatArray) -> None:
        """Raise `CheckpointError` if these cannot be what lanes are owed in the middle of an epoch."""
        slots = float(state[-1])
        if not (0.0 <= slots < self.period and slots.is_integer()):
            raise CheckpointError(f"The saved allocation is at slot {slots:g} of {self.period}: it is damaged.")
        _check_credits(state[:-1], self.period + len(state))

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Deal a lane to every slot."""
        lanes, state = np.empty(m, np.int64), state.copy()
        kernels.shuffle_slots(shares, self.period, uniforms.take(m), state, lanes)
        return lanes, state

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """A pass does not know of batches."""
        return self.assign(state, shares, m * batches, uniforms)


independent = Independent()
stratified = Stratified()
systematic = Systematic()
one_component = OneComponent()
round_robin = RoundRobin()
