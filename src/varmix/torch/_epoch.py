"""Passes: where a loop over batches is, so that it can be saved and taken up again."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from threading import RLock

from varmix._core.validation import State
from varmix._core.validation import as_count
from varmix._core.draw import Draw
from varmix._core.state import CheckpointError
from varmix._core.state import describe
from varmix._core.state import read_count
from varmix._core.state import read_flag
from varmix._core.state import require
from varmix.torch._epoch__flight import WAITING
from varmix.torch._epoch__flight import Flight
from varmix.torch._epoch__flight import ReceiptReader


class Turn:
    """Lets one thread at a time in, as often as it likes; another one gets an error instead of waiting.

    Examples
    --------
    >>> turn = Turn()
    >>> with turn, turn:
    ...     pass
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "Another thread is inside this loader: batches and their receipts can be kept together for one thread "
                "at a time. Iterate in one thread and hand batches on by a queue, or build a loader for every thread."
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Turn"], tuple[()]]:
        return Turn, ()  # a lock stays in its process


class Passes:
    """The number of the present pass, the place in it, and the receipts that are ahead of the user.

    Loading in the middle of a pass goes on with it: first come the receipts that were ahead, then new draws.

    Parameters
    ----------
    size
        Slots of a full batch.
    full
        Full batches in a pass.
    last
        Slots of a last batch after them; 0 for none.
    """

    def __init__(self, size: int, full: int, last: int) -> None:
        self._size, self._full, self._last = size, full, last
        self.flight = Flight()
        #: Whether somebody calls `end` when the loop is over; else it is over when nothing is ahead any more.
        self.followed = False
        self._epoch = self._next = self._position = self._live = 0
        #: How many receipts this loop was given, and how many of them have come or are lost.
        self.given = self._come = 0
        self._begun, self._over, self._resumed = False, True, False

    def __len__(self) -> int:
        return self._full + bool(self._last)

    @property
    def epoch(self) -> int:
        """Number of the present pass, or of the next if none has begun."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Say which number the next pass has, or the one that is to be gone on with."""
        self._next = as_count(epoch, "epoch", least=0)
        if not self._begun or self._resumed:
            self._epoch = self._next

    def run(self, draw: Callable[[int], Draw], end_epoch: Callable[[], None]) -> Iterator[Draw]:
        """Give the receipts of the next pass, or of the rest of the one that was loaded."""
        # Here, and not when the iterator is made: loaders with workers make two of them, and use one.
        number, again = self._begin(end_epoch), deque(self.flight.ahead)
        while again or self._position < len(self):
            self.check(number)
            if again:
                receipt = again.popleft()
            else:
                receipt = draw(self._size if self._position < self._full else self._last)
                self._position += 1
                self.flight.leave(receipt)
            self.given += 1
            yield receipt
        self._over = not self.followed

    def _begin(self, end_epoch: Callable[[], None]) -> int:
        """Begin a pass; for the components the one before it is over only now, when its last feedback has come."""
        if not self._resumed:
            if self._begun:
                end_epoch()
            if self.followed:
                self.flight.clear()
            else:
                self.flight.land()
            self._position, self._epoch = 0, self._next
        self._begun, self._over, self._resumed = True, False, False
        self._next = self._epoch + 1
        self._live += 1
        self.given = self._come = 0
        return self._live

    def come(self, count: int) -> Draw | None:
        """So many batches of this loop have come, or are lost: give the receipt of the last, if it is new."""
        receipt = None
        while self._come < count:
            receipt = self.flight.arrive()
            self._come += 1
        return receipt

    @property
    def live(self) -> int:
        """Number of the loop that receipts are kept for: the one that began last."""
        return self._live

    def check(self, number: int) -> None:
        """Refuse to go on with a loop when another one has begun, or a state was loaded."""
        if number != self._live:
            raise RuntimeError(
                "A newer pass over this loader has begun, or a state was loaded, and receipts can be kept in order "
                "for one loop at a time only. Build a loader of its own for every loop that runs beside another."
            )

    def end(self) -> None:
        """Say that the loop is over."""
        self._over = True

    def state_dict(self) -> State:
        """Give the place, and what is ahead."""
        ahead = self.flight.state_dict()
        drawn = not self.followed and self._position == len(self)  # nobody will say when the loop is over
        going = self._begun and not ((self._over or drawn) and not ahead)
        numbers = {"epoch": self._epoch, "next": self._next, "position": self._position}
        return {**numbers, "size": self._size, "full": self._full, "begun": self._begun, "going": going, "ahead": ahead}

    def loaded(self, state: object, reader: ReceiptReader, slots: int, world: int = 1) -> "Passes":
        """Return the passes that were saved, after checking that they are these; loops over these ones are over.

        A full batch has `slots` of them in this process, before `world` processes share them out.
        """
        require(state, set(self.state_dict()), "the passes of a loader")
        assert isinstance(state, Mapping)
        # Not the last batch: it depends on the number of processes, which may be another one.
        for name, words, value in (("size", "batch_size", self._size), ("full", "full batches in a pass:", self._full)):
            if read_count(state, name) != value:
                raise CheckpointError(
                    f"The saved loader had {words} {state[name]}, this one has {value}. Build it as it was when it was "
                    f"saved."
                )
        other = Passes(self._size, self._full, self._last)
        other._epoch, other._next = read_count(state, "epoch"), read_count(state, "next")
        other._position = read_count(state, "position", most=self._full + 1)
        other._begun, other._resumed = read_flag(state, "begun"), read_flag(state, "going")
        other._over, other.followed = not other._resumed, self.followed
        ahead = _count_ahead(state["ahead"], other._position if other._resumed else 0)
        if not other._begun and (other._resumed or other._position):
            raise CheckpointError("The saved loader is inside a pass that has not begun: the state is damaged.")
        places = range(other._position - ahead, other._position)
        sizes = [(slots if place < self._full else 1, slots) for place in places]
        other.flight = Flight.loaded(state["ahead"], reader, sizes, world)
        other._live = self._live + 1  # loops over these ones are told apart from its own
        return other

    def give_up(self) -> None:
        """Let every loop that is still running fail."""
        self._live += 1


def _count_ahead(state: object, drawn: int) -> int:
    """Return how many receipts are ahead: no more than were drawn in this pass, or than are ever kept."""
    most = min(drawn, WAITING)
    if not isinstance(state, Mapping) or len(state) > most:
        raise CheckpointError(
            f"Saved ahead must be a dictionary of at most {most} receipts, as many as the pass has drawn; got "
            f"{len(state) if isinstance(state, Mapping) else describe(state)}."
        )
    return len(state)
