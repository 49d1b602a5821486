"""k-means, section 6.4: minibatch k-means with 100 clusters and batches of 100, where only the sampling differs.

    python -m lab reproduce kmeans

The error is the loss on the test part relative to batch k-means from the same seeding. It is shown against iterations,
and against the time for sampling and stepping, the sampler's set-up included. The time of the shared seeding is left
out, as in the paper; one claim includes it.
"""

from lab.experiments.kmeans.findings import findings
from lab.experiments.kmeans.protocol import plan, run, seconds, then
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("kmeans", plan, run, seconds, findings, then)
