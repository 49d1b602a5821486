import itertools

import numpy as np
import pytest

from support.replay import BOX, DISCRETE, IMAGE, Space
from varmix.rl import ReplayBuffer
from varmix.rl._transitions import make_layout

NESTED = Space(spaces={"pair": Space(spaces=(BOX, DISCRETE)), "image": IMAGE})
VALUE = {"pair": (np.arange(4, dtype=np.float32), np.int64(7)), "image": np.full((2, 3), 255, np.uint8)}


def _split(space, value, lead=()):
    arrays = []
    make_layout(space, "observation").split(value, lead, arrays)
    return arrays


def test_a_nested_value_is_split_into_the_arrays_of_its_leaves_and_joined_again():
    arrays = _split(NESTED, VALUE)
    assert [array.dtype for array in arrays] == [np.float32, np.int64, np.uint8]
    again = make_layout(NESTED, "observation").join(iter(arrays))
    assert again["pair"][0] is VALUE["pair"][0]
    assert again["pair"][1] == 7
    assert again["image"] is VALUE["image"]
    assert list(again) == ["pair", "image"]


def test_leaves_are_named_by_the_way_to_them():
    names = [leaf.name for leaf in make_layout(NESTED, "observation").leaves]
    assert names == ["observation['pair'][0]", "observation['pair'][1]", "observation['image']"]


def test_an_empty_dictionary_or_tuple_has_no_leaves():
    for spaces in ({}, ()):
        assert make_layout(Space(spaces=spaces), "observation").leaves == []
        assert _split(Space(spaces=spaces), spaces) == []


CASTS = {
    "a list": (BOX, [1, 2, 3, 4]),
    "doubles": (BOX, np.ones(4)),
    "a Python integer": (DISCRETE, 3),
    "a short integer": (DISCRETE, np.int8(3)),
    "an array without axes": (DISCRETE, np.array(3)),
    "whole numbers that fit": (IMAGE, np.full((2, 3), 255)),
    "booleans": (IMAGE, np.ones((2, 3), bool)),
    "another byte order": (BOX, np.ones(4, ">f4")),
}


@pytest.mark.parametrize("name", CASTS)
def test_values_that_can_be_cast_are_cast(name):
    space, value = CASTS[name]
    (array,) = _split(space, value)
    assert np.asarray(array).dtype == space.dtype
    assert np.array_equal(array, value)


REFUSED = {
    "another shape": (BOX, np.ones(3, np.float32), ValueError, r"shape \(4,\), got \(3,\)"),
    "one axis too many": (BOX, np.ones((1, 4), np.float32), ValueError, r"got \(1, 4\)"),
    "ragged rows": (BOX, [[1], [1, 2]], TypeError, "different lengths"),
    "floats for bytes": (IMAGE, np.ones((2, 3)), TypeError, "float64 cannot be cast"),
    "a float for a choice": (DISCRETE, 1.0, TypeError, "must be int64"),
    "too large for a byte": (IMAGE, np.full((2, 3), 256), TypeError, "without loss"),
    "too small for a byte": (IMAGE, np.full((2, 3), -1), TypeError, "without loss"),
    "beyond 64 bits": (DISCRETE, 2**63, TypeError, "without loss"),
    "words": (DISCRETE, "left", TypeError, "without loss"),
    "nothing": (BOX, None, ValueError, r"got \(\)"),
    "a mask": (BOX, np.ma.masked_array(np.ones(4, np.float32), [0, 0, 0, 1]), TypeError, "masked"),
    "an array for a dictionary": (NESTED, np.ones(4), ValueError, r"keys \['pair', 'image'\], got a ndarray"),
    "a missing key": (NESTED, {"pair": VALUE["pair"]}, ValueError, r"got the keys \['pair'\]"),
    "one key too many": (NESTED, VALUE | {"more": 1}, ValueError, r"got the keys \['pair', 'image', 'more'\]"),
    "another key": (NESTED, {"pair": 1, "picture": 1}, ValueError, "picture"),
    "a longer tuple": (
        NESTED,
        VALUE | {"pair": (1, 2, 3)},
        ValueError,
        r"\['pair'\] must be a tuple of 2, got a tuple",
    ),
    "a set for a tuple": (NESTED, VALUE | {"pair": {1, 2}}, ValueError, "got a set"),
    "deep inside": (NESTED, VALUE | {"pair": ([1], 2)}, ValueError, r"observation\['pair'\]\[0\] must have shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_of_other_spaces_are_refused(name):
    space, value, error, says = REFUSED[name]
    with pytest.raises(error, match=says):
        _split(space, value)


class OneOf:
    shape = dtype = None
    spaces = (BOX, DISCRETE)


SPACES = {
    "nothing": None,
    "a number": 4,
    "words": Space(shape=None, dtype=np.dtype(str)),
    "words of one shape": Space(shape=(3,), dtype=np.dtype(str)),
    "objects": Space(shape=(3,), dtype=np.dtype(object)),
    "no dtype": Space(shape=(3,), dtype=None),
    "a dtype that is none": Space(shape=(3,), dtype="nonsense"),
    "more digits than can be saved": Space(shape=(3,), dtype=np.longdouble),
    "a shape that is a number": Space(shape=3, dtype=np.float32),
    "a negative shape": Space(shape=(-1,), dtype=np.float32),
    "one of several": OneOf(),
    "deep inside": Space(spaces={"a": Space(spaces=[BOX, Space(shape=None, dtype=None)])}),
}


def test_numbers_are_kept_in_the_order_of_the_machine():
    buffer = ReplayBuffer(10, Space(shape=(2,), dtype=np.dtype(">f4")), DISCRETE, rng=0)
    buffer.add(np.array([1, 2], ">f4"), 0, 1.0, np.array([3, 4], ">f4"), terminated=False)
    batch = buffer.transitions([0])
    assert batch.observations.dtype.isnative
    assert batch.next_observations.tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize("name", SPACES)
def test_spaces_without_one_shape_of_numbers_are_refused(name):
    with pytest.raises(TypeError, match="one shape and dtype"):
        make_layout(SPACES[name], "observation")
    with pytest.raises(TypeError, match="one shape and dtype"):
        ReplayBuffer(10, BOX, SPACES[name])


def test_the_leading_axis_is_that_of_environments():
    assert _split(IMAGE, np.ones((5, 2, 3), np.uint8), (5,))[0].shape == (5, 2, 3)
    with pytest.raises(ValueError, match=r"shape \(5, 2, 3\), got \(2, 3\)"):
        _split(IMAGE, np.ones((2, 3), np.uint8), (5,))


def _gymnasium_spaces(spaces):
    simple = {
        "box": spaces.Box(-1.0, 1.0, (3,)),
        "doubles": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
        "scalar": spaces.Box(0.0, 1.0, ()),
        "image": spaces.Box(0, 255, (4, 4, 1), np.uint8),
        "discrete": spaces.Discrete(5, start=-2),
        "several": spaces.MultiDiscrete([3, 4]),
        "grid": spaces.MultiDiscrete([[2, 2], [3, 3]]),
        "bits": spaces.MultiBinary(6),
        "bits in a square": spaces.MultiBinary([2, 2]),
    }
    return simple | {
        "dict": spaces.Dict(simple),
        "tuple": spaces.Tuple(list(simple.values())),
        "nested": spaces.Dict({"a": spaces.Tuple([simple["image"], spaces.Dict(simple)]), "b/c": simple["box"]}),
    }


def _rows(value, i):
    if isinstance(value, dict):
        return {key: _rows(part, i) for key, part in value.items()}
    return tuple(_rows(part, i) for part in value) if isinstance(value, tuple) else value[i, ...]


def test_every_kind_of_space_of_gymnasium_comes_back_as_it_went_in():
    spaces = pytest.importorskip("gymnasium").spaces
    for name, space in _gymnasium_spaces(spaces).items():
        space.seed(0)
        buffer = ReplayBuffer(8, space, space, rng=0)
        samples = [space.sample() for _ in range(9)]
        for before, after in itertools.pairwise(samples):
            buffer.add(before, before, 0.0, after, False)
        batch, draw = buffer.sample(8)
        for i, item in enumerate(draw.indices):
            for values, step in (
                (batch.observations, item),
                (batch.actions, item),
                (batch.next_observations, item + 1),
            ):
                row = _rows(values, i)
                assert space.contains(row), name
                assert spaces.utils.flatten(space, row).tolist() == spaces.utils.flatten(space, samples[step]).tolist()


@pytest.mark.parametrize("kind", ["Text", "Sequence", "Graph", "OneOf"])
def test_spaces_of_gymnasium_that_have_no_shape_are_refused(kind):
    spaces = pytest.importorskip("gymnasium").spaces
    box = spaces.Box(0.0, 1.0, (2,))
    made = {"Text": (5,), "Sequence": (box,), "Graph": (box, None), "OneOf": ([box, box],)}[kind]
    with pytest.raises(TypeError, match=kind):
        ReplayBuffer(10, getattr(spaces, kind)(*made), spaces.Discrete(2))
