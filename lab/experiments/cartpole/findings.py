"""The figures of section 6.3."""

from typing import TYPE_CHECKING

import numpy as np

from varmix._core.validation import FloatArray
from varmix.components._replay import SETTINGS
from lab.experiments.cartpole.protocol import COMPONENTS
from lab.experiments.cartpole.protocol import EVEN
from lab.experiments.cartpole.protocol import UNIFORM
from lab.experiments.cartpole.protocol import VRM
from lab.experiments.cartpole.table import Table
from lab.experiments.cartpole.table import pooled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMOOTH = 10  # episodes
MOST = 510  # an episode of CartPole-v1 ends at a reward of 500
EPSILONS, ALPHAS = (sorted({setting[part] for setting in SETTINGS}) for part in (0, 1))


def evolution(table: Table) -> "Figure":
    """Draw rewards over episodes, and below them the mixture."""
    from lab.plots import panels

    drawn, (above, below) = panels(1, 2, width=7.0, height=3.2)
    _rewards(above, table)
    if table.results(VRM):
        average = table.mixtures().mean(axis=0)
        _components(below, list(range(1, len(average) + 1)), average)
        below.set(xlabel="episodes", ylabel="weight", ylim=(0, None), title="mixture of VRM")
        below.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawn


def _rewards(panel: "Axes", table: Table) -> None:
    from lab.plots import lines

    arms = {VRM: VRM, UNIFORM: UNIFORM, EVEN: EVEN}
    for word, worst in (("best", False), ("worst", True)):
        if (single := table.single(worst=worst)) is not None:
            arms[single] = f"{single} ({word} single)" if single not in arms else f"{single} (the only single)"
    for index, (arm, label) in enumerate(arms.items()):
        rows = smoothed(table.rewards(*pooled(arm)))
        if rows.size:
            x = np.arange(1, rows.shape[1] + 1) + (table.episodes - rows.shape[1])
            lines(panel, x.tolist(), rows.tolist(), label, index)
    panel.set(xlabel="episodes", ylabel="reward", ylim=(0, MOST), title=f"mean reward of {SMOOTH} episodes")
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def smoothed(rows: FloatArray, over: int = SMOOTH) -> FloatArray:
    """Give the mean of every so many consecutive episodes, or of all if there are fewer, a row per run.

    Examples
    --------
    >>> smoothed(np.array([[1.0, 2.0, 3.0, 4.0]]), over=2)
    array([[1.5, 2.5, 3.5]])
    """
    return np.asarray(np.lib.stride_tricks.sliding_window_view(rows, min(over, rows.shape[1]), axis=1).mean(axis=2))


def moments(table: Table) -> "Figure":
    """Draw second moments against uniform's over episodes."""
    from lab.plots import panels
    from lab.plots import plain

    drawn, (panel,) = panels(1, width=7.0, height=3.6)
    x = table.looks()
    _components(panel, x, _typical(table.moments(VRM, "components")))
    panel.plot(x, _typical(table.moments(VRM)), color="black", linewidth=2.4, label=VRM)
    panel.plot(x, _typical(table.moments(VRM, "ideal")), color="black", linewidth=1.0, linestyle=":", label="ideal")
    panel.set(xlabel="episodes", ylabel="second moment against uniform", yscale="log")
    plain(panel.yaxis)
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawn


def _typical(rows: FloatArray) -> FloatArray:
    """Give the geometric mean over runs."""
    return np.asarray(np.exp(np.log(rows).mean(axis=0)))


def _components(panel: "Axes", x: list[int], columns: FloatArray) -> None:
    """Draw a line per component: the colour tells alpha, the dashes tell epsilon."""
    from lab.plots import COLORS
    from lab.plots import DASHES

    for j, (epsilon, alpha) in enumerate(SETTINGS):
        color, dash = COLORS[ALPHAS.index(alpha)], DASHES[EPSILONS.index(epsilon)]
        panel.plot(x, columns[:, j], color=color, linestyle=dash, linewidth=1.2, label=COMPONENTS[j])
    panel.plot(x, columns[:, -1], color=COLORS[-1], linestyle="-.", linewidth=1.2, label=COMPONENTS[-1])
