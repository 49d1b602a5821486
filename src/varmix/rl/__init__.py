"""Reinforcement learning: replay buffers whose priorities are a mixture."""
