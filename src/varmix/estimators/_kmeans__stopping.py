"""Stopping: when more steps are not worth it, by the rules of `MiniBatchKMeans`."""

from typing import Any

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix.components._tables import rows_per_block


class Stopping:
    """Watches a moving average of the inertia of batches, and how far the centres go.

    Parameters
    ----------
    alpha
        How much the last batch counts in the average.
    tolerance
        Stop when the centres have moved by no more than this, squared and added up; 0 never stops.
    patience
        Stop after so many batches without a lower average; None never stops.

    Examples
    --------
    >>> stopping = Stopping(alpha=1.0, tolerance=0.0, patience=2)
    >>> [stopping.see([loss]) for loss in (9.0, 5.0, 4.0, 4.5, 4.2)]
    [False, False, False, False, True]
    """

    def __init__(self, alpha: float, tolerance: float = 0.0, patience: int | None = 10) -> None:
        self.alpha, self.tolerance, self.patience = min(alpha, 1.0), tolerance, patience
        self.average: float | None = None
        self._least, self._waited, self._begun = np.inf, 0, False

    def see(self, losses: Any, moved: float = np.inf) -> bool:  # noqa: ANN401
        """Take in the inertia of some batches, and how far they moved the centres; say whether to stop."""
        for loss in losses:
            if not self._begun:  # the first batch says how good the start was, and nothing about progress
                self._begun = True
                continue
            self.average = loss if self.average is None else (1 - self.alpha) * self.average + self.alpha * loss
            self._waited = 0 if self.average < self._least else self._waited + 1
            self._least = min(self._least, self.average)
        if self.tolerance > 0.0 and moved <= self.tolerance and self.average is not None:
            return True
        return self.patience is not None and self.average is not None and self._waited >= self.patience


def mean_variance(X: Any) -> float:  # noqa: ANN401
    """Give the mean of the variances of all features, in blocks: what tolerances are relative to."""
    if hasattr(X, "toarray"):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        return float(mean_variance_axis(X, axis=0)[1].mean())
    n, d = X.shape
    first: AnyArray = np.asarray(X[0], dtype=np.float64)
    sums: FloatArray = np.zeros(d)
    squares: FloatArray = np.zeros(d)
    rows = rows_per_block(d)
    for start in range(0, n, rows):
        block = X[start : start + rows] - first
        sums += block.sum(axis=0)
        squares += (block**2).sum(axis=0)
    return float((squares / n - (sums / n) ** 2).mean())
