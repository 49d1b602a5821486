"""One thread adds while another samples: what is gathered must be what was drawn."""

import sys
import threading

import numpy as np
import pytest

from support.replay import DISCRETE, Space
from varmix.rl import ReplayBuffer

# Many fields, so that writing a transition takes a while, and few slots, so that all are drawn while it does.
WIDE = Space(spaces=tuple(Space(shape=(2,), dtype=np.int64) for _ in range(12)))
CAPACITY, LOOKS, STEPS = 16, 300, 3000


@pytest.fixture
def hasty():
    """Let threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _add(buffer, step):
    value, after = ((np.full(2, number),) * 12 for number in (step, step + 1))
    buffer.add(value, step, float(step), after, terminated=False)


def _look_while_adding(look, **settings):
    """Look at a full buffer again and again while a thread adds to it."""
    buffer = ReplayBuffer(CAPACITY, WIDE, DISCRETE, rng=0, **settings)
    for step in range(CAPACITY + 2):
        _add(buffer, step)
    stop = threading.Event()

    def add_on():
        step = CAPACITY + 2
        while not stop.is_set():
            _add(buffer, step)
            step += 1

    writer = threading.Thread(target=add_on)
    writer.start()
    try:
        looks = 0
        while looks < LOOKS or buffer.replay.space.first < STEPS:
            look(buffer)
            looks += 1
            assert writer.is_alive()
    finally:
        stop.set()
        writer.join()


def test_nothing_that_is_drawn_is_overwritten_before_it_is_gathered(hasty):
    def look(buffer):
        batch, draw = buffer.sample(CAPACITY)
        for field in (*batch.observations, *(after - 1 for after in batch.next_observations)):
            assert (field == draw.indices[:, None]).all()
        assert (batch.actions == draw.indices).all()
        assert (batch.rewards == draw.indices).all()
        buffer.update(draw, np.cos(draw.indices))

    _look_while_adding(look)


def test_a_state_is_of_one_moment(hasty):
    again = ReplayBuffer(CAPACITY, WIDE, DISCRETE, n_steps=3, rng=1)

    def look(buffer):
        state = buffer.state_dict()
        rows = state["transitions"]
        latest = rows["action"].max()
        assert set(rows["action"]) == set(range(latest - CAPACITY + 1, latest + 1))
        for i in range(12):
            assert (rows[f"observation[{i}]"] == rows["action"][:, None]).all()
        assert {latest + 1, latest + 2} <= set(state["pending"]["columns"]["action"])
        again.load_state_dict(state)
        assert (again.sample(CAPACITY)[0].actions > latest - CAPACITY).all()

    _look_while_adding(look, n_steps=3)
