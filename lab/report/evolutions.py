"""Evolutions: lines over time that can be looked at closely, drawn in the browser by plot.js."""

from collections.abc import Sequence
from math import isfinite

from lab.report.markup import data, number, text
from lab.reproduce.findings import Evolution

LIMIT = 2000  # places a line keeps: more than it has pixels
ROWS = 6  # of the table for those without JavaScript


def embed(evolution: Evolution, name: str) -> str:
    """Give the place where plot.js draws, the data it draws, and a table that needs no script."""
    check(evolution)
    kept = thinned(evolution.x)
    drawn = {
        "x": [_rounded(evolution.x[i], 9) for i in kept],
        "xLabel": evolution.x_label,
        "yLabel": evolution.y_label,
        "arms": [{"name": arm, "y": [_rounded(y[i], 6) for i in kept]} for arm, y in evolution.arms.items()],
    }
    total = len(evolution.x)
    thinning = (
        f"The lines are drawn through {number(len(kept))} of {number(total)} points." if len(kept) < total else ""
    )
    return f"""
<figure class="evolution" data-plot="{name}">
<h3 id="{name}-title">{text(evolution.title)}</h3>
<div class="controls" data-controls hidden></div>
<div class="stage" data-stage hidden tabindex="0" role="application" aria-labelledby="{name}-title"
 aria-describedby="{name}-help"><svg aria-hidden="true" focusable="false"></svg><div class="tooltip" hidden></div></div>
<div class="legend" data-legend hidden role="group" aria-label="Lines to show"></div>
<p class="unseen" id="{name}-help">Left and right arrow keys move along the lines, Page Up and Page Down by larger
steps, Home and End to the ends; Escape hides the values.</p>
<p class="unseen" data-readout aria-live="polite"></p>
<p class="aside" data-excuse>The lines are drawn by JavaScript, which did not run; a table has some of the values.</p>
{f'<p class="aside">{thinning}</p>' if thinning else ""}
<details><summary>Some of the values as a table</summary>{table(evolution, kept)}</details>
<script type="application/json" id="{name}-data">{data(drawn)}</script>
</figure>"""


def check(evolution: Evolution) -> None:
    """Refuse lines that cannot be drawn."""
    x = evolution.x
    if len(x) == 0 or not evolution.arms:
        raise ValueError(f"Evolution {evolution.name!r} has nothing to draw. Leave it out of the findings.")
    if not all(isfinite(v) for v in x) or any(x[i] > x[i + 1] for i in range(len(x) - 1)):
        raise ValueError(f"Evolution {evolution.name!r}: x must be finite and must not decrease. Sort the points by x.")
    for arm, y in evolution.arms.items():
        if len(y) != len(x):
            raise ValueError(
                f"Evolution {evolution.name!r}: arm {arm!r} has {len(y)} values for {len(x)} places on the x axis. "
                "Give one value per place, nan where there is none."
            )


def thinned(x: Sequence[float]) -> list[int]:
    """Choose the places to keep: half of them evenly, half by equal ratios, so that both axes show a full line.

    Examples
    --------
    >>> thinned([5.0, 6.0, 7.0])
    [0, 1, 2]
    >>> kept = thinned(range(1_000_000))
    >>> kept[:4], kept[-1], len(kept) <= LIMIT
    ([0, 1, 2, 3], 999999, True)
    """
    n = len(x)
    if n <= LIMIT:
        return list(range(n))
    half = LIMIT // 2
    even = {round(i * (n - 1) / (half - 1)) for i in range(half)}
    ratios = {round(n ** (i / (half - 1))) - 1 for i in range(half)}
    return sorted(even | ratios)


def table(evolution: Evolution, kept: Sequence[int]) -> str:
    """Give a few places of every line: the arms are rows, for there may be many."""
    places = sorted({kept[round(i * (len(kept) - 1) / (ROWS - 1))] for i in range(ROWS)})
    head = "".join(f'<th scope="col">{_place(evolution.x[i])}</th>' for i in places)
    rows = "".join(
        f'<tr><th scope="row">{text(arm)}</th>{"".join(f"<td>{_value(y[i])}</td>" for i in places)}</tr>'
        for arm, y in evolution.arms.items()
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Values of {text(evolution.title)}">'
        f'<table class="numbers"><thead><tr><th scope="col">{text(evolution.x_label)}</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _place(x: float) -> str:
    # In full: an axis may cover little more than its last digits.
    return number(int(x)) if float(x).is_integer() else f"{x:.9g}"


def _value(y: float) -> str:
    return number(float(y)) if isfinite(y) else "–"


def _rounded(value: float, digits: int) -> float | int | None:
    if not isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
