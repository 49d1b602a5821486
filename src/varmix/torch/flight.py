"""Flight: the receipts that were drawn and have not come to the user yet."""

from collections import deque
from typing import Any

import numpy as np

from varmix.arrays import State, as_count, require
from varmix.draw import Draw, seal

FIELDS = {"indices", "weights", "ratios", "density", "serial", "sampler_id", "groups"}
WAITING = 4096  # receipts that are kept for late feedback by number


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
        """A draw is on its way."""
        self._ahead.append(draw)

    def arrive(self) -> Draw:
        """Give the receipt of the batch that has come to the user."""
        return self._ahead.popleft()

    def find(self, serial: int) -> Draw:
        """Give the receipt with this number: it and all before it have come to the user."""
        if serial not in self._waiting and all(draw.serial != serial for draw in self._ahead):
            raise ValueError(
                f"draw_id {serial} is not in flight: its feedback was given already, it is more than {WAITING:,} "
                f"batches old, or it is of another sampler. Call update once for every batch, with the draw_id in it."
            )
        while self._ahead and self._ahead[0].serial <= serial:
            draw = self._ahead.popleft()
            self._waiting[draw.serial] = draw
        while len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]
        return self._waiting[serial]

    def settle(self, serial: int) -> None:
        """Forget a receipt: its feedback was taken."""
        self._waiting.pop(serial, None)

    def clear(self) -> None:
        """Forget what is ahead: nobody will get it any more."""
        self._ahead.clear()

    def state_dict(self) -> State:
        """Give what is ahead."""
        return {str(number): _saved(draw) for number, draw in enumerate(self._ahead)}

    @classmethod
    def loaded(cls, state: State) -> "Flight":
        """Give the flight that was saved, after checking it."""
        flight = cls()
        flight._ahead.extend(_restored(state[str(number)]) for number in range(len(state)))
        return flight


def _saved(draw: Draw) -> State:
    """Give a receipt as arrays and plain values."""
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in ((name, getattr(draw, name)) for name in sorted(FIELDS))
    }


def _restored(saved: dict[str, Any]) -> Draw:
    require(saved, FIELDS, "a receipt")
    floats = {name: np.array(saved[name], dtype=np.float64) for name in ("weights", "ratios", "density")}
    indices = np.array(saved["indices"], dtype=np.int64)
    groups = None if saved["groups"] is None else np.array(saved["groups"], dtype=np.int64)
    m = len(indices)
    shapes = {array.shape for array in (floats["weights"], floats["density"], indices)}
    if shapes != {(m,)} or floats["ratios"].shape[:1] != (m,) or (groups is not None and groups.shape != (m,)):
        raise ValueError(f"A saved receipt has arrays that do not fit {m} slots: the state is damaged.")
    return seal(
        indices,
        floats["weights"],
        floats["ratios"],
        floats["density"],
        as_count(saved["serial"], "serial", least=0),
        str(saved["sampler_id"]),
        groups,
    )
