"""Flight: the receipts that were drawn and have not come to the user yet."""

from collections import deque
from typing import Any
from zlib import crc32

import numpy as np

from varmix.arrays import State, as_count
from varmix.draw import Draw, Rows, seal
from varmix.states import require

FIELDS = {"indices", "weights", "density", "rows", "serial", "sampler_id"}
WAITING = 4096  # receipts that are kept for late feedback by number
SERIALS = 31  # bits of a number that are the draw's, behind those of its sampler


class Flight:
    """Receipts in the order in which they were drawn: first those ahead of the user, then those that wait for feedback.

    Workers fetch batches before the user asks for them, and batches come in the order of the draws.
    """

    def __init__(self) -> None:
        self._ahead: deque[Draw] = deque()
        self._waiting: dict[int, Draw] = {}

    @property
    def ahead(self) -> tuple[Draw, ...]:
        """What was drawn and has not come to the user, the oldest first."""
        return tuple(self._ahead)

    def leave(self, draw: Draw) -> None:
        """A draw is on its way; where nobody says what has arrived, what is long gone has."""
        self._ahead.append(draw)
        if len(self._ahead) > WAITING:
            self._wait(self._ahead.popleft())

    def arrive(self) -> Draw:
        """Give the receipt of the batch that has come to the user."""
        return self._ahead.popleft()

    def find(self, draw_id: int) -> Draw:
        """Give the receipt with this number: it and all before it have come to the user."""
        found = self._waiting.get(draw_id)
        if found is None:
            serial = draw_id & ((1 << SERIALS) - 1)
            found = next((draw for draw in self._ahead if draw.serial == serial and number(draw) == draw_id), None)
        if found is None:
            raise ValueError(
                f"draw_id {draw_id} is not in flight: its feedback was given already, it is more than {WAITING:,} "
                f"batches old, it is of another sampler, or of a run before a state was loaded. Call update once for "
                f"every batch, with the draw_id in it."
            )
        while self._ahead and self._ahead[0].serial <= found.serial:
            self._wait(self._ahead.popleft())
        return found

    def _wait(self, draw: Draw) -> None:
        self._waiting[number(draw)] = draw
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def settle(self, draw: Draw) -> None:
        """Forget a receipt: its feedback was taken."""
        if self._waiting:
            self._waiting.pop(number(draw), None)

    def clear(self) -> None:
        """Forget what is ahead: nobody will get it any more."""
        self._ahead.clear()

    def land(self) -> None:
        """Let all that is ahead wait for feedback: it may have come to the user, who has not said so yet."""
        while self._ahead:
            self._wait(self._ahead.popleft())

    def state_dict(self) -> State:
        """Give what is ahead."""
        return {str(place): _saved(draw) for place, draw in enumerate(self._ahead)}

    @classmethod
    def loaded(cls, state: State, rows: Rows | None = None, world: int = 1) -> "Flight":
        """Give the flight that was saved, after checking it; `rows` gives the ratios of groups.

        A batch is cut to what `world` processes can share out evenly, as a last one is when it is drawn.
        """
        flight = cls()
        for place in range(len(state)):
            draw = _restored(state[str(place)], rows)
            rest = len(draw) % world
            if rest < len(draw):
                flight._ahead.append(draw.part(slice(len(draw) - rest)) if rest else draw)
        return flight


def number(draw: Draw) -> int:
    """Give the number that a batch carries for its receipt; samplers do not take those of others for their own."""
    return crc32(draw.sampler_id.encode()) << SERIALS | draw.serial


def _saved(draw: Draw) -> State:
    """Give a receipt as arrays and plain values; where groups say all about ratios, without these."""
    arrays = {name: getattr(draw, name).copy() for name in ("indices", "weights", "density")}
    rows = draw.ratios if draw.groups is None else draw.groups
    return {**arrays, "rows": rows.copy(), "serial": draw.serial, "sampler_id": draw.sampler_id}


def _restored(saved: dict[str, Any], rows: Rows | None) -> Draw:
    require(saved, FIELDS, "a receipt")
    indices, weights, density = (np.array(saved[name]) for name in ("indices", "weights", "density"))
    which = np.array(saved["rows"])  # groups (m,), or ratios (m, k)
    m, disjoint = len(indices), which.ndim == 1
    if {indices.shape, weights.shape, density.shape, which.shape[:1]} != {(m,)} or disjoint != (rows is not None):
        raise ValueError(f"A saved receipt has arrays that do not fit {m} slots of these components: it is damaged.")
    serial = as_count(saved["serial"], "serial", least=0)
    ratios, groups = (rows, which) if disjoint and rows is not None else (which, None)
    return seal(indices, weights, ratios, density, serial, str(saved["sampler_id"]), groups)
