"""Functions that read saved states, and the error for states that cannot be loaded.

A state comes from a file, so nothing in it can be trusted. Each `read_*` function reads one entry and checks its type,
shape and range before memory is allocated or a kernel uses it. `wrap_load_errors` turns every other failure into a
`CheckpointError`, so that a program needs to catch only one error to fall back to an older file.
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
MAX_WHOLE_NUMBER = 2**1000  # larger integers are not converted to floats

# Errors that broken input causes in Python and NumPy. An OSError or KeyboardInterrupt has other causes.
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
    """Error for a saved state that cannot be loaded: it is damaged, belongs to another object, or has another format.

    The object that tried to load it is unchanged. A program can continue with it, or try an older checkpoint.

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
    """Raise `CheckpointError` if the body, which reads the state of `owner`, raises any other error.

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
    """Return a short description of a saved value for error messages."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return make_printable(repr(value) if isinstance(value, str) else value, longest=60)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value[:60]):
        return make_printable(value[:60], longest=60)
    return f"a {type(value).__name__}"


def format_stamp() -> State:
    """Return the entries that hold the format of a state and the version of varmix that wrote it."""
    return {"format": FORMAT, "varmix": __version__}


def check_format(stamp: object, owner: str) -> None:
    """Raise `CheckpointError` if this version of varmix cannot read the format of a sampler's state.

    Format 1 has an entry `sampler_id` but no entry `format`. A state with neither is not a sampler's state.
    """
    if not isinstance(stamp, Mapping):
        raise CheckpointError(f"A saved state of {owner} must be a dictionary, got {describe_value(stamp)}.")
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
            f"{__version__} reads format {FORMAT}. Load it with the version that wrote it, or start a new run."
        )


def require_format(state: object, keys: set[str], owner: str) -> None:
    """Check the entries of a state that contains a sampler's state.

    The format comes first, because older formats have other entries.
    """
    if isinstance(state, Mapping) and "sampler" in state:
        check_format(state["sampler"], owner)
    require_entries(state, keys, owner)


def require_entries(state: object, keys: set[str], owner: str) -> None:
    """Raise `CheckpointError` if a saved state does not have exactly the entries that `owner` writes."""
    if not isinstance(state, Mapping):
        raise CheckpointError(f"A saved state of {owner} must be a dictionary, got {describe_value(state)}.")
    if set(state) != keys:
        found = make_printable(sorted(map(str, list(state)[:30])))
        raise CheckpointError(
            f"This state does not belong to {owner}: expected the entries {sorted(keys)}, got {found}."
        )


def read_count(state: Mapping[str, Any], name: str, least: int = 0, most: int = 2**62 - 1) -> int:
    """Return a saved whole number, or raise `CheckpointError` if it is not in `least..most`."""
    value = state[name]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise _make_refusal(name, f"a whole number in {least}..{most}", value)
    return int(value)


def read_number(state: Mapping[str, Any], name: str, least: float = 0.0, most: float = math.inf) -> float:
    """Return a saved finite number, or raise `CheckpointError` if it is not in [least, most]."""
    value = state[name]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise _make_refusal(name, "a number", value)
    number = math.inf if isinstance(value, int) and abs(value) > MAX_WHOLE_NUMBER else float(value)
    if not (least <= number <= most and math.isfinite(number)):
        raise _make_refusal(name, f"finite and in [{least:g}, {most:g}]", value)
    return number


def read_flag(state: Mapping[str, Any], name: str) -> bool:
    """Return a saved bool, or raise `CheckpointError` if it is anything else."""
    value = state[name]
    if not isinstance(value, (bool, np.bool_)):
        raise _make_refusal(name, "True or False", value)
    return bool(value)


def read_text(state: Mapping[str, Any], name: str, longest: int = MAX_TEXT_LENGTH) -> str:
    """Return a saved string, or raise `CheckpointError` if it is longer than `longest`."""
    value = state[name]
    if not isinstance(value, str) or len(value) > longest:
        raise _make_refusal(name, f"a text of at most {longest} characters", value)
    return value


def _make_refusal(name: str, allowed: str, value: object) -> CheckpointError:
    """Return the error for a saved entry that is not allowed."""
    return CheckpointError(f"Saved {name} must be {allowed}, got {describe_value(value)}: the state is damaged.")


def read_array(
    state: Mapping[str, Any],
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
    least: float | None = None,
    most: float | None = None,
) -> AnyArray:
    """Return a copy of a saved array, or raise `CheckpointError` if its dtype, shape or entries are not allowed.

    None in `shape` allows any length of that axis. Entries must be finite and in `least..most`, both inclusive; None
    means no bound.

    Examples
    --------
    >>> read_array({"rows": np.array([0, 1, 7])}, "rows", np.int64, (None,), least=0, most=2)
    Traceback (most recent call last):
        ...
    varmix._core.state.CheckpointError: Saved rows must lie in 0..2, but entry 2 is 7: the state is damaged.
    """
    value = state[name]
    if not is_array(value) or value.dtype != np.dtype(dtype) or not _has_shape(value.shape, shape):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise CheckpointError(
            f"Saved {name} must be an array of shape ({wanted}) and dtype {np.dtype(dtype)}, got "
            f"{describe_value(value)}. Load it into an object that was built with the same arguments."
        )
    array = np.array(value, order="C", subok=False)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise CheckpointError(f"Saved {name} holds numbers that are not finite: the state is damaged.")
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise CheckpointError(f"Saved {name} holds bytes that are neither True nor False: the state is damaged.")
    outside = np.zeros(array.shape, dtype=np.bool_)
    if least is not None:
        outside |= array < least
    if most is not None:
        outside |= array > most
    if outside.any():
        i = tuple(int(axis[0]) for axis in outside.nonzero())
        bounds = f"{'' if least is None else least}..{'' if most is None else most}"
        place = i[0] if len(i) == 1 else i
        raise CheckpointError(
            f"Saved {name} must lie in {bounds}, but entry {place} is {array[i]}: the state is damaged."
        )
    return array


def is_array(value: object) -> TypeGuard[AnyArray]:
    """Return whether a saved value is an array. Masked arrays do not count: comparisons skip their hidden entries."""
    return isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)


def _has_shape(found: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Return whether a shape fits; None in `wanted` fits any length."""
    return len(found) == len(wanted) and all(b is None or a == b for a, b in zip(found, wanted, strict=True))


def restore_array(value: object, like: AnyArray, name: str) -> AnyArray:
    """Return a copy of a saved array after checking that it has the shape and dtype of `like` and is finite."""
    return read_array({name: value}, name, like.dtype, like.shape)
