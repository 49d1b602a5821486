"""Neural networks against plain reshuffling: MNIST, and five other tasks to see where it pays.

    varmix reproduce mnist

Sampling changes how fast a loss falls, so every arm has its own best step, found on other seeds, and two arms of plain
reshuffling show how far chance goes.  Beside the gain stands the noise of the gradients, and what batches with a
quarter of that noise would have brought: where these change nothing, no sampling can.
"""

from varmix.experiments.experiment import Experiment
from varmix.experiments.mnist.findings import findings
from varmix.experiments.mnist.protocol import plan, run, seconds, then

EXPERIMENT = Experiment("mnist", plan, run, seconds, findings, then)
