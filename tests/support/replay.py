"""Stand-ins for Gymnasium's spaces, and replay buffers whose transitions hold their own numbers."""

from types import SimpleNamespace as Space

import numpy as np

from varmix.rl import ReplayBuffer
from varmix.testing import same

BOX = Space(shape=(4,), dtype=np.float32)
DISCRETE = Space(shape=(), dtype=np.int64)
IMAGE = Space(shape=(2, 3), dtype=np.uint8)


def numbered(step):
    """Return the arguments of `add` for a transition that is `step` in every field."""
    return np.full(4, step, np.float32), step, float(step), np.full(4, step + 1, np.float32)


def filled(count=100, capacity=1000, rng=0, **settings):
    buffer = ReplayBuffer(capacity, BOX, DISCRETE, rng=rng, **settings)
    for step in range(count):
        buffer.add(*numbered(step), terminated=step % 10 == 9)
    return buffer


def stays(buffer, before):
    """Return whether a buffer still has the state `before`."""
    return same(buffer.state_dict(), before)
