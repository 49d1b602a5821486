"""Table: cumulative sums of columns of ratios, for fast draws."""

import numpy as np

from varmix._core.validation import AnyArray, FloatArray
from varmix.components import _tables_kernels as kernels

POINTS_PER_CELL = 2


class Table:
    """Cumulative sums with guides for every column of `ratios` (n, k), under a target.

    Attributes
    ----------
    cumulative : array of shape (k, n)
        Running sums; each row ends at one.
    guide : array of shape (k, cells + 1)
        First index of every cell of [0, 1).
    scale : array of shape (k,)
        Factor from stored ratios to the ratios of the actual draws. Columns rounded to float32 do not have a mean of
        exactly one, and unbiased estimates need the exact ratios.
    largest : array of shape (k,)
        Largest ratio of each column.
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
