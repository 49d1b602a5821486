"""Mutations: every way in which a nested state is damaged, by the number of a case.

A state is nested dictionaries, lists and tuples with arrays, tensors, numbers and strings as leaves.  A mutation is a
place in it and the name of a damage.  Three of four cases have one mutation, and walk through all that there are in an
order that the seed shuffles; every fourth has several at once, or a part of another object's state.
"""

import copy
import sys
from collections import Counter
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

import numpy as np

MISSING = object()
INT64 = np.iinfo(np.int64)
CONTROL = "\x1b[2J\x07\n\r\x00\u202e\ud800"


class Mutation(NamedTuple):
    """A place in a state and the name of what happens there."""

    path: tuple
    name: str

    def __str__(self):
        return f"{'.'.join(map(str, self.path)) or 'the state'}: {self.name}"


def stream(seed, name, number):
    """Return the random numbers of a case."""
    return np.random.default_rng([seed, crc32(name.encode()), number])


def places(state, path=()):
    """Yield the path and the value of everything in a state, itself first."""
    yield path, state
    if type(state) is dict:
        parts = state.items()
    elif type(state) in (list, tuple):
        parts = enumerate(state)
    else:
        return
    for key, part in parts:
        yield from places(part, (*path, key))


def at(state, path):
    for key in path:
        state = state[key]
    return state


def changed(state, path, value):
    """Return a state with another value in one place, or without the entry if it is `MISSING`; the given one stays."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    parts = dict(state) if isinstance(state, dict) else dict(enumerate(state))
    parts[key] = changed(parts[key], rest, value)
    if parts[key] is MISSING:
        del parts[key]
    return parts if isinstance(state, dict) else type(state)(parts.values())


class Mutations:
    """All mutations of a state, in an order that the seed shuffles.

    Parameters
    ----------
    name
        Of the target, which is part of the seed.
    state
        What its cases damage.
    others
        States of other objects, parts of which take the place of this one's.
    seed
        A whole number.
    """

    def __init__(self, name, state, others, seed):
        self._name, self._state, self._others, self._seed = name, state, others, seed
        ways = singles(state)
        order = np.random.default_rng([seed, crc32(name.encode())]).permutation(len(ways))
        self._ways = [ways[i] for i in order]

    def case(self, number):
        """Return the state of a case, and in words how it was damaged."""
        rng, state = stream(self._seed, self._name, number), self._state
        if number % 4 != 3:
            way = self._ways[(number - number // 4) % len(self._ways)]
            return apply(state, way, rng), str(way)
        if self._others and rng.random() < 0.5:
            return _grafted(state, self._others[rng.integers(len(self._others))], rng)
        return _damaged_often(state, rng)


def _damaged_often(state, rng):
    words = []
    for _ in range(rng.integers(2, 5)):
        everywhere = list(places(state))
        path, value = everywhere[rng.integers(len(everywhere))]
        names = names_of(path, value)
        way = Mutation(path, names[rng.integers(len(names))])
        with suppress(ArithmeticError, LookupError, TypeError, ValueError):  # of what is damaged already
            state = apply(state, way, rng)
            words.append(str(way))
    return state, "; ".join(words)


def singles(state):
    """Return every single mutation of a state."""
    everything = list(places(state))
    kinds = Counter(_kind(value) for _, value in everything)
    found = []
    for path, value in everything:
        found += [Mutation(path, name) for name in names_of(path, value)]
        if _kind(value) is not None and kinds[_kind(value)] > 1:
            found.append(Mutation(path, "swapped with a twin"))
    return found


def names_of(path, value):
    """Return the names of what can happen to a value by itself."""
    return [*damages(value), *(["missing"] if path else [])]


def _kind(value):
    """Return what two values have in common that can be swapped without a change of shape or type."""
    if hasattr(value, "dtype"):
        return type(value), value.dtype, tuple(value.shape)
    return type(value) if isinstance(value, (int, float)) else None


def apply(state, way, rng):
    """Return the state after one mutation."""
    value = at(state, way.path)
    if way.name == "missing":
        return changed(state, way.path, MISSING)
    if way.name == "swapped with a twin":
        twins = [path for path, other in places(state) if path != way.path and _kind(other) == _kind(value)]
        twin = twins[rng.integers(len(twins))]
        return changed(changed(state, way.path, at(state, twin)), twin, value)
    whole = isinstance(value, np.ndarray) and value.size < 2**30
    own = copy.deepcopy(value) if whole or is_dense(value) else value
    with np.errstate(all="ignore"):
        damaged = damages(value)[way.name](own, rng)  # which may be a view of what it is given
    return changed(state, way.path, damaged)


def _grafted(state, other, rng):
    """Put a part of another state in the place of the same part of this one."""
    shared = [path for path, _ in places(other) if path and _has(state, path)]
    path = shared[rng.integers(len(shared))]
    return changed(state, path, at(other, path)), f"{'.'.join(map(str, path))}: that of another object"


def _has(state, path):
    try:
        at(state, path)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def damages(value):
    """Return the damages that a value can take: functions of the value and of random numbers, by name."""
    if isinstance(value, (bool, np.bool_)):
        return FLAGS
    if isinstance(value, (int, np.integer)):
        return COUNTS
    if isinstance(value, (float, np.floating)):
        return NUMBERS
    if isinstance(value, str):
        return TEXTS
    if isinstance(value, Deep):
        return NOTHINGS
    if isinstance(value, dict):
        return DICTIONARIES
    if isinstance(value, (list, tuple)):
        return SEQUENCES
    if isinstance(value, np.ndarray) and value.size < 2**30:
        return ARRAYS[value.dtype.kind if value.dtype.kind in "biuf" and value.ndim else "?"]
    if is_dense(value):
        return _tensor_damages(value)
    return NOTHINGS


def _constant(value):
    return lambda old, rng: value


class Deep(dict):
    """A dictionary in a dictionary in a dictionary, five thousand of them; nothing here looks into it."""


def _nested():
    value = {}
    for _ in range(5000):
        value = {"deep": value}
    return Deep(value)


def _wide(rng):
    """Return a whole number of any size and sign."""
    return int(rng.integers(INT64.min, INT64.max, endpoint=True)) >> int(rng.integers(63))


WRONG = {
    "None": _constant(None),
    "an empty text": _constant(""),
    "an empty list": _constant([]),
    "an empty dictionary": _constant({}),
    "in a list": lambda value, rng: [value],
    "in a dictionary": lambda value, rng: {"0": value},
    "deeply nested": _constant(_nested()),
    "bytes": _constant(b"\x00\xff"),
    "an object": _constant(MISSING.__class__),
}
WHOLE = {
    f"is {name}": _constant(number)
    for name, number in {
        "0": 0,
        "-1": -1,
        "2^31": 2**31,
        "2^32": 2**32,
        "2^53 + 1": 2**53 + 1,
        "2^62 - 1": 2**62 - 1,
        "2^62": 2**62,
        "the largest": INT64.max,
        "the smallest": INT64.min,
        "2^63": 2**63,
        "2^64": 2**64,
        "10^5000": 10**5000,
        "-10^5000": -(10**5000),
    }.items()
}
REAL = {
    f"is {name}": _constant(number)
    for name, number in {
        "NaN": np.nan,
        "inf": np.inf,
        "-inf": -np.inf,
        "1e308": 1e308,
        "-1e308": -1e308,
        "1e200": 1e200,
        "1e30": 1e30,
        "1e-320": 1e-320,
        "-0.0": -0.0,
        "0.0": 0.0,
        "-1.0": -1.0,
    }.items()
}
COUNTS = (
    WRONG
    | WHOLE
    | REAL
    | {
        "one more": lambda value, rng: value + 1,
        "one less": lambda value, rng: value - 1,
        "negative": lambda value, rng: -value,
        "a half more": lambda value, rng: value + 0.5,
        "twice": lambda value, rng: 2 * value,
        "any number": lambda value, rng: _wide(rng),
        "a float": lambda value, rng: float(value) if abs(value) < 2**1000 else 1e300,
        "a bool": lambda value, rng: bool(value),
        "a text": lambda value, rng: str(value)[:50] if abs(value) < 10**50 else "huge",
        "a NumPy number": lambda value, rng: np.int64(int(value) % 2**63),
        "an array": lambda value, rng: np.array([int(value) % 2**63]),
        "an array of no dimension": lambda value, rng: np.array(int(value) % 2**63),
    }
)
NUMBERS = (
    WRONG
    | WHOLE
    | REAL
    | {
        "negative": lambda value, rng: -value,
        "twice": lambda value, rng: 2 * value,
        "a bit more": lambda value, rng: float(np.nextafter(value, np.inf)),
        "an int": lambda value, rng: int(value) if np.isfinite(value) else 0,
        "single precision": lambda value, rng: np.float32(value),
        "complex": lambda value, rng: complex(value, 1.0),
        "a bool": lambda value, rng: bool(value),
        "a text": lambda value, rng: str(value),
        "an array": lambda value, rng: np.array([value]),
        "an array of no dimension": lambda value, rng: np.array(value),
    }
)
FLAGS = WRONG | {
    "the other": lambda value, rng: not value,
    "an int": lambda value, rng: int(value),
    "two": _constant(2),
    "NaN": _constant(np.nan),
    "a text": lambda value, rng: str(value),
    "a NumPy flag": lambda value, rng: np.bool_(not value),
    "an array": lambda value, rng: np.array([value, value]),
}
TEXTS = WRONG | {
    "control characters": lambda value, rng: value + CONTROL,
    "a million characters": lambda value, rng: value + "x" * 1_000_000,
    "backwards": lambda value, rng: value[::-1] + "!",
    "capital": lambda value, rng: value.upper(),
    "one character": lambda value, rng: _respelled(value, rng),
    "a number": _constant(7),
    "True": _constant(True),
}
NOTHINGS = {name: damage for name, damage in WRONG.items() if name != "None"} | {
    "zero": _constant(0),
    "NaN": _constant(np.nan),
    "a text": _constant("none"),
    "numbers": lambda value, rng: rng.random(3),
    "any number": lambda value, rng: _wide(rng),
}


def _respelled(text, rng):
    if not text:
        return "?"
    place = rng.integers(len(text))
    return text[:place] + chr(rng.integers(1, 0x2000)) + text[place + 1 :]


def _renamed(value, rng):
    if not value:
        return {"renamed": 0}
    chosen = list(value)[rng.integers(len(value))]
    return {(f"{key}s" if key == chosen else key): part for key, part in value.items()}


DICTIONARIES = {name: damage for name, damage in WRONG.items() if name != "an empty dictionary"} | {
    "empty": _constant({}),
    "an entry more": lambda value, rng: value | {"more": 0.0},
    "a numbered entry more": lambda value, rng: value | {str(len(value)): {}},
    "an entry with a strange name": lambda value, rng: value | {CONTROL: 1},
    "a key that is a number": lambda value, rng: value | {0: 1},
    "a key that is None": lambda value, rng: value | {None: 1},
    "an entry renamed": _renamed,
    "another order": lambda value, rng: dict(reversed(value.items())),
    "a list of its entries": lambda value, rng: list(value.values()),
    "a list of its names": lambda value, rng: list(value),
    "ten thousand entries": lambda value, rng: value | {f"{i}": i for i in range(10_000)},
    "names with times": lambda value, rng: value | {f"{i:032x}": i for i in range(200)},
}
SEQUENCES = WRONG | {
    "shorter": lambda value, rng: value[:-1],
    "longer": lambda value, rng: type(value)([*value, *value[-1:]]),
    "backwards": lambda value, rng: value[::-1],
    "the other sequence": lambda value, rng: tuple(value) if isinstance(value, list) else list(value),
    "numbers instead": lambda value, rng: type(value)(range(len(value))),
    "a thousand times": lambda value, rng: type(value)([*value] * 1000),
    "its first entry": lambda value, rng: value[0] if value else 0,
}


def _entry(make):
    """Return the damage of one entry of an array: `make` is a number, or a function of the old one and the array."""

    def damage(value, rng):
        if value.size == 0:
            return np.append(value, value.dtype.type(1))
        array = np.array(value, order="C")
        place = np.unravel_index(rng.integers(array.size), array.shape)
        array[place] = make(array[place], array, rng) if callable(make) else make
        return array

    return damage


def _within(array, number):
    """Return a number in the range of an array of whole numbers."""
    limits = np.iinfo(array.dtype)
    return min(max(int(number), limits.min), limits.max)


def _swapped(value, rng):
    if value.size < 2:
        return np.concatenate([value.ravel(), value.ravel()])
    array = np.array(value, order="C")
    flat, place = array.reshape(-1), rng.integers(array.size - 1)
    flat[[place, place + 1]] = flat[[place + 1, place]]
    return array


def _bytes_flipped(count):
    def damage(value, rng):
        content = bytearray(np.array(value, order="C").tobytes() or b"\x01" * value.dtype.itemsize)
        for place in rng.integers(len(content), size=min(count, len(content))):
            content[place] ^= rng.integers(1, 256)
        array = np.frombuffer(bytes(content), dtype=value.dtype).copy()
        return array.reshape(value.shape) if array.size == value.size else array

    return damage


def _cast(dtype):
    def damage(value, rng):
        return np.asarray(value).astype(dtype)

    return damage


def _wider(value, rng):
    return np.concatenate([value, value], axis=-1)


def _apart(value, rng):
    """Return the same entries, not one beside the other in memory."""
    return np.repeat(np.array(value), 2, axis=-1)[..., ::2]


def _expanded(value, rng):
    """Return an array of a trillion entries that takes a few bytes."""
    first = np.asarray(value).reshape(-1)[:1] if value.size else np.zeros(1, value.dtype)
    return np.broadcast_to(first, (2**20, 2**20) if value.ndim > 1 else (2**40,))


SHAPES = WRONG | {
    "shorter": lambda value, rng: value[:-1],
    "longer": lambda value, rng: np.concatenate([value, value[-1:]]),
    "three times": lambda value, rng: np.concatenate([value] * 3),
    "a hundred thousand longer": lambda value, rng: np.concatenate(
        [value, np.zeros((100_000, *value.shape[1:]), value.dtype)]
    ),
    "wider": _wider,
    "an axis more": lambda value, rng: value[None],
    "an axis more behind": lambda value, rng: value[..., None],
    "flat": lambda value, rng: value.reshape(-1) if value.ndim > 1 else value.reshape(-1, 1),
    "empty": lambda value, rng: value[:0],
    "transposed": lambda value, rng: value.T if value.ndim > 1 else value[::-1],
    "no dimension": lambda value, rng: np.array(value.reshape(-1)[0]) if value.size else np.array(0),
    "a number": lambda value, rng: value.reshape(-1)[0].item() if value.size else 0,
    "a list": lambda value, rng: value.tolist(),
    "a text": lambda value, rng: str(value),
    "backwards": lambda value, rng: value[::-1],
    "not contiguous": _apart,
    "a trillion entries": _expanded,
    "masked": lambda value, rng: np.ma.masked_array(value, np.arange(value.size).reshape(value.shape) % 2),
    "neighbours swapped": _swapped,
    "all alike": lambda value, rng: (
        np.full_like(value, value.reshape(-1)[0]) if value.size else np.ones(1, value.dtype)
    ),
    "zeros": lambda value, rng: np.zeros_like(value),
    "a byte flipped": _bytes_flipped(1),
    "bytes flipped": _bytes_flipped(16),
    **{
        f"{dtype}": _cast(dtype)
        for dtype in (
            "float64",
            "float32",
            "float16",
            "int64",
            "int32",
            "int8",
            "uint8",
            "uint64",
            "bool",
            "complex128",
        )
    },
    "objects": _cast(object),
    "texts": _cast("U8"),
    "dates": lambda value, rng: np.zeros(value.shape, "datetime64[s]"),
    "the other byte order": lambda value, rng: value.astype(value.dtype.newbyteorder()),
    "objects that are no numbers": lambda value, rng: np.full(value.shape, None, dtype=object),
}
WHOLE_ENTRIES = {
    "an entry one more": _entry(lambda old, array, rng: _within(array, int(old) + 1)),
    "an entry one less": _entry(lambda old, array, rng: _within(array, int(old) - 1)),
    "an entry negative": _entry(lambda old, array, rng: _within(array, -int(old) or -1)),
    "an entry n": _entry(lambda old, array, rng: _within(array, len(array))),
    "an entry n + 1": _entry(lambda old, array, rng: _within(array, len(array) + 1)),
    "an entry the largest": _entry(lambda old, array, rng: np.iinfo(array.dtype).max),
    "an entry the smallest": _entry(lambda old, array, rng: np.iinfo(array.dtype).min),
    "an entry any number": _entry(lambda old, array, rng: _within(array, _wide(rng))),
    "an entry another's": _entry(lambda old, array, rng: array.reshape(-1)[rng.integers(array.size)]),
    "all one more": lambda value, rng: value + value.dtype.type(1),
    "all huge": lambda value, rng: np.full_like(value, np.iinfo(value.dtype).max // 2),
    "all negative": lambda value, rng: np.negative(value),
}
REAL_ENTRIES = {
    **{
        f"an entry {number}": _entry(number)
        for number in (np.nan, np.inf, -np.inf, -0.0, 0.0, -1.0, 1.0, 1e-300, 1e-30, 1e15)
    },
    **{
        f"an entry {number}": _entry(lambda old, array, rng, number=number: _fitting(array, number))
        for number in (1e308, -1e308, 1e-320, 1e200, 1e30)
    },
    "an entry negative": _entry(lambda old, array, rng: -old),
    "an entry twice": _entry(lambda old, array, rng: old / 2 if old > 1e30 else 2 * old),
    "an entry a bit more": _entry(lambda old, array, rng: np.nextafter(old, array.dtype.type(np.inf))),
    "all negative": lambda value, rng: -value,
    "all NaN": lambda value, rng: np.full_like(value, np.nan),
    "all large": lambda value, rng: _scaled(value, 1e300),
    "all 1e308": lambda value, rng: np.full_like(value, _fitting(value, 1e308)),
    "all larger": lambda value, rng: _scaled(value, 1e6),
    "all small": lambda value, rng: _scaled(value, 1e-300),
    "all random": lambda value, rng: rng.normal(size=value.shape).astype(value.dtype),
}
ARRAYS = {
    "f": SHAPES | REAL_ENTRIES,
    "i": SHAPES | WHOLE_ENTRIES,
    "u": SHAPES | WHOLE_ENTRIES,
    "b": SHAPES | {"an entry the other": _entry(lambda old, array, rng: not old)},
    "?": WRONG,
}


def _fitting(array, number):
    """Return a number, or the nearest that the type of an array has."""
    limits = np.finfo(array.dtype)
    return min(max(number, float(limits.min)), float(limits.max))


def _scaled(value, factor):
    return (value * value.dtype.type(_fitting(value, factor))).astype(value.dtype)


def is_dense(value):
    """Say whether a value is a tensor that NumPy takes, of a size that memory holds."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    plain = value.device.type == "cpu" and value.layout is torch.strided and value.dtype is not torch.bfloat16
    return plain and value.numel() < 2**30


def _tensor_damages(tensor):
    """Return the damages of the array of a tensor, as tensors where there are such, and those of tensors."""
    torch = sys.modules["torch"]

    def through(damage):
        def changed_tensor(value, rng):
            array = damage(value.numpy(), rng)
            try:
                return torch.from_numpy(array if array.flags.writeable else array.copy())
            except (AttributeError, TypeError, ValueError, MemoryError):
                return array

        return changed_tensor

    own = {
        "half precision": lambda value, rng: value.to(torch.bfloat16),
        "sparse": lambda value, rng: value.to_sparse(),
        "without memory": lambda value, rng: value.to("meta"),
        "a trillion entries": lambda value, rng: value.reshape(-1)[:1].expand(2**40) if value.numel() else value,
    }
    return {name: through(damage) for name, damage in damages(tensor.numpy()).items()} | own
