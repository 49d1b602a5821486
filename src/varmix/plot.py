"""Plots of a run: the shares of the components and the gain over time.

    sampler = varmix.Sampler(labels, history=True)
    ...
    axes = varmix.plot.shares(sampler)
    axes.figure.savefig("shares.png")

Both functions take a sampler, a loader or a `varmix.history.History`. They draw without pyplot, so they need no display
and leave no open figures. Pass `ax` to draw into a figure of your own.
"""

try:
    import matplotlib as _matplotlib  # noqa: F401 - for one clear error if it is missing
except ModuleNotFoundError:
    from varmix._core.validation import missing_extra as _missing_extra

    raise _missing_extra("varmix.plot", "matplotlib", "plot") from None

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from varmix._core.state import make_printable
from varmix._core.validation import FloatArray
from varmix.history import History

__all__ = ["gain", "shares"]

MAX_LINES = 8  # of components, including the line for the sum of the others
MAX_NAME_WIDTH = 28
# Okabe and Ito's colours, darker: colour-blind readers can distinguish them. The sum of the others is grey.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#7A5195", "#B8860B", "#56B4E9", "#CC79A7", "#222222")
GREY = "#777777"


class HasHistory(Protocol):
    """A sampler or a loader. Its history is None unless it was built with `history=True`."""

    @property
    def history(self) -> History | None:
        """The shares and the gain over time."""
        ...


def shares(source: History | HasHistory, ax: Axes | None = None) -> Axes:
    """Plot the share of the draws that each component served, over the run.

    If components are disjoint groups, a thin dashed line of the same colour shows the component's share of the points
    (or of the target), which plain sampling would draw. With more than 8 components, 7 lines show those that had the
    largest shares at any time, and a grey line shows the sum of the others.

    Parameters
    ----------
    source : Sampler, loader or History
        A sampler or a loader that was built with `history=True`, or its history.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into. Default: axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Save the figure with `axes.figure.savefig("shares.png")`.

    Raises
    ------
    TypeError
        If the source is not a sampler, a loader or a history.
    ValueError
        If the source keeps no history.

    Examples
    --------
    >>> import varmix
    >>> sampler = varmix.Sampler(["common"] * 90 + ["rare"] * 10, rng=0, history=True)
    >>> for _ in range(200):
    ...     batch = sampler.draw(8)
    ...     sampler.update(batch, np.where(batch.indices < 90, 0.1, 3.0))
    >>> axes = shares(sampler)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['rare', 'common', 'share of the points']
    """
    history, axes = _find_history(source), _make_axes(ax)
    draws, columns, points = history.draws, history.shares, history.point_shares
    drawn, others = _choose_components(columns)
    lines = [
        (name, columns[name], None if points is None else points[name], color)
        for name, color in zip(drawn, COLORS, strict=False)
    ]
    if others:
        total = np.sum([columns[name] for name in others], axis=0)
        rest = None if points is None else sum(points[name] for name in others)
        lines.append((f"{len(others)} others", total, rest, GREY))
    # The legend lists the lines as they end, from top to bottom.
    for name, column, rest, color in sorted(lines, key=lambda line: -float(line[1][-1])):
        label = make_printable(name, longest=MAX_NAME_WIDTH)
        axes.plot(draws, column, color=color, label=_show_label(label), marker=_choose_marker(history))
        if rest is not None:
            axes.axhline(rest, color=color, linewidth=0.9, linestyle="--", alpha=0.8, zorder=1)
    if points is not None:
        axes.plot([], [], color=GREY, linewidth=0.9, linestyle="--", label="share of the points")
    axes.set_ylim(0.0, 1.05 * max(float(np.max(line[1])) for line in lines))
    _finish(axes, history, "share of the draws")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return axes


def gain(source: History | HasHistory, ax: Axes | None = None) -> Axes:
    """Plot the gain over uniform sampling, with its 95 % interval, over the run.

    A line with a band shows the gain of all draws so far. With the learner `varmix.learners.Cautious`, a dashed line
    shows the recent gain of the learned mixture, whether or not it was played. Two dotted lines show the gain below
    which that mixture is off and the gain above which it is fully on.

    Parameters
    ----------
    source : Sampler, loader or History
        A sampler or a loader that was built with `history=True`, or its history.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into. Default: axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Save the figure with `axes.figure.savefig("gain.png")`.

    Raises
    ------
    TypeError
        If the source is not a sampler, a loader or a history.
    ValueError
        If the source keeps no history.

    Examples
    --------
    >>> import varmix
    >>> sampler = varmix.Sampler(["common"] * 90 + ["rare"] * 10, rng=0, history=True)
    >>> for _ in range(200):
    ...     batch = sampler.draw(8)
    ...     sampler.update(batch, np.where(batch.indices < 90, 0.1, 3.0))
    >>> axes = gain(sampler)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['all draws so far, 95 % interval', 'learned mixture, lately', 'off below 1.25, fully on above 1.5', 'no gain']
    """
    history, axes = _find_history(source), _make_axes(ax)
    draws, values, low, high = history.draws, history.gain, history.gain_low, history.gain_high
    known, marker = np.isfinite(high), _choose_marker(history)
    axes.plot(draws, values, color=COLORS[1], label="all draws so far, 95 % interval", marker=marker, zorder=3)
    axes.fill_between(draws[known], low[known], high[known], color=COLORS[1], alpha=0.2, linewidth=0)
    seen = [values]
    if history.limits is not None:
        learned = history.learned_gain
        seen.append(learned)
        axes.plot(draws, learned, color=COLORS[0], linestyle="--", label="learned mixture, lately", marker=marker)
        off, on = history.limits
        for limit, label in ((off, f"off below {off:g}, fully on above {on:g}"), (on, None)):
            axes.axhline(limit, color=COLORS[0], linewidth=0.9, linestyle=":", label=label)
    axes.axhline(1.0, color=GREY, linewidth=0.9, label="no gain")
    axes.set_ylim(*_choose_limits(seen, low[known], high[known], history.limits))
    _finish(axes, history, "gain over uniform sampling")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, ncols=2)
    return axes


def _find_history(source: object) -> History:
    """Return the history of a sampler or a loader; raise an error if there is none."""
    # Samplers and loaders have no base class in common, only this property.
    history = source if isinstance(source, History) else getattr(source, "history", source)
    if history is None:
        what = "There is" if source is None else f"This {type(source).__name__} keeps"
        raise ValueError(f"{what} no history. Build the sampler or the loader with history=True.")
    if not isinstance(history, History):
        raise TypeError(
            f"Pass a sampler or a loader that was built with history=True, or its history; got {type(source).__name__}."
        )
    return history


def _make_axes(ax: Axes | None) -> Axes:
    """Return the axes to draw into. Default: axes of a new figure."""
    return Figure(figsize=(7.0, 3.4), dpi=150, layout="constrained").subplots() if ax is None else ax


def _choose_components(columns: dict[Hashable, FloatArray]) -> tuple[list[Hashable], list[Hashable]]:
    """Return the names of the components with the largest shares of the run, and the names of the others."""
    if len(columns) <= MAX_LINES:
        return list(columns), []
    ordered = sorted(columns, key=lambda name: -float(columns[name].max()))
    return ordered[: MAX_LINES - 1], ordered[MAX_LINES - 1 :]


def _choose_marker(history: History) -> str:
    """Return a dot as marker if there is only one entry, which a line would not show."""
    return "o" if len(history) == 1 else ""


def _show_label(label: str) -> str:
    """Return a label that matplotlib shows unchanged.

    Dollar signs would start a formula, and labels with a leading underscore would be left out of the legend.
    """
    label = label.replace("$", r"\$")
    return f" {label}" if label.startswith("_") else label


def _choose_limits(
    seen: list[FloatArray], low: FloatArray, high: FloatArray, limits: tuple[float, float] | None
) -> tuple[float, float]:
    """Return limits that show all lines and the intervals of the second half: the first intervals are very wide."""
    late = len(low) // 2
    marks = [1.0, *(limits or ())]
    least = min(min(marks), *(float(values.min()) for values in seen), float(low[late:].min(initial=1.0)))
    most = max(max(marks), *(float(values.max()) for values in seen))
    most = max(most, min(float(high[late:].max(initial=1.0)), 3.0 * most))
    margin = 0.06 * (most - least) + 0.02
    return least - margin, most + margin


def _finish(axes: Axes, history: History, label: str) -> None:
    """Label the axes and draw a light grid."""
    axes.set_xlim(0.0, max(float(history.draws[-1]), 1.0))
    axes.set_xlabel("draws with feedback")
    axes.set_ylabel(label)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
