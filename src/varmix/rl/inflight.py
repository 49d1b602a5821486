"""InFlight: receipts by the tickets that their rows travel with, until feedback comes back."""

import uuid
from bisect import bisect_right
from collections import deque
from operator import attrgetter

import numpy as np

from varmix.arrays import AnyArray, FloatArray, IntArray, State
from varmix.draw import Draw, seal
from varmix.states import require

KEPT, ROWS = 4096, 1 << 18  # receipts, and rows of them: a hundred bytes each with ten components
APART = 1 << 40  # tickets, more than any run issues
NOT_YET = -1.0  # in place of a norm


class Flight:
    """One receipt on its way: the ticket of its first row, and the norms that have come back so far.

    Once all have come the receipt itself is let go; the items of its rows stay known.
    """

    __slots__ = ("draw", "first", "ids", "norms")

    def __init__(self, first: int, ids: IntArray, norms: FloatArray, draw: Draw | None) -> None:
        self.first, self.ids, self.norms, self.draw = first, ids, norms, draw

    def __len__(self) -> int:
        return len(self.ids)


class InFlight:
    """The newest receipts, found by tickets: one number for every row, consecutive, from a random one on.

    A ticket alone says which sampler drew, which receipt and which row, so that it is all that has to travel with a
    row.  Rows may be split, shuffled or joined with those of other receipts.  The first ticket after loading is far
    from those that a run which was given up may have issued after the state was saved.

    Examples
    --------
    >>> import varmix
    >>> flights = InFlight()
    >>> tickets = flights.issue(varmix.uniform(10, rng=0).draw(4))
    >>> [(flight, rows, places)] = flights.find(tickets[2:])
    >>> len(flight), rows, places
    (4, array([2, 3]), array([0, 1]))
    """

    def __init__(self, kept: int = KEPT, rows: int = ROWS) -> None:
        self._base = uuid.uuid4().int >> 66  # not from `rng`: buffers with one seed must refuse each other's rows
        self._next = self._base
        self._loaded = False
        self._kept, self._most, self._rows = kept, rows, 0
        self._flights: deque[Flight] = deque()

    def issue(self, draw: Draw) -> IntArray:
        """Take a receipt in and give the tickets of its rows; when there are too many, the oldest is let go."""
        if self._loaded:
            self._next += APART + (uuid.uuid4().int & (APART - 1))
            self._loaded = False
        m, first = len(draw), self._next
        self._flights.append(Flight(first, draw.indices, np.full(m, NOT_YET), draw))
        self._next, self._rows = first + m, self._rows + m
        while len(self._flights) > self._kept or (self._rows > self._most and len(self._flights) > 1):
            self._rows -= len(self._flights.popleft())
        return np.arange(first, first + m)

    def find(self, tickets: IntArray) -> list[tuple[Flight, IntArray, IntArray]]:
        """Give the receipts of these tickets, each with its rows and with their places among the tickets."""
        found, left = [], np.arange(len(tickets))
        while len(left):
            flight = self._of(int(tickets[left[0]]))
            rows = tickets[left] - flight.first
            inside = (rows >= 0) & (rows < len(flight))
            found.append((flight, rows[inside], left[inside]))
            left = left[~inside]
        return found

    def _of(self, ticket: int) -> Flight:
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

    def newest(self, count: int) -> list[Flight]:
        """Give the newest receipts, used or not."""
        return [self._flights[-1 - i] for i in range(min(count, len(self._flights)))]

    def clear(self) -> None:
        """Let go of all receipts; feedback for them is refused from now on."""
        self._flights.clear()
        self._rows = 0

    def state_dict(self) -> State:
        """Give all receipts as one table of rows, and one more of those that are still to be used."""
        unused = [flight.draw for flight in self._flights if flight.draw is not None]
        serials = [-1 if flight.draw is None else flight.draw.serial for flight in self._flights]
        return {
            "base": self._base,
            "next": self._next,
            "firsts": np.array([flight.first for flight in self._flights], dtype=np.int64),
            "lengths": np.array([len(flight) for flight in self._flights], dtype=np.int64),
            "serials": np.array(serials, dtype=np.int64),
            "ids": _joined([flight.ids for flight in self._flights], np.empty(0, np.int64)),
            "norms": _joined([flight.norms for flight in self._flights], np.empty(0)),
            "density": _joined([draw.density for draw in unused], np.empty(0)),
            "ratios": _joined([draw.ratios for draw in unused], np.empty((0, 0))),
        }

    def load_state_dict(self, state: State, sampler_id: str) -> None:
        """Take over the receipts that the sampler of this id had given out."""
        require(state, set(self.state_dict()), "InFlight")
        if not _fit(state):
            raise ValueError("The saved receipts are damaged: their tables do not fit together. Use an older state.")
        flights, row, open_row = [], 0, 0
        heads = zip(*(np.asarray(state[name]).tolist() for name in ("firsts", "lengths", "serials")), strict=True)
        for first, m, serial in heads:
            ids, norms = (np.array(state[name][row : row + m]) for name in ("ids", "norms"))
            draw = None
            if serial >= 0:
                density, ratios = (np.array(state[name][open_row : open_row + m]) for name in ("density", "ratios"))
                draw, open_row = seal(ids, 1.0 / density, ratios, density, serial, sampler_id), open_row + m
            flights.append(Flight(first, ids, norms, draw))
            row += m
        self._base, self._next, self._rows, self._loaded = state["base"], state["next"], row, True
        self._flights = deque(flights)


def _fit(state: State) -> bool:
    """Whether the tables of a saved state fit together, and its tickets ascend."""
    base, after = state["base"], state["next"]
    firsts, lengths, serials = (np.asarray(state[name]) for name in ("firsts", "lengths", "serials"))
    if not (type(base) is int and type(after) is int and 0 <= base <= after < 2**63):
        return False
    if not (firsts.shape == lengths.shape == serials.shape and firsts.ndim == 1 and lengths.min(initial=1) >= 1):
        return False
    rows, open_rows = int(lengths.sum()), int(lengths[serials >= 0].sum())
    sizes = {"ids": rows, "norms": rows, "density": open_rows, "ratios": open_rows}
    if any(len(state[name]) != size for name, size in sizes.items()):
        return False
    ends = firsts + lengths
    return bool((firsts >= np.append(base, ends)[:-1]).all() and (ends <= np.append(firsts, after)[1:]).all())


def _joined(arrays: list[AnyArray], empty: AnyArray) -> AnyArray:
    return np.concatenate(arrays) if arrays else empty
