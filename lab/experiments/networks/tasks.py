"""The tasks: data, network, optimiser, length of a run, and arms."""

from dataclasses import dataclass, replace
from typing import Literal

from lab import datasets

RESHUFFLING, AGAIN, LABELS, CROSS = "reshuffling", "reshuffling again", "mixture of labels", "mixture, cross"
LARGER, BALANCED, STATIC = "reshuffling, batch x 4", "class-balanced draws", "class-balanced, weighted"
ALWAYS, ALWAYS_CROSS = "mixture of labels, always on", "mixture, cross, always on"
LARGER_BATCH_FACTOR = 4  # times the batch, for the same number of steps
BASELINES = (RESHUFFLING, AGAIN)  # pooled: no arm is compared with one lucky set of runs
MIXTURES = (LABELS, CROSS)  # the default of loaders: plain shuffling until the mixture pays
ALWAYS_ON = (ALWAYS, ALWAYS_CROSS)  # the same mixtures from the first batch on, in even batches
USUAL_ARMS = (*BASELINES, *MIXTURES, *ALWAYS_ON)
ALL_ARMS = (*USUAL_ARMS, LARGER, BALANCED, STATIC)


@dataclass(frozen=True)
class Task:
    """A task: data, network and training.

    Attributes
    ----------
    data
        Name of the split, a key of `lab.experiments.networks.data.SPLITS`.
    needs
        Data set to fetch; None for text that comes with Python.
    network
        One or two hidden dense layers ("MLP"), two convolutions ("CNN"), or a model of the next word ("words").
    optimiser
        SGD has momentum 0.9. The step decays linearly to zero in both.
    epochs, batch
        Length of a run, and batch size.
    step
        Step where the search for the best one begins.
    seconds
        Expected seconds per epoch.
    arms
        Arms of the task.
    seeds
        Number of runs per arm.
    tuning
        Number of other seeds that steps are chosen on.
    halved
        Arms that also run at half the length, to see whether that is enough.
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


# Imbalanced sets have half as many images, so they get twice the epochs and about as many steps.
_MLP = Task("mnist", "mnist", "MLP", "SGD", 2, 128, 0.1, 0.9, arms=(*USUAL_ARMS, LARGER), seeds=16, tuning=4)
_SKEWED = replace(_MLP, data="mnist, imbalanced", epochs=4, seconds=0.45)
# With 8,000 images runs differ more: four seeds do not always distinguish steps an octave apart.
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
# All tasks that were tried in search of one where adaptive sampling pays.
OTHER_TASKS = {
    # One run in ten gets stuck early, which a few seeds do not show.
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
    """Return the tasks whose data need not be fetched."""
    return [name for name, task in TASKS.items() if task.needs is None or datasets.available(task.needs)]
