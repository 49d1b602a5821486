"""Ring: the newest items that came, each in the bucket of its magnitude."""

import numpy as np

from varmix.arrays import AnyArray, FloatArray, IntArray, State, as_count
from varmix.kernels import replay as kernels
from varmix.kernels.buckets import BUCKETS, CHUNK, OCTAVES, PAGE, STEPS, Buckets

#: What stands for all magnitudes in a bucket: its middle, in logarithms.
MAGNITUDES: FloatArray = 2.0 ** ((np.arange(BUCKETS) + 0.5) / STEPS - OCTAVES)


def empty_buckets(capacity: int) -> Buckets:
    """Make room for so many items, however they are spread: 15 to 17 bytes an item from a hundred thousand on."""
    chunks = min(capacity, (capacity >> CHUNK) + BUCKETS)  # one in every bucket may be begun
    pages = min(chunks, (chunks >> PAGE) + BUCKETS)
    return Buckets(
        place=np.zeros((capacity, 2), dtype=np.int32),
        counts=np.zeros(BUCKETS, dtype=np.int64),
        directory=np.zeros((BUCKETS, (capacity >> (CHUNK + PAGE)) + 1), dtype=np.int32),
        pages=_linked(pages, 1 << PAGE),
        chunks=_linked(chunks, 1 << CHUNK),
        free=np.zeros(2, dtype=np.int64),
    )


def _linked(number: int, width: int) -> AnyArray:
    rows = np.empty((number, width), dtype=np.int32)
    rows[:, 0] = np.arange(1, number + 1)
    return rows


class Ring:
    """The newest `capacity` of all items that came, numbered as they came, and what was heard of them.

    Attributes
    ----------
    lists
        The slots by bucket; item i is in slot i mod capacity.
    total
        How many came.
    gone
        How often something was told of an item that had left.
    top
        The largest bucket that was seen, or that of one while nothing was.
    """

    __slots__ = ("_seen", "gone", "lists", "top", "total")

    def __init__(self, capacity: int) -> None:
        self.lists = empty_buckets(capacity)
        self.total = 0
        self.gone = 0
        self.top = OCTAVES * STEPS
        self._seen = False

    def __len__(self) -> int:
        return min(self.total, len(self.lists.place))

    @property
    def first(self) -> int:
        """The oldest item that is there."""
        return self.total - len(self)

    def insert(self, buckets: IntArray) -> None:
        """Put in new items; the oldest make room."""
        kernels.insert(self.lists, self.total, buckets)
        self.total += len(buckets)

    def move(self, atoms: IntArray, buckets: IntArray) -> None:
        """Put items into other buckets; what is told of those that have left is counted, and nothing else."""
        self.gone += kernels.move(self.lists, self.total, atoms, buckets)

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
    def restored(cls, state: State, capacity: int) -> "Ring":
        """Build the ring that a state was saved from, in all that later draws depend on."""
        ring = cls(capacity)
        ring.total, ring.gone = (as_count(state[name], name, least=0) for name in ("total", "gone"))
        ring.top, ring._seen = as_count(state["top"], "top", least=0), bool(state["seen"])
        buckets, positions = np.asarray(state["buckets"]), np.asarray(state["positions"])
        if not (ring.top < BUCKETS and _fit(buckets, positions, len(ring))):
            raise ValueError("The saved buckets do not fit together: the state of this Replay is damaged.")
        slots = np.lexsort((positions, buckets))
        kernels.fill(ring.lists, slots, buckets[slots].astype(np.int64))
        return ring


def _fit(buckets: AnyArray, positions: AnyArray, n: int) -> bool:
    """Whether the positions of every bucket count up from zero."""
    if buckets.shape != (n,) or positions.shape != (n,) or buckets.dtype != np.int16 or positions.dtype != np.int32:
        return False
    if n == 0:
        return True
    if buckets.min() < 0 or buckets.max() >= BUCKETS:
        return False
    order = np.lexsort((positions, buckets))
    counts = np.bincount(buckets, minlength=BUCKETS)
    starts = np.cumsum(counts) - counts
    return bool((positions[order] == np.arange(n) - starts[buckets[order]]).all())
