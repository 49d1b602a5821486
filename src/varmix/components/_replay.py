"""Replay: prioritised replay with several settings over one table of priorities."""

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

#: What stands for all magnitudes in a bucket: its middle, in logarithms.
BUCKET_MAGNITUDES: FloatArray = 2.0 ** ((np.arange(BUCKET_COUNT) + 0.5) / BUCKETS_PER_OCTAVE - OCTAVES_BELOW_ONE)
MAX_ITEM_NUMBER = 2**60  # number of an item in a state, with room for all that come after it
UNIT_BUCKET = OCTAVES_BELOW_ONE * BUCKETS_PER_OCTAVE  # the bucket of one


def empty_buckets(capacity: int) -> Buckets:
    """Make room for so many items, however they are spread: 15 to 17 bytes an item from a hundred thousand on."""
    chunks = min(capacity, (capacity >> CHUNK_BITS) + BUCKET_COUNT)  # one in every bucket may be begun
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
    rows = np.empty((number, width), dtype=np.int32)
    rows[:, 0] = np.arange(1, number + 1)
    return rows


class PriorityBuckets:
    """The newest `capacity` of all items that came, numbered as they came, and what was heard of them.

    Attributes
    ----------
    lists
        The slots by bucket; item i is in slot i mod capacity.
    gone
        How often something was told of an item that had left.
    top
        The largest bucket that was seen, or that of one while nothing was.
    """

    FIELDS = frozenset({"buckets", "positions", "total", "gone", "top", "seen"})

    __slots__ = ("_came", "_seen", "gone", "lists", "top")

    def __init__(self, capacity: int) -> None:
        self.lists = empty_buckets(capacity)
        self._came = np.zeros(1, dtype=np.int64)
        self.gone = 0
        self.top = UNIT_BUCKET
        self._seen = False

    @property
    def total(self) -> int:
        """How many came."""
        return self._came.item()

    def __len__(self) -> int:
        return min(self.total, len(self.lists.place))

    @property
    def first(self) -> int:
        """The oldest item that is there."""
        return self.total - len(self)

    def insert(self, buckets: IntArray) -> None:
        """Put in new items; the oldest make room."""
        kernels.insert_items(self.lists, self._came, buckets)

    def move(self, atoms: IntArray, buckets: IntArray) -> None:
        """Put items into other buckets; what is told of those that have left is counted, and nothing else."""
        self.gone += kernels.move_items(self.lists, self.total, atoms, buckets)

    def see(self, buckets: IntArray) -> None:
        """Remember the largest bucket."""
        if len(buckets):
            top = int(buckets.max())
            self.top = max(self.top, top) if self._seen else top
            self._seen = True

    def state_dict(self) -> State:
        """Give bucket and position of every item that is there, by slot: 6 bytes each."""
        place = self.lists.place[: len(self)]
        return {
            "buckets": place[:, 0].astype(np.int16),
            "positions": place[:, 1].copy(),
            "total": self.total,
            "gone": self.gone,
            "top": self.top,
            "seen": self._seen,
        }

    @classmethod
    def restored(cls, state: State, capacity: int) -> "PriorityBuckets":
        """Build the ring that a state was saved from, in all that later draws depend on."""
        ring = cls(capacity)
        ring._came[0], ring.gone = read_count(state, "total", most=MAX_ITEM_NUMBER), read_count(state, "gone")
        ring.top, ring._seen = read_count(state, "top", most=BUCKET_COUNT - 1), read_flag(state, "seen")
        n, highest = len(ring), max(ring.top, UNIT_BUCKET)  # what came before anything was seen is in the bucket of one
        buckets = read_array(state, "buckets", np.int16, (n,), least=0, most=highest)
        positions = read_array(state, "positions", np.int32, (n,), least=0, most=n)
        slots = np.lexsort((positions, buckets))
        if not _count_up(buckets[slots], positions[slots]):
            raise CheckpointError("The saved buckets do not fit together: the state of this Replay is damaged.")
        if not ring._seen and (ring.top != UNIT_BUCKET or (buckets != UNIT_BUCKET).any()):
            raise CheckpointError("The saved Replay has priorities though none was seen: it is damaged.")
        kernels.fill_buckets(ring.lists, slots, buckets[slots].astype(np.int64))
        return ring


def _count_up(buckets: AnyArray, positions: AnyArray) -> bool:
    """Whether the positions of every bucket count up from zero; both are sorted by bucket, then by position."""
    counts = np.bincount(buckets, minlength=BUCKET_COUNT)
    starts = np.cumsum(counts) - counts
    return bool((positions == np.arange(len(buckets)) - starts[buckets]).all())


#: The nine (epsilon, alpha) of the paper's section 6.3.
PAPER_SETTINGS = tuple((epsilon, alpha) for epsilon in (0.01, 0.1, 1.0) for alpha in (0.1, 0.5, 0.9))

MAX_ALPHA, MAX_EPSILON = 10.0, 1e12  # so that no power leaves double precision
MAX_ITEMS = 2**31 - 1  # slots are numbered by 32 bits


@final
class Replay(Family):
    """Items of a replay buffer by their last TD error: one component for every setting of prioritised replay.

        p_j(i) proportional to (|delta_i| + epsilon_j)^alpha_j

    The buffer grows to `capacity` and then lets the newest take the place of the oldest.  Atoms are the numbers of the
    items in the order they came; where a ring stores them, item i is in row `i % capacity`.  A number is never given
    twice: what is told of an item that has left is counted in `overwritten` and touches nothing else.  `observe`, which
    a sampler calls with its feedback, takes the norms for `|delta|`.

    All settings share one table, where `|delta|` is kept to an eighth of an octave, from 1e-12 to 1e12 (what is beyond
    counts as the nearest): within 4.5 % of what was told.  That rounded law is the one that is drawn from and the one
    that ratios are of, so weights are exact.  Inserting and telling take as many operations for any number of items,
    nothing drifts, and an item takes 15 to 17 bytes for any number of settings (from a hundred thousand items on;
    a quarter of a megabyte is fixed).

    `with_uniform` (and so `varmix.vrm`) adds the uniform law; what it gives shares its items with this object.

    Parameters
    ----------
    capacity
        The most items that are kept.
    settings
        Pairs of epsilon (at least zero) and alpha (from 0 to 10); the paper's nine unless told.

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
        self._rings = [PriorityBuckets(self._capacity)]  # one, in a list so that views share it when it is exchanged
        self.k = len(self._settings)
        self._has_uniform = False

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the uniform law."""
        return self._has_uniform

    @property
    def names(self) -> list[str]:
        """Epsilon and alpha of every component."""
        names = [f"epsilon {epsilon:g}, alpha {alpha:g}" for epsilon, alpha in self._settings]
        return [*names, "uniform"] if self._has_uniform else names

    @property
    def capacity(self) -> int:
        """The most items that are kept."""
        return self._capacity

    @property
    def settings(self) -> tuple[tuple[float, float], ...]:
        """Epsilon and alpha of every component, the uniform one left out."""
        return self._settings

    @property
    def inserted(self) -> int:
        """How many items were ever inserted: the number that the next one gets."""
        return self._rings[0].total

    @property
    def overwritten(self) -> int:
        """How often something was told of an item that had been overwritten."""
        return self._rings[0].gone

    @property
    def space(self) -> Window:  # type: ignore[override]
        """The items that are there now."""
        ring = self._rings[0]
        return Window(len(ring), ring.first)

    @property
    def c(self) -> float:  # type: ignore[override]
        """The largest ratio at present."""
        counts = self._rings[0].lists.counts
        taken = np.flatnonzero(counts)
        largest = len(self) * self._values[taken].max(axis=0, initial=0.0)
        return float(max((largest / (counts[taken] @ self._values[taken])).max(), 1.0)) if len(taken) else 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of the table, filled or not, without the few that depend on the settings."""
        return sum(array.nbytes for array in self._rings[0].lists)

    def __len__(self) -> int:
        return len(self._rings[0])

    def with_uniform(self) -> Family:
        """Give the same items with the uniform law as one more component, the last."""
        family = copy(self)
        family.k, family._has_uniform = len(self._settings) + 1, True
        return family

    def insert(self, count: int, delta: ArrayLike | None = None) -> IntArray:
        """Put in new items and give their numbers; the oldest make room.

        Their `|delta|` is the largest that was ever told, so that each is likely to be drawn soon, or what is given.
        """
        count = as_count(count, "count")
        ring = self._rings[0]
        if delta is None:
            buckets = np.full(count, ring.top)
        else:
            buckets = _as_buckets(delta, count)
            ring.see(buckets)
        ring.insert(buckets)
        total = ring.total
        return np.arange(total - count, total)

    def set_delta(self, ids: ArrayLike, delta: ArrayLike) -> None:
        """Tell the TD errors of items, of any sign; of one that is named twice the last counts."""
        ring = self._rings[0]
        atoms = as_atoms(ids, ring.total, "ids")
        buckets = _as_buckets(delta, len(atoms))
        ring.see(buckets)
        ring.move(atoms, buckets)

    def slots(self, ids: ArrayLike) -> IntArray:
        """Give the rows of a ring where items that are there are stored."""
        return np.asarray(self._present(ids, "ids") % self._capacity)

    def delta(self, ids: ArrayLike) -> FloatArray:
        """Give `|delta|` of items that are there, as it is kept."""
        buckets = self._rings[0].lists.place[self.slots(ids), 0]
        return np.asarray(BUCKET_MAGNITUDES[buckets])

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Take the norms of a draw for `|delta|` of its items."""
        buckets = np.empty(len(norms), dtype=np.int64)
        buckets_of(norms, buckets)
        self._rings[0].see(buckets)
        self._rings[0].move(draw.indices, buckets)

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a bucket by the sums over buckets, and an item of it; a lane beyond the settings is uniform."""
        m, total = len(lanes), self._filled()
        atoms, ratios = np.empty(m, np.int64), np.empty((m, self.k))
        kernels.draw_atoms(self._rings[0].lists, self._values, total, lanes, uniforms.take(m), atoms, ratios)
        return atoms, ratios

    def sample(
        self,
        mixture: FloatArray,
        m: int,
        batches: int,
        allocate: Allocation,
        state: FloatArray,
        uniforms: Uniforms,
    ) -> Sample:
        """Make the draws of a sampler; a stratified batch takes one compiled call."""
        if batches != 1 or not allocate.is_stratified:
            return super().sample(mixture, m, batches, allocate, state, uniforms)
        total = self._filled()
        atoms, ratios, density, weights = np.empty(m, np.int64), np.empty((m, self.k)), np.empty(m), np.empty(m)
        drawn = atoms, ratios, density, weights
        kernels.draw_stratified(self._rings[0].lists, self._values, total, mixture, uniforms.take(2 * m), *drawn)
        return *drawn, None, state

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the present ratios of items that are there."""
        atoms, total = self._present(atoms, "atoms"), self._filled()
        ratios = np.empty((len(atoms), self.k))
        kernels.write_ratios(self._rings[0].lists, self._values, min(total, self._capacity), atoms, ratios)
        return ratios

    def _filled(self) -> int:
        """Return how many items came, at least one."""
        total = self._rings[0].total
        if total == 0:
            raise ValueError("This Replay is empty: insert items before drawing from it.")
        return total

    def _present(self, ids: ArrayLike, name: str) -> IntArray:
        ring = self._rings[0]
        atoms = as_atoms(ids, ring.total, name)
        if len(atoms) and atoms.min() < ring.first:
            raise ValueError(f"Item {atoms.min()} has been overwritten: items {ring.first} and later are there.")
        return atoms

    def state_dict(self) -> State:
        """Give what was inserted and told, and what a checkpoint is compared with."""
        return self._own() | self._rings[0].state_dict()

    def load_state_dict(self, state: State) -> None:
        """Resume with the saved items.

        Raises
        ------
        CheckpointError
            If the state is damaged or of another `Replay`.  The items are then unchanged.
        """
        with wrap_load_errors("a Replay"):
            own = self._own()
            require_entries(state, set(own) | PriorityBuckets.FIELDS, "Replay")
            for name, value in own.items():
                if not same(state[name], value):
                    raise CheckpointError(
                        f"The saved Replay does not fit: {name} was {make_printable(state[name])} and is {value!r} "
                        f"here. "
                        f"Build it as it was when the state was saved."
                    )
            ring = PriorityBuckets.restored(state, self._capacity)
        self._rings[0] = ring

    def _own(self) -> State:
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
        raise ValueError(f"delta must be finite; delta[{bad}] is {values[bad]}. Skip a batch that diverged.")
    return buckets
