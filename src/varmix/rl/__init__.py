"""Reinforcement learning: a prioritised replay buffer that needs no tuning of its priorities.

buffer = varmix.rl.ReplayBuffer(100_000, env.observation_space, env.action_space)
batch, draw = buffer.sample(64)
buffer.update(draw, td_errors)
"""

from varmix.rl._replay_buffer import ReplayBuffer
from varmix.rl._transitions import Batch

__all__ = ["Batch", "ReplayBuffer"]
