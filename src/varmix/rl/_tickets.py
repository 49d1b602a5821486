"""Tickets: one number per drawn row, with which late or partial feedback finds the receipt of its draw."""

import math
import uuid
from bisect import bisect_right
from collections import deque
from operator import attrgetter

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw, Ledger, seal_draw
from varmix._core.evidence import LARGEST_NORM
from varmix._core.state import CheckpointError, check_format, read_array, read_count, require_entries, wrap_load_errors
from varmix._core.validation import AnyArray, BoolArray, FloatArray, IntArray, State, as_atoms, as_vector
from varmix._sampler import Sampler
from varmix.components._receipts import check_density
from varmix.components._replay import Replay

STATE_FIELDS = "base", "next", "firsts", "lengths", "serials", "ids", "norms", "density", "ratios"
MAX_RECEIPTS, MAX_RECEIPT_ROWS = 4096, 1 << 18  # limits memory: a row with ten components takes a hundred bytes
TICKET_GAP = 1 << 40  # tickets, more than any run issues
MAX_TICKET = 2**63 - 2**50  # in a saved state: later tickets must still fit 64 bits
MISSING_NORM = -1.0  # marks a norm that has not been reported
MIN_DENSITY = float(np.finfo(np.float64).tiny)  # so that the weight 1 / density is finite
MAX_RECENT_RECEIPTS = 16


class TicketedReceipt:
    """A receipt with the ticket of its first row, and the norms that were reported so far.

    `draw` becomes None after `Sampler.update` has used it, which frees its ratios. `ids`, the items of the rows, stay,
    because later feedback for them still refreshes priorities.
    """

    __slots__ = ("draw", "first", "ids", "norms")

    def __init__(self, first: int, ids: IntArray, norms: FloatArray, draw: Draw | None) -> None:
        self.first, self.ids, self.norms, self.draw = first, ids, norms, draw

    def __len__(self) -> int:
        return len(self.ids)


class TicketBook:
    """Find the receipts of rows that were shuffled, split, or joined with rows of other draws.

    A ticket identifies a receipt and a row of it. The book keeps the newest receipts and the norms that were reported
    for them. Only the sampler's ledger decides whether a receipt may be used, through `Sampler.check` and, while a
    state is loaded, `Ledger.check`.

    Tickets are consecutive numbers from a random start, so they also distinguish buffers.  A sampler that was loaded,
    copied or forked draws under a new id. The book then skips more tickets than the other copy can have issued.

    Parameters
    ----------
    sampler : Sampler
        Sampler that makes the draws.
    max_receipts, max_rows : int
        Number of receipts, and of rows in them, that the book keeps.  It always keeps the newest receipt.

    Examples
    --------
    >>> import varmix
    >>> sampler = varmix.uniform(10, rng=0)
    >>> book = TicketBook(sampler)
    >>> tickets = book.issue(sampler.draw(4))
    >>> [(receipt, rows, places)] = book.find(tickets[2:])
    >>> len(receipt), rows, places
    (4, array([2, 3]), array([0, 1]))
    """

    def __init__(self, sampler: Sampler, max_receipts: int = MAX_RECEIPTS, max_rows: int = MAX_RECEIPT_ROWS) -> None:
        self._sampler = sampler
        self._base = uuid.uuid4().int >> 66  # not from `rng`: two buffers with one seed must not share tickets
        self._next = self._base
        self._sampler_id: str | None = None  # id under which the newest ticket was issued
        self._max_receipts, self._max_rows, self._rows = max_receipts, max_rows, 0
        self._receipts: deque[TicketedReceipt] = deque()

    def issue(self, draw: Draw) -> IntArray:
        """Add a receipt and return the tickets of its rows. Drop the oldest receipts if there are too many."""
        if draw.sampler_id != self._sampler_id:
            if self._sampler_id is not None:
                self._next += TICKET_GAP + (uuid.uuid4().int & (TICKET_GAP - 1))
            self._sampler_id = draw.sampler_id
        m, first = len(draw), self._next
        self._next, self._rows = first + m, self._rows + m  # before the append, so that an interrupt only leaves a gap
        self._receipts.append(TicketedReceipt(first, draw.indices, np.full(m, MISSING_NORM), draw))
        while len(self._receipts) > self._max_receipts or (self._rows > self._max_rows and len(self._receipts) > 1):
            self._rows -= len(self._receipts.popleft())
        return np.arange(first, first + m)

    def find(self, tickets: IntArray) -> list[tuple[TicketedReceipt, IntArray, IntArray]]:
        """Return the receipts of these tickets, each with its rows and with their places among the tickets."""
        found, left = [], np.arange(len(tickets))
        while len(left):
            receipt = self._find_one(int(tickets[left[0]]))
            rows = tickets[left] - receipt.first
            inside = (rows >= 0) & (rows < len(receipt))
            found.append((receipt, rows[inside], left[inside]))
            left = left[~inside]
        return found

    def _find_one(self, ticket: int) -> TicketedReceipt:
        i = bisect_right(self._receipts, ticket, key=attrgetter("first")) - 1
        if i >= 0 and ticket - self._receipts[i].first < len(self._receipts[i]):
            return self._receipts[i]
        if i < 0 and self._base <= ticket < self._next:
            raise ValueError(
                f"This receipt is no longer kept: {self._max_receipts} batches or {self._max_rows:,} rows have been "
                f"sampled since, or the buffer was emptied. Skip its feedback."
            )
        raise ValueError(
            "Unknown receipt: it was issued by another buffer, or by this one after the loaded state was saved. Pass "
            "feedback to the buffer that the batch was sampled from, and drop batches that are newer than the state."
        )

    def is_open(self, receipt: TicketedReceipt) -> bool:
        """Return whether the sampler still takes feedback for a receipt."""
        if receipt.draw is None:
            return False
        try:
            self._sampler.check(receipt.draw)
        except ValueError:
            return False
        return True

    def list_newest(self, count: int) -> list[TicketedReceipt]:
        """Return the newest receipts, the newest first, whether they were used or not."""
        return [self._receipts[-1 - i] for i in range(min(count, len(self._receipts)))]

    def clear(self) -> None:
        """Drop all receipts.  Feedback for them raises `ValueError` from now on."""
        self._receipts.clear()
        self._rows = 0

    def state_dict(self) -> State:
        """Return all receipts as one table of rows, with a second table for the rows of receipts in use."""
        draws = [receipt.draw if self.is_open(receipt) else None for receipt in self._receipts]
        unused = [draw for draw in draws if draw is not None]
        serials = [-1 if draw is None else draw.serial for draw in draws]
        return {
            "base": self._base,
            "next": self._next,
            "firsts": np.array([receipt.first for receipt in self._receipts], dtype=np.int64),
            "lengths": np.array([len(receipt) for receipt in self._receipts], dtype=np.int64),
            "serials": np.array(serials, dtype=np.int64),
            "ids": _join_arrays([receipt.ids for receipt in self._receipts], np.empty(0, np.int64)),
            "norms": _join_arrays([receipt.norms for receipt in self._receipts], np.empty(0)),
            "density": _join_arrays([draw.density for draw in unused], np.empty(0)),
            "ratios": _join_arrays([draw.ratios for draw in unused], np.empty((0, 0))),
        }

    def load_state_dict(self, state: State, ledger: Ledger, items: int, max_ratio: float = math.inf) -> None:
        """Resume with saved receipts, after checking every entry.

        Parameters
        ----------
        state : dict
            State that `state_dict` returned.
        ledger : Ledger
            Ledger of the sampler that was saved with the receipts. It must accept the unused ones.
        items : int
            Number of items that were ever inserted.
        max_ratio : float, default math.inf
            Largest density ratio that a row can have.

        Raises
        ------
        CheckpointError
            If the state is damaged or belongs to another sampler. The book is then unchanged.
        """
        with wrap_load_errors("the receipts in flight"):
            require_entries(state, set(STATE_FIELDS), "the tickets")
            base, after, firsts, lengths = self._read_tickets(state)
            serials = _read_serials(state, len(firsts), ledger)
            rows, open_rows = int(lengths.sum()), int(lengths[serials >= 0].sum())
            ids = read_array(state, "ids", np.int64, (rows,), least=0, most=items - 1)
            norms = read_array(state, "norms", np.float64, (rows,), most=LARGEST_NORM)
            if (norms[norms != MISSING_NORM] < 0.0).any():
                raise CheckpointError(
                    f"The saved receipts are damaged: a norm is negative. Only {MISSING_NORM:g} is allowed, for a norm "
                    f"that has not been reported."
                )
            density, ratios = _read_densities(state, open_rows, self._sampler.components.k, max_ratio)
        receipts, row, open_row = [], 0, 0
        for first, m, serial in zip(firsts.tolist(), lengths.tolist(), serials.tolist(), strict=True):
            own_ids, draw = ids[row : row + m].copy(), None
            if serial >= 0:
                opened = slice(open_row, open_row + m)
                own_density, own_ratios = density[opened].copy(), ratios[opened].copy()
                draw = seal_draw(own_ids, 1.0 / own_density, own_ratios, own_density, serial, ledger.sampler_id)
                open_row += m
            receipts.append(TicketedReceipt(first, own_ids, norms[row : row + m].copy(), draw))
            row += m
        self._base, self._next, self._rows, self._sampler_id = base, after, row, ledger.sampler_id
        self._receipts = deque(receipts)

    def _read_tickets(self, state: State) -> tuple[int, int, IntArray, IntArray]:
        """Return the first and the next ticket, and the first ticket and the number of rows of every receipt."""
        base = read_count(state, "base", most=MAX_TICKET)
        after = read_count(state, "next", least=base, most=MAX_TICKET)
        number, rows = (np.size(state[name]) for name in ("firsts", "ids"))
        if number > self._max_receipts or (rows > self._max_rows and number != 1):
            raise CheckpointError(
                f"The saved receipts are damaged: {number:,} receipts of {rows:,} rows, more than the limit of "
                f"{self._max_receipts:,} receipts of {self._max_rows:,} rows."
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
    """Return the serial of every receipt, or -1 if it was used. The ledger must accept the unused ones."""
    serials = read_array(state, "serials", np.int64, (number,), least=-1)
    unused = serials[serials >= 0]
    if (np.diff(unused) <= 0).any():
        raise CheckpointError("The saved receipts are damaged: their serial numbers must ascend.")
    for serial in unused.tolist():
        ledger.check(serial, ledger.sampler_id)
    return serials


def _read_densities(state: State, rows: int, k: int, max_ratio: float) -> tuple[FloatArray, FloatArray]:
    """Return the densities and the ratios of the rows of unused receipts."""
    density = read_array(state, "density", np.float64, (rows,), least=MIN_DENSITY)
    if rows == 0 and np.shape(state["ratios"]) == (0, 0):
        return density, np.empty((0, k))
    ratios = read_array(state, "ratios", np.float64, (rows, k), least=0.0, most=max_ratio)
    check_density(density, ratios.min(axis=1, initial=math.inf), ratios.max(axis=1, initial=0.0))
    return density, ratios


def _join_arrays(arrays: list[AnyArray], empty: AnyArray) -> AnyArray:
    return np.concatenate(arrays) if arrays else empty


class SlotSampler:
    """Draw slots of a storage that is written in round-robin order, and take feedback by tickets.

    Items are numbered in insertion order; item i is in slot `i % capacity`. The learner needs the norms of a whole
    batch, so it learns when the last row of a batch is reported. Until then, and when a row is reported again, feedback
    only refreshes |delta| of its items.

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
        self._book = TicketBook(sampler)
        self._empty_components = sampler.components.state_dict()

    def write(self, slots: IntArray) -> None:
        """Insert the items that were written to these slots.

        Raises
        ------
        ValueError
            If the slots are not the next ones in round-robin order.
        """
        space, capacity = self.replay.space, self.replay.capacity
        expected = (space.first + space.n + np.arange(len(slots))) % capacity
        if not np.array_equal(slots, expected):
            i = int(np.argmax(slots != expected))
            raise ValueError(
                f"Items must be written in round-robin order: the next one belongs in slot {expected[i]}, got "
                f"{slots[i]}. Use a RoundRobinWriter, and build the buffer with this sampler before its first item is "
                f"written."
            )
        if len(slots):
            self.replay.insert(len(slots))

    def draw(self, m: int) -> tuple[IntArray, FloatArray, IntArray]:
        """Return the slots of `m` items, their weights and their tickets."""
        draw = self.sampler.draw(m)
        return draw.indices % self.replay.capacity, draw.weights, self._book.issue(draw)

    def update(self, tickets: IntArray, norms: ArrayLike) -> None:
        """Learn from the norms of drawn rows. If a row is listed twice, the larger norm counts.

        Raises
        ------
        ValueError
            If a norm is negative or not finite, or a ticket is unknown or too old. Nothing has changed then.
        """
        values = as_vector(norms, "norms", len(tickets))
        if len(values) and not (values.min() >= 0.0 and values.max() <= LARGEST_NORM):
            raise ValueError(f"norms must lie in 0..{LARGEST_NORM:g}, got {values.min():.3g}..{values.max():.3g}.")
        for receipt, rows, places in self._book.find(tickets):  # finds all receipts before the first one changes
            self._add_norms(receipt, rows, values[places])

    def _add_norms(self, receipt: TicketedReceipt, rows: IntArray, norms: FloatArray) -> None:
        """Update the learner if these norms complete an unused receipt; otherwise refresh |delta| of their items."""
        new = np.full(len(receipt), MISSING_NORM)
        np.maximum.at(new, rows, norms)
        named = new >= 0.0
        known = np.where(named, new, receipt.norms)
        if receipt.draw is None or known.min() < 0.0:
            self.replay.set_delta(receipt.ids[named], new[named])
        else:
            self._teach(receipt.draw, known, named)  # raises ValueError if the ledger does not accept the receipt
            receipt.draw = None
        receipt.norms = known

    def _teach(self, draw: Draw, norms: FloatArray, named: BoolArray) -> None:
        """Update the sampler, but keep |delta| of items that this part does not list: it may be newer."""
        if named.all():
            self.sampler.update(draw, norms)
            return
        earlier = np.setdiff1d(draw.indices[~named], draw.indices[named])
        earlier = earlier[earlier >= self.replay.space.first]
        kept = self.replay.delta(earlier)
        self.sampler.update(draw, norms)
        self.replay.set_delta(earlier, kept)

    def refresh(self, slots: IntArray, delta: ArrayLike) -> None:
        """Set |delta| of the items that are in these slots now; the learner learns nothing."""
        self.replay.set_delta(self.find_items(slots), delta)

    def find_items(self, slots: IntArray) -> IntArray:
        """Return the numbers of the items that are in these slots now."""
        space = self.replay.space
        slots = as_atoms(slots, space.n, "slots")
        newest = space.first + space.n - 1
        return np.asarray(newest - (newest - slots) % self.replay.capacity)

    def awaits(self, slots: IntArray) -> bool:
        """Return whether a recent batch of exactly these slots still waits for feedback."""
        recent = self._book.list_newest(MAX_RECENT_RECEIPTS)
        waiting = (receipt.ids for receipt in recent if self._book.is_open(receipt))
        return any(np.array_equal(ids % self.replay.capacity, slots) for ids in waiting)

    def clear(self) -> None:
        """Drop all items and receipts; the learner keeps what it has learned."""
        self.sampler.load_state_dict(self.sampler.state_dict() | {"components": self._empty_components})
        self._book.clear()

    def state_dict(self) -> State:
        """Return the state of the sampler with its items, and the receipts in flight."""
        return {"sampler": self.sampler.state_dict(), "receipts": self._book.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Raises
        ------
        CheckpointError
            If the state is damaged, or belongs to another sampler or format. Nothing has changed then.
        """
        with wrap_load_errors("a replay buffer's sampler"):
            require_entries(state, {"sampler", "receipts"}, "a SlotSampler")
            check_format(state["sampler"], "a Sampler")
            ledger, items = Ledger.loaded(state["sampler"]), read_count(state["sampler"]["components"], "total")
            book, max_ratio = TicketBook(self.sampler), 2.0 * self.replay.capacity  # a ratio is at most the item count
            book.load_state_dict(state["receipts"], ledger, items, max_ratio)
            self.sampler.load_state_dict(state["sampler"])
        self._book = book
