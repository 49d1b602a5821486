"""Neural networks against plain reshuffling: MNIST, and five other tasks to see where it pays.

    python -m lab reproduce networks

Sampling changes how fast a loss falls, so every arm has its own best step, found on other seeds, and two arms of plain
reshuffling show how far chance goes.  Beside the gain stands the noise of the gradients, and what batches with a
quarter of that noise would have brought: where these change nothing, no sampling can.
"""

from lab.experiments.networks.findings import findings, list_facts
from lab.experiments.networks.protocol import plan, run, seconds, then
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("networks", plan, run, seconds, findings, then, list_facts)
