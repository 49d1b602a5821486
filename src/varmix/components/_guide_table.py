"""Table: columns of ratios, ready to be drawn from."""

import numpy as np

from varmix._core.validation import AnyArray, FloatArray
from varmix.components import _tables_kernels as kernels

POINTS_PER_CELL = 2


class Table:
    """Cumulative sums with guides over the columns of `ratios` (n, k), under a target.

    Attributes
    ----------
    cumulative
        (k, n) running sums, each ending at one.
    guide
        (k, cells + 1) where to look in them.
    scale
        (k,) factor that makes the stored ratios those of the law that is really drawn: a column that was rounded
        to float32 no longer has mean one exactly, and unbiasedness asks for exactly.
    largest
        (k,) largest ratio of each column.
    """

    __slots__ = ("cumulative", "guide", "largest", "scale")

    def __init__(self, ratios: AnyArray, target: FloatArray | None) -> None:
        n, k = ratios.shape
        self.cumulative: FloatArray = np.empty((k, n))
        index = np.int32 if n < 2**31 else np.int64
        self.guide: AnyArray = np.empty((k, max(n // POINTS_PER_CELL, 1) + 1), dtype=index)
        largest, totals = np.empty(k), np.empty(k)
        kernels.accumulate_sums(ratios, np.empty(0) if target is None else target, self.cumulative, largest)
        kernels.finish_sums(self.cumulative, self.guide, totals)
        self.scale: FloatArray = 1.0 / totals
        self.largest: FloatArray = largest * self.scale
