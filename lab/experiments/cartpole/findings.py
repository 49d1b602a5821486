"""Findings of the CartPole experiment: claims and figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.cartpole import mixture, rewards
from lab.experiments.cartpole.comparison import CartPoleComparison
from lab.experiments.cartpole.protocol import COMPONENTS, EVEN, UNIFORM, VRM
from lab.reproduce.findings import Evolution, Findings, Picture
from lab.reproduce.records import Record
from varmix.components import PAPER_SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMOOTHED_EPISODES = 10
MAX_PLOTTED_REWARD = 510  # an episode of CartPole-v1 ends at a reward of 500
EPSILONS, ALPHAS = (sorted({setting[part] for setting in PAPER_SETTINGS}) for part in (0, 1))


def draw_evolution(comparison: CartPoleComparison) -> "Figure":
    """Draw rewards over episodes, and the mixture below."""
    from lab.plots import make_panels

    drawn, (above, below) = make_panels(1, 2, width=7.0, height=3.2)
    _plot_rewards(above, comparison)
    if comparison.results(VRM):
        average = comparison.mixtures().mean(axis=0)
        _plot_components(below, list(range(1, len(average) + 1)), average)
        below.set(xlabel="episodes", ylabel="weight", ylim=(0, None), title="mixture of VRM")
        below.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawn


def _plot_rewards(panel: "Axes", comparison: CartPoleComparison) -> None:
    from lab.plots import plot_band

    arms = {VRM: VRM, UNIFORM: UNIFORM, EVEN: EVEN}
    for word, worst in (("best", False), ("worst", True)):
        if (single := comparison.single(worst=worst)) is not None:
            arms[single] = f"{single} ({word} single)" if single not in arms else f"{single} (the only single)"
    for index, (arm, label) in enumerate(arms.items()):
        rows = smooth_rows(comparison.rewards(*comparison.pool(arm)))
        if rows.size:
            x = np.arange(1, rows.shape[1] + 1) + (comparison.episodes - rows.shape[1])
            plot_band(panel, x.tolist(), rows.tolist(), label, index)
    panel.set(
        xlabel="episodes",
        ylabel="reward",
        ylim=(0, MAX_PLOTTED_REWARD if comparison.is_full_length else None),
        title=f"mean reward of {SMOOTHED_EPISODES} episodes",
    )
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def smooth_rows(rows: FloatArray, over: int = SMOOTHED_EPISODES) -> FloatArray:
    """Return moving averages over `over` episodes, or over all if there are fewer, one row per run.

    Examples
    --------
    >>> smooth_rows(np.array([[1.0, 2.0, 3.0, 4.0]]), over=2)
    array([[1.5, 2.5, 3.5]])
    """
    return np.asarray(np.lib.stride_tricks.sliding_window_view(rows, min(over, rows.shape[1]), axis=1).mean(axis=2))


def draw_moments(comparison: CartPoleComparison) -> "Figure":
    """Draw second moments relative to uniform draws over episodes."""
    from lab.plots import format_axis, make_panels

    drawn, (panel,) = make_panels(1, width=7.0, height=3.6)
    x = comparison.looks()
    _plot_components(panel, x, _average_runs(comparison.moments(VRM, "components")))
    panel.plot(x, _average_runs(comparison.moments(VRM)), color="black", linewidth=2.4, label=VRM)
    panel.plot(
        x, _average_runs(comparison.moments(VRM, "ideal")), color="black", linewidth=1.0, linestyle=":", label="ideal"
    )
    panel.set(xlabel="episodes", ylabel="second moment against uniform", yscale="log")
    format_axis(panel.yaxis)
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawn


def _average_runs(rows: FloatArray) -> FloatArray:
    """Return the geometric mean over runs."""
    return np.asarray(np.exp(np.log(rows).mean(axis=0)))


def _plot_components(panel: "Axes", x: list[int], columns: FloatArray) -> None:
    """Draw one line per component: the colour shows alpha, the dashes show epsilon."""
    from lab.plots import COLORS, DASHES

    for j, (epsilon, alpha) in enumerate(PAPER_SETTINGS):
        color, dash = COLORS[ALPHAS.index(alpha)], DASHES[EPSILONS.index(epsilon)]
        panel.plot(x, columns[:, j], color=color, linestyle=dash, linewidth=1.2, label=COMPONENTS[j])
    panel.plot(x, columns[:, -1], color=COLORS[-1], linestyle="-.", linewidth=1.2, label=COMPONENTS[-1])


def findings(records: Sequence[Record]) -> Findings:
    """Compare the arms."""
    comparison = CartPoleComparison(records)
    return Findings(
        experiment="cartpole",
        title="Section 6.3: prioritised replay in CartPole",
        claims=[*mixture.judge_mixture(comparison), *rewards.judge_rewards(comparison)],
        pictures=_make_pictures(comparison),
        evolutions=[_make_evolution(comparison)] if comparison.results(VRM) else [],
        notes=[
            "Agent: a DQN with double targets, soft updates, and a batch of 64 after every step, in Gymnasium's "
            "CartPole-v1. Importance weights are exact in all arms.",
            "The paper prints no settings of its agent. These were chosen with uniform replay on seeds 900 to 907, "
            "once for all arms, and the barrier of VRM's learner on seeds 910 to 917.",
            "Every seed makes the first network, the environment, the actions and the draws. 'uniform again' has other "
            "random numbers for all of these.",
            "Second moments are computed from the errors of all transitions in a run's own buffer at the time.",
        ],
    )


def _make_pictures(comparison: CartPoleComparison) -> list[Picture]:
    found = []
    if comparison.arms:
        found.append(
            Picture(
                "cartpole",
                "Rewards over episodes, mean over seeds with its 95 % band, and below them VRM's mixture. The paper's "
                "Figure 4 shows the rewards: look whether VRM keeps up with the best single setting.",
                "Reward curves of five arms rising together within wide bands; below them the weights of ten "
                "components, of which one grows and the others shrink.",
                lambda: draw_evolution(comparison),
            )
        )
    if comparison.looks() and comparison.results(VRM):
        found.append(
            Picture(
                "cartpole-moments",
                "Second moment beside uniform draws, geometric mean over seeds: each component alone, VRM's mixture, "
                "and the least of any law. The paper has no such figure: look how soon VRM falls to the lowest one.",
                "Curves of nine components below one, those with alpha 0.9 lowest, and VRM's falling from near one to "
                "the lowest of them.",
                lambda: draw_moments(comparison),
            )
        )
    return found


def _make_evolution(comparison: CartPoleComparison) -> Evolution:
    average = comparison.mixtures().mean(axis=0)
    return Evolution(
        "cartpole-mixture",
        f"The mixture in CartPole, mean of {len(comparison.results(VRM))} seeds",
        "episodes",
        "weight",
        list(range(1, len(average) + 1)),
        {name: average[:, j].tolist() for j, name in enumerate(COMPONENTS)},
    )
