"""Dense and Distances: components as a table of ratios, one row per point."""

from copy import copy
from typing import final
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.allocation import Allocation
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, require_entries
from varmix._core.validation import (
    AnyArray,
    FloatArray,
    IntArray,
    State,
    as_atoms,
    as_floats,
    as_fraction,
    as_real,
    find_first,
    same,
)
from varmix.components import _tables_kernels as kernels
from varmix.components._base import Family, Sample
from varmix.components._guide_table import Table
from varmix.components._stack import Stack
from varmix.components._uniform import Uniform

ENTRIES_PER_BLOCK = 1 << 19  # entries converted to double at a time while a table is built
MAX_ROUNDING_ERROR = 1e-6  # of a ratio of one in single precision


def _are_ones(values: AnyArray) -> bool:
    return bool(np.abs(values - 1.0).max() <= MAX_ROUNDING_ERROR)


def rows_per_block(columns: int) -> int:
    """Return how many rows of a table are read at a time, so that a memory map stays on disk."""
    return max(ENTRIES_PER_BLOCK // max(columns, 1), 1)


class TableFamily(Family):
    """A table of float32 ratios (n, k) with cumulative sums to draw from: 14 bytes per entry.

    Draws follow the stored table exactly. Subclasses compute the table.

    Parameters
    ----------
    space : Points
        The points.
    table : float32 array of shape (n, k)
        The ratios.
    checksum : int, optional
        Identifies the data that the table was built from. Default: a checksum of the table itself.
    """

    space: Points
    _column = "column"  # the word for a component in `names`

    def __init__(self, space: Points, table: AnyArray, checksum: int | None = None) -> None:
        self.space = space
        self._ratios = table
        self._sum = checksum
        self._table = Table(table, space.target)
        self.k = table.shape[1]
        self.c = float(self._table.largest.max())

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the target: `with_uniform` added it, or the last column is one everywhere."""
        if self.k > self._ratios.shape[1]:
            return True
        last, scale = self._ratios[:, -1], self._table.scale[-1]  # a few rows first, because it may be a memory map
        return _are_ones(scale * last[:: max(len(last) // 16, 1)]) and _are_ones(scale * last)

    @property
    def names(self) -> list[str]:
        """The columns of the table, numbered."""
        columns = [f"{self._column} {j}" for j in range(self._ratios.shape[1])]
        return [*columns, "uniform"] if self.k > len(columns) else columns

    def with_uniform(self) -> Family:
        """Return the family with the target as one more component, the last; the tables are shared."""
        if self.space.target is not None:
            return Stack(self, Uniform(self.space))
        family = copy(self)
        family.k = self._ratios.shape[1] + 1
        return family

    def state_dict(self) -> State:
        """Return what identifies the family: its class, its size and a checksum of its data."""
        return super().state_dict() | {"checksum": self._checksum()}

    def load_state_dict(self, state: State) -> None:
        """Check that the state is of a family built from the same data; there is nothing else to load."""
        require_entries(state, set(self.state_dict()), type(self).__name__)
        self.check_identity(state)
        if not same(state["checksum"], self._checksum()):
            raise CheckpointError(
                f"The saved {type(self).__name__} was built from other data: rebuild it from the same data, with the "
                f"rows in the same order."
            )

    def _checksum(self) -> int:
        """Return a checksum of the data, which is computed once."""
        if self._sum is None:
            self._sum = crc32(self._ratios)  # type: ignore[arg-type]
        return self._sum

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw points by the cumulative sums, and gather their rows."""
        m = len(lanes)
        atoms, rows = np.empty(m, np.int64), np.empty((m, self.k))
        table = self._table
        kernels.draw_rows(
            lanes, uniforms.take(m), table.cumulative, table.guide, self._ratios, table.scale, atoms, rows
        )
        return atoms, rows

    def sample(
        self,
        mixture: FloatArray,
        m: int,
        batches: int,
        allocation: Allocation,
        allocation_state: FloatArray,
        uniforms: Uniforms,
    ) -> Sample:
        """Make the draws of a sampler; a stratified batch takes one compiled call."""
        if batches != 1 or not allocation.is_stratified:
            return super().sample(mixture, m, batches, allocation, allocation_state, uniforms)
        atoms, rows, density, weights = np.empty(m, np.int64), np.empty((m, self.k)), np.empty(m), np.empty(m)
        table = self._table
        law = table.cumulative, table.guide, self._ratios, table.scale
        kernels.draw_stratified(mixture, uniforms.take(2 * m), *law, atoms, rows, density, weights)
        return atoms, rows, density, weights, None, allocation_state

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the rows of these atoms."""
        atoms = as_atoms(atoms, self.space.n)
        rows = np.empty((len(atoms), self.k))
        kernels.gather_rows(self._ratios, self._table.scale, atoms, rows)
        return rows


@final
class Dense(TableFamily):
    """Components from a table: probabilities p_j(i), or ratios q_j(i) = p_j(i) / target(i), of shape (n, k).

    Arrays and memory maps are read in blocks and kept as float32 ratios with cumulative sums: 14 bytes per entry. Draws
    follow the stored table exactly. A last column of ones counts as the uniform component.

    Parameters
    ----------
    probabilities : array-like of shape (n, k), optional
        One column per component; each column sums to one. Pass either this or `ratios`.
    ratios : array-like of shape (n, k), optional
        One column per component; each column has mean one under the target.
    target : array-like of shape (n,), optional
        The distribution to be unbiased for. Default: uniform.

    Raises
    ------
    TypeError
        If both or neither of `probabilities` and `ratios` are passed.
    ValueError
        If entries are negative or not finite, or a column has the wrong sum.

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
            raise TypeError("Dense needs either probabilities or ratios: pass exactly one of the two.")
        name = "ratios" if probabilities is None else "probabilities"
        values = _as_table(ratios if probabilities is None else probabilities, name)
        space = Points(len(values), target)
        table = np.empty(values.shape, dtype=np.float32)
        sums = np.zeros(values.shape[1])
        law = np.empty(0) if space.target is None else space.target
        rows = rows_per_block(values.shape[1])
        for start in range(0, len(values), rows):
            block = np.ascontiguousarray(values[start : start + rows], dtype=np.float64)
            bad = kernels.store_block(block, law, name == "ratios", start, table, sums)
            if bad >= 0:
                raise ValueError(_explain_refusal(name, block[bad], start + bad))
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
        j = find_first(off)
        what = "have sum one" if name == "probabilities" else "have mean one under the target"
        raise ValueError(
            f"Every column of {name} must {what}, but column {j} has {sums[j]:.9g}. Divide the column by that number."
        )


def _explain_refusal(name: str, row: FloatArray, i: int) -> str:
    bad = ~(np.isfinite(row) & (row >= 0))
    if bad.any():
        j = find_first(bad)
        return f"{name} must be finite and not negative; entry [{i}, {j}] is {row[j]}."
    return (
        f"{name} put mass on point {i}, whose target is zero or too small for it (a ratio above 1e38). Set them to "
        f"zero there, or raise its target."
    )


@final
class Distances(TableFamily):
    """Component j draws points in proportion to their distance from center j.

    With d_j(i) the distance of point i from center j, `p_j = (1 - smoothing) d_j / sum(d_j) + smoothing / n`.

    The paper divides by the root of the sum of squares, which does not make a distribution. Dividing by the sum of the
    distances does, and reproduces the paper's constant c.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points. They are read once, in blocks, so X may be a memory map.
    centers : array-like of shape (k, d)
        The centers.
    smoothing : float, default 0.1
        Share of the uniform distribution (or of the target) in every component.
    target : array-like of shape (n,), optional
        The distribution to be unbiased for. Ratios are then `(1 - smoothing) d_j / mean(d_j) + smoothing`, with the
        mean under the target. Default: uniform.

    Raises
    ------
    ValueError
        If X or the centers have the wrong shape, are not finite, or are so large that distances overflow.

    Examples
    --------
    >>> family = Distances([[0.0], [1.0], [3.0]], centers=[[0.0]], smoothing=0.1)
    >>> family.ratios(np.arange(3)).round(3).ravel().tolist()
    [0.1, 0.775, 2.125]
    """

    _column = "center"

    def __init__(
        self, X: ArrayLike, centers: ArrayLike, *, smoothing: float = 0.1, target: ArrayLike | None = None
    ) -> None:
        smoothing = as_fraction(smoothing, "smoothing", zero=True)
        data = as_real(X, "X")
        middles = as_floats(centers, "centers")
        if data.ndim != 2 or middles.ndim != 2 or data.shape[1] != middles.shape[1] or not data.size:
            raise ValueError(
                f"X (n, d) and centers (k, d) must be tables with the same number of columns; got shapes "
                f"{data.shape} and {middles.shape}."
            )
        if not len(middles) or not np.isfinite(middles).all():
            raise ValueError("centers must be at least one row of finite numbers.")
        space = Points(len(data), target)
        table, mean, checksum = _compute_distances(data, middles, space)
        checksum = crc32(np.append(middles.ravel(), smoothing), checksum)  # type: ignore[arg-type]
        super().__init__(space, _normalise_table(table, mean, smoothing), checksum)


def _compute_distances(data: AnyArray, centers: FloatArray, space: Points) -> tuple[AnyArray, FloatArray, int]:
    """Return the distances (n, k) in some unit as float32, their means under the target, and a checksum of the data.

    The checksum covers the data instead of the distances, because matrix products round differently on other machines.
    """
    table = np.empty((len(data), len(centers)), dtype=np.float32)
    mean = np.zeros(len(centers))
    unit, checksum = 0.0, 0
    rows = rows_per_block(max(data.shape[1], len(centers)))
    for start in range(0, len(data), rows):
        part = slice(start, start + rows)
        block = np.ascontiguousarray(data[part], dtype=np.float64)
        checksum = crc32(block, checksum)  # type: ignore[arg-type]
        distance = _block_distances(block, centers, start)
        largest = float(distance.max())
        if largest > unit:  # float32 cannot hold 1e50
            table[:start] *= np.float32(unit / largest)
            mean *= unit / largest
            unit = largest
        distance /= unit or 1.0
        mass = 1 / space.n if space.target is None else space.target[part, None]
        mean += (distance * mass).sum(axis=0)
        table[part] = distance
    return table, mean, checksum


def _block_distances(block: FloatArray, centers: FloatArray, start: int) -> FloatArray:
    """Return distances from one matrix product, computed again directly where digits cancel."""
    if not np.isfinite(block).all():
        row = start + int(np.argmin(np.isfinite(block).all(axis=1)))
        raise ValueError(f"X must be finite; row {row} is not. Remove or impute it.")
    with np.errstate(over="ignore", invalid="ignore"):
        middle = centers.mean(axis=0)  # without it, squares would lose digits far from the origin
        near, shifted = block - middle, centers - middle
        sizes = (near**2).sum(axis=1)[:, None] + (shifted**2).sum(axis=1)
        squares = sizes - 2 * near @ shifted.T
        for j, center in enumerate(centers):
            (cancelled,) = np.nonzero(squares[:, j] < 1e-6 * sizes[:, j])
            squares[cancelled, j] = ((block[cancelled] - center) ** 2).sum(axis=1)
    if not np.isfinite(squares).all():
        raise ValueError("X and centers are too large: their squared distances overflow. Scale them down.")
    return np.asarray(np.sqrt(squares))


def _normalise_table(table: AnyArray, mean: FloatArray, smoothing: float) -> AnyArray:
    for j, average in enumerate(mean):
        if average > 0:
            table[:, j] *= np.float32((1 - smoothing) / average)
            table[:, j] += np.float32(smoothing)
        else:  # every point is the center
            table[:, j] = 1.0
    return table
