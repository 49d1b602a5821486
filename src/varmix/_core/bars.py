"""Shares as bars of plain text, for terminals of every encoding."""

from collections.abc import Hashable, Sequence

import numpy as np

from varmix._core.state import make_printable
from varmix._core.validation import FloatArray

BAR_WIDTH = 26  # of the longest bar
MAX_NAME_WIDTH = 24


def format_bars(
    names: Sequence[Hashable],
    shares: FloatArray,
    beside: FloatArray | None = None,
    *,
    beside_name: str = "points",
    most: int | None = None,
) -> list[str]:
    r"""Return a line with a bar for every component; the longest has 26 characters, and no line more than 80.

    Parameters
    ----------
    names
        A name for each component; long ones are cut.
    shares
        (k,) their shares.
    beside
        (k,) shares to show beside them.  Default: None.
    beside_name
        What the shares beside them are.  Default: "points".
    most
        Show at most so many components, the largest first, and the others together.  Default: None, all of them in
        their order.

    Examples
    --------
    >>> print("\n".join(format_bars(["cat", "dog"], np.array([0.75, 0.25]), np.array([0.1, 0.9]))))
      cat  ##########################  0.750  (points 0.100)
      dog  #########                   0.250  (points 0.900)
    >>> print("\n".join(format_bars(range(50), np.r_[0.5, np.full(49, 0.5 / 49)], most=3)))
      0  ##########################  0.500
      1  #                           0.010
      2  #                           0.010
      ... and 47 more: 0.480 together
    """
    order = np.arange(len(shares)) if most is None else np.argsort(-shares, kind="stable")
    shown, rest = order[:most], order[len(order) if most is None else most :]
    printable = {j: make_printable(names[j], longest=MAX_NAME_WIDTH) for j in shown.tolist()}
    longest = max(map(len, printable.values()))
    scale = BAR_WIDTH / float(shares.max())
    lines = []
    for j, name in printable.items():
        bar = "#" * round(scale * float(shares[j]))
        lines.append(f"  {name:<{longest}}  {bar:<{BAR_WIDTH}}  {_format_share(shares, beside, [j], beside_name)}")
    if len(rest):
        total, *plain = _format_share(shares, beside, rest.tolist(), beside_name).split("  ")
        lines.append("  ".join([f"  ... and {len(rest)} more: {total} together", *plain]))
    return lines


def _format_share(shares: FloatArray, beside: FloatArray | None, rows: list[int], beside_name: str) -> str:
    share = f"{shares[rows].sum():.3f}"
    return share if beside is None else f"{share}  ({beside_name} {beside[rows].sum():.3f})"
