"""What the runs show."""

from collections.abc import Sequence

from lab.experiments.networks import images, payoff
from lab.experiments.networks.figures import draw_comparison, draw_curves, draw_rare
from lab.experiments.networks.protocol import MAX_EXPONENT, best_steps
from lab.experiments.networks.table import Table
from lab.experiments.networks.tasks import CROSS, MNIST_TASKS, RARE, TASKS
from lab.reproduce.findings import Findings, Picture
from lab.reproduce.records import Record

SETUP_NOTE = (
    "Networks of two or three layers, linear decay of the step, SGD with momentum 0.9 or Adam. Feedback of both "
    "mixtures are the norms of the derivatives in the outputs, which the training step has anyway. Every arm has the "
    "step that was best for it on two to eight seeds from 900 on, to an octave, by the loss of every other held-out "
    "point; what is reported are the other points. Reshuffling is two arms of independent runs, pooled. The mixtures "
    "are those of a loader as it comes: plain shuffling until the mixture gains 1.25, in full from 1.5 on, groups "
    "dealt by chance. Beside them are the same mixtures always on, whose batches hold of every group what is due to it."
)
DATA_NOTE = (
    "The MLP (784-128-10, batch 128) learns from all 60,000 training images in two epochs, or, imbalanced, from those "
    "of the classes 5 to 9 and 5 % of the others in four; the CNN (8 and 16 channels, batch 32) from the first 8,000, "
    "or from what is left of the first 16,000, in three. The 10,000 test images are held out; for imbalanced sets they "
    "are weighted to the proportions of the training images."
)
OTHERS_NOTE = (
    "The other tasks: a class of one point in 100 (covtype 2 against 4; kdd_bio); MNIST with classes from 5,923 to "
    "about 59 images and a loss in which all classes weigh the same, where reshuffling has the class weights in its "
    "loss; Californian house values, a tenth of them reported with noise of three deviations, the held-out ones "
    "without; targets with heavy tails (kegg_undirected); and the next word of Python's own help texts, which differ a "
    "little between its versions. Class-balanced draws are with replacement and unweighted; where the loss is not "
    "balanced, the logarithms of the classes' shares are added to the outputs afterwards."
)


def findings(records: Sequence[Record]) -> Findings:
    """Put every arm beside reshuffling."""
    table = Table(records)
    absent = [name for name in TASKS if name not in table.tasks]
    return Findings(
        experiment="networks",
        title="Neural networks: against reshuffling",
        claims=[*images.judge_images(table), *payoff.judge_payoff(table)],
        pictures=_make_pictures(table),
        notes=[
            SETUP_NOTE,
            DATA_NOTE,
            OTHERS_NOTE,
            *([f"Not run here, because data are missing or the mode is quick: {'; '.join(absent)}."] if absent else []),
            *_find_edges(records),
        ],
    )


def _find_edges(records: Sequence[Record]) -> list[str]:
    """Name the searches that ended where they had to: the best step may lie beyond."""
    far = [f"{arm} ({task})" for (task, arm, _), step in best_steps(records).items() if abs(step) >= MAX_EXPONENT]
    return [f"Best at the far end of the steps tried: {', '.join(far)}."] if far else []


def _make_pictures(table: Table) -> list[Picture]:
    found = []
    if any(task in MNIST_TASKS for task in table.tasks):
        found.append(
            Picture(
                "mnist",
                "Loss at 5,000 training images against gradients computed, mean over seeds with its 95 % band: both "
                "arms of reshuffling together, the two mixtures as loaders have them, and one that is always on, each "
                "at its own best step.",
                "Panels of falling curves that lie close together.",
                lambda: draw_curves(table, "losses"),
            )
        )
        found.append(
            Picture(
                "mnist-held",
                "The same of the held-out loss, at the half of the test images that steps were not chosen by. It ends "
                "about where reshuffling's ends, also where the training loss is lower.",
                "Panels of falling curves that lie closer together still.",
                lambda: draw_curves(table, "held"),
            )
        )
    if table.runs(RARE, CROSS):
        found.append(
            Picture(
                "mnist-rare",
                "A class of one point in 100: loss at 5,000 training points and held-out loss against gradients "
                "computed, mean over seeds with its 95 % band. The dot is the mixture after runs of half the length.",
                "Two panels of falling curves; mixtures with resplit by norms end lowest, reshuffling highest.",
                lambda: draw_rare(table),
            )
        )
    if table.tasks:
        found.append(
            Picture(
                "mnist-gain",
                "Left, held-out loss beside reshuffling's, with 95 % intervals; left of one is better. Middle, the "
                "gain over the last three fifths of a run, and how much lower the training loss was in the end, on "
                "MNIST (filled) and elsewhere; dashed, where both are the same. Right, the noise of reshuffling's "
                "batches beside the squared gradient, by fifths of a run; dotted, where the meter calls it quiet.",
                "Dots with intervals around one for every task, a scatter of improvement against gain, and rising "
                "curves of noise.",
                lambda: draw_comparison(table),
            )
        )
    return found
