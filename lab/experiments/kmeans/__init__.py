"""k-means, section 6.4: minibatch k-means with 100 clusters and batches of 100, where only the sampling differs.

    python -m lab reproduce kmeans

The error is that on the test part beside batch k-means from the same seeding, against iterations and against the time
for sampling and stepping with the sampler's set-up.  The seeding is shared and left out, as in the paper; what the
whole takes with it is told too.
"""

from lab.experiments.kmeans.findings import findings
from lab.experiments.kmeans.protocol import plan, run, seconds, then
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("kmeans", plan, run, seconds, findings, then)
