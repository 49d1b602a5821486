"""Replay: items of a replay buffer, with several settings of prioritised replay over one table of priorities."""

from collections.abc import Sequence
from copy import copy
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.allocation import Allocation
from varmix._core.draw import Draw
from varmix._core.rng import Uniforms
from varmix._core.spaces import Window
from varmix._core.state import (
    CheckpointError,
    make_printable,
    read_array,
    read_count,
    read_flag,
    require_entries,
    wrap_load_errors,
)
from varmix._core.validation import (
    AnyArray,
    FloatArray,
    IntArray,
    State,
    as_atoms,
    as_count,
    as_floats,
    as_number,
    same,
)
from varmix.components import _replay_kernels as kernels
from varmix.components._base import Family, Sample
from varmix.components._replay_kernels import (
    BUCKET_COUNT,
    BUCKETS_PER_OCTAVE,
    CHUNK_BITS,
    OCTAVES_BELOW_ONE,
    PAGE_BITS,
    Buckets,
    buckets_of,
)

#: Magnitude that all items of a bucket count with: the middle of the bucket on a logarithmic scale.
BUCKET_MAGNITUDES: FloatArray = 2.0 ** ((np.arange(BUCKET_COUNT) + 0.5) / BUCKETS_PER_OCTAVE - OCTAVES_BELOW_ONE)
MAX_ITEM_NUMBER = 2**60  # in a saved state: later numbers must still fit 64 bits
UNIT_BUCKET = OCTAVES_BELOW_ONE * BUCKETS_PER_OCTAVE  # the bucket of magnitude 1


def empty_buckets(capacity: int) -> Buckets:
    """Return empty lists with room for `capacity` items in any distribution over buckets.

    They take 15 to 17 bytes per item if there is room for at least a hundred thousand items.
    """
    chunks = min(capacity, (capacity >> CHUNK_BITS) + BUCKET_COUNT)  # the last chunk of every bucket may be partly full
    pages = min(chunks, (chunks >> PAGE_BITS) + BUCKET_COUNT)
    return Buckets(
        place=np.zeros((capacity, 2), dtype=np.int32),
        counts=np.zeros(BUCKET_COUNT, dtype=np.int64),
        directory=np.zeros((BUCKET_COUNT, (capacity >> (CHUNK_BITS + PAGE_BITS)) + 1), dtype=np.int32),
        pages=_link_rows(pages, 1 << PAGE_BITS),
        chunks=_link_rows(chunks, 1 << CHUNK_BITS),
        free=np.zeros(2, dtype=np.int64),
    )


def _link_rows(number: int, width: int) -> AnyArray:
    """Return free rows, each with the number of the next free row in its first entry."""
    rows = np.empty((number, width), dtype=np.int32)
    rows[:, 0] = np.arange(1, number + 1)
    return rows


class PriorityBuckets:
    """The newest `capacity` items, in lists by the bucket of their priority.

    Items are numbered in insertion order; item i is in slot `i % capacity`.

    Attributes
    ----------
    lists : Buckets
        Slots by bucket.
    overwritten : int
        Number of errors reported for items that had been overwritten.
    top : int
        Largest bucket that was ever reported, or the bucket of 1 before any report.
    """

    FIELDS = frozenset({"buckets", "positions", "total", "gone", "top", "seen"})

    __slots__ = ("_seen", "_total", "lists", "overwritten", "top")

    def __init__(self, capacity: int) -> None:
        self.lists = empty_buckets(capacity)
        self._total = np.zeros(1, dtype=np.int64)  # an array, so that the kernel can count it up
        self.overwritten = 0
        self.top = UNIT_BUCKET
        self._seen = False  # whether any error was reported

    @property
    def total(self) -> int:
        """Number of items that were ever inserted."""
        return self._total.item()

    def __len__(self) -> int:
        return min(self.total, len(self.lists.place))

    @property
    def first(self) -> int:
        """Number of the oldest item that is still there."""
        return self.total - len(self)

    def insert(self, buckets: IntArray) -> None:
        """Insert new items, which overwrite the oldest when all slots are taken."""
        kernels.insert_items(self.lists, self._total, buckets)

    def move(self, atoms: IntArray, buckets: IntArray) -> None:
        """Move items to other buckets, and count the items that have been overwritten."""
        self.overwritten += kernels.move_items(self.lists, self.total, atoms, buckets)

    def note_top(self, buckets: IntArray) -> None:
        """Remember the largest reported bucket."""
        if len(buckets):
            top = int(buckets.max())
            self.top = max(self.top, top) if self._seen else top
            self._seen = True

    def state_dict(self) -> State:
        """Return bucket and position of every item, by slot: 6 bytes per item."""
        place = self.lists.place[: len(self)]
        return {
            "buckets": place[:, 0].astype(np.int16),
            "positions": place[:, 1].copy(),
            "total": self.total,
            "gone": self.overwritten,
            "top": self.top,
            "seen": self._seen,
        }

    @classmethod
    def from_state(cls, state: State, capacity: int) -> "PriorityBuckets":
        """Return the buckets of a saved state, in an order that makes later draws the same."""
        ring = cls(capacity)
        ring._total[0], ring.overwritten = read_count(state, "total", most=MAX_ITEM_NUMBER), read_count(state, "gone")
        ring.top, ring._seen = read_count(state, "top", most=BUCKET_COUNT - 1), read_flag(state, "seen")
        n, highest = len(ring), max(ring.top, UNIT_BUCKET)  # items are in the bucket of 1 before any report
        buckets = read_array(state, "buckets", np.int16, (n,), least=0, most=highest)
        positions = read_array(state, "positions", np.int32, (n,), least=0, most=n)
        slots = np.lexsort((positions, buckets))
        if not _are_consecutive(buckets[slots], positions[slots]):
            raise CheckpointError(
                "The saved state of a Replay is damaged: positions in its buckets are missing or repeated."
            )
        if not ring._seen and (ring.top != UNIT_BUCKET or (buckets != UNIT_BUCKET).any()):
            raise CheckpointError(
                "The saved state of a Replay is damaged: it has priorities, but no error was ever reported."
            )
        kernels.fill_buckets(ring.lists, slots, buckets[slots].astype(np.int64))
        return ring


def _are_consecutive(buckets: AnyArray, positions: AnyArray) -> bool:
    """Return whether positions count up from zero in every bucket. Both arrays are sorted by bucket, then position."""
    counts = np.bincount(buckets, minlength=BUCKET_COUNT)
    starts = np.cumsum(counts) - counts
    return bool((positions == np.arange(len(buckets)) - starts[buckets]).all())


#: The nine pairs (epsilon, alpha) of section 6.3 of the paper.
PAPER_SETTINGS = tuple((epsilon, alpha) for epsilon in (0.01, 0.1, 1.0) for alpha in (0.1, 0.5, 0.9))

MAX_ALPHA, MAX_EPSILON = 10.0, 1e12  # so that no power overflows double precision
MAX_ITEMS = 2**31 - 1  # slot numbers have 32 bits


@final
class Replay(Family):
    """Items of a replay buffer, with one component per setting of prioritised replay.

    Component j draws item i in proportion to `(|delta_i| + epsilon_j)**alpha_j`, where `delta_i` is the latest TD error
    of the item.  Call `insert` when items are written.  A sampler reports TD errors through `observe`; without a
    sampler call `set_delta`.  `with_uniform`, which `varmix.Sampler` and `varmix.vrm` call, adds the uniform component
    to the same items.

    The buffer grows to `capacity`; then new items overwrite the oldest. Items are numbered in insertion order, and a
    number is never reused. Store item i in row `i % capacity` of your own storage. An error that is reported for an
    overwritten item changes no item; `overwritten` counts it.

    Parameters
    ----------
    capacity : int
        Largest number of items.
    settings : sequence of (float, float), optional
        Pairs (epsilon, alpha), with epsilon from 0 to 1e12 and alpha from 0 to 10. Default: the nine settings of the
        paper.

    Raises
    ------
    TypeError
        If settings are not pairs.
    ValueError
        If the capacity is too large, or a setting is out of range.

    Notes
    -----
    All settings share one table. It rounds `|delta|` to an eighth of an octave between 1e-12 and 1e12, which is within
    4.5 % of the reported value, and clips values outside this range. Draws and ratios use the same rounded values, so
    weights are exact. The time to insert an item or to report an error does not depend on the number of items, and
    rounding errors do not add up. With a capacity of a hundred thousand or more, an item takes 15 to 17 bytes for any
    number of settings. Another quarter of a megabyte does not depend on the capacity.

    Examples
    --------
    >>> from varmix import vrm
    >>> replay = Replay(capacity=1000)
    >>> sampler = vrm(replay, rng=0)
    >>> replay.insert(3)
    array([0, 1, 2])
    >>> replay.set_delta([0, 1, 2], [0.1, -2.0, 0.5])
    >>> replay.delta([0, 1, 2]).round(2)
    array([0.1 , 2.09, 0.52])
    >>> draw = sampler.draw(64)
    >>> sampler.update(draw, norms=np.full(64, 0.3))
    >>> replay.delta(draw.indices[:2]).round(2)
    array([0.31, 0.31])
    """

    def __init__(self, capacity: int, settings: Sequence[tuple[float, float]] = PAPER_SETTINGS) -> None:
        self._capacity = as_count(capacity, "capacity")
        if self._capacity > MAX_ITEMS:
            raise ValueError(f"capacity must be at most {MAX_ITEMS:,}, got {capacity:,}.")
        self._settings = _as_settings(settings)
        epsilons, alphas = np.array(self._settings).T
        self._values: FloatArray = (BUCKET_MAGNITUDES[:, None] + epsilons) ** alphas
        # One ring. It is in a list that `with_uniform` shares, so that both use the new ring after a load.
        self._rings = [PriorityBuckets(self._capacity)]
        self.k = len(self._settings)
        self._has_uniform = False

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the uniform component."""
        return self._has_uniform

    @property
    def names(self) -> list[str]:
        """Name of every component, with its epsilon and alpha."""
        names = [f"epsilon {epsilon:g}, alpha {alpha:g}" for epsilon, alpha in self._settings]
        return [*names, "uniform"] if self._has_uniform else names

    @property
    def capacity(self) -> int:
        """Largest number of items."""
        return self._capacity

    @property
    def settings(self) -> tuple[tuple[float, float], ...]:
        """Epsilon and alpha of every component except the uniform one."""
        return self._settings

    @property
    def inserted(self) -> int:
        """Number of items that were ever inserted, which is the number of the next item."""
        return self._rings[0].total

    @property
    def overwritten(self) -> int:
        """Number of TD errors reported for items that had been overwritten."""
        return self._rings[0].overwritten

    @property
    def space(self) -> Window:  # type: ignore[override]
        """Items that are in the buffer now."""
        ring = self._rings[0]
        return Window(len(ring), ring.first)

    @property
    def c(self) -> float:  # type: ignore[override]
        """Largest density ratio at present."""
        counts = self._rings[0].lists.counts
        taken = np.flatnonzero(counts)
        largest = len(self) * self._values[taken].max(axis=0, initial=0.0)
        return float(max((largest / (counts[taken] @ self._values[taken])).max(), 1.0)) if len(taken) else 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of the table, which is allocated at the start. Settings take little more."""
        return sum(array.nbytes for array in self._rings[0].lists)

    def __len__(self) -> int:
        return len(self._rings[0])

    def with_uniform(self) -> "Replay":
        """Return a family with the uniform component as the last one.

        Returns
        -------
        Replay
            A family that shares its items with this one.
        """
        family = copy(self)
        family.k, family._has_uniform = len(self._settings) + 1, True
        return family

    def insert(self, count: int, delta: ArrayLike | None = None) -> IntArray:
        """Insert new items.  When the buffer is full they overwrite the oldest.

        Parameters
        ----------
        count : int
            Number of new items.
        delta : array-like of shape (count,), optional
            TD errors of the items, of any sign. Default: the largest one that was ever reported, so that the items are
            likely to be drawn soon.

        Returns
        -------
        array of shape (count,), int64
            Numbers of the new items.
        """
        count = as_count(count, "count")
        ring = self._rings[0]
        if delta is None:
            buckets = np.full(count, ring.top)
        else:
            buckets = _as_buckets(delta, count)
            ring.note_top(buckets)
        ring.insert(buckets)
        total = ring.total
        return np.arange(total - count, total)

    def set_delta(self, ids: ArrayLike, delta: ArrayLike) -> None:
        """Set the TD errors of items.

        Parameters
        ----------
        ids : array-like of shape (m,), int
            Numbers of items. If an item is listed twice, its last error counts. Overwritten items only count in
            `overwritten`.
        delta : array-like of shape (m,)
            TD errors, of any sign.
        """
        ring = self._rings[0]
        atoms = as_atoms(ids, ring.total, "ids")
        buckets = _as_buckets(delta, len(atoms))
        ring.note_top(buckets)
        ring.move(atoms, buckets)

    def slots(self, ids: ArrayLike) -> IntArray:
        """Return the rows of items in a storage that is written in round-robin order.

        Parameters
        ----------
        ids : array-like of shape (m,), int
            Numbers of items that have not been overwritten.

        Returns
        -------
        array of shape (m,), int64
            Rows, `ids % capacity`.
        """
        return np.asarray(self._require_present(ids, "ids") % self._capacity)

    def delta(self, ids: ArrayLike) -> FloatArray:
        """Return the stored `|delta|` of items.

        Parameters
        ----------
        ids : array-like of shape (m,), int
            Numbers of items that have not been overwritten.

        Returns
        -------
        array of shape (m,)
            `|delta|`, rounded as in the table.
        """
        buckets = self._rings[0].lists.place[self.slots(ids), 0]
        return np.asarray(BUCKET_MAGNITUDES[buckets])

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Set `|delta|` of the items of a draw to their norms."""
        buckets = np.empty(len(norms), dtype=np.int64)
        buckets_of(norms, buckets)
        self._rings[0].note_top(buckets)
        self._rings[0].move(draw.indices, buckets)

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one item from the component of each slot, and return the items with their ratios."""
        m, total = len(lanes), self._require_items()
        atoms, ratios = np.empty(m, np.int64), np.empty((m, self.k))
        kernels.draw_atoms(self._rings[0].lists, self._values, total, lanes, uniforms.take(m), atoms, ratios)
        return atoms, ratios

    def sample(
        self,
        mixture: FloatArray,
        m: int,
        batches: int,
        allocation: Allocation,
        allocation_state: FloatArray,
        uniforms: Uniforms,
    ) -> Sample:
        """Make the draws of a sampler; a stratified batch takes one compiled call."""
        if batches != 1 or not allocation.is_stratified:
            return super().sample(mixture, m, batches, allocation, allocation_state, uniforms)
        total = self._require_items()
        atoms, ratios, density, weights = np.empty(m, np.int64), np.empty((m, self.k)), np.empty(m), np.empty(m)
        drawn = atoms, ratios, density, weights
        kernels.draw_stratified(self._rings[0].lists, self._values, total, mixture, uniforms.take(2 * m), *drawn)
        return *drawn, None, allocation_state

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the present ratios of items that have not been overwritten."""
        atoms, total = self._require_present(atoms, "atoms"), self._require_items()
        ratios = np.empty((len(atoms), self.k))
        kernels.write_ratios(self._rings[0].lists, self._values, min(total, self._capacity), atoms, ratios)
        return ratios

    def _require_items(self) -> int:
        """Return how many items were ever inserted, or raise `ValueError` if there are none."""
        total = self._rings[0].total
        if total == 0:
            raise ValueError("This Replay is empty: insert items before drawing from it.")
        return total

    def _require_present(self, ids: ArrayLike, name: str) -> IntArray:
        """Return the numbers of items, or raise `ValueError` if one does not exist or has been overwritten."""
        ring = self._rings[0]
        atoms = as_atoms(ids, ring.total, name)
        if len(atoms) and atoms.min() < ring.first:
            raise ValueError(
                f"Item {atoms.min()} has been overwritten: only items {ring.first} and later are in the buffer."
            )
        return atoms

    def state_dict(self) -> State:
        """Return the items, their priorities, and the arguments that a loaded checkpoint must match."""
        return self._list_arguments() | self._rings[0].state_dict()

    def load_state_dict(self, state: State) -> None:
        """Resume with the saved items.

        Raises
        ------
        CheckpointError
            If the state is damaged or belongs to another `Replay`. The items are then unchanged.
        """
        with wrap_load_errors("a Replay"):
            own = self._list_arguments()
            require_entries(state, set(own) | PriorityBuckets.FIELDS, "Replay")
            for name, value in own.items():
                if not same(state[name], value):
                    raise CheckpointError(
                        f"The saved Replay has other arguments: {name} was {make_printable(state[name])} and is "
                        f"{value!r} here. Build it with the arguments it was saved with."
                    )
            ring = PriorityBuckets.from_state(state, self._capacity)
        self._rings[0] = ring

    def _list_arguments(self) -> State:
        settings = [list(setting) for setting in self._settings]
        return {"family": "Replay", "capacity": self._capacity, "k": self.k, "settings": settings}

    def __repr__(self) -> str:
        return f"Replay({len(self)} of {self._capacity}, k={self.k})"


def _as_settings(settings: object) -> tuple[tuple[float, float], ...]:
    pairs = list(settings) if isinstance(settings, (Sequence, np.ndarray)) and not isinstance(settings, str) else None
    if not pairs or not all(np.shape(pair) == (2,) for pair in pairs):
        raise TypeError(f"settings must be pairs (epsilon, alpha), at least one, got {settings!r}.")
    found = tuple((as_number(epsilon, "epsilon"), as_number(alpha, "alpha")) for epsilon, alpha in pairs)
    for epsilon, alpha in found:
        if not (0.0 <= epsilon <= MAX_EPSILON and 0.0 <= alpha <= MAX_ALPHA):
            raise ValueError(
                f"A setting needs epsilon from 0 to {MAX_EPSILON:g} and alpha from 0 to {MAX_ALPHA:g}, got epsilon "
                f"{epsilon} and alpha {alpha}."
            )
    return found


def _as_buckets(delta: ArrayLike, count: int) -> IntArray:
    values = as_floats(delta, "delta")
    if values.shape != (count,):
        raise ValueError(f"delta must be one TD error per item: expected shape ({count},), got {values.shape}.")
    buckets = np.empty(count, dtype=np.int64)
    bad = buckets_of(np.ascontiguousarray(values), buckets)
    if bad >= 0:
        raise ValueError(
            f"delta must be finite; delta[{bad}] is {values[bad]}. Skip the feedback of a batch that diverged."
        )
    return buckets
