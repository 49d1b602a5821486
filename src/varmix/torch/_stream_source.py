"""Feed: one source, read item by item, that can take items back and be taken up again elsewhere."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from varmix._core.state import CheckpointError, describe_value, make_printable, read_count, read_flag, require_entries
from varmix._core.validation import State


class Place(NamedTuple):
    """Where an item stands in its source: how many came before it, in all and in its pass, and the pass."""

    taken: int
    restarts: int
    inside: int


class SavedReader(NamedTuple):
    """What is known of a feed that was saved: its place, where to read on from, the source's own state, if it ended."""

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
    """The items of a source, one after the other; `restart` begins anew at its end, for ever.

    A source that has `state_dict` and `load_state_dict` is asked for its state when the feed is, unless items were
    given back: the source has gone past those.  Then the state that it had when it was last asked is saved once more.
    What was read since is read again after loading, and passed over.  Of a source without a state that is all of the
    present pass.

    With `restart`, a source that has `set_epoch` is told the number of every pass before it is iterated: it can shuffle
    anew, and still give the same pass again.

    Parameters
    ----------
    name
        What messages call it.
    source
        Any iterable.
    restart
        Whether to iterate it anew at its end.

    Examples
    --------
    >>> feed = StreamReader("letters", "abc")
    >>> item = feed.take()
    >>> item.sample, feed.place.taken
    ('a', 1)
    >>> feed.give_back(item)
    >>> [feed.take().sample for _ in range(3)], feed.take()
    (['a', 'b', 'c'], None)
    """

    def __init__(self, name: str, source: Iterable[Any], *, restart: bool = False) -> None:
        if not isinstance(source, Iterable):
            raise TypeError(
                f"Source {name!r} must be an iterable of samples, got {type(source).__name__}. Of a data set with "
                f"indices make one by DataLoader(dataset, batch_size=None, shuffle=True)."
            )
        if restart and isinstance(source, Iterator):
            raise TypeError(
                f"Source {name!r} is an iterator ({type(source).__name__}), which can be gone through once, so it "
                f"cannot restart. Give what makes it: a list, a data set, an object with an __iter__ that begins anew."
            )
        self.name = name
        self.ended = False
        self._source, self._restart = source, restart
        self._iterator: Iterator[Any] | None = None
        self._back: deque[Item] = deque()
        self._next = START_PLACE  # of the iterator, which may be ahead of what was given
        self._mark: tuple[Place, State | None] = START_PLACE, None

    @property
    def place(self) -> Place:
        """Where the next item stands."""
        return self._back[0].place if self._back else self._next

    def take(self) -> Item | None:
        """Give the next item, first of those that were given back; None when there is no other."""
        return self._back.popleft() if self._back else self._read()

    def give_back(self, item: Item) -> None:
        """Take back an item, to be the next; of several the last one first."""
        self._back.appendleft(item)

    def close(self) -> None:
        """End here: let go of the source's iterator, and of items that were given back."""
        self._next = self.place
        self._back.clear()
        self._iterator, self.ended = None, True

    def _read(self) -> Item | None:
        while not self.ended:
            if self._iterator is None:
                self._iterator = self._begin_pass()
            try:
                sample = next(self._iterator)
            except StopIteration:
                self._end_pass()
            else:
                place = self._next
                self._next = Place(place.taken + 1, place.restarts, place.inside + 1)
                return Item(sample, place)
        return None

    def _begin_pass(self) -> Iterator[Any]:
        if self._restart and hasattr(self._source, "set_epoch"):
            self._source.set_epoch(self._next.restarts)
        return iter(self._source)

    def _end_pass(self) -> None:
        if not self._restart:
            self.ended = True
        elif self._next.inside == 0:
            when = f"when it was iterated again, after {self._next.taken} items" if self._next.taken else "at all"
            raise ValueError(f"Source {self.name!r} gave nothing {when}, so it cannot restart. Leave it out.")
        else:
            self._iterator = None
            self._next = Place(self._next.taken, self._next.restarts + 1, 0)

    @property
    def _stateful(self) -> bool:
        return hasattr(self._source, "state_dict") and hasattr(self._source, "load_state_dict")

    def state_dict(self) -> State:
        """Give the place, the place from which to read on after loading, and the source's own state there, if any."""
        if not self._stateful:
            place = self.place
            self._mark = Place(place.taken - place.inside, place.restarts, 0), None
        elif self._iterator is not None and not self._back and not self.ended:
            self._mark = self._next, deepcopy(self._source.state_dict())  # type: ignore[attr-defined]
        mark, own = self._mark
        ended = self.ended and not self._back
        return {"place": list(self.place), "mark": list(mark), "own": deepcopy(own), "ended": ended}

    def check(self, state: object) -> SavedReader:
        """Return a saved state after checking all of it that can be checked before the source is touched."""
        require_entries(state, {"place", "mark", "own", "ended"}, f"source {self.name!r}")
        assert isinstance(state, Mapping)
        saved = SavedReader(
            as_place(state["place"], "place"), as_place(state["mark"], "mark"), state["own"], read_flag(state, "ended")
        )
        if saved.ended if self._restart else saved.place.restarts:
            said = "has ended" if self._restart else f"was in pass {saved.place.restarts}"
            raise CheckpointError(f"The saved source {self.name!r} {said}, and this one never does.")
        if not saved.ended:
            self._check_mark(saved)
        return saved

    def _check_mark(self, saved: SavedReader) -> None:
        """Refuse a state from whose mark its place cannot be reached, or that the source cannot be brought to."""
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
        """Return a feed of the same source that goes on where the state was saved."""
        place, mark, own, ended = self.check(state)
        feed = StreamReader(self.name, self._source, restart=self._restart)
        if ended:
            feed._next, feed.ended = place, True
            return feed
        feed._next, feed._mark = mark, (mark, deepcopy(own))
        if own is not None:
            feed._load_source(deepcopy(own))
        feed._pass_over(place)
        return feed

    def _check_fresh(self) -> None:
        once = isinstance(self._source, Iterator) or self._stateful
        if once and (self._iterator is not None or self._next != START_PLACE):
            raise CheckpointError(
                f"Source {self.name!r} has been read from, and how to go back to where it began is not known. Load "
                f"before anything is read."
            )

    def _check_stateful(self) -> None:
        if not self._stateful:
            raise CheckpointError(
                f"Source {self.name!r} was saved with a state of its own, and {type(self._source).__name__} has no "
                f"load_state_dict. Give the source that was saved."
            )

    def _load_source(self, own: object) -> None:
        try:
            self._source.load_state_dict(own)  # type: ignore[attr-defined]
        except Exception as error:
            reason = make_printable(f"{type(error).__name__}: {error}")
            raise CheckpointError(f"Source {self.name!r} refuses the state that was saved of it ({reason}).") from error

    def _pass_over(self, place: Place) -> None:
        """Read again what was read from the mark on; the source must be as it was."""
        while self._next.taken < place.taken and self._next.restarts <= place.restarts and self._read() is not None:
            pass
        at_the_end = place.inside == 0 and self._next[:2] == (place.taken, place.restarts - 1)  # of the pass before
        if self._next != place and not at_the_end:
            raise CheckpointError(
                f"Source {self.name!r} is not as it was: when it was saved {place.inside} items of pass "
                f"{place.restarts} had been taken, and now there are no more than {self._next.inside}."
            )


def as_place(values: object, name: str) -> Place:
    """Check three counts that can be those of one place."""
    if not isinstance(values, (list, tuple)) or len(values) != 3:
        raise CheckpointError(f"The saved {name} of a source is three numbers, got {describe_value(values)}.")
    place = Place(*(read_count({name: value}, name) for value in values))
    before = place.taken - place.inside  # in the passes before, which had an item each at least
    if before < place.restarts or (before and not place.restarts):
        raise CheckpointError(f"The saved {name} of a source cannot be {place}: the numbers contradict each other.")
    return place
