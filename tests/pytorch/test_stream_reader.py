import pytest

from support.streams import Counting, Shuffled
from varmix.torch._stream_source import START_PLACE, Place, StreamReader

SOURCES = {"list": lambda: list("abcdefg"), "stateful": lambda: Counting(7), "epochs": lambda: Shuffled(7)}


def samples(reader, count):
    """Return this many samples, fewer if the reader ends."""
    taken = (reader.take() for _ in range(count))
    return [item.sample for item in taken if item is not None]


def test_items_come_in_order_and_those_given_back_come_next():
    reader = StreamReader("a", range(5))
    first, second, third = (reader.take() for _ in range(3))
    assert reader.place == Place(3, 0, 3)
    reader.put_back(third)
    reader.put_back(second)
    assert reader.place == Place(1, 0, 1)
    assert (first.sample, samples(reader, 9)) == (0, [1, 2, 3, 4])
    assert reader.ended
    assert reader.take() is None


def test_a_source_is_not_touched_before_something_is_taken():
    source = Counting(3)
    reader = StreamReader("a", source)
    assert reader.state_dict() == {"place": [0, 0, 0], "mark": [0, 0, 0], "own": None, "ended": False}
    assert (source.epochs, source.asked) == (-1, 0)


def test_a_reader_that_restarts_tells_its_source_the_number_of_the_epoch():
    reader = StreamReader("a", Shuffled(4), restart=True)
    epochs = [samples(reader, 4) for _ in range(3)]
    expected = Shuffled(4)
    for epoch in range(3):
        expected.set_epoch(epoch)
        assert epochs[epoch] == list(expected)
    assert reader.place == Place(12, 2, 4)
    plain = Shuffled(4)
    plain.set_epoch(5)
    samples(StreamReader("a", plain), 9)
    assert plain.epoch == 5


def test_none_is_a_sample_like_others():
    assert samples(StreamReader("a", [None, 1]), 1) == [None]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("back", [0, 2])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_saved_reader_goes_on_from_anywhere(kind, back, restart):
    for before in range(back, 16 if restart else 8):
        reader = StreamReader("a", SOURCES[kind](), restart=restart)
        taken = [reader.take() for _ in range(before)]
        for item in reversed(taken[before - back :]):
            reader.put_back(item)
        state = reader.state_dict()
        again = StreamReader("a", SOURCES[kind](), restart=restart).loaded(state)
        assert again.place.taken == reader.place.taken == before - back
        assert samples(again, 20) == samples(reader, 20)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_reader_that_was_loaded_can_be_saved_at_once_and_later(kind):
    reader = StreamReader("a", SOURCES[kind](), restart=True)
    samples(reader, 5)
    reader = StreamReader("a", SOURCES[kind](), restart=True).loaded(reader.state_dict())
    reader = StreamReader("a", SOURCES[kind](), restart=True).loaded(reader.state_dict())
    items = [reader.take() for _ in range(4)]  # over the end of the epoch
    for item in reversed(items):
        reader.put_back(item)
    again = StreamReader("a", SOURCES[kind](), restart=True).loaded(reader.state_dict())
    assert samples(again, 20) == samples(reader, 20)


def test_a_source_with_a_state_is_not_read_again_from_its_start():
    reader = StreamReader("a", Counting(100))
    samples(reader, 60)
    assert reader.state_dict()["mark"] == [60, 0, 60]
    item = [reader.take() for _ in range(3)][-1]
    reader.put_back(item)
    state = reader.state_dict()  # the source is ahead: what it said last, and two more
    assert (state["mark"], state["place"]) == ([60, 0, 60], [62, 0, 62])
    again = StreamReader("a", Counting(100)).loaded(state)
    assert samples(again, 50) == samples(reader, 50)


def test_a_saved_state_does_not_change_with_its_source():
    class Growing(Counting):
        seen: list

        def state_dict(self):
            return super().state_dict() | {"seen": self.seen}

    source = Growing(5)
    source.seen = [1]
    reader = StreamReader("a", source)
    samples(reader, 2)
    state = reader.state_dict()
    source.seen.append(2)
    assert state["own"]["seen"] == [1]


def test_a_closed_reader_stays_closed_and_is_never_read_again():
    class Once:
        def __iter__(self):
            raise AssertionError("read again")

    reader = StreamReader("a", range(5))
    reader.put_back([reader.take() for _ in range(3)][-1])
    reader.close()
    assert reader.place == Place(2, 0, 2)
    assert reader.take() is None
    again = StreamReader("a", Once()).loaded(reader.state_dict())
    assert (again.place, again.ended, again.take()) == (reader.place, True, None)


def test_what_was_given_back_at_the_end_is_still_there_after_loading():
    reader = StreamReader("a", range(3))
    items = [reader.take() for _ in range(4)]
    assert items.pop() is None
    reader.put_back(items[-1])
    assert samples(StreamReader("a", range(3)).loaded(reader.state_dict()), 5) == [2]


def test_what_cannot_be_iterated_or_iterated_again_is_refused():
    with pytest.raises(TypeError, match="Source 'a' must be an iterable of samples, got int"):
        StreamReader("a", 5)
    with pytest.raises(TypeError, match="Source 'a' is an iterator \\(list_iterator\\), which can be read only once"):
        StreamReader("a", iter([1]), restart=True)
    StreamReader("a", iter([1]))


def test_a_source_that_gives_nothing_is_refused_instead_of_read_for_ever():
    reader = StreamReader("a", [], restart=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="Source 'a' returned no items, so it cannot restart"):
            reader.take()
        assert reader.place == START_PLACE

    class Once:
        def __init__(self):
            self.items = iter([1, 2])

        def __iter__(self):
            return self.items

    reader = StreamReader("a", Once(), restart=True)
    assert samples(reader, 2) == [1, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="returned no items when it was iterated again, after 2 items"):
            reader.take()
    assert StreamReader("a", []).take() is None


def test_an_iterator_goes_on_where_it_was_saved_if_nothing_was_read_from_it():
    reader = StreamReader("a", iter(range(9)))
    samples(reader, 4)
    state = reader.state_dict()
    assert samples(StreamReader("a", iter(range(9))).loaded(state), 9) == [4, 5, 6, 7, 8]
    for begun in (reader, StreamReader("a", Counting(9))):
        begun.take()
        place = begun.place
        with pytest.raises(ValueError, match="Source 'a' has been read from"):
            begun.loaded(state)
        assert begun.place == place


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        (range(9), {"something": 1}, "does not belong to source 'a'"),
        (range(9), {"place": [1, 2]}, "place of a source is three numbers"),
        (range(9), {"mark": 3}, "mark of a source is three numbers"),
        (range(9), {"place": [4, -1, 4]}, "place must be a whole number in 0\\.\\.\\d+, got -1"),
        (range(9), {"place": [4, 1, 4]}, "place of a source cannot be .*restarts=1"),
        (range(9), {"place": [4, 1, 3]}, "'a' has restarted 1 times, and this one never does"),
        (range(9), {"place": [5, 0, 4]}, "place of a source cannot be"),
        (range(9), {"mark": [3, 0, 3]}, "cannot be read on from Place\\(taken=3"),
        (range(9), {"place": [4.0, 0, 4]}, "Saved place must be a whole number"),
        (range(9), {"ended": 1}, "ended must be True or False"),
        (range(2), {}, "Source 'a' has changed: 4 items of epoch 0 were taken"),
        (range(9), {"own": {"position": 4}}, "saved with a state of its own, and range has no load_state_dict"),
    ],
)
def test_other_states_are_refused(source, change, message):
    reader = StreamReader("a", range(9))
    samples(reader, 4)
    other = StreamReader("a", source)
    other.take()
    with pytest.raises(ValueError, match=message):
        other.loaded(reader.state_dict() | change)
    assert other.take().sample == 1
