"""Blobs, section 6.1: a linear SVM on six Gaussian blobs, where only the two middle ones hold support vectors.

    python -m lab reproduce blobs

Five epochs of online gradient descent with step 0.01 / sqrt(t) on 10,000 points; the feedback is the norm of the hinge
loss's gradient, zeros included. The mixture should find the middle blobs by itself, and accuracy should stay high
sooner. Claims use the time from which an accuracy is *sustained*. The first time it is reached shows nothing, because
plain sampling reaches it by luck and loses it again.
"""

from lab.experiments.blobs.findings import findings
from lab.experiments.blobs.protocol import plan, run, seconds
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("blobs", plan, run, seconds, findings)
