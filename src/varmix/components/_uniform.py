"""Uniform: the uniform component. On its own it is plain sampling."""

from typing import final

import numpy as np

from varmix._core.rng import Uniforms
from varmix._core.spaces import Points, Space, Subsets, refuse_window
from varmix._core.validation import FloatArray, IntArray, as_atoms, as_subsets
from varmix.components._base import Family
from varmix.components._guide_table import Table
from varmix.components._tables_kernels import draw_table
from varmix.components._uniform_kernels import draw_subsets


@final
class Uniform(Family):
    """One component: the target distribution of the space, which is uniform by default. All ratios are one.

    As the last component of a family it keeps importance weights bounded. On its own it is plain sampling. Over
    `Subsets` it draws sets without replacement, all with the same probability.

    Parameters
    ----------
    space : int, Points or Subsets
        Number of points, or the space itself.

    Raises
    ------
    TypeError
        If `space` is anything else, such as the window of a replay buffer.

    Examples
    --------
    >>> Uniform(5).ratios(np.array([0, 3]))
    array([[1.],
           [1.]])
    >>> Uniform(Subsets(5, size=2)).inclusion(np.array([0, 3]))
    array([[0.4],
           [0.4]])
    """

    def __init__(self, space: Space | int) -> None:
        refuse_window(space, "Uniform")
        self.space: Space = Points(space) if isinstance(space, (int, np.integer)) else space
        if not isinstance(self.space, (Points, Subsets)):
            raise TypeError(f"Uniform needs a number of points, a Points or a Subsets, got {space!r}.")
        self.k = 1
        self.c = 1.0
        target = self.space.target if isinstance(self.space, Points) else None
        # Without a target the table is empty, and lanes beyond the table are uniform.
        self._table = Table(np.empty((self.space.n, 0)) if target is None else np.ones((self.space.n, 1)), target)

    @property
    def has_uniform(self) -> bool:
        """Always True."""
        return True

    @property
    def knows_inclusion(self) -> bool:
        """Whether it draws sets. A set includes every point with probability size / n."""
        return isinstance(self.space, Subsets)

    @property
    def names(self) -> list[str]:
        """Name of the only component."""
        return ["uniform"]

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw from the target for every lane; return atoms and ratios."""
        m, n = len(lanes), self.space.n
        atoms: IntArray
        if isinstance(self.space, Subsets):
            atoms = np.empty((m, self.space.size), dtype=np.int64)
            draw_subsets(uniforms.take(2), n, atoms)
        else:
            atoms = np.empty(m, dtype=np.int64)
            draw_table(lanes, uniforms.take(m), self._table.cumulative, self._table.guide, n, atoms)
        return atoms, np.ones((m, 1))

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return a ratio of one for every atom."""
        space = self.space
        checked = as_subsets(atoms, space.n, space.size) if isinstance(space, Subsets) else as_atoms(atoms, space.n)
        return np.ones((len(checked), 1))

    def inclusion(self, points: IntArray) -> FloatArray:
        """Return the probability that a set includes a point: size / n for every point."""
        if not isinstance(self.space, Subsets):
            raise TypeError(f"Inclusion probabilities need a space of Subsets, but {self!r} draws single points.")
        return np.full((len(as_atoms(points, self.space.n)), 1), self.space.size / self.space.n)

    def point_density(self, sets: IntArray, w: FloatArray) -> FloatArray:
        """Return the weight of this component for every point of the sets."""
        return np.full(sets.shape, w[0])
