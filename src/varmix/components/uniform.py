"""Uniform: the anchor, or the whole of plain sampling."""

from typing import final

import numpy as np

from varmix.arrays import FloatArray, IntArray, as_atoms
from varmix.components.base import Family
from varmix.components.table import Table
from varmix.kernels.table import draw_table
from varmix.spaces import Points
from varmix.uniforms import Uniforms


@final
class Uniform(Family):
    """One component: the target law of the space, uniform if it has none.  Its ratio is one everywhere.

    Examples
    --------
    >>> Uniform(5).ratios(np.array([0, 3]))
    array([[1.],
           [1.]])
    """

    def __init__(self, space: Points | int) -> None:
        self.space: Points = Points(space) if isinstance(space, (int, np.integer)) else space
        if not isinstance(self.space, Points):
            raise TypeError(f"Uniform draws points: give a number of points or a Points, got {space!r}.")
        self.k = 1
        self.c = 1.0
        target = self.space.target
        # Without a target the table is empty: every lane is then beyond it, and uniform.
        self._table = Table(np.empty((self.space.n, 0)) if target is None else np.ones((self.space.n, 1)), target)

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw from the target, whatever the lane."""
        atoms = np.empty(len(lanes), dtype=np.int64)
        draw_table(lanes, uniforms.take(len(lanes)), self._table.cumulative, self._table.guide, self.space.n, atoms)
        return atoms, self.ratios(atoms)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """One for every atom."""
        return np.ones((len(as_atoms(atoms, self.space.n)), 1))
