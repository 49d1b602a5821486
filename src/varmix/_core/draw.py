"""Draw, the receipt of a batch, and Ledger, which records the receipts that a sampler issued and those already used."""

import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np

from varmix._core.state import CheckpointError, read_array, read_count, read_text, require_entries
from varmix._core.validation import FloatArray, IntArray, State

Rows: TypeAlias = Callable[[IntArray], FloatArray]
"""Function from groups (m,) to their rows of ratios (m, k)."""


class _Fields:
    """Receipt with writable fields. `seal_draw` turns it into a `Draw`, whose fields are read-only."""

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
    """Batch with its receipt: the drawn atoms and their probabilities.

    `Sampler.draw` returns it; pass it to `Sampler.update` with the feedback. A receipt never changes, so feedback may
    come late, in any order, or not at all. All arrays are read-only: write `draw.weights * x`, not
    `draw.weights *= x`, and `torch.tensor(draw.weights)`, which copies.

    Parameters
    ----------
    *fields
        Not for users: only samplers make receipts.

    Attributes
    ----------
    indices : integer array of shape (m,) or (m, size)
        The atoms: points, or sets with their points in ascending order.
    weights : array of shape (m,) or (m, size)
        Importance weights. Multiply the loss or gradient of slot r by `weights[r]` and take the mean. With a
        reweighting by point, every point of every set has its own weight.
    ratios : array of shape (m, k)
        Density ratios q_j(a) = p_j(a) / u(a) under every component. For disjoint groups they are computed when they
        are first read, because with hundreds of groups they would take most of the time of a draw.
    groups : integer array of shape (m,), or None
        The group of each atom if the components are disjoint groups, otherwise None.
    density : array of shape (m,)
        Density ratio d = w.q of the mixture that was drawn from.
    serial : int
        Number of this draw in its sampler.
    sampler_id : str
        Identifies the sampler.
    complete : bool
        Whether the receipt lists every atom once (`Sampler.draw_all`) instead of a sample.

    Raises
    ------
    TypeError
        Always: call `Sampler.draw`.

    Examples
    --------
    >>> import varmix
    >>> draw = varmix.Sampler(["cat", "dog", "dog"], rng=0).draw(3)
    >>> sorted(draw.indices.tolist()), draw.weights.tolist(), draw.ratios.shape
    ([0, 1, 2], [1.0, 1.0, 1.0], (3, 3))
    """

    __slots__ = ()

    def __init__(self, *fields: object) -> None:
        raise TypeError("Only samplers make receipts: call Sampler.draw.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} stays as it was when drawn.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} stays as it was when drawn.")

    @property
    def ratios(self) -> FloatArray:
        """Density ratios under every component, (m, k)."""
        ratios = self._ratios
        if callable(ratios):
            ratios = ratios(self.groups)  # type: ignore[arg-type]
            ratios.setflags(write=False)
            object.__setattr__(self, "_ratios", ratios)
        return ratios

    def select(self, slots: slice) -> "Draw":
        """Return a receipt for a part of the slots. It keeps the serial number of the whole draw.

        Parameters
        ----------
        slots : slice
            The slots.

        Returns
        -------
        Draw
            The receipt, with copies of the arrays.
        """
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
    """Return a receipt; its arrays become read-only.

    `ratios` may be a function of `groups` that always returns the same rows.

    The fields are written to a mutable object, which then becomes a `Draw`. Calling `object.__setattr__` on a `Draw`
    would take 1.5 times as long (`python scripts/bench_receipts.py`).
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

_forks = [0]  # number of forks between this process and the one that imported varmix


def _count_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_count_fork)


class UsedReceipts:
    """The serials of used receipts.

    Serials are tracked exactly if they are at most `MAX_RECEIPT_AGE` behind the newest used one. All serials below
    `floor` count as used. Once every draw has had its feedback, in any order, only the floor is stored.
    """

    def __init__(self) -> None:
        self._floor = 0
        self._above: set[int] = set()

    def check(self, serial: int) -> None:
        """Raise `ValueError` if a serial was used, or is too old to be tracked."""
        if serial < self._floor or serial in self._above:
            raise ValueError(
                f"Receipt {serial} was used already, or is more than {MAX_RECEIPT_AGE} draws old. Call update once for "
                f"every receipt."
            )

    def add(self, serial: int) -> None:
        """Mark a serial as used."""
        if serial == self._floor and not self._above:
            self._floor = serial + 1
            return
        self._above.add(serial)
        while self._floor in self._above:
            self._above.remove(self._floor)
            self._floor += 1
        if serial - self._floor > 2 * MAX_RECEIPT_AGE:  # unused receipts keep the floor low: forget the oldest
            self._floor = serial - MAX_RECEIPT_AGE
            self._above = {used for used in self._above if used >= self._floor}

    def state_dict(self) -> State:
        """Return the floor and the used serials above it."""
        return {"floor": self._floor, "above": np.array(sorted(self._above), dtype=np.int64)}

    @classmethod
    def loaded(cls, state: object, issued: int) -> "UsedReceipts":
        """Return the saved object, or raise `CheckpointError` if it does not fit the number of `issued` receipts."""
        require_entries(state, {"floor", "above"}, "the used receipts")
        assert isinstance(state, Mapping)
        used = cls()
        used._floor = read_count(state, "floor", most=issued)
        most = min(used._floor + 2 * MAX_RECEIPT_AGE, issued - 1)
        if isinstance(state["above"], np.ndarray) and state["above"].size > 2 * MAX_RECEIPT_AGE:
            raise CheckpointError(f"Saved above holds more than {2 * MAX_RECEIPT_AGE} used receipts.")
        above = read_array(state, "above", np.int64, (None,), least=used._floor, most=most)
        if (np.diff(above) <= 0).any():
            raise CheckpointError("Saved above must list every used receipt once, in ascending order.")
        used._above = set(above.tolist())
        return used


class PastIds:
    """The ids that a sampler had before it was loaded or copied, each with the serial at which it ended.

    A loaded sampler accepts receipts that were drawn before its state was saved. It rejects receipts that an abandoned
    run drew after that. Its own draws get a new id, because serials alone cannot distinguish them from those.
    """

    MOST = 64  # number of ids kept; receipts with older ids were used or forgotten long ago

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}

    def end(self, sampler_id: str, serial: int) -> None:
        """Record that draws from this serial on no longer have this id."""
        self._ends[sampler_id] = serial
        while len(self._ends) > self.MOST:
            del self._ends[next(iter(self._ends))]

    def check(self, serial: int, sampler_id: str, present: str) -> None:
        """Raise `ValueError` if the id of a receipt is unknown, or ended before the receipt was drawn."""
        if sampler_id not in self._ends and sampler_id != present:
            raise ValueError(
                "This receipt was issued by another sampler, or by an abandoned run, so its probabilities are "
                "wrong here. Pass every draw to the sampler that made it. (A loaded or copied sampler also accepts "
                "receipts that were drawn before the state was saved or the copy made.)"
            )
        if serial >= self._ends.get(sampler_id, 0):
            raise ValueError(
                f"Receipt {serial} was drawn by an abandoned run, or by another copy of this sampler. Drop "
                f"receipts that are newer than the checkpoint or the copy."
            )

    def state_dict(self) -> State:
        """Return the ids with their ends, oldest first."""
        return dict(self._ends)

    @classmethod
    def loaded(cls, state: object, issued: int) -> "PastIds":
        """Return the saved object, or raise `CheckpointError` if an id ended after the last receipt."""
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
    """The id of a sampler, the number of its draws, and which receipts were used.

    A sampler that was loaded, copied, unpickled or forked draws under a new id, so that no two samplers accept each
    other's receipts. All of them accept receipts that were drawn before.

    Examples
    --------
    >>> ledger = Ledger()
    >>> serial = ledger.issue()
    >>> ledger.check(serial, ledger.sampler_id)
    >>> ledger.use(serial)
    >>> ledger.check(serial, ledger.sampler_id)
    Traceback (most recent call last):
        ...
    ValueError: Receipt 0 was used already, ...
    """

    FIELDS = frozenset({"sampler_id", "serial", "used", "past"})

    __slots__ = ("_forks", "_past", "_shared", "_used", "sampler_id", "serial")

    def __init__(self) -> None:
        # Not derived from the seed: samplers with equal seeds must reject each other's receipts.
        self.sampler_id = uuid.uuid4().hex
        #: Number of the next draw.
        self.serial = 0
        self._used, self._past = UsedReceipts(), PastIds()
        self._shared = False  # whether another sampler may have this id too
        self._forks = _forks[0]

    def issue(self) -> int:
        """Return the serial of a new receipt. Take a new id first if another sampler may have the present one."""
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
        """Mark a receipt as used."""
        self._used.add(serial)

    def state_dict(self) -> State:
        """Return the state needed to resume exactly."""
        used, past = self._used.state_dict(), self._past.state_dict()
        return {"sampler_id": self.sampler_id, "serial": self.serial, "used": used, "past": past}

    @classmethod
    def loaded(cls, state: Mapping[str, Any]) -> "Ledger":
        """Return the ledger in the state of a sampler, after checking it."""
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
