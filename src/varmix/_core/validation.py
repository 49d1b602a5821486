"""Array types, and the checks of arguments that every public function makes."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]
State: TypeAlias = dict[str, Any]


def as_count(value: object, name: str, least: int = 1) -> int:
    """Check a whole number of at least `least` (and below 2^62, where arrays end)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    if not least <= value < 2**62:
        raise ValueError(f"{name} must be at least {least}, got {value}." if value < least else f"{name} is too large.")
    return int(value)


def as_fraction(value: float, name: str, *, zero: bool = False, one: bool = True) -> float:
    """Check a number in (0, 1], or with the ends that `zero` and `one` ask for."""
    number = as_number(value, name)
    above = number >= 0 if zero else number > 0
    below = number <= 1 if one else number < 1
    if not (above and below):
        allowed = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise ValueError(f"{name} must lie in {allowed}, got {value!r}.")
    return number


def as_positive(value: float, name: str) -> float:
    """Check a finite number above zero."""
    number = as_number(value, name)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number above zero, got {value!r}.")
    return number


def as_number(value: float, name: str) -> float:
    """Check a number."""
    if isinstance(value, (bool, np.bool_, str)):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}.") from None
    except OverflowError:
        raise ValueError(f"{name} is too large for a floating-point number.") from None


def as_array(values: ArrayLike, name: str) -> AnyArray:
    """Give `values` as an array, without a copy where that is possible."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked: what a mask hides would be taken as it is. Fill or drop it.")
    try:
        return np.asarray(values)
    except ValueError:
        raise TypeError(f"{name} must be a regular array, got rows of different lengths.") from None


def as_floats(values: ArrayLike, name: str) -> FloatArray:
    """Check that `values` are real numbers and give them as doubles, without a copy where that is possible."""
    return np.asarray(as_real(values, name), dtype=np.float64)


def as_real(values: ArrayLike, name: str) -> AnyArray:
    """Check that `values` are real numbers; any dtype of them will do, and memory maps stay on disk."""
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, got an array of dtype {array.dtype}.")
    return array


def as_vector(values: ArrayLike, name: str, length: int | None = None) -> FloatArray:
    """Check a finite vector, of the given length if one is given."""
    vector = as_floats(values, name)
    if vector.ndim != 1 or (length is not None and len(vector) != length):
        expected = "one dimension" if length is None else f"shape ({length},)"
        raise ValueError(f"{name} must have {expected}, got shape {vector.shape}.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite; entry {find_first(~np.isfinite(vector))} is not.")
    return vector


def find_first(where: BoolArray) -> tuple[int, ...] | int:
    """Give the position of the first True, for error messages."""
    position = np.unravel_index(int(np.argmax(where)), where.shape)
    return int(position[0]) if len(position) == 1 else tuple(int(i) for i in position)


def as_mixture(values: ArrayLike, name: str, k: int | None = None) -> FloatArray:
    """Check `k` non-negative numbers with sum one; what is given back is new, and read-only."""
    mixture = as_vector(values, name, k)
    if len(mixture) == 0 or mixture.min() < 0 or abs(mixture.sum() - 1) > 1e-9:
        raise ValueError(
            f"{name} needs non-negative entries with sum one, got minimum "
            f"{mixture.min(initial=0.0):.3g} and sum {mixture.sum():.12g}. Divide it by its sum."
        )
    mixture = np.asarray(mixture / mixture.sum())
    mixture.setflags(write=False)
    return mixture


def as_atoms(values: ArrayLike, n: int, name: str = "atoms") -> IntArray:
    """Check points of a space of `n`."""
    atoms = as_array(values, name)
    if atoms.ndim != 1 or atoms.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole numbers in one dimension, got shape {atoms.shape} of {atoms.dtype}.")
    if len(atoms) and not (0 <= atoms.min() and atoms.max() < n):
        raise ValueError(f"{name} must lie in 0..{n - 1}, got {atoms.min()}..{atoms.max()}.")
    return np.asarray(atoms, dtype=np.int64)


def as_subsets(values: ArrayLike, n: int, size: int) -> IntArray:
    """Check sets of `size` out of `n` points, one in a row; give them in ascending order."""
    sets = as_array(values, "atoms")
    if sets.ndim != 2 or sets.shape[1] != size or sets.dtype.kind not in "iu":
        raise TypeError(
            f"atoms must be whole numbers of shape (m, {size}), one set of {size} points in a row, got shape "
            f"{sets.shape} of {sets.dtype}."
        )
    if len(sets) and not (0 <= sets.min() and sets.max() < n):
        raise ValueError(f"atoms must lie in 0..{n - 1}, got {sets.min()}..{sets.max()}.")
    ordered = np.sort(np.asarray(sets, dtype=np.int64), axis=1)
    twice = (np.diff(ordered, axis=1) == 0).any(axis=1)
    if twice.any():
        i = find_first(twice)
        raise ValueError(f"The points of a set must differ; set {i} is {sets[i].tolist()}.")
    return ordered


def as_matrix(values: ArrayLike, name: str) -> FloatArray:
    """Check a finite matrix with at least one row and one column."""
    matrix = as_floats(values, name)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"{name} must be a matrix with at least one row and one column, got shape {matrix.shape}.")
    finite = np.isfinite(matrix)
    if not finite.all():
        raise ValueError(f"{name} must be finite; entry {find_first(~finite)} is {matrix[find_first(~finite)]}.")
    return matrix


def read_only(array: AnyArray) -> AnyArray:
    """Give a contiguous array that cannot be written through, without a copy where that is possible.

    Numba compiles anew for arrays that are read-only, such as those of pandas or of a memory map: where all of them
    are, it compiles once.
    """
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def same(a: object, b: object) -> bool:
    """Whether two states (nested dictionaries of arrays and plain values) are equal to the last bit."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b)) and np.asarray(a).dtype == np.asarray(b).dtype
    return type(a) is type(b) and a == b


@contextmanager
def rollback_on_error(model: object) -> Iterator[None]:
    """Put back all attributes when what is inside raises."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


def unknown_choice(what: str, name: str, known: Iterable[str]) -> str:
    """Return the text that refuses a name, with the names that are known and the one that was probably meant.

    Examples
    --------
    >>> print(unknown_choice("fruit", "aple", ["apple", "pear"]))
    Unknown fruit 'aple': choose from apple, pear. Did you mean apple?
    """
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"Unknown {what} {name!r}: choose from {', '.join(names)}.{hint}"


def missing_extra(feature: str, package: str, extra: str) -> ModuleNotFoundError:
    """Return the error of a feature whose optional package is not installed.

    Examples
    --------
    >>> print(missing_extra("varmix.torch", "torch", "torch"))
    varmix.torch needs torch, which is not installed. Install varmix with its extra torch: pip install '.[torch]' in a
    checkout of varmix.
    """
    return ModuleNotFoundError(
        f"{feature} needs {package}, which is not installed. Install varmix with its extra {extra}: "
        f"pip install '.[{extra}]' in a checkout of varmix."
    )
