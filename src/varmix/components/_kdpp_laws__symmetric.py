"""Elementary symmetric polynomials e_m(values), the sums of all products of m values: which eigenvectors a DPP takes.

An m-DPP takes the eigenvectors of a set E with probability prod_E values / e_m(values).  Polynomials are kept as
logarithms; probabilities are made of them once.
"""

import numpy as np

from varmix._core.validation import FloatArray


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
