"""Tabulated: what families that keep a number per point and component have in common."""

from copy import copy
from zlib import crc32

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.validation import State
from varmix._core.validation import as_atoms
from varmix._core.validation import same
from varmix.components._base import Components
from varmix.components._base import Family
from varmix.components._stack import Stack
from varmix.components._guide_table import Table
from varmix.components._uniform import Uniform
from varmix.components import _tables_kernels as kernels
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError
from varmix._core.state import require
from varmix._core.rng import Uniforms

ENTRIES_PER_BLOCK = 1 << 19  # numbers converted to double at a time, when a table is built


def rows_per_block(columns: int) -> int:
    """Give how many rows of so many columns are read at a time, so that a memory map stays on disk."""
    return max(ENTRIES_PER_BLOCK // max(columns, 1), 1)


class Tabulated(Family):
    """A table of float32 ratios (n, k) with cumulative sums to draw from: 14 bytes an entry.

    What is drawn is exactly the stored law.  Subclasses make the table; they are final, because `draw_stratified` does
    what `draw` does without calling it.

    Parameters
    ----------
    space
        The points.
    table
        The ratios, (n, k).
    checksum
        Tells what the table was built from; None takes the table itself.
    """

    space: Points

    def __init__(self, space: Points, table: AnyArray, checksum: int | None = None) -> None:
        self.space = space
        self._ratios = table
        self._sum = checksum
        self._table = Table(table, space.target)
        self.k = table.shape[1]
        self.c = float(self._table.largest.max())

    def anchored(self) -> Components:
        """Give the same family with the target as one more component, the last; the tables are shared."""
        if self.space.target is not None:
            return Stack(self, Uniform(self.space))
        family = copy(self)
        family.k = self._ratios.shape[1] + 1
        return family

    def state_dict(self) -> State:
        """Return what a checkpoint is compared with: nothing changes."""
        return super().state_dict() | {"checksum": self._checksum()}

    def load_state_dict(self, state: State) -> None:
        """Check that the state is of the same table; there is nothing else to load."""
        require(state, set(self.state_dict()), type(self).__name__)
        self.check_shape(state)
        if not same(state["checksum"], self._checksum()):
            raise CheckpointError(
                f"The saved {type(self).__name__} is of other data: rebuild it from what it was built from, with the "
                f"rows in the same order."
            )

    def _checksum(self) -> int:
        """Return a number that tells tables apart."""
        if self._sum is None:
            self._sum = crc32(self._ratios)  # type: ignore[arg-type]
        return self._sum

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
        """Give atoms, ratios, density and weights of a stratified draw, in one compiled call.

        The numbers are those of the separate calls, up to where a block of uniforms ends.
        """
        atoms, rows, density, weights = np.empty(m, np.int64), np.empty((m, self.k)), np.empty(m), np.empty(m)
        table = self._table
        law = table.cumulative, table.guide, self._ratios, table.scale
        kernels.draw_stratified(mixture, uniforms.take(2 * m), *law, atoms, rows, density, weights)
        return atoms, rows, density, weights

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Gather the rows of these atoms."""
        atoms = as_atoms(atoms, self.space.n)
        rows = np.empty((len(atoms), self.k))
        kernels.gather(self._ratios, self._table.scale, atoms, rows)
        return rows
