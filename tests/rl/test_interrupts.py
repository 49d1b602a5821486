"""Ctrl-C in the middle of adding: a step is added as a whole or not at all, wherever the interrupt falls."""

import sys

import numpy as np
import pytest

from support.replay import BOX, DISCRETE, numbered
from varmix.rl import ReplayBuffer

NUMBER = 2


class Interrupts:
    """Raises KeyboardInterrupt before the instruction of this number that varmix's own code executes."""

    def __init__(self, at):
        self.left = at

    def __enter__(self):
        self.tracer = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error):
        sys.settrace(self.tracer)

    def _enter(self, frame, event, argument):
        if "varmix" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame, event, argument):
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._step


def add_one(buffer, step):
    buffer.add(*numbered(step), terminated=step % 5 == 4)


def add_two(buffer, step):
    """Add a step of two environments; episodes of the second are shorter."""
    rows = np.full((NUMBER, 4), step, np.float32)
    rows[:, 1] = np.arange(NUMBER)
    ends = np.array([step % 5 == 4, step % 3 == 2])
    buffer.add_batch(rows, np.full(NUMBER, step), np.full(NUMBER, float(step)), rows + 1, ends, np.zeros(NUMBER, bool))


CASES = {
    "one environment": ({}, add_one),
    "several steps": ({"n_steps": 3}, add_one),
    "two environments": ({"environments": NUMBER, "autoreset": "disabled"}, add_two),
    "two environments, several steps": ({"environments": NUMBER, "autoreset": "disabled", "n_steps": 3}, add_two),
    "two that reset in the next step": ({"environments": NUMBER, "autoreset": "next_step", "n_steps": 2}, add_two),
}


def made(settings, add, steps):
    buffer = ReplayBuffer(8, BOX, DISCRETE, rng=0, **settings)
    for step in range(steps):
        add(buffer, step)
    return buffer


def contents(buffer):
    """Return all rows that can be drawn, by the numbers of their items, and what is pending."""
    ids = buffer.replay.space.atoms
    batch, state = buffer.transitions(ids), buffer.state_dict()
    rows = {i: [np.asarray(field)[row].tolist() for field in batch] for row, i in enumerate(ids.tolist())}
    waiting = {name: np.asarray(part).tolist() for name, part in state["pending"].items() if name != "columns"}
    return rows, waiting, state["ended"].tolist()


def interrupted(buffer, add, step, at):
    """Add a step, and say whether it was interrupted."""
    try:
        with Interrupts(at):
            add(buffer, step)
    except KeyboardInterrupt:
        # A signal is only seen between a call and what follows it; a trace also stops between a body and its lock.
        if buffer._lock.locked():
            buffer._lock.release()
        return True
    return False


@pytest.mark.parametrize("steps", [3, 11])  # while there is room, and when the oldest make it
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_added_as_a_whole_or_not_at_all_wherever_it_is_interrupted(name, steps):
    settings, add = CASES[name]
    expected = [contents(made(settings, add, steps + more)) for more in range(3)]
    outcomes, at = [], 0
    while not outcomes or outcomes[-1] != "done":
        buffer = made(settings, add, steps)
        stopped = interrupted(buffer, add, steps, at)
        found = contents(buffer)
        assert found in expected[:2], f"half a step is there after instruction {at}"
        whole = found == expected[1]
        outcomes.append(("added" if whole else "not added") if stopped else "done")
        if not whole:
            add(buffer, steps)
        add(buffer, steps + 1)
        assert contents(buffer) == expected[2], f"the next step does not fit after instruction {at}"
        at += 1
    assert {"added", "not added", "done"} == set(outcomes)
    assert at > 50


def test_what_can_be_drawn_has_its_own_row_after_any_number_of_interrupts():
    settings, add = CASES["two environments, several steps"]
    buffer, step = made(settings, add, 11), 11
    for at in range(0, 1200, 7):
        interrupted(buffer, add, step, at)
        batch, draw = buffer.sample(8)
        assert (batch.observations[:, 0] == batch.actions).all()
        assert (batch.next_observations[:, 0] > batch.observations[:, 0]).all()
        buffer.update(draw, np.ones(8))
        step += 1
