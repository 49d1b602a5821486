"""Constants of k-DPPs: spectrum, elementary symmetric polynomials, laws for each ridge, inclusion probabilities."""

import math
from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray, FloatArray, IntArray, as_matrix, find_first

MACHINE_EPSILON = float(np.finfo(np.float64).eps)


@final
class Spectrum:
    """Eigenvectors and eigenvalues of a positive semi-definite kernel K = 4^exponent * V diag(values) V'.

    The power of two keeps eigenvalues near one for data of any scale, without rounding. Eigenvalues that are rounding
    errors relative to the largest are dropped. The rounding errors of the others are relative to the *largest* singular
    value, so small eigenvalues have fewer correct digits.

    Attributes
    ----------
    vectors : array of shape (n, rank)
        Eigenvectors V, in columns.
    values : array of shape (rank,)
        Eigenvalues, ascending and above zero.
    exponent : int
        Exponent of the factor 4^exponent.
    cut : array of shape (dropped,)
        Upper bounds of the dropped eigenvalues.
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
        """Return the spectrum of X X' for features X of shape (n, d).

        It uses the singular values of X, because forming X X' would lose digits.

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
        """Return the spectrum of a symmetric positive semi-definite matrix of shape (n, n).

        The limit for rounding errors depends on the dtype of `L`.
        """
        kernel = as_matrix(L, "L")
        if kernel.shape[0] != kernel.shape[1]:
            raise ValueError(
                f"L must be a square matrix, the kernel of every pair of points, got shape {kernel.shape}. "
                f"Pass features (n, d) to KDpp(...) instead."
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
                f"Pass (L + L.T) / 2 if that is what you mean."
            )
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        largest = float(np.abs(values).max())
        if values[0] < -rounding * largest:
            raise ValueError(
                f"L must be positive semi-definite; its least eigenvalue is {values[0] / largest:.3g} of the largest "
                f"in size. Add a multiple of the identity that lifts it to zero, or use another kernel."
            )

        def balanced_rank() -> int:
            half = _find_exponents(scaled, axis=1) // 2
            found = np.linalg.eigvalsh(np.ldexp((scaled + scaled.T) / 2, -half[:, None] - half))
            return int(np.count_nonzero(found > precision * np.abs(found).max()))

        # Rounding errors that made some eigenvalues negative may have made zeros positive by as much.
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
        """Return whether dropped eigenvalues may be more than rounding errors.

        They are if scaling all rows and columns to about the same size raises the rank: a single huge row makes all
        others look like rounding errors. The check takes another decomposition.
        """
        return self._balanced_rank is not None and len(self.cut) > 0 and self._balanced_rank() > self.rank


def _find_exponents(matrix: FloatArray, axis: int) -> IntArray:
    """Return, for every row or column, the exponent of the power of two just above its largest entry."""
    return np.asarray(np.frexp(np.abs(matrix).max(axis=axis))[1], dtype=np.int64)


def _scale_down(matrix: FloatArray) -> tuple[FloatArray, int]:
    """Return the matrix over a power of two that brings its largest entry to [1/2, 1), and the exponent."""
    exponent = int(np.frexp(np.abs(matrix).max())[1])
    return np.ldexp(matrix, -exponent), exponent


def _find_precision(values: ArrayLike) -> float:
    """Return the relative rounding error of the dtype of `values`."""
    dtype = np.asarray(values).dtype
    return max(float(np.finfo(dtype).eps), MACHINE_EPSILON) if dtype.kind == "f" else MACHINE_EPSILON


def log_polynomials(values: FloatArray, most: int) -> FloatArray:
    """Return log e_m of the first v values for all v and m, of shape (len(values) + 1, most + 1).

    The recursion is e_m(v + 1) = e_m(v) + values_v e_{m-1}(v).

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
    """Return the probability (rank, most + 1) that v is taken if m of 0..v are still to be taken."""
    keep = np.zeros((len(values), logs.shape[1]))
    for v, log_value in enumerate(np.log(values)):
        possible = np.isfinite(logs[v + 1, 1:])
        taken = log_value + logs[v, :-1][possible] - logs[v + 1, 1:][possible]
        keep[v, 1:][possible] = np.exp(np.minimum(taken, 0.0))
    return keep


def taken_probabilities(keep: FloatArray) -> FloatArray:
    """Return the probability (most + 1, rank) that v is among the m taken.

    The loop goes from the last v to the first and tracks the distribution of the number left to take. It only adds and
    multiplies probabilities, so no digits cancel.
    """
    rank, width = keep.shape
    taken = np.zeros((width, rank))
    left = np.eye(width)  # left[m, l]: probability that l are left to take, of m at the start
    for v in range(rank - 1, -1, -1):
        going = left * keep[v]
        taken[:, v] = going.sum(axis=1)
        left -= going
        left[:, :-1] += going[:, 1:]
    return taken


LOG_TWO = float(np.log(2.0))


@final
class RidgedLaws:
    """Laws of a k-DPP, one per ridge: how many points come from K, and the constants of ratios and inclusion.

    A set consists of m points drawn by K and `size - m` uniform ones. With e_m for the elementary symmetric polynomials
    of the eigenvalues, the mean of det(K_S + ridge I) over all sets of `size` points is

        sum_m ridge^(size - m) e_m C(n - m, size - m) / C(n, size),

    and each term over the sum is the probability of its m. Everything is computed in logarithms.

    Attributes
    ----------
    ranks : array of shape (ridges, most + 1)
        Probability that m points come from K.
    keep : array of shape (rank, most + 1)
        Probability that an eigenvector is taken if m of it and the ones before it are still to be taken.
    ratios : array of shape (ridges, 3)
        Scale, ridge and log factor: the ratio of a set is det(scale * K_S + ridge I) times the factor.
    base, slope : arrays of shape (ridges,) and (ridges, rank)
        Point i is in a set with probability base + sum_v slope_v V_iv^2.
    bounds : array of shape (ridges,)
        Logarithm of an upper bound of the ratios.
    lost : array of shape (ridges,)
        Upper bound of the probability that a dropped eigenvalue would have added a point to a set.
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
        # Without overflow: det(K + ridge I) = max(ridge, 1)^most det(scale K + least I) ridge^(size - most).
        factor = most * np.maximum(log_ridges, 0.0) + _compute_log_powers(log_ridges, size - most) - log_means
        self.ratios: FloatArray = np.column_stack([1.0 / np.maximum(scaled, 1.0), np.minimum(scaled, 1.0), factor])
        uniform = (size - m) / np.maximum(n - m, 1)  # share of the remaining points that is in the set
        self.base: FloatArray = self.ranks @ uniform
        self.slope: FloatArray = (self.ranks * (1.0 - uniform)) @ taken_probabilities(self.keep)
        self.bounds: FloatArray = _log_bounds(spectrum, size, log_ridges) - log_means
        every = np.concatenate([spectrum.cut, values])
        whole = _log_terms(log_ridges, log_polynomials(every, min(size, len(every)))[-1], n, size)
        self.lost: FloatArray = -np.expm1(np.minimum(log_means - np.logaddexp.reduce(whole, axis=1), 0.0))


def _log_terms(log_ridges: FloatArray, logs: FloatArray, n: int, size: int) -> FloatArray:
    """Return the logarithms of the terms of the mean determinant, of shape (ridges, most + 1)."""
    m = np.arange(len(logs))
    return _compute_log_powers(log_ridges[:, None], size - m) + logs + _log_shares(n, size, m)


def _compute_log_powers(logs: FloatArray, exponents: IntArray | int) -> FloatArray:
    """Return the logarithm of powers, where 0^0 is one."""
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(exponents) == 0, 0.0, logs * exponents)


def _log_shares(n: int, size: int, m: IntArray) -> FloatArray:
    """Return log C(n - m, size - m) / C(n, size): a product of m fractions, so that no digits are lost."""
    i = m[:-1]
    return np.concatenate([[0.0], np.cumsum(np.log((size - i) / (n - i)))])


def _log_bounds(spectrum: Spectrum, size: int, log_ridges: FloatArray) -> FloatArray:
    """Return upper bounds of log det(K_S + ridge I): by longest rows (Hadamard) and largest eigenvalues."""
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
    """Return five numbers that identify the rows of the features and their order.

    They do not depend on the choice of eigenvectors or on scale. The first three are h'K h, |K h|^2 and sum_i h_i K_ii,
    with K divided by its largest eigenvalue and fixed weights h that differ from row to row. Small eigenvalues hardly
    change these, so the last two are the first and the third with V V' in place of K.

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
    """Return whether marks belong to the same rows.

    Eigenvectors of small eigenvalues agree in fewer digits between machines, so the last two marks may differ more.
    """
    marked = np.asarray(saved)
    if marked.shape != present.shape or not are_close(marked[:3], present[:3], 0):
        return False
    lost = math.sqrt(float(values.max(initial=1e-300) / values.min(initial=np.inf)))  # the condition of the features
    return bool(np.allclose(marked[3:], present[3:], rtol=min(1e-9 + 1e-13 * lost, 0.1)))


def are_close(saved: object, present: AnyArray, shift: int) -> bool:
    """Return whether saved numbers, times 2^shift, equal the present ones up to the rounding errors of other machines.

    Small eigenvalues agree in fewer digits, because rounding errors are relative to the largest singular value.
    """
    values = np.asarray(saved)
    if values.shape != present.shape or values.dtype != present.dtype:
        return False
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(values, max(-9999, min(shift, 9999)))
    allowed = 1e-9 * present + 1e-13 * np.sqrt(present * present.max(initial=0.0))
    return bool((np.abs(scaled - present) <= allowed).all())
