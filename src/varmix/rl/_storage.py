"""Storage: from a space to preallocated arrays, one for every leaf of it.

A `Layout` splits a value of its space (nested dictionaries and tuples) into arrays, checking each, and joins arrays
into values again.  In between everything is a flat list of arrays, whose rows are transitions.  Spaces are told by what
they have, as Gymnasium's do: `spaces` (a mapping, or a sequence), or else `shape` and `dtype`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from varmix._core.validation import AnyArray, as_array

INT64_DTYPE, INT64_LIMIT = np.dtype(np.int64), 2**63
# Types whose dtype and shape can be trusted without a closer look; a subclass (a masked array) cannot.
PLAIN_TYPES = frozenset({np.ndarray, *(np.dtype(code).type for code in "?bhilqBHILQefd")})


class Leaf:
    """One array: the values of a Box, Discrete, MultiDiscrete or MultiBinary."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype

    @property
    def leaves(self) -> list["Leaf"]:
        """Itself."""
        return [self]

    def split(self, value: Any, lead: tuple[int, ...], into: list[Any]) -> None:  # noqa: ANN401
        """Append the value to `into` after checking its shape, behind the axes `lead`, and its dtype."""
        if type(value) in PLAIN_TYPES and value.dtype is self.dtype and value.shape == lead + self.shape:
            into.append(value)
        elif (
            type(value) is int
            and self.dtype is INT64_DTYPE
            and lead + self.shape == ()
            and -INT64_LIMIT <= value < INT64_LIMIT
        ):
            into.append(value)  # the action of an agent, as it comes most often
        else:
            into.append(self._converted(value, lead + self.shape))

    def join(self, arrays: Iterator[AnyArray]) -> AnyArray:
        """Take the next array."""
        return next(arrays)

    def _converted(self, value: Any, shape: tuple[int, ...]) -> AnyArray:  # noqa: ANN401
        array = as_array(value, self.name)
        if array.shape != shape:
            raise ValueError(f"{self.name} must have shape {shape}, got {array.shape}.")
        whole = array.dtype.kind in "iu" and self.dtype.kind in "iu"
        if not (_is_in_range(self.dtype, array) if whole else np.can_cast(array.dtype, self.dtype, "same_kind")):
            raise TypeError(
                f"{self.name} must be {self.dtype}, as in the space; {array.dtype} cannot be cast to it without loss. "
                f"Convert the values, or build the buffer with a space of another dtype."
            )
        return array.astype(self.dtype)


def _is_in_range(dtype: np.dtype[Any], array: AnyArray) -> bool:
    """Whether whole numbers are within the range of `dtype`: casting would wrap them without a word."""
    if np.can_cast(array.dtype, dtype, "safe") or array.size == 0:
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= int(array.min()) and int(array.max()) <= limits.max)


class Branch:
    """The parts of a Dict or a Tuple, each with a layout of its own."""

    __slots__ = ("keys", "name", "parts")

    def __init__(self, name: str, keys: Sequence[Any] | None, parts: Sequence["Layout"]) -> None:
        self.name, self.keys, self.parts = name, keys, parts

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves of all parts, in order."""
        return [leaf for part in self.parts for leaf in part.leaves]

    def split(self, value: Any, lead: tuple[int, ...], into: list[Any]) -> None:  # noqa: ANN401
        """Append the arrays of all parts to `into`."""
        for part, entry in zip(self.parts, self._entries(value), strict=True):
            part.split(entry, lead, into)

    def join(self, arrays: Iterator[AnyArray]) -> dict[Any, Any] | tuple[Any, ...]:
        """Take as many arrays as there are leaves, and nest them as the space does."""
        values = [part.join(arrays) for part in self.parts]
        return tuple(values) if self.keys is None else dict(zip(self.keys, values, strict=True))

    def _entries(self, value: Any) -> Iterable[Any]:  # noqa: ANN401
        if self.keys is None:
            if not isinstance(value, (tuple, list)) or len(value) != len(self.parts):
                self._refuse(value, f"a tuple of {len(self.parts)}")
            return value
        if not isinstance(value, Mapping) or len(value) != len(self.keys) or any(key not in value for key in self.keys):
            self._refuse(value, f"a dictionary with the keys {list(self.keys)}")
        return [value[key] for key in self.keys]

    def _refuse(self, value: object, expected: str) -> NoReturn:
        given = f"the keys {list(value)}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
        if isinstance(value, (tuple, list)):
            given += f" of {len(value)}"
        raise ValueError(f"{self.name} must be {expected}, got {given}.")


Layout: TypeAlias = Leaf | Branch


def make_layout(space: object, name: str) -> Layout:
    """Give the layout of a space's values.

    Examples
    --------
    >>> from types import SimpleNamespace as Space
    >>> box = Space(shape=(2,), dtype=np.float32)
    >>> arm = make_layout(Space(spaces={"angles": box, "grip": Space(shape=(), dtype=np.int64)}), "observation")
    >>> arrays = []
    >>> arm.split({"angles": [0.5, 1.0], "grip": 1}, (), arrays)
    >>> arrays
    [array([0.5, 1. ], dtype=float32), 1]
    >>> arm.join(iter(arrays))
    {'angles': array([0.5, 1. ], dtype=float32), 'grip': 1}
    """
    spaces = getattr(space, "spaces", None)
    if isinstance(spaces, Mapping):
        return Branch(name, tuple(spaces), [make_layout(part, f"{name}[{key!r}]") for key, part in spaces.items()])
    # A OneOf has `spaces` as a Tuple has, but its values are one of them.
    if isinstance(spaces, Sequence) and type(space).__name__ != "OneOf":
        return Branch(name, None, [make_layout(part, f"{name}[{i}]") for i, part in enumerate(spaces)])
    leaf = _make_leaf(name, getattr(space, "shape", None), getattr(space, "dtype", None))
    if leaf is None:
        raise TypeError(
            f"The space of {name} must have values of one shape and dtype: Box, Discrete, MultiDiscrete, MultiBinary, "
            f"or Dict and Tuple of these. Got {space!r}: encode its values as one of them."
        )
    return leaf


def _make_leaf(name: str, shape: Any, dtype: Any) -> Leaf | None:  # noqa: ANN401
    """Give the leaf of this shape and dtype, if arrays of them can be made and saved."""
    try:
        sizes, kind = tuple(int(size) for size in shape), np.dtype(dtype)
    except (TypeError, ValueError):
        return None
    if not kind.isnative:  # else it stays the very object that arrays have, which is quick to compare
        kind = kind.newbyteorder("=")
    good = dtype is not None and min(sizes, default=0) >= 0 and kind.kind in "biuf" and kind.itemsize <= 8
    return Leaf(name, sizes, kind) if good else None
