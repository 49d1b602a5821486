"""SlotSampler: a mixture over replayed items, for storages that number their rows and not the items."""

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import BoolArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.validation import State
from varmix._core.validation import as_atoms
from varmix._core.validation import as_vector
from varmix.components._replay import Replay
from varmix._core.draw import Draw
from varmix._core.evidence import LARGEST_NORM
from varmix._core.draw__receipts import Ledger
from varmix.rl._tickets import NOT_YET
from varmix.rl._tickets import Flight
from varmix.rl._tickets import InFlight
from varmix._sampler import Sampler
from varmix._core.state import check_format
from varmix._core.state import loading
from varmix._core.state import read_count
from varmix._core.state import require

RECENT = 16


class SlotSampler:
    """Draws slots of a storage that is written round and round, and takes feedback by the tickets of drawn rows.

    The items that a sampler draws are numbered as they come; item i is in slot `i % capacity`.  A batch's feedback
    reaches the learner when it is complete, since a round is the mean over a batch.  Until then, and when it comes a
    second time, it refreshes |delta| of its items alone.

    Examples
    --------
    >>> import varmix
    >>> replay = varmix.Replay(capacity=4)
    >>> slots = SlotSampler(varmix.vrm(replay, rng=0), replay)
    >>> slots.write(np.array([0, 1, 2, 3]))
    >>> drawn, weights, tickets = slots.draw(64)
    >>> slots.update(tickets, norms=drawn == 2)
    >>> int(replay.delta([0, 1, 2, 3]).argmax())
    2
    """

    def __init__(self, sampler: Sampler, replay: Replay) -> None:
        self.sampler = sampler
        self.replay = replay
        self._flights = InFlight()
        self._none = sampler.components.state_dict()

    def write(self, slots: IntArray) -> None:
        """Hear that new items were written to these slots."""
        space, capacity = self.replay.space, self.replay.capacity
        expected = (space.first + space.n + np.arange(len(slots))) % capacity
        if not np.array_equal(slots, expected):
            i = int(np.argmax(slots != expected))
            raise ValueError(
                f"Items must be written round and round: the next one belongs in slot {expected[i]}, got {slots[i]}. "
                f"Use a RoundRobinWriter, and a sampler that has seen the storage from its first item on."
            )
        if len(slots):
            self.replay.insert(len(slots))

    def draw(self, m: int) -> tuple[IntArray, FloatArray, IntArray]:
        """Give the slots of `m` items, their weights and their tickets."""
        draw = self.sampler.draw(m)
        return draw.indices % self.replay.capacity, draw.weights, self._flights.issue(draw)

    def update(self, tickets: IntArray, norms: ArrayLike) -> None:
        """Take the norms of drawn rows; of a row that is named twice the largest counts."""
        values = as_vector(norms, "norms", len(tickets))
        if len(values) and not (values.min() >= 0.0 and values.max() <= LARGEST_NORM):
            raise ValueError(f"norms must lie in 0..{LARGEST_NORM:g}, got {values.min():.3g}..{values.max():.3g}.")
        for flight, rows, places in self._flights.find(tickets):  # looks all up before the first is touched
            self._tell(flight, rows, values[places])

    def _tell(self, flight: Flight, rows: IntArray, norms: FloatArray) -> None:
        told = np.full(len(flight), NOT_YET)
        np.maximum.at(told, rows, norms)
        named = told >= 0.0
        known = np.where(named, told, flight.norms)
        if flight.draw is None or known.min() < 0.0:
            self.replay.set_delta(flight.ids[named], told[named])
        else:
            self._complete(flight.draw, known, named)
            flight.draw = None
        flight.norms = known

    def _complete(self, draw: Draw, norms: FloatArray, named: BoolArray) -> None:
        """Teach the learner; of items that were told earlier, |delta| stays: it may have been refreshed since."""
        if named.all():
            self.sampler.update(draw, norms)
            return
        earlier = np.setdiff1d(draw.indices[~named], draw.indices[named])
        earlier = earlier[earlier >= self.replay.space.first]
        kept = self.replay.delta(earlier)
        self.sampler.update(draw, norms)
        self.replay.set_delta(earlier, kept)

    def refresh(self, slots: IntArray, delta: ArrayLike) -> None:
        """Tell |delta| of what is in these slots now; the learner hears nothing."""
        self.replay.set_delta(self.items(slots), delta)

    def items(self, slots: IntArray) -> IntArray:
        """Give the numbers of the items that are in these slots now."""
        space = self.replay.space
        slots = as_atoms(slots, space.n, "slots")
        newest = space.first + space.n - 1
        return np.asarray(newest - (newest - slots) % self.replay.capacity)

    def awaits(self, slots: IntArray) -> bool:
        """Whether exactly these slots were drawn lately, and their feedback is still to come."""
        recent = (flight for flight in self._flights.newest(RECENT) if flight.draw is not None)
        return any(np.array_equal(flight.ids % self.replay.capacity, slots) for flight in recent)

    def clear(self) -> None:
        """Forget all items and receipts; what the learner has learnt stays."""
        self.sampler.load_state_dict(self.sampler.state_dict() | {"components": self._none})
        self._flights.clear()

    def state_dict(self) -> State:
        """Return the sampler with its items, and the receipts in flight."""
        return {"sampler": self.sampler.state_dict(), "receipts": self._flights.state_dict(self._takes)}

    def _takes(self, draw: Draw) -> bool:
        try:
            self.sampler.check(draw)
        except ValueError:
            return False
        return True

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Raises
        ------
        CheckpointError
            If the state is damaged, of another sampler or of another format.  Everything is then unchanged.
        """
        with loading("a replay buffer's sampler"):
            require(state, {"sampler", "receipts"}, "a SlotSampler")
            check_format(state["sampler"], "a Sampler")
            ledger, items = Ledger.loaded(state["sampler"]), read_count(state["sampler"]["components"], "total")
            flights, largest = InFlight(), 2.0 * self.replay.capacity  # a ratio is at most the number of items
            flights.load_state_dict(state["receipts"], ledger, self.sampler.components.k, items, largest)
            self.sampler.load_state_dict(state["sampler"])
        self._flights = flights
