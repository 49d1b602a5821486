"""Convex problems on real data: adaptive sampling against plain reshuffling.

    python -m lab reproduce convex

Logistic regression and least squares by SGD with linear decay. The baseline is `shuffle=True`, which people use today,
not uniform draws with replacement. Every arm has its own best step, found on other seeds.
"""

from lab.experiments.convex.findings import findings, list_facts
from lab.experiments.convex.protocol import plan, run, seconds, then
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("convex", plan, run, seconds, findings, then, list_facts)
