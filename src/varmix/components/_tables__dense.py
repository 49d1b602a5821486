"""Dense: k distributions given as numbers, one per point and component."""

from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import as_real
from varmix._core.validation import first
from varmix.components._tables import Tabulated
from varmix.components._tables import rows_per_block
from varmix.components import _tables_kernels as kernels
from varmix._core.spaces import Points


@final
class Dense(Tabulated):
    """Distributions from a table of probabilities p_j(i), or of ratios q_j(i) = p_j(i) / target(i), shape (n, k).

    Arrays and memory maps are read in blocks and kept as float32 ratios with cumulative sums, 14 bytes an entry.  What
    is drawn is exactly the stored law.

    Parameters
    ----------
    probabilities
        (n, k), columns with sum one.
    ratios
        (n, k), columns with mean one under the target; give either.
    target
        (n,) law to be unbiased for, if not uniform.

    Examples
    --------
    >>> family = Dense([[0.5, 0.25], [0.5, 0.25], [0.0, 0.5]])
    >>> family.ratios(np.array([2, 0]))
    array([[0.  , 1.5 ],
           [1.5 , 0.75]])
    >>> family.c
    1.5
    """

    def __init__(
        self,
        probabilities: ArrayLike | None = None,
        *,
        ratios: ArrayLike | None = None,
        target: ArrayLike | None = None,
    ) -> None:
        if (probabilities is None) == (ratios is None):
            raise TypeError("Dense needs probabilities or ratios: give exactly one of the two.")
        name = "ratios" if probabilities is None else "probabilities"
        values = _as_table(ratios if probabilities is None else probabilities, name)
        space = Points(len(values), target)
        table = np.empty(values.shape, dtype=np.float32)
        sums = np.zeros(values.shape[1])
        law = np.empty(0) if space.target is None else space.target
        rows = rows_per_block(values.shape[1])
        for start in range(0, len(values), rows):
            block = np.ascontiguousarray(values[start : start + rows], dtype=np.float64)
            bad = kernels.store(block, law, name == "ratios", start, table, sums)
            if bad >= 0:
                raise ValueError(_complaint(name, block[bad], start + bad))
        _check_sums(name, sums, values.dtype)
        super().__init__(space, table)


def _as_table(values: ArrayLike | None, name: str) -> AnyArray:
    table = as_real(() if values is None else values, name)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{name} must have shape (n, k), one column per component, got {table.shape}.")
    return table


def _check_sums(name: str, sums: FloatArray, dtype: np.dtype[np.generic]) -> None:
    tolerance = 1e-6 if dtype.itemsize >= 8 else 1e-3
    off = np.abs(sums - 1) > tolerance
    if off.any():
        j = first(off)
        what = "sum to one" if name == "probabilities" else "have mean one under the target"
        raise ValueError(
            f"Every column of {name} must {what}; column {j} gives {sums[j]:.9g}. Divide it by that number."
        )


def _complaint(name: str, row: FloatArray, i: int) -> str:
    bad = ~(np.isfinite(row) & (row >= 0))
    if bad.any():
        j = first(bad)
        return f"{name} must be finite and not negative; entry [{i}, {j}] is {row[j]}."
    return (
        f"{name} put mass on point {i}, whose target is zero or too small beside it (a ratio above 1e38). "
        f"Set them to zero there, or give it more target."
    )
