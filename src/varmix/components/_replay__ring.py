"""Ring: the newest items that came, each in the bucket of its magnitude."""

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.validation import State
from varmix.components import _replay_kernels__replay as kernels
from varmix.components._replay_kernels import BUCKETS
from varmix.components._replay_kernels import CHUNK
from varmix.components._replay_kernels import OCTAVES
from varmix.components._replay_kernels import PAGE
from varmix.components._replay_kernels import STEPS
from varmix.components._replay_kernels import Buckets
from varmix._core.state import CheckpointError
from varmix._core.state import read_array
from varmix._core.state import read_count
from varmix._core.state import read_flag

#: What stands for all magnitudes in a bucket: its middle, in logarithms.
MAGNITUDES: FloatArray = 2.0 ** ((np.arange(BUCKETS) + 0.5) / STEPS - OCTAVES)
LATEST = 2**60  # number of an item in a state, with room for all that come after it
ONE = OCTAVES * STEPS  # the bucket of one


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
        self.top = ONE
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
        kernels.insert(self.lists, self._came, buckets)

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
        ring._came[0], ring.gone = read_count(state, "total", most=LATEST), read_count(state, "gone")
        ring.top, ring._seen = read_count(state, "top", most=BUCKETS - 1), read_flag(state, "seen")
        n, highest = len(ring), max(ring.top, ONE)  # what came before anything was seen is in the bucket of one
        buckets = read_array(state, "buckets", np.int16, (n,), least=0, most=highest)
        positions = read_array(state, "positions", np.int32, (n,), least=0, most=n)
        slots = np.lexsort((positions, buckets))
        if not _count_up(buckets[slots], positions[slots]):
            raise CheckpointError("The saved buckets do not fit together: the state of this Replay is damaged.")
        if not ring._seen and (ring.top != ONE or (buckets != ONE).any()):
            raise CheckpointError("The saved Replay has priorities though none was seen: it is damaged.")
        kernels.fill(ring.lists, slots, buckets[slots].astype(np.int64))
        return ring


def _count_up(buckets: AnyArray, positions: AnyArray) -> bool:
    """Whether the positions of every bucket count up from zero; both are sorted by bucket, then by position."""
    counts = np.bincount(buckets, minlength=BUCKETS)
    starts = np.cumsum(counts) - counts
    return bool((positions == np.arange(len(buckets)) - starts[buckets]).all())
