"""Fingerprints of a spectrum: how saved k-DPPs are told from those of other data, without the data."""

import math

import numpy as np

from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix.components._kdpp_laws import Spectrum


def marks(spectrum: Spectrum) -> FloatArray:
    """Give numbers that change when rows do, or their order, and not with the choice of eigenvectors nor with scale.

    With weights h that differ from row to row, and K over its largest eigenvalue: h'K h, |K h|^2 and sum_i h_i K_ii.
    Small eigenvalues hardly matter in them.  The last two numbers are the first and the third of V V' in the place of
    K, in which all eigenvectors count alike.

    Examples
    --------
    >>> one, other = ([[1.0], [2.0], [3.0]], [[2.0], [1.0], [3.0]])
    >>> marks(Spectrum.from_features(one)).round(3)
    array([0.953, 0.953, 0.661, 0.953, 0.661])
    >>> marks(Spectrum.from_features(other)).round(3)
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
    if marked.shape != present.shape or not close(marked[:3], present[:3], 0):
        return False
    lost = math.sqrt(float(values.max(initial=1e-300) / values.min(initial=np.inf)))  # the condition of the features
    return bool(np.allclose(marked[3:], present[3:], rtol=min(1e-9 + 1e-13 * lost, 0.1)))


def close(saved: object, present: AnyArray, shift: int) -> bool:
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
