"""The laws of k-DPPs: spectrum, elementary symmetric polynomials, ridges and inclusion probabilities."""

import math
from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray, FloatArray, IntArray, as_matrix, find_first

MACHINE_EPSILON = float(np.finfo(np.float64).eps)


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
        scaled, exponent = _scale_down(features)
        vectors, singular, _ = np.linalg.svd(scaled, full_matrices=False)
        rounding = max(features.shape) * MACHINE_EPSILON

        def balanced_rank() -> int:
            balanced = np.ldexp(scaled, -_find_exponents(scaled, axis=1)[:, None])
            balanced = np.ldexp(balanced, -_find_exponents(balanced, axis=0))
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
        scaled, exponent = _scale_down(kernel)
        if exponent % 2:
            scaled, exponent = scaled / 2, exponent + 1
        precision = len(kernel) * _find_precision(L)
        rounding = precision * 8
        uneven = np.abs(scaled - scaled.T) > rounding
        if uneven.any():
            i, j = find_first(uneven)  # type: ignore[misc]
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
            half = _find_exponents(scaled, axis=1) // 2
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


def _find_exponents(matrix: FloatArray, axis: int) -> IntArray:
    """Give the power of two that the largest entry of every row or column is below."""
    return np.asarray(np.frexp(np.abs(matrix).max(axis=axis))[1], dtype=np.int64)


def _scale_down(matrix: FloatArray) -> tuple[FloatArray, int]:
    """Divide by the power of two that takes the largest entry to between a half and one."""
    exponent = int(np.frexp(np.abs(matrix).max())[1])
    return np.ldexp(matrix, -exponent), exponent


def _find_precision(values: ArrayLike) -> float:
    """Give the relative rounding of the numbers as they were given."""
    dtype = np.asarray(values).dtype
    return max(float(np.finfo(dtype).eps), MACHINE_EPSILON) if dtype.kind == "f" else MACHINE_EPSILON


def log_polynomials(values: FloatArray, most: int) -> FloatArray:
    """Give log e_m of the first v values, (len(values) + 1, most + 1): e_m(v + 1) = e_m(v) + values_v e_{m-1}(v).

    Examples
    --------
    >>> np.exp(log_polynomials(np.array([1.0, 2.0, 3.0]), 3))[-1].round(9)
    array([ 1.,  6., 11.,  6.])
    """
    logs = np.full((len(values) + 1, most + 1), -np.inf)
    logs[0, 0] = 0.0
    for v, log_value in enumerate(np.log(values)):
        logs[v + 1, 0] = 0.0
        logs[v + 1, 1:] = np.logaddexp(logs[v, 1:], log_value + logs[v, :-1])
    return logs


def keep_probabilities(values: FloatArray, logs: FloatArray) -> FloatArray:
    """Give the probability (rank, most + 1) that v is taken when m are still to be taken from 0..v."""
    keep = np.zeros((len(values), logs.shape[1]))
    for v, log_value in enumerate(np.log(values)):
        possible = np.isfinite(logs[v + 1, 1:])
        taken = log_value + logs[v, :-1][possible] - logs[v + 1, 1:][possible]
        keep[v, 1:][possible] = np.exp(np.minimum(taken, 0.0))
    return keep


def taken_probabilities(keep: FloatArray) -> FloatArray:
    """Give the probability (most + 1, rank) that v is among the m taken, by following how many are left.

    Only products and sums of probabilities: nothing cancels.
    """
    rank, width = keep.shape
    taken = np.zeros((width, rank))
    left = np.eye(width)  # left[m, l]: the probability that l are left to be taken, of m at the start
    for v in range(rank - 1, -1, -1):
        going = left * keep[v]
        taken[:, v] = going.sum(axis=1)
        left -= going
        left[:, :-1] += going[:, 1:]
    return taken


LOG_TWO = float(np.log(2.0))


@final
class RidgedLaws:
    """How many points of a set come from K and how many are uniform, and the constants of ratios and inclusion.

    With e_m for the polynomials of the eigenvalues, the mean of det(K_S + ridge I) over all sets of `size` points is

        sum_m ridge^(size - m) e_m C(n - m, size - m) / C(n, size),

    and the terms over their sum are the probabilities of m.  Everything is worked out in logarithms.

    Attributes
    ----------
    ranks
        (ridges, most + 1) probability that m points come from K.
    keep
        (rank, most + 1) probability that an eigenvector is taken, when m are to be taken from it and those before.
    ratios
        (ridges, 3) scale, ridge and log factor: the ratio of a set is det(scale * K_S + ridge I) times the factor.
    base, slope
        (ridges,) and (ridges, rank): point i is in a set with probability base + sum_v slope_v V_iv^2.
    bounds
        (ridges,) logarithm of a number that no ratio is above.
    lost
        (ridges,) bound on the probability that a set would hold a point by an eigenvalue that was left out.
    """

    __slots__ = ("base", "bounds", "keep", "lost", "ranks", "ratios", "slope")

    def __init__(self, spectrum: Spectrum, size: int, ridges: FloatArray) -> None:
        n, values = spectrum.n, spectrum.values
        most = min(size, spectrum.rank)
        m = np.arange(most + 1)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            log_ridges = np.log(ridges) - 2 * spectrum.exponent * LOG_TWO
            scaled = np.ldexp(ridges, -2 * spectrum.exponent)
        logs = log_polynomials(values, most)
        terms = _log_terms(log_ridges, logs[-1], n, size)
        log_means = np.logaddexp.reduce(terms, axis=1)
        self.ranks: FloatArray = np.exp(terms - log_means[:, None])
        self.keep: FloatArray = keep_probabilities(values, logs)
        # det(K + ridge I) = max(ridge, 1)^most det(scale K + least I) ridge^(size - most), where nothing overflows.
        factor = most * np.maximum(log_ridges, 0.0) + _compute_log_powers(log_ridges, size - most) - log_means
        self.ratios: FloatArray = np.column_stack([1.0 / np.maximum(scaled, 1.0), np.minimum(scaled, 1.0), factor])
        uniform = (size - m) / np.maximum(n - m, 1)  # the part of the other points that is in the set
        self.base: FloatArray = self.ranks @ uniform
        self.slope: FloatArray = (self.ranks * (1.0 - uniform)) @ taken_probabilities(self.keep)
        self.bounds: FloatArray = _log_bounds(spectrum, size, log_ridges) - log_means
        every = np.concatenate([spectrum.cut, values])
        whole = _log_terms(log_ridges, log_polynomials(every, min(size, len(every)))[-1], n, size)
        self.lost: FloatArray = -np.expm1(np.minimum(log_means - np.logaddexp.reduce(whole, axis=1), 0.0))


def _log_terms(log_ridges: FloatArray, logs: FloatArray, n: int, size: int) -> FloatArray:
    """Give the logarithms of the terms of the mean determinant, (ridges, most + 1)."""
    m = np.arange(len(logs))
    return _compute_log_powers(log_ridges[:, None], size - m) + logs + _log_shares(n, size, m)


def _compute_log_powers(logs: FloatArray, exponents: IntArray | int) -> FloatArray:
    """Give the logarithm of a power; the power zero of zero is one."""
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(exponents) == 0, 0.0, logs * exponents)


def _log_shares(n: int, size: int, m: IntArray) -> FloatArray:
    """Give log C(n - m, size - m) / C(n, size): a product of m fractions, of which no digits are lost."""
    i = m[:-1]
    return np.concatenate([[0.0], np.cumsum(np.log((size - i) / (n - i)))])


def _log_bounds(spectrum: Spectrum, size: int, log_ridges: FloatArray) -> FloatArray:
    """Bound log det(K_S + ridge I) by the longest rows (Hadamard) and by the largest eigenvalues (interlacing)."""
    n = spectrum.n
    squares = np.square(spectrum.vectors) @ spectrum.values
    with np.errstate(divide="ignore"):
        longest = np.log(np.partition(squares, n - size)[n - size :])
    largest = np.log(spectrum.values[-size:])
    by_rows = np.logaddexp(longest, log_ridges[:, None]).sum(axis=1)
    by_values = np.logaddexp(largest, log_ridges[:, None]).sum(axis=1) + _compute_log_powers(
        log_ridges, size - len(largest)
    )
    return np.asarray(np.minimum(by_rows, by_values))


def compute_marks(spectrum: Spectrum) -> FloatArray:
    """Give numbers that change when rows do, or their order, and not with the choice of eigenvectors nor with scale.

    With weights h that differ from row to row, and K over its largest eigenvalue: h'K h, |K h|^2 and sum_i h_i K_ii.
    Small eigenvalues hardly matter in them.  The last two numbers are the first and the third of V V' in the place of
    K, in which all eigenvectors count alike.

    Examples
    --------
    >>> one, other = ([[1.0], [2.0], [3.0]], [[2.0], [1.0], [3.0]])
    >>> compute_marks(Spectrum.from_features(one)).round(3)
    array([0.953, 0.953, 0.661, 0.953, 0.661])
    >>> compute_marks(Spectrum.from_features(other)).round(3)
    array([1.163, 1.163, 0.743, 1.163, 0.743])
    """
    values = spectrum.values / spectrum.values.max(initial=1e-300)
    h = np.arange(1, spectrum.n + 1) * ((math.sqrt(5.0) - 1.0) / 2.0) % 1.0
    y = np.square(h @ spectrum.vectors)
    lengths = h @ np.square(spectrum.vectors)
    return np.array([y @ values, y @ values**2, lengths @ values, y.sum(), lengths.sum()])


def same_marks(saved: object, present: FloatArray, values: FloatArray) -> bool:
    """Whether marks are of the same rows; eigenvectors of small eigenvalues have fewer digits in common."""
    marked = np.asarray(saved)
    if marked.shape != present.shape or not are_close(marked[:3], present[:3], 0):
        return False
    lost = math.sqrt(float(values.max(initial=1e-300) / values.min(initial=np.inf)))  # the condition of the features
    return bool(np.allclose(marked[3:], present[3:], rtol=min(1e-9 + 1e-13 * lost, 0.1)))


def are_close(saved: object, present: AnyArray, shift: int) -> bool:
    """Whether numbers are the same, times 2^shift, but for rounding, which differs between machines.

    Of a small eigenvalue fewer digits are the same: those by which the features' singular value is smaller are lost.
    """
    values = np.asarray(saved)
    if values.shape != present.shape or values.dtype != present.dtype:
        return False
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(values, max(-9999, min(shift, 9999)))
    allowed = 1e-9 * present + 1e-13 * np.sqrt(present * present.max(initial=0.0))
    return bool((np.abs(scaled - present) <= allowed).all())
