"""Spectrum: the eigenvectors and eigenvalues of a kernel of low rank, or of any kernel of moderate size."""

from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.validation import as_matrix
from varmix._core.validation import first

EPS = float(np.finfo(np.float64).eps)


@final
class Spectrum:
    """A positive semi-definite kernel K = 4^exponent * V diag(values) V'.

    The power of two keeps the values near one, whatever the scale of the data, without rounding.  Eigenvalues that
    are rounding beside the largest are left out.  Those that are kept belong to data that differ from the given ones
    by rounding beside the *largest* singular value: the digits of the small ones are as many fewer.

    Attributes
    ----------
    vectors
        (n, rank) eigenvectors V, in columns.
    values
        (rank,) eigenvalues, ascending and above zero.
    exponent
        The scale of the kernel.
    cut
        What no eigenvalue that was left out is above, as often as there may be one.
    """

    __slots__ = ("_balanced_rank", "cut", "exponent", "values", "vectors")

    def __init__(
        self,
        vectors: FloatArray,
        values: FloatArray,
        exponent: int,
        least: float = 0.0,
        balanced_rank: Callable[[], int] | None = None,
    ) -> None:
        kept = np.flatnonzero(values > least)
        order = kept[np.argsort(values[kept], kind="stable")]
        self.vectors: FloatArray = np.ascontiguousarray(vectors[:, order])
        self.values: FloatArray = values[order]
        self.exponent = exponent
        self.cut: FloatArray = np.full(len(values) - len(kept) if least > 0.0 else 0, least)
        self._balanced_rank = balanced_rank

    @classmethod
    def from_features(cls, X: ArrayLike) -> "Spectrum":
        """Give the spectrum of X X' for features (n, d), by the singular values of X: X X' itself is never formed.

        Examples
        --------
        >>> Spectrum.from_features([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]).values * 4.0**2
        array([4., 9.])
        """
        features = as_matrix(X, "X")
        scaled, exponent = _scaled(features)
        vectors, singular, _ = np.linalg.svd(scaled, full_matrices=False)
        rounding = max(features.shape) * EPS

        def balanced_rank() -> int:
            balanced = np.ldexp(scaled, -_exponents(scaled, axis=1)[:, None])
            balanced = np.ldexp(balanced, -_exponents(balanced, axis=0))
            values = np.linalg.svd(balanced, compute_uv=False)
            return int(np.count_nonzero(values > rounding * values[0]))

        return cls(vectors, singular**2, exponent, (rounding * singular[0]) ** 2, balanced_rank)

    @classmethod
    def from_kernel(cls, L: ArrayLike) -> "Spectrum":
        """Give the spectrum of a symmetric positive semi-definite matrix (n, n).

        What is rounding is judged by the precision of the numbers as they are given.
        """
        kernel = as_matrix(L, "L")
        if kernel.shape[0] != kernel.shape[1]:
            raise ValueError(
                f"L must be a square matrix, the kernel of every pair of points, got shape {kernel.shape}. "
                f"Give features (n, d) to KDpp itself."
            )
        scaled, exponent = _scaled(kernel)
        if exponent % 2:
            scaled, exponent = scaled / 2, exponent + 1
        precision = len(kernel) * _precision(L)
        rounding = precision * 8
        uneven = np.abs(scaled - scaled.T) > rounding
        if uneven.any():
            i, j = first(uneven)  # type: ignore[misc]
            raise ValueError(
                f"L must be symmetric; L[{i}, {j}] is {kernel[i, j]:.6g} and L[{j}, {i}] is {kernel[j, i]:.6g}. "
                f"Give (L + L.T) / 2 if that is what is meant."
            )
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        largest = float(np.abs(values).max())
        if values[0] < -rounding * largest:
            raise ValueError(
                f"L must be positive semi-definite; its least eigenvalue is {values[0] / largest:.3g} of the largest "
                f"in size. Add a multiple of the identity that lifts it to zero, or take another kernel."
            )

        def balanced_rank() -> int:
            half = _exponents(scaled, axis=1) // 2
            found = np.linalg.eigvalsh(np.ldexp((scaled + scaled.T) / 2, -half[:, None] - half))
            return int(np.count_nonzero(found > precision * np.abs(found).max()))

        # Where rounding made eigenvalues negative, it made others positive by as much.
        return cls(vectors, values, exponent // 2, max(precision * largest, -float(values[0])), balanced_rank)

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.vectors)

    @property
    def rank(self) -> int:
        """Number of eigenvalues above zero."""
        return len(self.values)

    def hides(self) -> bool:
        """Whether eigenvalues were left out that are not rounding: there are more when no row or column is longer.

        One enormous row makes all others rounding beside it, and yet they may be anything.  It takes another
        decomposition.
        """
        return self._balanced_rank is not None and len(self.cut) > 0 and self._balanced_rank() > self.rank


def _exponents(matrix: FloatArray, axis: int) -> IntArray:
    """Give the power of two that the largest entry of every row or column is below."""
    return np.asarray(np.frexp(np.abs(matrix).max(axis=axis))[1], dtype=np.int64)


def _scaled(matrix: FloatArray) -> tuple[FloatArray, int]:
    """Divide by the power of two that takes the largest entry to between a half and one."""
    exponent = int(np.frexp(np.abs(matrix).max())[1])
    return np.ldexp(matrix, -exponent), exponent


def _precision(values: ArrayLike) -> float:
    """Give the relative rounding of the numbers as they were given."""
    dtype = np.asarray(values).dtype
    return max(float(np.finfo(dtype).eps), EPS) if dtype.kind == "f" else EPS
