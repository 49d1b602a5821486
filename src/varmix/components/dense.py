"""Dense: k distributions given as numbers, one per point and component."""

from copy import copy

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import AnyArray, FloatArray, IntArray, as_atoms, as_real, first
from varmix.components.base import Components, Family
from varmix.components.stack import Stack
from varmix.components.table import Table
from varmix.components.uniform import Uniform
from varmix.kernels import table as kernels
from varmix.spaces import Points
from varmix.uniforms import Uniforms

ROWS_PER_BLOCK = 1 << 15


class Dense(Family):
    """Distributions from a table of probabilities p_j(i), or of ratios q_j(i) = p_j(i) / target(i), shape (n, k).

    Arrays and memory maps are read in blocks and kept as float32 ratios, (n, k), with cumulative sums to draw from:
    12 bytes per entry and one more for the guide.  What is drawn is exactly the stored law.

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

    space: Points

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
        for start in range(0, len(values), ROWS_PER_BLOCK):
            block = np.ascontiguousarray(values[start : start + ROWS_PER_BLOCK], dtype=np.float64)
            bad = kernels.store(block, law, name == "ratios", start, table, sums)
            if bad >= 0:
                raise ValueError(_complaint(name, block[bad], start + bad))
        _check_sums(name, sums, values.dtype)
        self._fill(space, table)

    def _fill(self, space: Points, table: AnyArray) -> None:
        self.space = space
        self._ratios = table
        self._table = Table(table, space.target)
        self._anchored = False
        self.k = table.shape[1]
        self.c = float(self._table.largest.max())

    def anchored(self) -> Components:
        """Give the same family with the target as one more component, the last; the tables are shared."""
        if self.space.target is not None:
            return Stack(self, Uniform(self.space))
        family = copy(self)
        family._anchored = True
        family.k = self._ratios.shape[1] + 1
        family.c = max(self.c, 1.0)
        return family

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw by the cumulative sums, and gather the rows."""
        m = len(lanes)
        atoms, rows = np.empty(m, np.int64), np.empty((m, self.k))
        table = self._table
        kernels.draw_rows(
            lanes, uniforms.take(m), table.cumulative, table.guide, self._ratios, table.scale, atoms, rows
        )
        return atoms, rows

    def draw_stratified(
        self, mixture: FloatArray, m: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Give atoms, ratios, density and weights of a stratified draw: the same numbers in one compiled call."""
        atoms, rows, density, weights = np.empty(m, np.int64), np.empty((m, self.k)), np.empty(m), np.empty(m)
        table, slots, u = self._table, uniforms.take(m), uniforms.take(m)
        kernels.draw_stratified(
            mixture,
            slots,
            u,
            table.cumulative,
            table.guide,
            self._ratios,
            table.scale,
            atoms,
            rows,
            density,
            weights,
        )
        return atoms, rows, density, weights

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Gather the rows of these atoms."""
        atoms = as_atoms(atoms, self.space.n)
        rows = np.empty((len(atoms), self.k))
        kernels.gather(self._ratios, self._table.scale, atoms, rows)
        return rows


def _as_table(values: ArrayLike | None, name: str) -> AnyArray:
    table = as_real(() if values is None else values, name)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{name} must have shape (n, k), one column per component, got {table.shape}.")
    return table


def _check_sums(name: str, sums: FloatArray, dtype: np.dtype[np.generic]) -> None:
    tolerance = 1e-6 if dtype.itemsize == 8 else 1e-3
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
