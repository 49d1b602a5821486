"""CartPole, section 6.3: a DQN whose replay is prioritised by nine settings at once, by one of them, or by none.

    python -m lab reproduce cartpole

The feedback is the temporal difference error of what was replayed.  What the mixture does to the second moment is
computed exactly, from all transitions of the buffer at the time; what all this does to the reward is a matter of many
seeds.
"""

from lab.experiments.cartpole.findings import findings
from lab.experiments.cartpole.protocol import plan, run, seconds
from lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment("cartpole", plan, run, seconds, findings)
