"""Distances: the proposals of section 6.4, points far from a centre."""

from typing import final
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import as_floats
from varmix._core.validation import as_fraction
from varmix._core.validation import as_real
from varmix.components._tables import Tabulated
from varmix.components._tables import rows_per_block
from varmix._core.spaces import Points


@final
class Distances(Tabulated):
    """Component j draws in proportion to the distance from centre j.

    `p_j = (1 - smoothing) d_j / sum(d_j) + smoothing / n`.

    The paper prints the root of the sum of squares below the fraction, which does not sum to one; this is normalised
    by the sum of the distances, which also reproduces the paper's constant c.  X is read once, in blocks, so it may
    be a memory map.  Under a target, sums are means under it.

    Examples
    --------
    >>> family = Distances([[0.0], [1.0], [3.0]], centers=[[0.0]], smoothing=0.1)
    >>> family.ratios(np.arange(3)).round(3).ravel().tolist()
    [0.1, 0.775, 2.125]
    """

    def __init__(
        self, X: ArrayLike, centers: ArrayLike, *, smoothing: float = 0.1, target: ArrayLike | None = None
    ) -> None:
        smoothing = as_fraction(smoothing, "smoothing", zero=True)
        data = as_real(X, "X")
        middles = as_floats(centers, "centers")
        if data.ndim != 2 or middles.ndim != 2 or data.shape[1] != middles.shape[1] or not data.size:
            raise ValueError(
                f"X (n, d) and centers (k, d) must be tables with the same number of columns, got shapes "
                f"{data.shape} and {middles.shape}."
            )
        if not len(middles) or not np.isfinite(middles).all():
            raise ValueError("centers must be at least one row of finite numbers.")
        space = Points(len(data), target)
        table, mean, checksum = _distances(data, middles, space)
        checksum = crc32(np.append(middles.ravel(), smoothing), checksum)  # type: ignore[arg-type]
        super().__init__(space, _normalise(table, mean, smoothing), checksum)


def _distances(data: AnyArray, centers: FloatArray, space: Points) -> tuple[AnyArray, FloatArray, int]:
    """Return the distances (n, k) in some unit, as float32, their means under the target in it, and a checksum of data.

    Not of the distances: matrix products round differently from machine to machine.
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
        if largest > unit:  # float32 has no room for 1e50
            table[:start] *= np.float32(unit / largest)
            mean *= unit / largest
            unit = largest
        distance /= unit or 1.0
        mass = 1 / space.n if space.target is None else space.target[part, None]
        mean += (distance * mass).sum(axis=0)
        table[part] = distance
    return table, mean, checksum


def _block_distances(block: FloatArray, centers: FloatArray, start: int) -> FloatArray:
    """Give the distances by one matrix product, and again directly where that cancels."""
    if not np.isfinite(block).all():
        row = start + int(np.argmin(np.isfinite(block).all(axis=1)))
        raise ValueError(f"X must be finite; row {row} is not. Remove or impute it.")
    with np.errstate(over="ignore", invalid="ignore"):
        middle = centers.mean(axis=0)  # far from the origin the squares would lose the digits of the differences
        near, shifted = block - middle, centers - middle
        sizes = (near**2).sum(axis=1)[:, None] + (shifted**2).sum(axis=1)
        squares = sizes - 2 * near @ shifted.T
        for j, center in enumerate(centers):
            (cancelled,) = np.nonzero(squares[:, j] < 1e-6 * sizes[:, j])
            squares[cancelled, j] = ((block[cancelled] - center) ** 2).sum(axis=1)
    if not np.isfinite(squares).all():
        raise ValueError("X and centers are too large: their squared distances overflow. Scale them down.")
    return np.asarray(np.sqrt(squares))


def _normalise(table: AnyArray, mean: FloatArray, smoothing: float) -> AnyArray:
    for j, average in enumerate(mean):
        if average > 0:
            table[:, j] *= np.float32((1 - smoothing) / average)
            table[:, j] += np.float32(smoothing)
        else:  # every point is the centre: no distance to tell them apart
            table[:, j] = 1.0
    return table
