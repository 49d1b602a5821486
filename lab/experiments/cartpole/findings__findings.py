"""What the runs of section 6.3 show."""

from collections.abc import Sequence

from lab.experiments.cartpole import mixture
from lab.experiments.cartpole import rewards
from lab.experiments.cartpole.protocol import COMPONENTS
from lab.experiments.cartpole.protocol import VRM
from lab.experiments.cartpole.findings import evolution
from lab.experiments.cartpole.findings import moments
from lab.experiments.cartpole.table import Table
from lab.reproduce.findings import Evolution
from lab.reproduce.findings import Findings
from lab.reproduce.findings import Picture
from lab.reproduce.records import Record


def findings(records: Sequence[Record]) -> Findings:
    """Compare the arms."""
    table = Table(records)
    return Findings(
        experiment="cartpole",
        title="Section 6.3: prioritised replay in CartPole",
        claims=[*mixture.claims(table), *rewards.claims(table)],
        pictures=_pictures(table),
        evolutions=[_evolution(table)] if table.results(VRM) else [],
        notes=[
            "A DQN (double targets, soft updates, a batch of 64 after every step) in Gymnasium's CartPole-v1, with "
            "importance weights exact in all arms; the paper prints no settings of its agent. These were chosen with "
            "uniform replay on seeds 900 to 907, once for all arms, and the barrier of VRM's learner on seeds 910 to "
            "917. Every seed makes the first network, the environment, the actions and the draws; 'uniform again' has "
            "other random numbers for all of these. "
            "Second moments are computed from the errors of all transitions in a run's own buffer at the time."
        ],
    )


def _pictures(table: Table) -> list[Picture]:
    found = []
    if table.arms:
        found.append(
            Picture(
                "cartpole",
                "Above, rewards over episodes, mean over seeds with its 95 % band, smoothed over ten episodes; both "
                "arms of uniform replay together, and of the nine single settings the best and the worst by mean "
                "reward. Below, the mixture that VRM has after every episode, mean over seeds.",
                "Reward curves of five arms rising together within wide bands; below them the weights of ten "
                "components, of which one grows and the others shrink.",
                lambda: evolution(table),
            )
        )
    if table.looks() and table.results(VRM):
        found.append(
            Picture(
                "cartpole-moments",
                "Second moment of the weighted errors against uniform draws, from all transitions in the buffers of "
                "VRM's runs: every component alone, VRM's mixture, and the least that any law could have. Geometric "
                "mean over seeds.",
                "Curves of nine components below one, those with alpha 0.9 lowest, and VRM's falling from near one to "
                "the lowest of them.",
                lambda: moments(table),
            )
        )
    return found


def _evolution(table: Table) -> Evolution:
    average = table.mixtures().mean(axis=0)
    return Evolution(
        "cartpole-mixture",
        f"The mixture in CartPole, mean of {len(table.results(VRM))} seeds",
        "episodes",
        "weight",
        list(range(1, len(average) + 1)),
        {name: average[:, j].tolist() for j, name in enumerate(COMPONENTS)},
    )
