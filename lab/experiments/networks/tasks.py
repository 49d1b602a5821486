"""The tasks: which data, which network, which optimiser, how long, and who takes part."""

from dataclasses import dataclass, replace
from typing import Literal

from lab import datasets

RESHUFFLING, AGAIN, LABELS, CROSS = "reshuffling", "reshuffling again", "mixture of labels", "mixture, cross"
LARGER, BALANCED, STATIC = "reshuffling, batch x 4", "class-balanced draws", "class-balanced, weighted"
ALWAYS, ALWAYS_CROSS = "mixture of labels, always on", "mixture, cross, always on"
LARGER_BATCH_FACTOR = 4  # times the batch, for as many steps
BASELINES = (RESHUFFLING, AGAIN)  # pooled: no arm is compared with one lucky set of runs
MIXTURES = (LABELS, CROSS)  # as loaders have them: plain shuffling until they pay
ALWAYS_ON = (ALWAYS, ALWAYS_CROSS)  # the same from the first batch on, and in even batches
USUAL_ARMS = (*BASELINES, *MIXTURES, *ALWAYS_ON)
ALL_ARMS = (*USUAL_ARMS, LARGER, BALANCED, STATIC)


@dataclass(frozen=True)
class Task:
    """What is learned from what, and how.

    Attributes
    ----------
    data
        What `lab.experiments.networks.data.split` knows it by.
    needs
        The data set; None for text that Python itself has.
    network
        Two dense layers or one ("MLP"), two convolutions ("CNN"), or a model of the next word ("words").
    optimiser
        SGD has momentum 0.9; the step decays linearly to zero in either.
    epochs, batch
        The length of a run, and of a batch.
    step
        Where the search for the best step begins.
    seconds
        About how long an epoch takes.
    arms
        Who takes part.
    seeds
        How many runs of each.
    tuning
        On how many other seeds steps are chosen.
    halved
        Arms that are also run at half the length, to see whether that is enough.
    """

    data: str
    needs: str | None
    network: Literal["MLP", "CNN", "words"]
    optimiser: Literal["SGD", "Adam"]
    epochs: int
    batch: int
    step: float
    seconds: float
    arms: tuple[str, ...] = USUAL_ARMS
    seeds: int = 8
    tuning: int = 2
    halved: tuple[str, ...] = ()


# Balanced or not, runs have about as many steps: half of the images of an imbalanced set are gone.
_MLP = Task("mnist", "mnist", "MLP", "SGD", 2, 128, 0.1, 0.9, arms=(*USUAL_ARMS, LARGER), seeds=16, tuning=4)
_SKEWED = replace(_MLP, data="mnist, imbalanced", epochs=4, seconds=0.45)
# From 8,000 images runs differ more: four seeds do not always tell steps an octave apart.
_CNN = Task(
    "mnist, first 8,000", "mnist", "CNN", "SGD", 3, 32, 0.04, 0.6, arms=(*USUAL_ARMS, LARGER), seeds=32, tuning=8
)
_SKEWED_CNN = replace(_CNN, data="mnist, imbalanced, of the first 16,000")
MNIST_TASKS = {
    f"{data}, {optimiser}": replace(task, optimiser=optimiser, step=task.step if optimiser == "SGD" else 0.003)
    for data, task in (
        ("MLP, balanced", _MLP),
        ("MLP, imbalanced", _SKEWED),
        ("CNN, balanced", _CNN),
        ("CNN, imbalanced", _SKEWED_CNN),
    )
    for optimiser in ("SGD", "Adam")
}
RARE = "rare class, covtype"
# Tried in the search for one where it pays, all of them reported.
OTHER_TASKS = {
    # A run in ten gets stuck early, which a few seeds do not tell.
    RARE: Task("covtype", "covtype_2v4", "MLP", "Adam", 2, 128, 0.008, 1.5, ALL_ARMS, 16, tuning=6, halved=(CROSS,)),
    "rare class, covtype, SGD": Task("covtype", "covtype_2v4", "MLP", "SGD", 2, 128, 0.4, 1.3),
    "rare class, kdd_bio": Task(
        "kdd_bio", "kdd_bio", "MLP", "Adam", 2, 64, 0.001, 1.4, (*USUAL_ARMS, BALANCED), seeds=5
    ),
    "long tail, balanced loss": Task(
        "long tail", "mnist", "MLP", "Adam", 6, 64, 0.002, 0.25, (*USUAL_ARMS, BALANCED), seeds=5
    ),
    "sources of unequal noise": Task("sources", "california_housing", "MLP", "Adam", 6, 64, 0.01, 0.2, seeds=5),
    "heavy-tailed targets": Task("kegg", "kegg_undirected", "MLP", "Adam", 3, 64, 0.01, 0.6, seeds=5),
    "next word": Task("words", None, "words", "Adam", 1, 128, 0.005, 2.5, seeds=5),
}
TASKS = {**MNIST_TASKS, **OTHER_TASKS}


def at_hand() -> list[str]:
    """Give the tasks whose data need not be fetched."""
    return [name for name, task in TASKS.items() if task.needs is None or datasets.available(task.needs)]
