"""Encode labels of any kind as small numbers."""

from collections.abc import Sequence
from typing import NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray, as_array

POINTS_PER_BLOCK = 1 << 20  # points encoded at a time, to avoid large temporary arrays


def encode_labels(labels: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Return the distinct labels, sorted, and the position of each point's label among them, in the smallest dtype.

    Examples
    --------
    >>> distinct, codes = encode_labels(["b", "a", "b"])
    >>> distinct.tolist(), codes.tolist(), codes.dtype.name
    (['a', 'b'], [1, 0, 1], 'uint8')
    """
    values = as_array(labels, "labels")
    if values.ndim != 1 or len(values) == 0:
        column = values.ndim == 2 and values.shape[1] == 1 and len(values) > 0
        raise ValueError(
            f"labels must be one per point, shape (n,) with n >= 1, got shape {values.shape}."
            f"{' Flatten the column: numpy.ravel(labels).' if column else ''}"
        )
    if values.dtype.kind == "O" or (values.dtype.kind == "U" and isinstance(labels, (list, tuple))):
        values = _as_strings(cast(Sequence[object], values if values.dtype.kind == "O" else labels))
    if values.dtype.kind == "f":
        _refuse_floats(values)
    if values.dtype.kind not in "iubUS":
        raise TypeError(f"labels must be integers, booleans or strings, got dtype {values.dtype}.")
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low < max(1024, len(values)):  # a table of values is cheaper than a sort
            return _encode_range(values, low, high)
    distinct, inverse = np.unique(values, return_inverse=True)
    return distinct, inverse.astype(choose_dtype(len(distinct)))


def _as_strings(labels: Sequence[object]) -> AnyArray:
    """Return strings as an array, or raise TypeError for the first label that is not a string."""
    for i, label in enumerate(labels):
        if not isinstance(label, str):
            missing = label is None or label != label
            raise TypeError(
                f"labels must be integers, booleans or strings, all of one kind, but labels[{i}] is {label!r}. "
                f"{'Drop points without a label, or give them a label.' if missing else 'Convert all labels.'}"
            )
    return np.asarray(labels, dtype=str)


def _refuse_floats(values: AnyArray) -> NoReturn:
    """Raise TypeError with advice for labels that are floats."""
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        hint = f"labels[{missing[0]}] is missing: drop points without a label, or give them a label."
    elif (values == np.floor(values)).all():
        hint = "These are whole numbers: convert them first, for example with numpy.asarray(labels, dtype=int)."
    else:
        hint = "Bin numbers first, for example with numpy.digitize."
    raise TypeError(f"labels must be integers, booleans or strings, got dtype {values.dtype}. {hint}")


def _encode_range(values: AnyArray, low: int, high: int) -> tuple[AnyArray, AnyArray]:
    """Encode integers in low..high with a table of the values that occur, in blocks to save memory."""
    wide = np.dtype(np.uint64 if values.dtype.kind == "u" else np.int64)
    blocks = [slice(start, start + POINTS_PER_BLOCK) for start in range(0, len(values), POINTS_PER_BLOCK)]
    occurs = np.zeros(high - low + 1, dtype=bool)
    for block in blocks:
        occurs[values[block].astype(wide) - wide.type(low)] = True
    distinct = np.flatnonzero(occurs)
    rank = (np.cumsum(occurs) - 1).astype(choose_dtype(len(distinct)))
    codes = np.empty(len(values), dtype=rank.dtype)
    for block in blocks:
        codes[block] = rank[values[block].astype(wide) - wide.type(low)]
    return distinct.astype(wide) + wide.type(low), codes


def choose_dtype(groups: int) -> type[np.unsignedinteger]:
    """Return the smallest dtype that holds the numbers of this many groups."""
    return np.uint8 if groups <= 2**8 else np.uint16 if groups <= 2**16 else np.uint32
