"""Saved states: how they are read, and the one error that refuses them.

A state comes from a file, so nothing in it can be trusted.  Each `read_*` function takes one entry and checks its type,
shape and range before anything is allocated or a kernel sees it.  `wrap_load_errors` turns every other failure inside a
load into a `CheckpointError`, so that a program can catch one error and fall back to an older file.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import DTypeLike

from varmix._core.validation import AnyArray, State
from varmix._version import __version__

FORMAT = 3
MAX_TEXT_LENGTH = 1024
MAX_WHOLE_NUMBER = 2**1000  # that is read as a floating-point number

# What broken input makes Python and NumPy raise; an OSError or KeyboardInterrupt says nothing about the state.
_DAMAGE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class CheckpointError(ValueError):
    """A saved state cannot be loaded: it is damaged, belongs to another object, or has another format.

    The object that refused it is unchanged, so a program can go on or try an older checkpoint.

    Examples
    --------
    >>> import varmix
    >>> sampler = varmix.uniform(10, rng=0)
    >>> try:
    ...     sampler.load_state_dict({})
    ... except varmix.CheckpointError:
    ...     print("trying the older one")
    trying the older one
    """


@contextmanager
def wrap_load_errors(owner: str) -> Iterator[None]:
    """Raise `CheckpointError` for whatever goes wrong inside while the state of `owner` is read.

    Examples
    --------
    >>> with wrap_load_errors("a counter"):
    ...     int({}["count"])
    Traceback (most recent call last):
        ...
    varmix._core.state.CheckpointError: The saved state of a counter is damaged (KeyError: 'count').
    """
    try:
        yield
    except CheckpointError:
        raise
    except _DAMAGE_ERRORS as error:
        reason = make_printable(f"{type(error).__name__}: {error}")
        raise CheckpointError(f"The saved state of {owner} is damaged ({reason}).") from error


def make_printable(value: object, longest: int = 200) -> str:
    r"""Return text that is safe to print in one line: control characters are escaped and long text is cut.

    Examples
    --------
    >>> print(make_printable("a\x1b[2Jb\n"))
    a\x1b[2Jb\n
    """
    text = str(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    text = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text[:longest])
    return text if len(text) < longest else f"{text[: longest - 3]}..."


def describe_value(value: object) -> str:
    """Return a short description of a saved value for error messages: its type, and the value if it is small."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return make_printable(repr(value) if isinstance(value, str) else value, longest=60)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value[:60]):
        return make_printable(value[:60], longest=60)
    return f"a {type(value).__name__}"


def format_stamp() -> State:
    """Return the entries that say which format a state has and which version of varmix wrote it."""
    return {"format": FORMAT, "varmix": __version__}


def check_format(stamp: object, owner: str) -> None:
    """Raise `CheckpointError` if the state of a sampler has another format than this version of varmix reads.

    Format 1 did not name itself: a state of it has an id and no format.  What has neither is no state of a sampler.
    """
    if not isinstance(stamp, Mapping):
        raise CheckpointError(f"A saved state of {owner} is a dictionary, got {describe_value(stamp)}.")
    if "format" not in stamp and "sampler_id" not in stamp:
        raise CheckpointError(
            f"This state does not belong to {owner}: expected the entries format and sampler_id among others, got "
            f"{make_printable(sorted(map(str, list(stamp)[:30])))}."
        )
    version = make_printable(stamp.get("varmix", "0.1.0 or older"), longest=30)
    found = stamp.get("format", 1)
    if type(found) is not int or found != FORMAT:
        raise CheckpointError(
            f"The saved state of {owner} has format {describe_value(found)}, written by varmix {version}; varmix "
            f"{__version__} reads format {FORMAT}. Load it with the version that wrote it, or start afresh."
        )


def require_format(state: object, keys: set[str], owner: str) -> None:
    """Check a state that holds that of a sampler: its format first, for older ones had other entries."""
    if isinstance(state, Mapping) and "sampler" in state:
        check_format(state["sampler"], owner)
    require_entries(state, keys, owner)


def require_entries(state: object, keys: set[str], owner: str) -> None:
    """Check that a saved state has exactly the entries that `owner` writes."""
    if not isinstance(state, Mapping):
        raise CheckpointError(f"A saved state of {owner} is a dictionary, got {describe_value(state)}.")
    if set(state) != keys:
        found = make_printable(sorted(map(str, list(state)[:30])))
        raise CheckpointError(
            f"This state does not belong to {owner}: expected the entries {sorted(keys)}, got {found}."
        )


def read_count(state: Mapping[str, Any], name: str, least: int = 0, most: int = 2**62 - 1) -> int:
    """Return a whole number in `least..most`."""
    value = state[name]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise _make_refusal(name, f"a whole number in {least}..{most}", value)
    return int(value)


def read_number(state: Mapping[str, Any], name: str, least: float = 0.0, most: float = math.inf) -> float:
    """Return a finite number in [least, most]."""
    value = state[name]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise _make_refusal(name, "a number", value)
    number = math.inf if isinstance(value, int) and abs(value) > MAX_WHOLE_NUMBER else float(value)
    if not (least <= number <= most and math.isfinite(number)):
        raise _make_refusal(name, f"finite and in [{least:g}, {most:g}]", value)
    return number


def read_flag(state: Mapping[str, Any], name: str) -> bool:
    """Return True or False."""
    value = state[name]
    if not isinstance(value, (bool, np.bool_)):
        raise _make_refusal(name, "True or False", value)
    return bool(value)


def read_text(state: Mapping[str, Any], name: str, longest: int = MAX_TEXT_LENGTH) -> str:
    """Return a text of at most `longest` characters."""
    value = state[name]
    if not isinstance(value, str) or len(value) > longest:
        raise _make_refusal(name, f"a text of at most {longest} characters", value)
    return value


def _make_refusal(name: str, allowed: str, value: object) -> CheckpointError:
    return CheckpointError(f"Saved {name} must be {allowed}, got {describe_value(value)}: the state is damaged.")


def read_array(
    state: Mapping[str, Any],
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
    least: float | None = None,
    most: float | None = None,
) -> AnyArray:
    """Return a copy of a saved array of this dtype and shape, with finite entries in `least..most`.

    None in `shape` allows any length of that axis; least and most are inclusive, and None is no bound.

    Examples
    --------
    >>> read_array({"rows": np.array([0, 1, 7])}, "rows", np.int64, (None,), least=0, most=2)
    Traceback (most recent call last):
        ...
    varmix._core.state.CheckpointError: Saved rows must lie in 0..2; entry 2 is 7: damaged.
    """
    value = state[name]
    if not is_array(value) or value.dtype != np.dtype(dtype) or not _has_shape(value.shape, shape):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise CheckpointError(
            f"Saved {name} must be an array of shape ({wanted}) and dtype {np.dtype(dtype)}, got "
            f"{describe_value(value)}. "
            f"Load it into an object that was built with the same arguments."
        )
    array = np.array(value, order="C", subok=False)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise CheckpointError(f"Saved {name} holds numbers that are not finite: damaged.")
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise CheckpointError(f"Saved {name} holds bytes that are neither True nor False: damaged.")
    outside = np.zeros(array.shape, dtype=np.bool_)
    if least is not None:
        outside |= array < least
    if most is not None:
        outside |= array > most
    if outside.any():
        i = tuple(int(axis[0]) for axis in outside.nonzero())
        bounds = f"{'' if least is None else least}..{'' if most is None else most}"
        place = i[0] if len(i) == 1 else i
        raise CheckpointError(f"Saved {name} must lie in {bounds}; entry {place} is {array[i]}: damaged.")
    return array


def is_array(value: object) -> TypeGuard[AnyArray]:
    """Whether a saved value is an array, and not a masked one, whose hidden entries escape every comparison."""
    return isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)


def _has_shape(found: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(found) == len(wanted) and all(b is None or a == b for a, b in zip(found, wanted, strict=True))


def restore_array(value: object, like: AnyArray, name: str) -> AnyArray:
    """Return a copy of a saved array, after checking that it has the shape and dtype of `like` and is finite."""
    return read_array({name: value}, name, like.dtype, like.shape)
