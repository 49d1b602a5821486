"""k-DPPs, section 6.2: linear regression on minibatches that are drawn as sets.

    python -m lab reproduce kdpp

First as printed: step 1e-4 / sqrt(t), 100 epochs, batches of five, three ridges, importance weights softly truncated.
Then a fair comparison: unbiased weights, the best step of every method, chosen on other seeds, and the iteration from
which an excess error is *sustained*.
"""

from lab.experiments.kdpp.findings import findings
from lab.experiments.kdpp.protocol import plan, run, seconds, then
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("kdpp", plan, run, seconds, findings, then)
