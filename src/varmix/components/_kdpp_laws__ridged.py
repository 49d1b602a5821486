"""RidgedLaws: all numbers about the k-DPPs of K + ridge I that do not depend on the set."""

from typing import final

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix.components._kdpp_laws import Spectrum
from varmix.components._kdpp_laws__symmetric import keep_probabilities
from varmix.components._kdpp_laws__symmetric import log_polynomials
from varmix.components._kdpp_laws__symmetric import taken_probabilities

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
        factor = most * np.maximum(log_ridges, 0.0) + _powers(log_ridges, size - most) - log_means
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
    return _powers(log_ridges[:, None], size - m) + logs + _log_shares(n, size, m)


def _powers(logs: FloatArray, exponents: IntArray | int) -> FloatArray:
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
    by_values = np.logaddexp(largest, log_ridges[:, None]).sum(axis=1) + _powers(log_ridges, size - len(largest))
    return np.asarray(np.minimum(by_rows, by_values))
