"""Kinds of data: one number and one table for a claim about several of them."""

import math
from collections.abc import Mapping, Sequence, Sized

from lab.reproduce.findings import Details
from varmix.meter import Interval


def find_worst(ratios: Sequence[Interval]) -> Interval:
    """Return the lowest of several ratios that should be high; NaN counts as the lowest.

    Examples
    --------
    >>> find_worst([Interval(2.0, 1.0, 3.0), Interval(1.5, 1.2, 1.8)]).value
    1.5
    """
    return min(ratios, key=lambda ratio: -math.inf if math.isnan(ratio.value) else ratio.value)


def describe_kinds(found: Sized) -> str:
    """Write that a number is the worst of several kinds; empty for one kind.

    Examples
    --------
    >>> describe_kinds(["small means"]), describe_kinds(["small means", "normal means"])
    ('', '; worst of 2 kinds of data')
    """
    return f"; worst of {len(found)} kinds of data" if len(found) > 1 else ""


def tabulate_kinds(quantities: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Details:
    """Return a table with one row per quantity and one column per kind of data.

    Examples
    --------
    >>> tabulate_kinds(["gain", "verdict"], {"small means": ["2", "holds"], "normal means": ["1", "holds"]}).rows
    [('gain', '2', '1'), ('verdict', 'holds', 'holds')]
    """
    return Details(("quantity", *columns), list(zip(quantities, *columns.values(), strict=True)))
