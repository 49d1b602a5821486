"""Fingerprints of a spectrum: how saved k-DPPs are told from those of other data, without the data."""

import math

import numpy as np

from varmix.arrays import AnyArray, FloatArray
from varmix.components.spectrum import Spectrum


def marks(spectrum: Spectrum) -> FloatArray:
    """Give numbers that change when rows do, or their order, and not with the choice of eigenvectors nor with scale.

    With weights h that differ from row to row, and K over its largest eigenvalue: h'K h, |K h|^2 and sum_i h_i K_ii.
    Small eigenvalues, of which machines differ in the last digits, hardly matter in them.

    Examples
    --------
    >>> one, other = ([[1.0], [2.0], [3.0]], [[2.0], [1.0], [3.0]])
    >>> marks(Spectrum.from_features(one)).round(3)
    array([0.953, 0.953, 0.661])
    >>> marks(Spectrum.from_features(other)).round(3)
    array([1.163, 1.163, 0.743])
    """
    values = spectrum.values / spectrum.values.max(initial=1e-300)
    h = np.arange(1, spectrum.n + 1) * ((math.sqrt(5.0) - 1.0) / 2.0) % 1.0
    y = np.square(h @ spectrum.vectors)
    lengths = h @ np.square(spectrum.vectors)
    return np.array([y @ values, y @ values**2, lengths @ values])


def close(saved: object, present: AnyArray, shift: int) -> bool:
    """Whether numbers are the same, times 2^shift, but for rounding, which differs between machines."""
    values = np.asarray(saved)
    if values.shape != present.shape or values.dtype != present.dtype:
        return False
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(values, max(-9999, min(shift, 9999)))
    return bool(np.allclose(scaled, present, rtol=1e-9, atol=1e-12 * present.max(initial=0.0)))
