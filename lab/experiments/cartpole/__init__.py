"""CartPole, section 6.3: a DQN whose replay is prioritised by nine settings at once, by one of them, or by none.

    python -m lab reproduce cartpole

The feedback is the temporal difference error of the replayed transitions. The second moment of the mixture is exact: it
is computed from all transitions in the buffer at the time. Effects on the reward take many seeds to show.
"""

from lab.experiments.cartpole.findings import findings
from lab.experiments.cartpole.protocol import plan, run, seconds
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("cartpole", plan, run, seconds, findings)
