"""Kinds of data: how a claim about several of them gets one number."""

import math
from collections.abc import Mapping, Sequence, Sized

from lab.reproduce.findings import Details
from varmix.meter import Interval


def find_worst(ratios: Sequence[Interval]) -> Interval:
    """Return the least of several ratios that should be large; one that is not a number counts as the least.

    Examples
    --------
    >>> find_worst([Interval(2.0, 1.0, 3.0), Interval(1.5, 1.2, 1.8)]).value
    1.5
    """
    return min(ratios, key=lambda ratio: -math.inf if math.isnan(ratio.value) else ratio.value)


def describe_kinds(found: Sized) -> str:
    """Say behind the settings that a number is the worst one, where there are several.

    Examples
    --------
    >>> describe_kinds(["small means"]), describe_kinds(["small means", "normal means"])
    ('', '; worst of 2 kinds of data')
    """
    return f"; worst of {len(found)} kinds of data" if len(found) > 1 else ""


def tabulate_kinds(quantities: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Details:
    """Return a table with a row for every quantity and a column for every kind of data.

    Examples
    --------
    >>> tabulate_kinds(["gain", "verdict"], {"small means": ["2", "holds"], "normal means": ["1", "holds"]}).rows
    [('gain', '2', '1'), ('verdict', 'holds', 'holds')]
    """
    return Details(("quantity", *columns), list(zip(quantities, *columns.values(), strict=True)))
