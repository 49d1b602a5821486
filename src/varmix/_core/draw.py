"""Draw, the receipt of a batch, and the ledger that knows which receipts are still open."""

import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np

from varmix._core.state import CheckpointError, read_array, read_count, read_text, require_entries
from varmix._core.validation import FloatArray, IntArray, State

Rows: TypeAlias = Callable[[IntArray], FloatArray]
"""From groups (m,) to their rows of ratios (m, k)."""


class _Fields:
    """The fields of a receipt while it is being written."""

    __slots__ = ("_ratios", "complete", "density", "groups", "indices", "sampler_id", "serial", "weights")

    def __init__(
        self,
        indices: IntArray,
        weights: FloatArray,
        ratios: FloatArray | Rows,
        density: FloatArray,
        serial: int,
        sampler_id: str,
        groups: IntArray | None,
        complete: bool,
    ) -> None:
        self.indices = indices
        self.weights = weights
        self._ratios = ratios
        self.density = density
        self.serial = serial
        self.sampler_id = sampler_id
        self.groups = groups
        self.complete = complete


class Draw(_Fields):
    """What was drawn, and all that feedback needs to know about it later.

    Everything is as it was when drawn.  So feedback may come late, in any order, or never, and a probability is never
    taken for another draw's.  All arrays are read-only: write `scaled = draw.weights * x`, not `draw.weights *= x`, and
    `torch.tensor(draw.weights)`, which copies.

    Attributes
    ----------
    indices
        The atoms: (m,) points, or (m, size) subsets with their points in ascending order.
    weights
        Importance weights (m,): multiply the loss or gradient of slot r by `weights[r]` and take the mean.  With
        Horvitz-Thompson reweighting (m, size), one for every point of every set.
    ratios
        Density ratios q_j(a) = p_j(a) / u(a) of every component, (m, k).  Where the groups say all about them they are
        written when first asked for: of hundreds of groups they are most of the work of a draw.
    groups
        The group that each atom was drawn from, (m,), where components are disjoint groups; else None.
    density
        Density ratio d = w.q of the mixture that drew, (m,).
    serial
        Number of this draw in its sampler.
    sampler_id
        Which sampler drew.
    complete
        Whether it lists every atom once (`Sampler.draw_all`): then nothing was sampled.
    """

    __slots__ = ()

    def __init__(self, *fields: object) -> None:
        raise TypeError("Receipts are made by samplers: call Sampler.draw.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} is as it was when drawn.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} is as it was when drawn.")

    @property
    def ratios(self) -> FloatArray:
        """Density ratios of every component, (m, k)."""
        ratios = self._ratios
        if callable(ratios):
            ratios = ratios(self.groups)  # type: ignore[arg-type]
            ratios.setflags(write=False)
            object.__setattr__(self, "_ratios", ratios)
        return ratios

    def select(self, slots: slice) -> "Draw":
        """Give the receipt of some of the slots, for whoever has only these; it has the number of the whole."""
        ratios = self._ratios if callable(self._ratios) else self._ratios[slots].copy()
        groups = None if self.groups is None else self.groups[slots].copy()
        indices, weights, density = self.indices[slots].copy(), self.weights[slots].copy(), self.density[slots].copy()
        return seal_draw(indices, weights, ratios, density, self.serial, self.sampler_id, groups)

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Draw(serial={self.serial}, m={len(self)}, k={self.ratios.shape[1]})"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        arrays = self.indices, self.weights, self.ratios, self.density
        return seal_draw, (*arrays, self.serial, self.sampler_id, self.groups, self.complete)


def seal_draw(
    indices: IntArray,
    weights: FloatArray,
    ratios: FloatArray | Rows,
    density: FloatArray,
    serial: int,
    sampler_id: str,
    groups: IntArray | None = None,
    complete: bool = False,
) -> Draw:
    """Make a receipt; its arrays become read-only.

    With `groups`, ratios may be a function of them.  It must give the same rows at any later time.

    Writing the fields first and closing the object afterwards takes half the time of a frozen dataclass, which
    matters once per draw.
    """
    indices.setflags(write=False)
    weights.setflags(write=False)
    density.setflags(write=False)
    if groups is not None:
        groups.setflags(write=False)
    if not callable(ratios):
        ratios.setflags(write=False)
    fields = _Fields(indices, weights, ratios, density, serial, sampler_id, groups, complete)
    fields.__class__ = Draw
    return fields  # type: ignore[return-value]


MAX_RECEIPT_AGE = 1 << 14
HEX_DIGITS = frozenset("0123456789abcdef")

_forks = [0]  # how many forks lie between this process and the one that imported varmix


def _count_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_count_fork)


class UsedReceipts:
    """Remembers used serials exactly while they are at most `MAX_RECEIPT_AGE` behind the newest used one.

    Serials below `floor` cannot be told from used ones and are refused.  When all feedback comes back, in whatever
    order, only the floor is kept.
    """

    def __init__(self) -> None:
        self._floor = 0
        self._above: set[int] = set()

    def check(self, serial: int) -> None:
        """Raise `ValueError` if a serial was used, or is too old to know."""
        if serial < self._floor or serial in self._above:
            raise ValueError(
                f"Receipt {serial} has been used already, or is more than {MAX_RECEIPT_AGE} draws old. Feedback "
                f"counts once "
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
        if serial - self._floor > 2 * MAX_RECEIPT_AGE:  # skipped receipts hold the floor back: let go of the oldest
            self._floor = serial - MAX_RECEIPT_AGE
            self._above = {used for used in self._above if used >= self._floor}

    def state_dict(self) -> State:
        """Return the floor and the used serials above it."""
        return {"floor": self._floor, "above": np.array(sorted(self._above), dtype=np.int64)}

    @classmethod
    def loaded(cls, state: object, issued: int) -> "UsedReceipts":
        """Return what was saved, if it can be what a sampler that has issued so many receipts has seen."""
        require_entries(state, {"floor", "above"}, "the used receipts")
        assert isinstance(state, Mapping)
        used = cls()
        used._floor = read_count(state, "floor", most=issued)
        most = min(used._floor + 2 * MAX_RECEIPT_AGE, issued - 1)
        if isinstance(state["above"], np.ndarray) and state["above"].size > 2 * MAX_RECEIPT_AGE:
            raise CheckpointError(f"Saved above holds more than {2 * MAX_RECEIPT_AGE} used receipts.")
        above = read_array(state, "above", np.int64, (None,), least=used._floor, most=most)
        if (np.diff(above) <= 0).any():
            raise CheckpointError("Saved above must hold every used receipt once, in ascending order.")
        used._above = set(above.tolist())
        return used


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
        """Raise `ValueError` for a receipt that was not drawn before an id had ended."""
        if sampler_id not in self._ends and sampler_id != present:
            raise ValueError(
                "This receipt is of another sampler, or of a run that was given up: its probabilities mean nothing "
                "here. Give every draw back to the sampler that made it (a loaded sampler or a copy takes the receipts "
                "that were drawn before the state was saved or the copy made)."
            )
        if serial >= self._ends.get(sampler_id, 0):
            raise ValueError(
                f"Receipt {serial} was drawn after the state that this sampler was loaded or copied from, by a run "
                f"that was given up or by another copy. Drop the receipts that are newer than the checkpoint."
            )

    def state_dict(self) -> State:
        """Return the ids with their ends, the oldest first."""
        return dict(self._ends)

    @classmethod
    def loaded(cls, state: object, issued: int) -> "PastIds":
        """Return what was saved, if no id ended after what was issued."""
        if not isinstance(state, Mapping) or len(state) > cls.MOST:
            raise CheckpointError(f"Saved past must be a dictionary of at most {cls.MOST} ids.")
        past = cls()
        past._ends = {check_id(name): read_count(state, name, most=issued) for name in state}
        return past


def check_id(value: object) -> str:
    """Return the id of a sampler, or raise `CheckpointError` for anything else."""
    text = read_text({"sampler_id": value}, "sampler_id", longest=32)
    if len(text) != 32 or not HEX_DIGITS.issuperset(text):
        raise CheckpointError(f"Saved sampler_id must be 32 hexadecimal digits, got {text!a}.")
    return text


class Ledger:
    """The id of a sampler, the number of its draws, and which of them have come back.

    A sampler that was loaded, copied, unpickled or forked draws under a new id, so that no two samplers take each
    other's receipts.  All of them take those that were drawn before.

    Examples
    --------
    >>> ledger = Ledger()
    >>> serial = ledger.issue()
    >>> ledger.check(serial, ledger.sampler_id)
    >>> ledger.use(serial)
    >>> ledger.check(serial, ledger.sampler_id)
    Traceback (most recent call last):
        ...
    ValueError: Receipt 0 has been used already, ...
    """

    FIELDS = frozenset({"sampler_id", "serial", "used", "past"})

    __slots__ = ("_forks", "_past", "_shared", "_used", "sampler_id", "serial")

    def __init__(self) -> None:
        # Not from a seed: two samplers with one seed must still refuse each other's receipts.
        self.sampler_id = uuid.uuid4().hex
        #: Number of the next draw.
        self.serial = 0
        self._used, self._past = UsedReceipts(), PastIds()
        self._shared = False  # whether another sampler has this id too
        self._forks = _forks[0]

    def issue(self) -> int:
        """Return the serial of a new receipt; under an id that another sampler has too, take a new id first."""
        if self._shared or self._forks != _forks[0]:
            self._past.end(self.sampler_id, self.serial)
            self.sampler_id, self._shared, self._forks = uuid.uuid4().hex, False, _forks[0]
        serial = self.serial
        self.serial = serial + 1
        return serial

    def check(self, serial: int, sampler_id: str) -> None:
        """Raise `ValueError` if another sampler issued the receipt or it was already used."""
        if sampler_id != self.sampler_id or serial >= self.serial:
            self._past.check(serial, sampler_id, self.sampler_id)
        self._used.check(serial)

    def use(self, serial: int) -> None:
        """Remember that the feedback for a receipt has come."""
        self._used.add(serial)

    def state_dict(self) -> State:
        """Return the state needed to resume exactly."""
        used, past = self._used.state_dict(), self._past.state_dict()
        return {"sampler_id": self.sampler_id, "serial": self.serial, "used": used, "past": past}

    @classmethod
    def loaded(cls, state: Mapping[str, Any]) -> "Ledger":
        """Return the ledger that was saved, after checking it; other entries of the state do not matter."""
        ledger = cls()
        ledger.sampler_id = check_id(state["sampler_id"])
        ledger.serial = read_count(state, "serial")
        ledger._used = UsedReceipts.loaded(state["used"], ledger.serial)
        ledger._past = PastIds.loaded(state["past"], ledger.serial)
        if ledger.sampler_id in ledger._past.state_dict():
            raise CheckpointError("Saved sampler_id is one of the past ids.")
        ledger._shared = True
        return ledger

    def __getstate__(self) -> State:
        return self.state_dict()

    def __setstate__(self, state: State) -> None:
        other = Ledger.loaded(state)
        for name in Ledger.__slots__:
            setattr(self, name, getattr(other, name))
