"""Whatever is refused leaves the buffer as it was."""

import copy
import pickle

import numpy as np
import pytest

import varmix
from support.replay import BOX, DISCRETE, filled, numbered, stays
from varmix.rl import ReplayBuffer

MADE = {
    "no room": ({"capacity": 0}, ValueError, "capacity must be at least 1"),
    "half a room": ({"capacity": 1.5}, TypeError, "whole number"),
    "no steps": ({"n_steps": 0}, ValueError, "n_steps must be at least 1"),
    "no environments": ({"environments": 0}, ValueError, "environments must be at least 1"),
    "less room than a step needs": ({"n_steps": 5, "environments": 3}, ValueError, r"at least .* = 15"),
    "too large a discount": ({"discount": 1.1}, ValueError, "discount must lie in"),
    "a discount that is none": ({"discount": float("nan")}, ValueError, "discount must lie in"),
    "no settings": ({"settings": []}, TypeError, "settings must be pairs"),
    "a learner that is none": ({"learner": 3}, TypeError, "learner must be"),
    "a reweighting that is none": ({"reweight": 3}, TypeError, "reweight must be"),
}


@pytest.mark.parametrize("name", MADE)
def test_arguments_that_make_no_buffer(name):
    settings, error, says = MADE[name]
    with pytest.raises(error, match=says):
        ReplayBuffer(**({"capacity": 10, "observation_space": BOX, "action_space": DISCRETE} | settings))


STEP = dict(
    zip(("observation", "action", "reward", "next_observation"), numbered(3), strict=True),
    terminated=False,
    truncated=False,
)
STEPS = {
    "an observation of another shape": (
        {"observation": np.ones(3, np.float32)},
        ValueError,
        "^observation must have shape",
    ),
    "a next observation of another shape": (
        {"next_observation": np.ones(3)},
        ValueError,
        "^next_observation must have",
    ),
    "an action of another shape": ({"action": np.array([1])}, ValueError, r"action must have shape \(\), got \(1,\)"),
    "an action between two": ({"action": 0.5}, TypeError, "action must be int64"),
    "no reward": ({"reward": float("nan")}, ValueError, "reward must be finite.*got nan"),
    "endless reward": ({"reward": -np.inf}, ValueError, "reward must be finite.*got -inf"),
    "too much reward": ({"reward": 1e31}, ValueError, "at most 1e30"),
    "a whole number too large": ({"reward": 10**400}, ValueError, "at most 1e30"),
    "many rewards": ({"reward": [1.0, 2.0]}, ValueError, r"reward must be one value.*add_batch"),
    "reward in words": ({"reward": "much"}, TypeError, "reward must be real numbers"),
    "an end by number": ({"terminated": 1}, TypeError, "terminated must be True or False, got 1"),
    "many ends": ({"truncated": [True, False]}, ValueError, "truncated must be one value"),
    "a masked end": ({"truncated": np.ma.masked_array([True], [True])}, TypeError, "truncated must not be masked"),
}


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("name", STEPS)
def test_steps_that_are_none(name, n_steps):
    wrong, error, says = STEPS[name]
    buffer = filled(25, capacity=20, n_steps=n_steps)
    before = buffer.state_dict()
    with pytest.raises(error, match=says):
        buffer.add(**(STEP | wrong))
    assert stays(buffer, before)
    buffer.add(**STEP)
    assert not stays(buffer, before)


def _batch():
    rows = np.ones((2, 4), np.float32)
    flags = np.zeros(2, bool)
    fields = {"observations": rows, "actions": np.ones(2, np.int64), "rewards": np.ones(2), "next_observations": rows}
    return fields | {"terminated": flags, "truncated": flags}


BATCHES = {
    "too many environments": ({"observations": np.ones((3, 4), np.float32)}, ValueError, r"\(2, 4\), got \(3, 4\)"),
    "one environment": ({"next_observations": np.ones(4, np.float32)}, ValueError, r"\(2, 4\), got \(4,\)"),
    "one action": ({"actions": 1}, ValueError, r"action must have shape \(2,\)"),
    "one reward": ({"rewards": 1.0}, ValueError, r"rewards must have shape \(2,\)"),
    "a column of rewards": ({"rewards": np.ones((2, 1))}, ValueError, r"one per environment, got \(2, 1\)"),
    "no reward": ({"rewards": [1.0, np.nan]}, ValueError, "rewards must be finite.*got nan"),
    "an end by numbers": ({"terminated": [0.0, 1.0]}, ValueError, "terminated must be booleans.*got float64"),
    "too many ends": ({"truncated": [True] * 3}, ValueError, r"truncated must be booleans of shape \(2,\)"),
    "rows by number": ({"where": [0, 1]}, ValueError, "where must be booleans"),
    "too many rows": ({"where": [True] * 3}, ValueError, "where must be booleans"),
}


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("name", BATCHES)
def test_batches_that_are_none(name, n_steps):
    wrong, error, says = BATCHES[name]
    buffer = ReplayBuffer(20, BOX, DISCRETE, environments=2, autoreset="disabled", n_steps=n_steps, rng=0)
    for _ in range(5):
        buffer.add_batch(**_batch())
    before = buffer.state_dict()
    with pytest.raises(error, match=says):
        buffer.add_batch(**(_batch() | wrong))
    assert stays(buffer, before)
    buffer.add_batch(**_batch())
    assert not stays(buffer, before)


def test_many_environments_add_by_batches_only():
    buffer = ReplayBuffer(20, BOX, DISCRETE, environments=2, rng=0)
    before = buffer.state_dict()
    with pytest.raises(ValueError, match="2 environments: use add_batch"):
        buffer.add(**STEP)
    assert stays(buffer, before)


SIZES = {
    "none": (0, ValueError, "batch_size must be at least 1"),
    "fewer than none": (-1, ValueError, "batch_size must be at least 1"),
    "half": (0.5, TypeError, "whole number"),
    "yes": (True, TypeError, "whole number"),
    "more than there are": (
        64,
        ValueError,
        "The buffer holds 10 transitions, fewer than the 64 asked for: add more first or ask for fewer",
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_are_none(name):
    size, error, says = SIZES[name]
    buffer = filled(10)
    before = buffer.state_dict()
    with pytest.raises(error, match=says):
        buffer.sample(size)
    assert stays(buffer, before)
    assert len(buffer.sample(np.int64(10))[1]) == 10


def test_an_empty_buffer_gives_nothing():
    with pytest.raises(ValueError, match="holds 0 transitions"):
        filled(0).sample(1)


def test_pending_transitions_cannot_be_drawn():
    buffer = filled(5, n_steps=3)
    assert len(buffer) == 3
    with pytest.raises(ValueError, match="holds 3 transitions"):
        buffer.sample(4)


def _errors(*changes):
    errors = np.linspace(-1, 1, 10)
    for place, value in changes:
        errors[place] = value
    return errors


FEEDBACK = {
    "a mean": (0.3, ValueError, r"shape \(10,\).*got \(\)"),
    "a column": (_errors()[:, None], ValueError, r"got \(10, 1\)"),
    "too few": (_errors()[1:], ValueError, r"got \(9,\)"),
    "not a number": (_errors((7, np.nan)), ValueError, r"td_errors\[7\] is nan"),
    "endless": (_errors((2, -np.inf), (7, np.nan)), ValueError, r"td_errors\[2\] is -inf"),
    "too large to square": (_errors((2, 1e200)), ValueError, r"1e\+120; td_errors\[2\] is 1e\+200"),
    "words": (["a"] * 10, TypeError, "real numbers"),
    "complex": (_errors() * 1j, TypeError, "real numbers"),
}


@pytest.mark.parametrize("name", FEEDBACK)
def test_feedback_that_is_none(name):
    errors, error, says = FEEDBACK[name]
    buffer = filled(20)
    _, draw = buffer.sample(10)
    before = buffer.state_dict()
    with pytest.raises(error, match=says):
        buffer.update(draw, errors)
    assert stays(buffer, before)
    buffer.update(draw, _errors())
    assert not stays(buffer, before)


def _refuses(buffer, draw, error, says):
    before = buffer.state_dict()
    with pytest.raises(error, match=says):
        buffer.update(draw, np.ones(10))
    assert stays(buffer, before)


def test_receipts_of_others_and_used_ones_are_refused():
    buffer, other = filled(20), filled(20)
    _, draw = buffer.sample(10)
    _refuses(buffer, other.sample(10)[1], ValueError, "another sampler")
    buffer.update(draw, np.ones(10))
    _refuses(buffer, draw, ValueError, "used already")
    _refuses(buffer, buffer.sample(10), TypeError, "receipt that sample returned.*got tuple")
    _refuses(buffer, varmix.vrm(varmix.Uniform(20), rng=0).draw(10), ValueError, "another sampler")


def test_a_buffer_is_neither_copied_nor_pickled():
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"other.load_state_dict\(buffer.state_dict\(\)\)"):
            attempt(filled(3))
