"""InFlight: receipts by the tickets that their rows travel with, until feedback comes back."""

import uuid
from bisect import bisect_right
from collections import deque
from operator import attrgetter

import numpy as np

from varmix.arrays import AnyArray, FloatArray, IntArray, State, as_count, require
from varmix.draw import Draw, seal

KEPT = 4096
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
    row.  Rows may be split, shuffled or joined with those of other receipts.

    Examples
    --------
    >>> import varmix
    >>> flights = InFlight()
    >>> tickets = flights.issue(varmix.uniform(10, rng=0).draw(4))
    >>> [(flight, rows, places)] = flights.find(tickets[2:])
    >>> len(flight), rows, places
    (4, array([2, 3]), array([0, 1]))
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._base = uuid.uuid4().int >> 66  # not from `rng`: buffers with one seed must refuse each other's rows
        self._issued = 0
        self._flights: deque[Flight] = deque(maxlen=kept)

    def issue(self, draw: Draw) -> IntArray:
        """Take a receipt in and give the tickets of its rows; when there are too many, the oldest is let go."""
        m, first = len(draw), self._base + self._issued
        self._flights.append(Flight(first, draw.indices, np.full(m, NOT_YET), draw))
        self._issued += m
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
        if not 0 <= ticket - self._base < self._issued:
            raise ValueError(
                "This receipt is of another buffer, or newer than the state that this one was loaded from: its "
                "probabilities mean nothing here. Give every batch back to the buffer that it was sampled from."
            )
        i = bisect_right(self._flights, ticket, key=attrgetter("first")) - 1
        if i < 0:
            raise ValueError(
                f"This receipt is not kept any more: {self._flights.maxlen} batches have been sampled since, or the "
                f"buffer was emptied. Skip its feedback."
            )
        return self._flights[i]

    def newest(self, count: int) -> list[Flight]:
        """Give the newest receipts, used or not."""
        return [self._flights[-1 - i] for i in range(min(count, len(self._flights)))]

    def clear(self) -> None:
        """Let go of all receipts; feedback for them is refused from now on."""
        self._flights.clear()

    def state_dict(self) -> State:
        """Give all receipts as one table of rows, and one more of those that are still to be used."""
        unused = [flight.draw for flight in self._flights if flight.draw is not None]
        serials = [-1 if flight.draw is None else flight.draw.serial for flight in self._flights]
        return {
            "base": self._base,
            "issued": self._issued,
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
        base, issued = as_count(state["base"], "base", least=0), as_count(state["issued"], "issued", least=0)
        lengths, serials = np.asarray(state["lengths"]), np.asarray(state["serials"])
        rows, open_rows = int(lengths.sum()), int(lengths[serials >= 0].sum()) if lengths.shape == serials.shape else -1
        sizes = {"ids": rows, "norms": rows, "density": open_rows, "ratios": open_rows}
        if lengths.min(initial=1) < 1 or rows > issued or any(len(state[name]) != size for name, size in sizes.items()):
            raise ValueError("The saved receipts are damaged: their tables do not fit together. Use an older state.")
        flights, row, open_row = [], 0, 0
        for m, serial in zip(lengths.tolist(), serials.tolist(), strict=True):
            ids, norms = (np.array(state[name][row : row + m]) for name in ("ids", "norms"))
            draw = None
            if serial >= 0:
                density, ratios = (np.array(state[name][open_row : open_row + m]) for name in ("density", "ratios"))
                draw, open_row = seal(ids, 1.0 / density, ratios, density, serial, sampler_id), open_row + m
            flights.append(Flight(base + issued - rows + row, ids, norms, draw))
            row += m
        self._base, self._issued = base, issued
        self._flights = deque(flights, maxlen=self._flights.maxlen)


def _joined(arrays: list[AnyArray], empty: AnyArray) -> AnyArray:
    return np.concatenate(arrays) if arrays else empty
