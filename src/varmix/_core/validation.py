"""Array types, and checks of arguments that public functions share."""

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
    """Return a whole number in `least..2^62 - 1` as an int, or raise TypeError or ValueError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    if not least <= value < 2**62:
        raise ValueError(f"{name} must be at least {least}, got {value}." if value < least else f"{name} is too large.")
    return int(value)


def as_fraction(value: float, name: str, *, zero: bool = False, one: bool = True) -> float:
    """Return a number in (0, 1] as a float, or raise; `zero=True` allows 0, `one=False` excludes 1."""
    number = as_number(value, name)
    above = number >= 0 if zero else number > 0
    below = number <= 1 if one else number < 1
    if not (above and below):
        allowed = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise ValueError(f"{name} must lie in {allowed}, got {value!r}.")
    return number


def as_positive(value: float, name: str) -> float:
    """Return a finite number above zero as a float, or raise TypeError or ValueError."""
    number = as_number(value, name)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number above zero, got {value!r}.")
    return number


def as_number(value: float, name: str) -> float:
    """Return a number as a float, or raise TypeError or ValueError."""
    if isinstance(value, (bool, np.bool_, str)):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}.") from None
    except OverflowError:
        raise ValueError(f"{name} is too large for a floating-point number.") from None


def as_array(values: ArrayLike, name: str) -> AnyArray:
    """Return `values` as an array, without a copy if possible; raise TypeError for masked or ragged arrays."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked: the hidden entries would be used too. Fill them or drop them.")
    try:
        return np.asarray(values)
    except ValueError:
        raise TypeError(f"{name} must be a regular array, got rows of different lengths.") from None


def as_floats(values: ArrayLike, name: str) -> FloatArray:
    """Return real numbers as an array of float64, without a copy if possible, or raise TypeError."""
    return np.asarray(as_real(values, name), dtype=np.float64)


def as_real(values: ArrayLike, name: str) -> AnyArray:
    """Return real numbers as an array of their own dtype, or raise TypeError.

    A memory-mapped array stays on disk.
    """
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, got an array of dtype {array.dtype}.")
    return array


def as_vector(values: ArrayLike, name: str, length: int | None = None) -> FloatArray:
    """Return a finite vector of float64, of this length if `length` is not None, or raise."""
    vector = as_floats(values, name)
    if vector.ndim != 1 or (length is not None and len(vector) != length):
        expected = "one dimension" if length is None else f"shape ({length},)"
        raise ValueError(f"{name} must have {expected}, got shape {vector.shape}.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite; entry {find_first(~np.isfinite(vector))} is not.")
    return vector


def find_first(where: BoolArray) -> tuple[int, ...] | int:
    """Return the position of the first True, for error messages."""
    position = np.unravel_index(int(np.argmax(where)), where.shape)
    return int(position[0]) if len(position) == 1 else tuple(int(i) for i in position)


def as_mixture(values: ArrayLike, name: str, k: int | None = None) -> FloatArray:
    """Return `k` non-negative numbers with sum one as a new read-only array, or raise."""
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
    """Return points of a space of `n` points as an array of int64, or raise."""
    atoms = as_array(values, name)
    if atoms.ndim != 1 or atoms.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole numbers in one dimension, got shape {atoms.shape} of {atoms.dtype}.")
    if len(atoms) and not (0 <= atoms.min() and atoms.max() < n):
        raise ValueError(f"{name} must lie in 0..{n - 1}, got {atoms.min()}..{atoms.max()}.")
    return np.asarray(atoms, dtype=np.int64)


def as_subsets(values: ArrayLike, n: int, size: int) -> IntArray:
    """Return sets of `size` out of `n` points, one per row, each in ascending order, or raise."""
    sets = as_array(values, "atoms")
    if sets.ndim != 2 or sets.shape[1] != size or sets.dtype.kind not in "iu":
        raise TypeError(
            f"atoms must be whole numbers of shape (m, {size}), one set of {size} points per row, got shape "
            f"{sets.shape} of {sets.dtype}."
        )
    if len(sets) and not (0 <= sets.min() and sets.max() < n):
        raise ValueError(f"atoms must lie in 0..{n - 1}, got {sets.min()}..{sets.max()}.")
    ordered = np.sort(np.asarray(sets, dtype=np.int64), axis=1)
    twice = (np.diff(ordered, axis=1) == 0).any(axis=1)
    if twice.any():
        i = find_first(twice)
        raise ValueError(f"The points of a set must be distinct, but set {i} is {sets[i].tolist()}.")
    return ordered


def as_matrix(values: ArrayLike, name: str) -> FloatArray:
    """Return a finite matrix of float64 with at least one row and one column, or raise."""
    matrix = as_floats(values, name)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"{name} must be a matrix with at least one row and one column, got shape {matrix.shape}.")
    finite = np.isfinite(matrix)
    if not finite.all():
        raise ValueError(f"{name} must be finite; entry {find_first(~finite)} is {matrix[find_first(~finite)]}.")
    return matrix


def read_only(array: AnyArray) -> AnyArray:
    """Return a contiguous read-only view, or a copy if the array is not contiguous.

    Numba compiles a kernel again for read-only arrays, such as those of pandas or of memory maps. If all arrays are
    read-only, it compiles once.
    """
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def same(a: object, b: object) -> bool:
    """Return whether two saved states are equal to the last bit.

    States are nested dicts of arrays, numbers and strings. Arrays must have the same dtype.

    Parameters
    ----------
    a, b : object
        States, or parts of states.

    Returns
    -------
    bool
        True if they have the same structure, types and values.

    Examples
    --------
    >>> same({"mixture": np.array([0.5, 0.5])}, {"mixture": np.array([0.5, 0.5])})
    True
    >>> same({"rounds": 1}, {"rounds": 1.0})
    False
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b)) and np.asarray(a).dtype == np.asarray(b).dtype
    return type(a) is type(b) and a == b


@contextmanager
def rollback_on_error(model: object) -> Iterator[None]:
    """Restore all attributes of `model` if the body raises."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


def unknown_choice(what: str, name: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown name: the known names, and the one that was probably meant.

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
    """Return the error to raise if the optional package of a feature is not installed.

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
