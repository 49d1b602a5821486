"""Step search: every arm of an experiment gets the step size that is best for it."""

import math
from collections.abc import Callable, Iterable, Sequence

from lab.reproduce.records import Result


def search_step(
    score: Callable[[float], float], start: Iterable[float], distances: Sequence[float], limit: float
) -> tuple[float, dict[float, float]]:
    """Return the exponent with the lowest score, and the scores of all that were tried.

    The search begins with a coarse grid. It then tries the neighbours of the best exponent at each distance in turn,
    until the best one is better than both.

    Parameters
    ----------
    score
        Score to minimise, as a function of the exponent of the step, a power of two.
    start
        Exponents of the coarse grid.
    distances
        Distances of neighbours, from far to near: 1 is an octave.
    limit
        Largest absolute exponent to try.

    Returns
    -------
    best : float
        Exponent with the lowest score; the lowest exponent among equals.
    tried : dict
        Score of every exponent that was tried.

    Examples
    --------
    >>> best, tried = search_step(lambda e: (e - 1.4) ** 2, start=(-4.0, 0.0, 4.0), distances=(1.0, 0.5), limit=12.0)
    >>> best, sorted(tried)
    (1.5, [-4.0, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 4.0])
    """
    tried = {e: score(e) for e in start}
    best = min(tried, key=lambda e: (tried[e], e))
    for distance in distances:
        while new := [e for e in (best - distance, best + distance) if e not in tried and abs(e) <= limit]:
            tried |= {e: score(e) for e in new}
            best = min(tried, key=lambda e: (tried[e], e))
    return best, tried


def record_search(best: float, tried: dict[float, float]) -> Result:
    """Return the outcome of a search as a record holds it."""
    return {"best": best, "tried": {str(e): drop_infinite(value) for e, value in sorted(tried.items())}}


def drop_infinite(value: float) -> float | None:
    """Return a number, or None if it is not finite: records hold JSON, which has no infinity."""
    return value if math.isfinite(value) else None
