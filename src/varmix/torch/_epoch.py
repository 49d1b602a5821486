"""Progress through an epoch, and the queue of receipts between the sampler and the training loop."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from zlib import crc32

import numpy as np

from varmix._core.draw import Draw, Ledger, Rows, check_id, seal_draw
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, describe_value, read_array, read_count, read_flag, require_entries
from varmix._core.validation import FloatArray, IntArray, State, as_count
from varmix.components import Family, Groups

RECEIPT_FIELDS = {"indices", "weights", "density", "rows", "serial", "sampler_id"}
MIN_WEIGHT, MAX_WEIGHT = (
    float(np.finfo(np.float32).tiny),
    float(np.finfo(np.float32).max),
)  # what weights of single precision hold
MAX_ROUNDING_ERROR = 1e-6
MAX_WAITING_RECEIPTS = 4096  # receipts that are kept for late feedback by number
SERIAL_BITS = 31  # bits of a number that are the draw's, behind those of its sampler
MAX_SERIAL = (1 << SERIAL_BITS) - 1


class ReceiptQueue:
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

    def push(self, draw: Draw) -> None:
        """Add a draw; where nobody says what has arrived, the oldest of very many counts as arrived."""
        self._ahead.append(draw)
        if len(self._ahead) > MAX_WAITING_RECEIPTS:
            self._wait(self._ahead.popleft())

    def pop(self) -> Draw:
        """Return the receipt of the batch that has come to the user."""
        return self._ahead.popleft()

    def find(self, draw_id: int) -> Draw:
        """Give the receipt with this number: it and all before it have come to the user."""
        found = self._waiting.get(draw_id)
        if found is None:
            near = (draw for draw in self._ahead if not (draw.serial ^ draw_id) & MAX_SERIAL)
            found = next((draw for draw in near if number_receipt(draw) == draw_id), None)
        if found is None:
            raise ValueError(
                f"draw_id {draw_id} is not in flight: its feedback was given already, it is more than "
                f"{MAX_WAITING_RECEIPTS:,} batches old, it is of another sampler, or of a run before a state was "
                f"loaded. Call update once for every batch, with the draw_id in it."
            )
        while self._ahead and self._ahead[0].serial <= found.serial:
            self._wait(self._ahead.popleft())
        return found

    def _wait(self, draw: Draw) -> None:
        self._waiting[number_receipt(draw)] = draw
        if len(self._waiting) > MAX_WAITING_RECEIPTS:
            del self._waiting[next(iter(self._waiting))]

    def discard(self, draw: Draw) -> None:
        """Forget a receipt: its feedback was taken."""
        if self._waiting:
            self._waiting.pop(number_receipt(draw), None)

    def clear(self) -> None:
        """Forget what is ahead: nobody will get it any more."""
        self._ahead.clear()

    def keep_for_feedback(self) -> None:
        """Let all that is ahead wait for feedback: it may have come to the user, who has not said so yet."""
        while self._ahead:
            self._wait(self._ahead.popleft())

    def state_dict(self) -> State:
        """Give what is ahead."""
        return {str(place): _save_receipt(draw) for place, draw in enumerate(self._ahead)}

    @classmethod
    def loaded(
        cls, state: object, reader: "ReceiptReader", sizes: list[tuple[int, int]], world: int = 1
    ) -> "ReceiptQueue":
        """Return the queue that was saved, after checking it; `sizes` bounds the slots of every receipt.

        A batch is cut to what `world` processes can share out evenly, as a last one is when it is drawn.
        """
        require_entries(state, {str(place) for place in range(len(sizes))}, "the receipts in flight")
        assert isinstance(state, Mapping)
        queue, serial = cls(), -1
        for place, (least, most) in enumerate(sizes):
            draw = reader.read(state[str(place)], least, most)
            if draw.serial <= serial:
                raise CheckpointError(f"Saved receipts must be in the order of the draws; {draw.serial} is not.")
            serial, rest = draw.serial, len(draw) % world
            if rest < len(draw):
                queue._ahead.append(draw.select(slice(len(draw) - rest)) if rest else draw)
        return queue


class ReceiptReader:
    """Reads the receipts of a saved state, and refuses those that its sampler cannot have drawn.

    Kernels index with the numbers of a receipt, so all of them are checked before one is made.

    Parameters
    ----------
    components
        The family that drew them, over points.
    ledger
        That of the sampler in the same state.
    """

    def __init__(self, components: Family, ledger: Ledger) -> None:
        self._components, self._ledger = components, ledger

    def read(self, saved: object, least: int, most: int) -> Draw:
        """Return the receipt of `least` to `most` slots, or raise `CheckpointError`."""
        require_entries(saved, RECEIPT_FIELDS, "a receipt")
        assert isinstance(saved, Mapping)
        serial, sampler_id = read_count(saved, "serial"), check_id(saved["sampler_id"])
        try:
            self._ledger.check(serial, sampler_id)
        except ValueError as error:
            raise CheckpointError(f"Saved receipt {serial} is not one of the saved sampler: {error}") from error
        if not isinstance(saved["indices"], np.ndarray) or not least <= saved["indices"].size <= most:
            raise CheckpointError(
                f"Saved receipt {serial} must have {least}..{most} slots, got {describe_value(saved['indices'])}."
            )
        indices = self._points(saved)
        m = len(indices)
        weights, density = (
            read_array(saved, name, np.float64, (m,), MIN_WEIGHT, MAX_WEIGHT) for name in ("weights", "density")
        )
        rows, groups = self._ratios(saved, indices, density)
        return seal_draw(indices, weights, rows, density, serial, sampler_id, groups)

    def _points(self, saved: Mapping[str, object]) -> IntArray:
        space = self._components.space
        indices = read_array(saved, "indices", np.int64, (None,), 0, space.n - 1)
        if isinstance(space, Points) and space.target is not None and not space.target[indices].all():
            raise CheckpointError("Saved indices hold a point of target zero, which is never drawn.")
        return indices

    def _ratios(
        self, saved: Mapping[str, object], indices: IntArray, density: FloatArray
    ) -> tuple[Rows | FloatArray, IntArray | None]:
        """Return the ratios, and the groups where `rows` holds these, since components are disjoint groups."""
        m, disjoint, rows = len(indices), self._components, saved["rows"]
        if (
            disjoint.masses is not None
            and disjoint.group_rows is not None
            and isinstance(rows, np.ndarray)
            and rows.ndim == 1
        ):
            groups = read_array(saved, "rows", np.int64, (m,), 0, len(disjoint.masses) - 1)
            if isinstance(disjoint, Groups):
                _check_members(disjoint, indices, groups)
            _check_density(density, np.zeros(m), 1.0 / disjoint.masses[groups])
            return disjoint.group_rows, groups
        ratios = read_array(saved, "rows", np.float64, (m, self._components.k), least=0)
        if (ratios > (1.0 + MAX_ROUNDING_ERROR) / self._target(indices)[:, None]).any():
            raise CheckpointError("Saved rows hold a ratio that is larger than that of a law which draws nothing else.")
        _check_density(density, ratios.min(axis=1), ratios.max(axis=1))
        return ratios, None

    def _target(self, indices: IntArray) -> FloatArray:
        space = self._components.space
        if not isinstance(space, Points) or space.target is None:
            return np.full(len(indices), 1.0 / space.n)
        return space.target[indices]


def _check_density(density: FloatArray, least: FloatArray, most: FloatArray) -> None:
    """Refuse densities that no mixture of components with such ratios has."""
    if not ((density >= (1.0 - MAX_ROUNDING_ERROR) * least) & (density <= (1.0 + MAX_ROUNDING_ERROR) * most)).all():
        raise CheckpointError("Saved density must lie between the least and the largest ratio of its point.")


def _check_members(family: Groups, indices: IntArray, groups: IntArray) -> None:
    """Refuse points that are not of their group; with resplit they may have changed sub-groups, but not the label."""
    own, parents = family.groups_of(indices), family.parents
    if not np.array_equal(*((own, groups) if parents is None else (parents[own], parents[groups]))):
        raise CheckpointError("Saved indices hold a point that is not of the group that it was drawn from.")


def number_receipt(draw: Draw) -> int:
    """Give the number that a batch carries for its receipt; samplers do not take those of others for their own."""
    return crc32(draw.sampler_id.encode()) << SERIAL_BITS | (draw.serial & MAX_SERIAL)


def _save_receipt(draw: Draw) -> State:
    """Give a receipt as arrays and plain values; where groups say all about ratios, without these."""
    arrays = {name: getattr(draw, name).copy() for name in ("indices", "weights", "density")}
    rows = draw.ratios if draw.groups is None else draw.groups
    return {**arrays, "rows": rows.copy(), "serial": draw.serial, "sampler_id": draw.sampler_id}


class OneThreadAtATime:
    """Lets one thread at a time in, as often as it likes; another one gets an error instead of waiting.

    Examples
    --------
    >>> turn = OneThreadAtATime()
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

    def __reduce__(self) -> tuple[type["OneThreadAtATime"], tuple[()]]:
        return OneThreadAtATime, ()  # a lock stays in its process


class EpochProgress:
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
        self.receipts = ReceiptQueue()
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
        number, again = self._begin(end_epoch), deque(self.receipts.ahead)
        while again or self._position < len(self):
            self.check(number)
            if again:
                receipt = again.popleft()
            else:
                receipt = draw(self._size if self._position < self._full else self._last)
                self._position += 1
                self.receipts.push(receipt)
            self.given += 1
            yield receipt
        self._over = not self.followed

    def _begin(self, end_epoch: Callable[[], None]) -> int:
        """Begin a pass; for the components the one before it is over only now, when its last feedback has come."""
        if not self._resumed:
            if self._begun:
                end_epoch()
            if self.followed:
                self.receipts.clear()
            else:
                self.receipts.keep_for_feedback()
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
            receipt = self.receipts.pop()
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
        ahead = self.receipts.state_dict()
        drawn = not self.followed and self._position == len(self)  # nobody will say when the loop is over
        going = self._begun and not ((self._over or drawn) and not ahead)
        numbers = {"epoch": self._epoch, "next": self._next, "position": self._position}
        return {**numbers, "size": self._size, "full": self._full, "begun": self._begun, "going": going, "ahead": ahead}

    def loaded(self, state: object, reader: ReceiptReader, slots: int, world: int = 1) -> "EpochProgress":
        """Return the passes that were saved, after checking that they are these; loops over these ones are over.

        A full batch has `slots` of them in this process, before `world` processes share them out.
        """
        require_entries(state, set(self.state_dict()), "the passes of a loader")
        assert isinstance(state, Mapping)
        # Not the last batch: it depends on the number of processes, which may be another one.
        for name, words, value in (("size", "batch_size", self._size), ("full", "full batches in a pass:", self._full)):
            if read_count(state, name) != value:
                raise CheckpointError(
                    f"The saved loader had {words} {state[name]}, this one has {value}. Build it as it was when it was "
                    f"saved."
                )
        other = EpochProgress(self._size, self._full, self._last)
        other._epoch, other._next = read_count(state, "epoch"), read_count(state, "next")
        other._position = read_count(state, "position", most=self._full + 1)
        other._begun, other._resumed = read_flag(state, "begun"), read_flag(state, "going")
        other._over, other.followed = not other._resumed, self.followed
        ahead = _count_ahead(state["ahead"], other._position if other._resumed else 0)
        if not other._begun and (other._resumed or other._position):
            raise CheckpointError("The saved loader is inside a pass that has not begun: the state is damaged.")
        places = range(other._position - ahead, other._position)
        sizes = [(slots if place < self._full else 1, slots) for place in places]
        other.receipts = ReceiptQueue.loaded(state["ahead"], reader, sizes, world)
        other._live = self._live + 1  # loops over these ones are told apart from its own
        return other

    def give_up(self) -> None:
        """Let every loop that is still running fail."""
        self._live += 1


def _count_ahead(state: object, drawn: int) -> int:
    """Return how many receipts are ahead: no more than were drawn in this pass, or than are ever kept."""
    most = min(drawn, MAX_WAITING_RECEIPTS)
    if not isinstance(state, Mapping) or len(state) > most:
        raise CheckpointError(
            f"Saved ahead must be a dictionary of at most {most} receipts, as many as the pass has drawn; got "
            f"{len(state) if isinstance(state, Mapping) else describe_value(state)}."
        )
    return len(state)
