"""Which receipts have come back."""

import numpy as np

from varmix.arrays import State, as_count, require

WINDOW = 1 << 14


class UsedReceipts:
    """Remembers used serials exactly while they are at most `WINDOW` behind the newest used one.

    Serials below `floor` cannot be told from used ones and are refused.  When all feedback comes back, in whatever
    order, only the floor is kept.
    """

    def __init__(self) -> None:
        self._floor = 0
        self._above: set[int] = set()

    def check(self, serial: int) -> None:
        """Refuse a serial that was used, or is too old to know."""
        if serial < self._floor or serial in self._above:
            raise ValueError(
                f"Receipt {serial} has been used already, or is more than {WINDOW} draws old. Feedback counts once "
                f"per draw: call update once for every receipt."
            )

    def add(self, serial: int) -> None:
        """Remember that a serial was used."""
        if serial == self._floor and not self._above:
            self._floor = serial + 1
            return
        self._above.add(serial)
        while self._floor in self._above:
            self._above.remove(self._floor)
            self._floor += 1
        if serial - self._floor > 2 * WINDOW:  # skipped receipts hold the floor back: let go of the oldest
            self._floor = serial - WINDOW
            self._above = {used for used in self._above if used >= self._floor}

    def state_dict(self) -> State:
        """Give the floor and the used serials above it."""
        return {"floor": self._floor, "above": np.array(sorted(self._above), dtype=np.int64)}

    def load_state_dict(self, state: State) -> None:
        """Take over a saved state."""
        require(state, {"floor", "above"}, "UsedReceipts")
        floor = as_count(state["floor"], "floor", least=0)
        above = np.asarray(state["above"])
        if above.ndim != 1 or above.dtype != np.int64:
            raise ValueError("The saved receipts are damaged: expected serial numbers in one dimension.")
        self._floor, self._above = floor, set(above.tolist())
