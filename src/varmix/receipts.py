"""Which receipts may come back, and which have."""

from collections.abc import Mapping

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


class PastIds:
    """The ids that a sampler had before it was loaded, each with the serial that it ended at.

    Loading is a fork in time.  Receipts drawn before the state was saved are taken by whoever loads it; those drawn
    after it, in a run that was given up, are not, however far the new run has got: its own draws have another id.
    """

    MOST = 64  # loads that are remembered: what is older has long been used or forgotten

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}

    def end(self, sampler_id: str, serial: int) -> None:
        """Say that draws from this serial on have another id."""
        self._ends[sampler_id] = serial
        while len(self._ends) > self.MOST:
            del self._ends[next(iter(self._ends))]

    def check(self, serial: int, sampler_id: str, present: str) -> None:
        """Refuse a receipt that was not drawn before an id had ended."""
        if sampler_id not in self._ends and sampler_id != present:
            raise ValueError(
                "This receipt is of another sampler, or of a run that was given up: its probabilities mean nothing "
                "here. Give every draw back to the sampler that made it (a loaded sampler takes the receipts that were "
                "drawn before the state was saved)."
            )
        if serial >= self._ends.get(sampler_id, 0):
            raise ValueError(
                f"Receipt {serial} was drawn after the state that this sampler was loaded from, by a run that was "
                f"given up. Drop the receipts that are newer than the checkpoint."
            )

    def state_dict(self) -> State:
        """Give the ids with their ends, the oldest first."""
        return dict(self._ends)

    def load_state_dict(self, state: State) -> None:
        """Take over a saved state."""
        if not isinstance(state, Mapping):
            raise ValueError(f"The saved ids are damaged: expected a dictionary, got {type(state).__name__}.")  # noqa: TRY004
        self._ends = {str(name): as_count(serial, "serial", least=0) for name, serial in state.items()}
