"""Findings of the networks experiment."""

import math
from collections.abc import Sequence
from typing import Any

from lab.experiments.networks import images, payoff
from lab.experiments.networks.comparison import NetworkComparison
from lab.experiments.networks.figures import draw_comparison, draw_curves, draw_rare
from lab.experiments.networks.protocol import MAX_EXPONENT, best_steps
from lab.experiments.networks.tasks import CROSS, MNIST_TASKS, RARE, RESHUFFLING, TASKS
from lab.reproduce.findings import Findings, Picture
from lab.reproduce.records import Record

PROTOCOL = (
    "Networks of two or three layers, a step with linear decay, SGD with momentum 0.9 or Adam. The feedback of both "
    "mixtures is the norm of the derivative in the outputs, which the training step has anyway.",
    "Every arm has its own best step, found to an octave on two to eight other seeds, from 900 on, by the loss of "
    "every other held-out point. What is reported are the other points.",
    "Reshuffling is two arms of independent runs, pooled. The second beside the first shows how far chance goes.",
    "'mixture of labels' has a group a class. 'mixture, cross' has groups by class or target and by length, cut anew "
    "by the norms last seen (`resplit`).",
    "The mixtures are those of a loader as it comes: plain shuffling until the mixture gains 1.25, in full from 1.5 "
    "on, groups dealt by chance. Those that are always on have batches that hold of every group what is due to it.",
    "MNIST, MLP (784-128-10, batch 128): all 60,000 training images in two epochs, or, imbalanced, the classes 5 to 9 "
    "and 5 % of the others in four. CNN (8 and 16 channels, batch 32): the first 8,000, or what is left of the first "
    "16,000, in three. The 10,000 test images are held out; for imbalanced sets they are weighted to the training "
    "images' proportions.",
    "Other tasks: a class of one point in 100 (covtype 2 against 4; kdd_bio); MNIST with 5,923 to about 59 images a "
    "class, where the loss weighs all classes the same, for reshuffling by class weights; Californian house values, a "
    "tenth with noise of three deviations, the held-out ones without; heavy-tailed targets (kegg_undirected); the next "
    "word of Python's own help texts, which differ a little between versions.",
    "Class-balanced draws are with replacement and unweighted. Where the loss is not balanced, the logarithms of the "
    "classes' shares are added to the outputs afterwards.",
)


def findings(records: Sequence[Record]) -> Findings:
    """Compare every arm with reshuffling."""
    comparison = NetworkComparison(records)
    absent = [name for name in TASKS if name not in comparison.tasks]
    return Findings(
        experiment="networks",
        title="Neural networks: against reshuffling",
        claims=[*images.judge_images(comparison), *payoff.judge_payoff(comparison)],
        pictures=_make_pictures(comparison),
        notes=[
            *PROTOCOL,
            *([f"Not run here, because data are missing: {'; '.join(absent)}."] if absent and comparison.tasks else []),
            *_find_edges(records),
        ],
    )


def list_facts(records: Sequence[Record]) -> dict[str, Any]:
    """Return held-out losses relative to reshuffling: value, low and high by arm and task, where no run diverged."""
    comparison = NetworkComparison(records)
    held: dict[str, dict[str, list[float]]] = {}
    for task in comparison.tasks:
        for arm in comparison.arms_of(task):
            ratio = None if arm == RESHUFFLING else comparison.relative(task, arm, "test")
            if ratio is not None and all(map(math.isfinite, ratio)):
                held.setdefault(arm, {})[task] = list(ratio)
    return {"held_out": held}


def _find_edges(records: Sequence[Record]) -> list[str]:
    """Name the searches that ended at their limit: a better step may lie beyond it."""
    far = [f"{arm} ({task})" for (task, arm, _), step in best_steps(records).items() if abs(step) >= MAX_EXPONENT]
    return [f"Best at the far end of the steps tried: {', '.join(far)}."] if far else []


def _make_pictures(comparison: NetworkComparison) -> list[Picture]:
    found = []
    if any(task in MNIST_TASKS for task in comparison.tasks):
        found.append(
            Picture(
                "mnist",
                "Training loss against gradients computed, mean over seeds with its 95 % band, each arm at its own "
                "best step. The paper has no such figure: look whether a mixture falls below reshuffling.",
                "Panels of falling curves that lie close together.",
                lambda: draw_curves(comparison, "losses"),
            )
        )
        found.append(
            Picture(
                "mnist-held",
                "Held-out loss of the same runs, at test images that no step was chosen by. It ends about where "
                "reshuffling's ends, also where the training loss is lower.",
                "Panels of falling curves that lie closer together still.",
                lambda: draw_curves(comparison, "held"),
            )
        )
    if comparison.results(RARE, CROSS):
        found.append(
            Picture(
                "mnist-rare",
                "A class of one point in 100: training and held-out loss against gradients computed, mean over seeds "
                "with its 95 % band. The dot is the mixture after runs of half the length.",
                "Two panels of falling curves; mixtures with resplit by norms end lowest, reshuffling highest.",
                lambda: draw_rare(comparison),
            )
        )
    if comparison.tasks:
        found.append(
            Picture(
                "mnist-gain",
                "Left, held-out loss beside reshuffling's, where left of one is better; right, the noise of its "
                "batches, dotted where the meter calls it quiet. Middle, how much lower the training loss was in the "
                "end, against the gain.",
                "Dots with intervals around one for every task, a scatter of improvement against gain, and rising "
                "curves of noise.",
                lambda: draw_comparison(comparison),
            )
        )
    return found
