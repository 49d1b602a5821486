"""Evolutions: interactive plots of lines over time, drawn in the browser by plot.js."""

from collections.abc import Sequence
from math import isfinite

from lab.report.markup import escape_json, escape_text, format_number
from lab.reproduce.findings import Evolution

MAX_PLACES = 2000  # points per line, more than a plot has pixels
TABLE_ROWS = 6  # columns of the table for browsers without JavaScript


def embed_evolution(evolution: Evolution, name: str) -> str:
    """Return the HTML of a plot: the place for plot.js, its data, and a table that needs no script."""
    check_evolution(evolution)
    kept = thin_places(evolution.x)
    drawn = {
        "x": [_round_digits(evolution.x[i], 9) for i in kept],
        "xLabel": evolution.x_label,
        "yLabel": evolution.y_label,
        "arms": [{"name": arm, "y": [_round_digits(y[i], 6) for i in kept]} for arm, y in evolution.arms.items()],
    }
    total = len(evolution.x)
    thinning = (
        f"The plot shows {format_number(len(kept))} of {format_number(total)} points." if len(kept) < total else ""
    )
    return f"""
<figure class="evolution" data-plot="{name}">
<h3 id="{name}-title">{escape_text(evolution.title)}</h3>
<div class="controls" data-controls hidden></div>
<div class="stage" data-stage hidden tabindex="0" role="application" aria-labelledby="{name}-title"
 aria-describedby="{name}-help"><svg aria-hidden="true" focusable="false"></svg><div class="tooltip" hidden></div></div>
<div class="legend" data-legend hidden role="group" aria-label="Lines to show"></div>
<p class="unseen" id="{name}-help">The left and right arrow keys move along the lines. Page Up and Page Down make
larger steps, Home and End go to the ends. Escape hides the values.</p>
<p class="unseen" data-readout aria-live="polite"></p>
<p class="aside" data-excuse>JavaScript draws this plot, and it did not run. The table below has some of the values.</p>
{f'<p class="aside">{thinning}</p>' if thinning else ""}
<details><summary>Some of the values as a table</summary>{render_table(evolution, kept)}</details>
<script type="application/json" id="{name}-data">{escape_json(drawn)}</script>
</figure>"""


def check_evolution(evolution: Evolution) -> None:
    """Raise `ValueError` if the lines of an evolution cannot be drawn."""
    x = evolution.x
    if len(x) == 0 or not evolution.arms:
        raise ValueError(f"Evolution {evolution.name!r} has nothing to draw. Leave it out of the findings.")
    if not all(isfinite(v) for v in x) or any(x[i] > x[i + 1] for i in range(len(x) - 1)):
        raise ValueError(f"Evolution {evolution.name!r}: x must be finite and must not decrease. Sort the points by x.")
    for arm, y in evolution.arms.items():
        if len(y) != len(x):
            raise ValueError(
                f"Evolution {evolution.name!r}: arm {arm!r} has {len(y)} values for {len(x)} values of x. "
                "Pass one value per x, nan where there is none."
            )


def thin_places(x: Sequence[float]) -> list[int]:
    """Choose points to keep: half evenly spaced, half spaced by equal ratios, for linear and logarithmic axes.

    Examples
    --------
    >>> thin_places([5.0, 6.0, 7.0])
    [0, 1, 2]
    >>> kept = thin_places(range(1_000_000))
    >>> kept[:4], kept[-1], len(kept) <= MAX_PLACES
    ([0, 1, 2, 3], 999999, True)
    """
    n = len(x)
    if n <= MAX_PLACES:
        return list(range(n))
    half = MAX_PLACES // 2
    even = {round(i * (n - 1) / (half - 1)) for i in range(half)}
    ratios = {round(n ** (i / (half - 1))) - 1 for i in range(half)}
    return sorted(even | ratios)


def render_table(evolution: Evolution, kept: Sequence[int]) -> str:
    """Return a table with a few values of every line; the arms are rows, because there may be many."""
    places = sorted({kept[round(i * (len(kept) - 1) / (TABLE_ROWS - 1))] for i in range(TABLE_ROWS)})
    head = "".join(f'<th scope="col">{_format_place(evolution.x[i])}</th>' for i in places)
    rows = "".join(
        f'<tr><th scope="row">{escape_text(arm)}</th>{"".join(f"<td>{_format_value(y[i])}</td>" for i in places)}</tr>'
        for arm, y in evolution.arms.items()
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Values of {escape_text(evolution.title)}">'
        f'<table class="numbers"><thead><tr><th scope="col">{escape_text(evolution.x_label)}</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _format_place(x: float) -> str:
    # With all digits: neighbouring values may differ only in the last ones.
    return format_number(int(x)) if float(x).is_integer() else f"{x:.9g}"


def _format_value(y: float) -> str:
    return format_number(float(y)) if isfinite(y) else "–"


def _round_digits(value: float, digits: int) -> float | int | None:
    if not isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
