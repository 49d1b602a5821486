"""StreamReader: reads one source item by item, takes items back, and resumes from a saved state."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from varmix._core.state import CheckpointError, describe_value, make_printable, read_count, read_flag, require_entries
from varmix._core.validation import State


class Place(NamedTuple):
    """The place of an item in its source: items before it, epochs before it, and items before it in its epoch."""

    taken: int
    restarts: int
    inside: int


class SavedReader(NamedTuple):
    """A saved reader: its place, the mark from which to read on, the state of the source there, whether it ended."""

    place: Place
    mark: Place
    own: Any
    ended: bool


class Item(NamedTuple):
    """A sample and its place."""

    sample: Any
    place: Place


START_PLACE = Place(0, 0, 0)


class StreamReader:
    """A reader of the items of a source, in order; with `restart` it begins a new epoch when the source ends.

    The state of a source that has `state_dict` and `load_state_dict` is saved with the reader's, together with the
    place where it was taken (the mark).  If items were put back, the source has already moved past them; then its last
    saved state and mark are saved again.  After loading, everything from the mark to the place is read again and
    skipped.  A source without a state is read again from the start of its epoch.

    With `restart`, `set_epoch` of the source, if there is one, is called with the number of every epoch before the
    source is iterated.  So the source can shuffle every epoch anew and repeat an epoch after loading.

    Parameters
    ----------
    name : str
        Name of the source in messages.
    source : iterable
        Any iterable.
    restart : bool, default False
        Whether to iterate over it again when it ends.

    Examples
    --------
    >>> reader = StreamReader("letters", "abc")
    >>> item = reader.take()
    >>> item.sample, reader.place.taken
    ('a', 1)
    >>> reader.put_back(item)
    >>> [reader.take().sample for _ in range(3)], reader.take()
    (['a', 'b', 'c'], None)
    """

    def __init__(self, name: str, source: Iterable[Any], *, restart: bool = False) -> None:
        if not isinstance(source, Iterable):
            raise TypeError(
                f"Source {name!r} must be an iterable of samples, got {type(source).__name__}. For a dataset with "
                f"indices pass DataLoader(dataset, batch_size=None, shuffle=True)."
            )
        if restart and isinstance(source, Iterator):
            raise TypeError(
                f"Source {name!r} is an iterator ({type(source).__name__}), which can be read only once, so it "
                f"cannot restart. Pass an iterable instead: a list, a dataset, an object whose __iter__ begins anew."
            )
        self.name = name
        self.ended = False
        self._source, self._restart = source, restart
        self._iterator: Iterator[Any] | None = None
        self._back: deque[Item] = deque()
        self._next = START_PLACE  # of the iterator, which may be ahead of `place`
        self._mark: tuple[Place, State | None] = START_PLACE, None

    @property
    def place(self) -> Place:
        """Place of the next item."""
        return self._back[0].place if self._back else self._next

    def take(self) -> Item | None:
        """Return the next item, first those that were put back; None at the end."""
        return self._back.popleft() if self._back else self._read()

    def put_back(self, item: Item) -> None:
        """Put an item back, so that it is the next one; put several back in reverse order."""
        self._back.appendleft(item)

    def close(self) -> None:
        """End here, and drop the iterator of the source and the items that were put back."""
        self._next = self.place
        self._back.clear()
        self._iterator, self.ended = None, True

    def _read(self) -> Item | None:
        while not self.ended:
            if self._iterator is None:
                self._iterator = self._begin_epoch()
            try:
                sample = next(self._iterator)
            except StopIteration:
                self._end_epoch()
            else:
                place = self._next
                self._next = Place(place.taken + 1, place.restarts, place.inside + 1)
                return Item(sample, place)
        return None

    def _begin_epoch(self) -> Iterator[Any]:
        if self._restart and hasattr(self._source, "set_epoch"):
            self._source.set_epoch(self._next.restarts)
        return iter(self._source)

    def _end_epoch(self) -> None:
        if not self._restart:
            self.ended = True
        elif self._next.inside == 0:
            when = f" when it was iterated again, after {self._next.taken} items" if self._next.taken else ""
            raise ValueError(f"Source {self.name!r} returned no items{when}, so it cannot restart. Leave it out.")
        else:
            self._iterator = None
            self._next = Place(self._next.taken, self._next.restarts + 1, 0)

    @property
    def _stateful(self) -> bool:
        return hasattr(self._source, "state_dict") and hasattr(self._source, "load_state_dict")

    def state_dict(self) -> State:
        """Return the place, the mark from which to read on after loading, and the state of the source there, if any."""
        if not self._stateful:
            place = self.place
            self._mark = Place(place.taken - place.inside, place.restarts, 0), None
        elif self._iterator is not None and not self._back and not self.ended:
            self._mark = self._next, deepcopy(self._source.state_dict())  # type: ignore[attr-defined]
        mark, own = self._mark
        ended = self.ended and not self._back
        return {"place": list(self.place), "mark": list(mark), "own": deepcopy(own), "ended": ended}

    def check(self, state: object) -> SavedReader:
        """Return a saved state after every check that does not touch the source."""
        require_entries(state, {"place", "mark", "own", "ended"}, f"source {self.name!r}")
        assert isinstance(state, Mapping)
        saved = SavedReader(
            as_place(state["place"], "place"), as_place(state["mark"], "mark"), state["own"], read_flag(state, "ended")
        )
        if saved.ended if self._restart else saved.place.restarts:
            saved_as = "has ended" if self._restart else f"has restarted {saved.place.restarts} times"
            raise CheckpointError(f"The saved source {self.name!r} {saved_as}, and this one never does.")
        if not saved.ended:
            self._check_mark(saved)
        return saved

    def _check_mark(self, saved: SavedReader) -> None:
        """Raise `CheckpointError` if the source cannot be brought to the mark, or read from there to the place."""
        place, mark = saved.place, saved.mark
        if saved.own is None:
            self._check_fresh()
            ahead = mark in (START_PLACE, Place(place.taken - place.inside, place.restarts, 0))
        else:
            self._check_stateful()
            within = place.restarts == mark.restarts and place.taken - mark.taken == place.inside - mark.inside >= 0
            ahead = within or (place.restarts > mark.restarts and place.taken - place.inside >= mark.taken)
        if not ahead:
            raise CheckpointError(
                f"The saved source {self.name!r} cannot be read on from {mark} to {place}: the numbers contradict each "
                f"other."
            )

    def loaded(self, state: object) -> "StreamReader":
        """Return a reader of the same source that resumes where the state was saved."""
        place, mark, own, ended = self.check(state)
        reader = StreamReader(self.name, self._source, restart=self._restart)
        if ended:
            reader._next, reader.ended = place, True
            return reader
        reader._next, reader._mark = mark, (mark, deepcopy(own))
        if own is not None:
            reader._load_source(deepcopy(own))
        reader._skip_to(place)
        return reader

    def _check_fresh(self) -> None:
        once = isinstance(self._source, Iterator) or self._stateful
        if once and (self._iterator is not None or self._next != START_PLACE):
            raise CheckpointError(
                f"Source {self.name!r} has been read from and cannot go back to its start. Load the state before "
                f"anything is read."
            )

    def _check_stateful(self) -> None:
        if not self._stateful:
            raise CheckpointError(
                f"Source {self.name!r} was saved with a state of its own, and {type(self._source).__name__} has no "
                f"load_state_dict. Pass the source that was saved."
            )

    def _load_source(self, own: object) -> None:
        try:
            self._source.load_state_dict(own)  # type: ignore[attr-defined]
        except Exception as error:
            reason = make_printable(f"{type(error).__name__}: {error}")
            raise CheckpointError(f"Source {self.name!r} cannot load its own saved state ({reason}).") from error

    def _skip_to(self, place: Place) -> None:
        """Read from the mark to the place again; raise `CheckpointError` if the source has changed."""
        while self._next.taken < place.taken and self._next.restarts <= place.restarts and self._read() is not None:
            pass
        at_the_end = place.inside == 0 and self._next[:2] == (place.taken, place.restarts - 1)  # of the epoch before
        if self._next != place and not at_the_end:
            raise CheckpointError(
                f"Source {self.name!r} has changed: {place.inside} items of epoch {place.restarts} were taken before "
                f"it was saved, and now that epoch has only {self._next.inside}."
            )


def as_place(values: object, name: str) -> Place:
    """Return a saved place; raise `CheckpointError` unless it is three counts that fit each other."""
    if not isinstance(values, (list, tuple)) or len(values) != 3:
        raise CheckpointError(f"The saved {name} of a source is three numbers, got {describe_value(values)}.")
    place = Place(*(read_count({name: value}, name) for value in values))
    before = place.taken - place.inside  # in the epochs before, each of which had at least one item
    if before < place.restarts or (before and not place.restarts):
        raise CheckpointError(f"The saved {name} of a source cannot be {place}: the numbers contradict each other.")
    return place
