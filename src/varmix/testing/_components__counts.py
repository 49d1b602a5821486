"""How often atoms come, against how often they should."""

import math
from itertools import combinations

import numpy as np

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._core.spaces import Points
from varmix._core.spaces import Space

MOST_SUBSETS = 10_000  # that are listed for the checks of laws; give families over fewer of them


def chi_square_z(counts: IntArray, probabilities: FloatArray) -> float:
    """Give the chi-square statistic of counts as a standard normal deviate (Wilson and Hilferty).

    Cells with fewer than five expected counts are joined.  A count in a cell of probability zero gives infinity.
    """
    expected = probabilities * counts.sum()
    if counts[expected == 0].any():
        return float("inf")
    rare = expected < 5
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = len(counts) - 1
    if freedom == 0:
        return 0.0
    statistic = float(((counts - expected) ** 2 / expected).sum())
    spread = 2.0 / (9.0 * freedom)
    return float(((statistic / freedom) ** (1 / 3) - (1.0 - spread)) / np.sqrt(spread))


def all_atoms(space: Space) -> IntArray:
    """Give all points, or all subsets in the order of the dictionary; nothing where there are too many of them.

    Examples
    --------
    >>> from varmix import Subsets
    >>> all_atoms(Subsets(3, 2)).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    if isinstance(space, Points):
        return space.atoms
    few = space.log_count < np.log(MOST_SUBSETS)
    listed = list(combinations(range(space.n), space.size)) if few else []
    return np.array(listed, dtype=np.int64).reshape(-1, space.size)


def count_atoms(atoms: IntArray, space: Space) -> IntArray:
    """Give how often each of `all_atoms` comes.

    Examples
    --------
    >>> from varmix import Subsets
    >>> count_atoms(np.array([[0, 2], [0, 1], [0, 2]]), Subsets(3, 2)).tolist()
    [1, 2, 0]
    """
    if isinstance(space, Points):
        return np.bincount(atoms - space.first, minlength=space.n)
    n, size, total = space.n, space.size, math.comb(space.n, space.size)
    # The sets behind one in the dictionary: those that agree with it up to some place, and have a later point there.
    behind = np.array([[min(math.comb(n - 1 - p, size - i), total) for i in range(size)] for p in range(n)])
    return np.bincount(total - 1 - behind[atoms, np.arange(size)].sum(axis=1), minlength=total)
