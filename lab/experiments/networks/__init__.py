"""Neural networks against plain reshuffling: MNIST, and other tasks to see where adaptive sampling pays.

    python -m lab reproduce networks

Every arm has its own best step, found on other seeds. Two arms of plain reshuffling show how large differences by
chance are. The gain is reported together with the noise of the gradients, and with the losses of batches that have a
quarter of that noise: where these change nothing, no sampling can.
"""

from lab.experiments.networks.findings import findings, list_facts
from lab.experiments.networks.protocol import plan, run, seconds, then
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("networks", plan, run, seconds, findings, then, list_facts)
