"""Spectrum: the eigenvectors and eigenvalues of a kernel of low rank, or of any kernel of moderate size."""

from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import FloatArray, as_matrix, first

EPS = float(np.finfo(np.float64).eps)


@final
class Spectrum:
    """A positive semi-definite kernel K = 4^exponent * V diag(values) V'.

    The power of two keeps the values near one, whatever the scale of the data, without rounding.  Eigenvalues that
    are rounding beside the largest are left out.

    Attributes
    ----------
    vectors
        (n, rank) eigenvectors V, in columns.
    values
        (rank,) eigenvalues, ascending and above zero.
    exponent
        The scale of the kernel.
    """

    __slots__ = ("exponent", "values", "vectors")

    def __init__(self, vectors: FloatArray, values: FloatArray, exponent: int) -> None:
        order = np.argsort(values, kind="stable")
        self.vectors: FloatArray = np.ascontiguousarray(vectors[:, order])
        self.values: FloatArray = values[order]
        self.exponent = exponent

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
        real = singular > max(features.shape) * EPS * singular[0]
        return cls(vectors[:, real], singular[real] ** 2, exponent)

    @classmethod
    def from_kernel(cls, L: ArrayLike) -> "Spectrum":
        """Give the spectrum of a symmetric positive semi-definite matrix (n, n)."""
        kernel = as_matrix(L, "L")
        if kernel.shape[0] != kernel.shape[1]:
            raise ValueError(
                f"L must be a square matrix, the kernel of every pair of points, got shape {kernel.shape}. "
                f"Give features (n, d) to KDpp itself."
            )
        scaled, exponent = _scaled(kernel)
        if exponent % 2:
            scaled, exponent = scaled / 2, exponent + 1
        rounding = len(kernel) * _precision(L) * 8
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
        real = values > len(kernel) * EPS * largest
        return cls(vectors[:, real], values[real], exponent // 2)

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.vectors)

    @property
    def rank(self) -> int:
        """Number of eigenvalues above zero."""
        return len(self.values)


def _scaled(matrix: FloatArray) -> tuple[FloatArray, int]:
    """Divide by the power of two that takes the largest entry to between a half and one."""
    exponent = int(np.frexp(np.abs(matrix).max())[1])
    return np.ldexp(matrix, -exponent), exponent


def _precision(values: ArrayLike) -> float:
    """Give the relative rounding of the numbers as they were given."""
    dtype = np.asarray(values).dtype
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else EPS
