"""Neural networks against plain reshuffling: MNIST, and five other tasks to see where it pays.

    varmix reproduce mnist

Sampling changes how fast a loss falls, so every arm has its own best step, found on other seeds, and two arms of plain
reshuffling show how far chance goes.  Beside the gain stands the noise of the gradients, and what batches with a
quarter of that noise would have brought: where these change nothing, no sampling can.
"""

from lab.reproduce.experiment import Experiment
from lab.experiments.networks.findings import findings
from lab.experiments.networks.protocol import plan
from lab.experiments.networks.protocol import run
from lab.experiments.networks.protocol import seconds
from lab.experiments.networks.protocol import then

EXPERIMENT = Experiment("mnist", plan, run, seconds, findings, then)
