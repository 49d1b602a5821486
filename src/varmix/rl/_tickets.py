"""Tickets: feedback for slots of a replay buffer whose receipts are still open."""

import math
import uuid
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import attrgetter

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw, Ledger, seal_draw
from varmix._core.evidence import LARGEST_NORM
from varmix._core.state import CheckpointError, check_format, read_array, read_count, require_entries, wrap_load_errors
from varmix._core.validation import AnyArray, BoolArray, FloatArray, IntArray, State, as_atoms, as_vector
from varmix._sampler import Sampler
from varmix.components._replay import Replay

STATE_FIELDS = "base", "next", "firsts", "lengths", "serials", "ids", "norms", "density", "ratios"
MAX_RECEIPTS, MAX_RECEIPT_ROWS = 4096, 1 << 18  # receipts, and rows of them: a hundred bytes each with ten components
TICKET_GAP = 1 << 40  # tickets, more than any run issues
MAX_TICKET = 2**63 - 2**50  # the largest ticket that a state may hold: tickets go on from there, and must fit 64 bits
MISSING_NORM = -1.0  # in place of a norm
MIN_DENSITY = float(np.finfo(np.float64).tiny)  # of a density, so that one over it is finite
MAX_ROUNDING_ERROR = 1e-6


class OpenTicket:
    """One receipt on its way: the ticket of its first row, and the norms that have come back so far.

    Once all have come the receipt itself is let go; the items of its rows stay known.
    """

    __slots__ = ("draw", "first", "ids", "norms")

    def __init__(self, first: int, ids: IntArray, norms: FloatArray, draw: Draw | None) -> None:
        self.first, self.ids, self.norms, self.draw = first, ids, norms, draw

    def __len__(self) -> int:
        return len(self.ids)


class TicketBook:
    """The newest receipts, found by tickets: one number for every row, consecutive, from a random one on.

    A ticket alone says which sampler drew, which receipt and which row, so that it is all that has to travel with a
    row.  Rows may be split, shuffled or joined with those of other receipts.  A sampler that was loaded, copied or
    forked draws under a new id.  Its first ticket is then far from those that its twin may have issued since.

    Examples
    --------
    >>> import varmix
    >>> flights = TicketBook()
    >>> tickets = flights.issue(varmix.uniform(10, rng=0).draw(4))
    >>> [(flight, rows, places)] = flights.find(tickets[2:])
    >>> len(flight), rows, places
    (4, array([2, 3]), array([0, 1]))
    """

    def __init__(self, kept: int = MAX_RECEIPTS, rows: int = MAX_RECEIPT_ROWS) -> None:
        self._base = uuid.uuid4().int >> 66  # not from `rng`: buffers with one seed must refuse each other's rows
        self._next = self._base
        self._sampler_id: str | None = None  # of the last receipt
        self._kept, self._most, self._rows = kept, rows, 0
        self._flights: deque[OpenTicket] = deque()

    def issue(self, draw: Draw) -> IntArray:
        """Take a receipt in and give the tickets of its rows; when there are too many, the oldest is let go."""
        if draw.sampler_id != self._sampler_id:
            if self._sampler_id is not None:
                self._next += TICKET_GAP + (uuid.uuid4().int & (TICKET_GAP - 1))
            self._sampler_id = draw.sampler_id
        m, first = len(draw), self._next
        self._next, self._rows = first + m, self._rows + m  # first, so that an interrupt can leave only a gap
        self._flights.append(OpenTicket(first, draw.indices, np.full(m, MISSING_NORM), draw))
        while len(self._flights) > self._kept or (self._rows > self._most and len(self._flights) > 1):
            self._rows -= len(self._flights.popleft())
        return np.arange(first, first + m)

    def find(self, tickets: IntArray) -> list[tuple[OpenTicket, IntArray, IntArray]]:
        """Give the receipts of these tickets, each with its rows and with their places among the tickets."""
        found, left = [], np.arange(len(tickets))
        while len(left):
            flight = self._of(int(tickets[left[0]]))
            rows = tickets[left] - flight.first
            inside = (rows >= 0) & (rows < len(flight))
            found.append((flight, rows[inside], left[inside]))
            left = left[~inside]
        return found

    def _of(self, ticket: int) -> OpenTicket:
        i = bisect_right(self._flights, ticket, key=attrgetter("first")) - 1
        if i >= 0 and ticket - self._flights[i].first < len(self._flights[i]):
            return self._flights[i]
        if i < 0 and self._base <= ticket < self._next:
            raise ValueError(
                f"This receipt is not kept any more: {self._kept} batches or {self._most:,} rows have been sampled "
                f"since, or the buffer was emptied. Skip its feedback."
            )
        raise ValueError(
            "This receipt is of another buffer, or newer than the state that this one was loaded from: its "
            "probabilities mean nothing here. Give every batch back to the buffer that it was sampled from."
        )

    def newest(self, count: int) -> list[OpenTicket]:
        """Give the newest receipts, used or not."""
        return [self._flights[-1 - i] for i in range(min(count, len(self._flights)))]

    def clear(self) -> None:
        """Let go of all receipts; feedback for them is refused from now on."""
        self._flights.clear()
        self._rows = 0

    def state_dict(self, takes: Callable[[Draw], bool] = lambda draw: True) -> State:
        """Return all receipts as one table of rows, and one more of those that are still to be used.

        `takes` says of a receipt whether its sampler still accepts it; one that it does not counts as used.
        """
        draws = [flight.draw if flight.draw is not None and takes(flight.draw) else None for flight in self._flights]
        unused = [draw for draw in draws if draw is not None]
        serials = [-1 if draw is None else draw.serial for draw in draws]
        return {
            "base": self._base,
            "next": self._next,
            "firsts": np.array([flight.first for flight in self._flights], dtype=np.int64),
            "lengths": np.array([len(flight) for flight in self._flights], dtype=np.int64),
            "serials": np.array(serials, dtype=np.int64),
            "ids": _join_arrays([flight.ids for flight in self._flights], np.empty(0, np.int64)),
            "norms": _join_arrays([flight.norms for flight in self._flights], np.empty(0)),
            "density": _join_arrays([draw.density for draw in unused], np.empty(0)),
            "ratios": _join_arrays([draw.ratios for draw in unused], np.empty((0, 0))),
        }

    def load_state_dict(self, state: State, ledger: Ledger, k: int, items: int, largest: float = math.inf) -> None:
        """Resume with the saved receipts, after checking every entry.

        Parameters
        ----------
        ledger
            That of the sampler whose state is saved beside them: it must still accept those that are not used.
        k, items, largest
            Number of components, number of items that ever came, and the largest ratio that there can be.

        Raises
        ------
        CheckpointError
            If the state is damaged or of another sampler.  The receipts are then unchanged.
        """
        with wrap_load_errors("the receipts in flight"):
            require_entries(state, set(STATE_FIELDS), "the tickets")
            base, after, firsts, lengths = self._read_tickets(state)
            serials = _read_serials(state, len(firsts), ledger)
            rows, open_rows = int(lengths.sum()), int(lengths[serials >= 0].sum())
            ids = read_array(state, "ids", np.int64, (rows,), least=0, most=items - 1)
            norms = read_array(state, "norms", np.float64, (rows,), most=LARGEST_NORM)
            if (norms[norms != MISSING_NORM] < 0.0).any():
                raise CheckpointError(f"The saved receipts are damaged: a norm below 0 that is not {MISSING_NORM:g}.")
            density, ratios = _read_laws(state, open_rows, k, largest)
        flights, row, open_row = [], 0, 0
        for first, m, serial in zip(firsts.tolist(), lengths.tolist(), serials.tolist(), strict=True):
            mine, draw = ids[row : row + m].copy(), None
            if serial >= 0:
                opened = slice(open_row, open_row + m)
                law, rates = density[opened].copy(), ratios[opened].copy()
                draw, open_row = seal_draw(mine, 1.0 / law, rates, law, serial, ledger.sampler_id), open_row + m
            flights.append(OpenTicket(first, mine, norms[row : row + m].copy(), draw))
            row += m
        self._base, self._next, self._rows, self._sampler_id = base, after, row, ledger.sampler_id
        self._flights = deque(flights)

    def _read_tickets(self, state: State) -> tuple[int, int, IntArray, IntArray]:
        """Return the first and the next ticket, and the first ticket and the number of rows of every receipt."""
        base = read_count(state, "base", most=MAX_TICKET)
        after = read_count(state, "next", least=base, most=MAX_TICKET)
        number, rows = (np.size(state[name]) for name in ("firsts", "ids"))
        if number > self._kept or (rows > self._most and number != 1):
            raise CheckpointError(
                f"The saved receipts are damaged: {number:,} receipts of {rows:,} rows, where {self._kept:,} receipts "
                f"of {self._most:,} rows are kept at most."
            )
        firsts = read_array(state, "firsts", np.int64, (number,), least=base, most=after)
        lengths = read_array(state, "lengths", np.int64, (number,), least=1, most=rows)
        ends = firsts + lengths
        if (ends[:-1] > firsts[1:]).any() or (ends > after).any() or int(lengths.sum()) != rows:
            raise CheckpointError(
                f"The saved receipts are damaged: their tickets overlap, or their lengths do not sum to {rows} rows. "
                f"Use an older state."
            )
        return base, after, firsts, lengths


def _read_serials(state: State, number: int, ledger: Ledger) -> IntArray:
    """Return the serial of every receipt, -1 where it was used; those that were not must be accepted by the ledger."""
    serials = read_array(state, "serials", np.int64, (number,), least=-1)
    unused = serials[serials >= 0]
    if (np.diff(unused) <= 0).any():
        raise CheckpointError("The saved receipts are damaged: their serials do not ascend.")
    for serial in unused.tolist():
        ledger.check(serial, ledger.sampler_id)
    return serials


def _read_laws(state: State, rows: int, k: int, largest: float) -> tuple[FloatArray, FloatArray]:
    """Return the densities and ratios of rows that feedback is still to come for."""
    density = read_array(state, "density", np.float64, (rows,), least=MIN_DENSITY)
    if rows == 0 and np.shape(state["ratios"]) == (0, 0):
        return density, np.empty((0, k))
    ratios = read_array(state, "ratios", np.float64, (rows, k), least=0.0, most=largest)
    # A density is a mean of the ratios of its row, by the mixture that drew.
    low, high = ratios.min(axis=1, initial=math.inf), ratios.max(axis=1, initial=0.0)
    if (density < low * (1.0 - MAX_ROUNDING_ERROR)).any() or (density > high * (1.0 + MAX_ROUNDING_ERROR)).any():
        raise CheckpointError("The saved receipts are damaged: a density that is no mean of the ratios of its row.")
    return density, ratios


def _join_arrays(arrays: list[AnyArray], empty: AnyArray) -> AnyArray:
    return np.concatenate(arrays) if arrays else empty


MAX_RECENT_RECEIPTS = 16


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
        self._flights = TicketBook()
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

    def _tell(self, flight: OpenTicket, rows: IntArray, norms: FloatArray) -> None:
        told = np.full(len(flight), MISSING_NORM)
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
        recent = (flight for flight in self._flights.newest(MAX_RECENT_RECEIPTS) if flight.draw is not None)
        return any(np.array_equal(flight.ids % self.replay.capacity, slots) for flight in recent)

    def clear(self) -> None:
        """Forget all items and receipts; what the learner has learned stays."""
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
        with wrap_load_errors("a replay buffer's sampler"):
            require_entries(state, {"sampler", "receipts"}, "a SlotSampler")
            check_format(state["sampler"], "a Sampler")
            ledger, items = Ledger.loaded(state["sampler"]), read_count(state["sampler"]["components"], "total")
            flights, largest = TicketBook(), 2.0 * self.replay.capacity  # a ratio is at most the number of items
            flights.load_state_dict(state["receipts"], ledger, self.sampler.components.k, items, largest)
            self.sampler.load_state_dict(state["sampler"])
        self._flights = flights
