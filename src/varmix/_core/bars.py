"""Shares as bars of ASCII text, which every terminal can show."""

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
    r"""Return one line with a bar per component.

    The longest bar has 26 characters, and no line is longer than 80.

    Parameters
    ----------
    names : sequence of hashable
        One name per component. Long names are truncated.
    shares : array of shape (k,)
        Shares that set the lengths of the bars.
    beside : array of shape (k,), optional
        More shares, printed as numbers after the first ones. Default: None.
    beside_name : str, default "points"
        Name of these other shares.
    most : int, optional
        Number of components to show, the largest first. One more line shows the sum of the others. Default: None, which
        shows all components in their order.

    Returns
    -------
    list of str
        The lines.

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
