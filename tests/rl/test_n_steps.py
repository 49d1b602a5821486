"""n-step returns against an oracle that has the whole trajectory before it."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replay import BOX, DISCRETE, Space, filled
from varmix.rl import ReplayBuffer

PLACE = Space(shape=(2,), dtype=np.int64)  # an observation is (environment, step)


class Step(NamedTuple):
    reward: float
    terminated: bool
    truncated: bool
    counts: bool


def _oracle(trajectories, n, discount):
    """Give (time of completion, environment, first step, return, last step, terminated, discount) in the order due."""
    found = []
    for environment, steps in enumerate(trajectories):
        times = [t for t, step in enumerate(steps) if step.counts]
        for i, start in enumerate(times):
            total, horizon = 0.0, 0
            for t in times[i : i + n]:
                total += discount**horizon * steps[t].reward
                horizon += 1
                if steps[t].terminated or steps[t].truncated:
                    break
            ended = steps[t].terminated or steps[t].truncated
            if ended or horizon == n:
                left = 0.0 if steps[t].terminated else discount**horizon
                found.append((t, environment, start, total, t, steps[t].terminated, left))
    return sorted(found, key=lambda row: row[:3])


def _feed(buffer, trajectories):
    number = len(trajectories)
    for t, rows in enumerate(zip(*trajectories, strict=True)):
        before = np.stack([np.arange(number), np.full(number, t)], axis=1)
        rewards, terminated, truncated, counts = map(np.array, zip(*rows, strict=True))
        after = np.add(before, [0, 1])
        buffer.add_batch(before, before[:, 1], rewards, after, terminated, truncated, counts)


def _agree(buffer, trajectories, n, discount):
    rows = buffer.state_dict()["transitions"]
    expected = _oracle(trajectories, n, discount)
    assert len(buffer) == len(expected)
    for i, (_, environment, start, total, last, terminated, left) in enumerate(expected):
        assert rows["observation"][i].tolist() == [environment, start]
        assert rows["action"][i] == start
        assert rows["next_observation"][i].tolist() == [environment, last + 1]
        assert rows["reward"][i] == pytest.approx(total, rel=1e-6)
        assert rows["terminated"][i] == terminated
        assert rows["discount"][i] == np.float32(left)


def _trajectories(number):
    often = st.sampled_from([False] * 4 + [True])
    step = st.builds(Step, st.integers(-9, 9).map(float), often, often, often.map(lambda left_out: not left_out))
    rows = st.lists(st.tuples(*[step] * number), max_size=25)
    return rows.map(lambda steps: [[row[i] for row in steps] for i in range(number)])


@given(st.integers(1, 3).flatmap(_trajectories), st.integers(1, 5), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_transitions_are_those_of_the_whole_trajectory(trajectories, n, discount):
    environments = len(trajectories)
    settings = {"n_steps": n, "discount": discount, "environments": environments, "autoreset": "disabled"}
    buffer = ReplayBuffer(500, PLACE, DISCRETE, rng=0, **settings)
    _feed(buffer, trajectories)
    _agree(buffer, trajectories, n, discount)


@given(_trajectories(1), st.integers(1, 5))
def test_add_does_for_one_environment_what_add_batch_does(trajectories, n):
    buffer = ReplayBuffer(500, PLACE, DISCRETE, n_steps=n, discount=0.9, rng=0)
    for t, (reward, terminated, truncated, counts) in enumerate(trajectories[0]):
        if counts:
            buffer.add(np.array([0, t]), t, reward, np.array([0, t + 1]), terminated, truncated)
    _agree(buffer, trajectories, n, 0.9)


def test_the_caller_may_write_into_its_arrays_while_transitions_are_pending():
    buffer = ReplayBuffer(10, BOX, DISCRETE, n_steps=3, rng=0)
    observation = np.zeros(4, np.float32)
    for step in range(3):
        observation[:] = step
        buffer.add(observation, step, 1.0, observation, terminated=step == 2)
    rows = buffer.state_dict()["transitions"]
    assert rows["observation"][:, 0].tolist() == [0.0, 1.0, 2.0]
    assert rows["next_observation"][:, 0].tolist() == [2.0, 2.0, 2.0]


def test_a_row_that_does_not_count_leaves_what_is_pending_as_it_is():
    buffer = ReplayBuffer(10, BOX, DISCRETE, n_steps=3, environments=2, autoreset="disabled", rng=0)
    rows = np.zeros((2, 4), np.float32), np.zeros(2, np.int64), np.ones(2), np.zeros((2, 4), np.float32)
    no, yes = np.zeros(2, bool), np.ones(2, bool)
    buffer.add_batch(*rows, no, no)
    before = buffer.state_dict()["pending"]
    buffer.add_batch(*rows, yes, yes, where=no)
    after = buffer.state_dict()["pending"]
    assert len(buffer) == 0
    assert all(np.array_equal(before[name], after[name]) for name in ("returns", "head", "count"))
    buffer.add_batch(*rows, yes, no, where=[True, False])
    assert len(buffer) == 2
    assert buffer.state_dict()["pending"]["count"].tolist() == [0, 1]


def test_an_end_completes_what_is_pending_with_fewer_steps():
    rows = filled(10, n_steps=4, discount=0.5).state_dict()["transitions"]
    assert rows["discount"].tolist() == [0.0625] * 6 + [0.0] * 4
    assert rows["reward"][-2:].tolist() == [8 + 9 / 2, 9.0]
