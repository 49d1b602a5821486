"""Vector environments reset by themselves: no row of a buffer joins two episodes, whichever way they do it."""

from types import SimpleNamespace

import numpy as np
import pytest

import varmix
from support.replay import BOX, DISCRETE, filled, numbered, stays
from varmix.rl import ReplayBuffer

MODES = "next_step", "same_step", "disabled"


@pytest.fixture
def gymnasium():
    return pytest.importorskip("gymnasium")


def counters(gymnasium, mode, number=3, nested=False):
    """Make vector environments whose observations are (environment, episode, step); episodes last 2 to 6 steps."""
    box = gymnasium.spaces.Box(-100, 1e6, (3,), np.float64)

    class Counter(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict({"place": box, "step": box}) if nested else box
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, name):
            self.place = np.array([name, -1.0, 0.0])
            self.rng = np.random.default_rng(name)

        def _seen(self):
            return {"place": self.place.copy(), "step": self.place.copy()} if nested else self.place.copy()

        def reset(self, *, seed=None, options=None):
            self.place += [0, 1, -self.place[2]]
            self.last = self.rng.integers(2, 7)
            return self._seen(), {}

        def step(self, action):
            self.place[2] += 1
            over = bool(self.place[2] == self.last)
            cut = bool(self.place[1] % 2)
            return self._seen(), float(self.place[2]), over and not cut, over and cut, {}

    makers = [lambda name=name: Counter(name) for name in range(number)]
    modes = {"next_step": "NextStep", "same_step": "SameStep", "disabled": "Disabled"}
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode(modes[mode]))


def drive(envs, buffer, steps=200, where=None):
    """Play and add every step as it comes, and count the steps that were no reset."""
    observations, _ = envs.reset()
    ended, real = np.zeros(envs.num_envs, bool), 0
    resets = envs.metadata["autoreset_mode"].name == "NEXT_STEP"
    for _ in range(steps):
        actions = np.zeros(envs.num_envs, np.int64)
        after, rewards, terminated, truncated, infos = envs.step(actions)
        finals = infos.get("final_obs")
        said = None if where is None else where(ended)
        real += (~ended).sum() if resets else envs.num_envs
        buffer.add_batch(observations, actions, rewards, after, terminated, truncated, said, final_observations=finals)
        ended = terminated | truncated
        if envs.metadata["autoreset_mode"].name == "DISABLED" and ended.any():
            after, _ = envs.reset(options={"reset_mask": ended})
        observations = after
    return real


def made(envs, **settings):
    return ReplayBuffer(5000, envs.single_observation_space, envs.single_action_space, envs=envs, rng=0, **settings)


def everything(buffer):
    return buffer.transitions(buffer.replay.space.atoms)


def joined(before, after, n_steps):
    """Say which rows lead from one episode into another, or over more steps than there can be."""
    steps = after[:, 2] - before[:, 2]
    return (before[:, :2] != after[:, :2]).any(axis=1) | (steps < 1) | (steps > n_steps)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_no_row_joins_two_episodes_and_none_is_lost(gymnasium, mode, n_steps):
    envs = counters(gymnasium, mode)
    buffer = made(envs, n_steps=n_steps)
    real = drive(envs, buffer)
    batch = everything(buffer)
    assert not joined(batch.observations, batch.next_observations, n_steps).any()
    waiting = buffer.state_dict()["pending"]["count"].sum() if n_steps > 1 else 0
    assert len(buffer) + waiting == real
    assert batch.terminated.any()


def test_rows_of_a_mode_that_is_not_theirs_would_join_episodes(gymnasium):
    for mode, share in (("next_step", 0.15), ("same_step", 0.15)):
        envs = counters(gymnasium, mode)
        wrong = ReplayBuffer(5000, envs.single_observation_space, DISCRETE, environments=3, autoreset="disabled")
        observations, _ = envs.reset()
        for _ in range(200):
            after, *said, _ = envs.step(np.zeros(3, np.int64))
            wrong.add_batch(observations, np.zeros(3, np.int64), said[0], after, *said[1:])
            observations = after
        batch = everything(wrong)
        assert joined(batch.observations, batch.next_observations, 1).mean() > share


@pytest.mark.parametrize("mode", MODES)
def test_nested_observations_end_with_their_own_episode_too(gymnasium, mode):
    envs = counters(gymnasium, mode, nested=True)
    buffer = made(envs)
    drive(envs, buffer)
    batch = everything(buffer)
    for part in ("place", "step"):
        assert not joined(batch.observations[part], batch.next_observations[part], 1).any()


@pytest.mark.parametrize("vectorization", ["sync", "vector_entry_point"])
def test_carts_of_gymnasium_move_by_their_speed_in_every_row(gymnasium, vectorization):
    envs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode=vectorization)
    buffer = made(envs)
    observations, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(300):
        actions = envs.action_space.sample()
        after, rewards, terminated, truncated, _ = envs.step(actions)
        buffer.add_batch(observations, actions, rewards, after, terminated, truncated)
        observations = after
    envs.close()
    batch = everything(buffer)
    moved = batch.next_observations[:, 0] - batch.observations[:, 0] - 0.02 * batch.observations[:, 1]
    assert np.abs(moved).max() < 1e-6
    assert batch.terminated.sum() > 10
    assert len(buffer) < 900


def test_where_may_leave_out_more_rows_and_cannot_bring_resets_back(gymnasium):
    for where in (lambda ended: ~ended, lambda ended: np.ones(3, bool)):
        envs = counters(gymnasium, "next_step")
        buffer = made(envs)
        assert drive(envs, buffer, where=where) == len(buffer)
    envs = counters(gymnasium, "next_step")
    buffer = made(envs)
    drive(envs, buffer, where=lambda ended: np.array([True, False, True]))
    batch = everything(buffer)
    assert set(batch.observations[:, 0].tolist()) == {0.0, 2.0}
    assert not joined(batch.observations, batch.next_observations, 1).any()


def step_of(step, ends=(False, False)):
    rows = np.full((2, 4), step, np.float32)
    return rows, np.full(2, step), np.full(2, float(step)), rows + 1, np.array(ends), np.zeros(2, bool)


def pair(mode="next_step", **settings):
    return ReplayBuffer(20, BOX, DISCRETE, environments=2, autoreset=mode, rng=0, **settings)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_loaded_buffer_still_knows_which_environments_reset_next(n_steps, tmp_path):
    buffer = pair(n_steps=n_steps)
    buffer.add_batch(*step_of(0))
    buffer.add_batch(*step_of(1, ends=(True, False)))
    varmix.save(tmp_path / "buffer.varmix", buffer)
    again = varmix.load(tmp_path / "buffer.varmix", pair(n_steps=n_steps))
    for one in (buffer, again):
        one.add_batch(*step_of(2))
        one.add_batch(*step_of(3, ends=(True, True)))
    assert stays(again, buffer.state_dict())
    assert sorted(everything(again).actions.tolist()) == [0, 0, 1, 1, 2, 3, 3]


def test_a_state_says_how_environments_reset_and_another_buffer_refuses_it():
    state = pair().state_dict()
    with pytest.raises(varmix.CheckpointError, match="autoreset = next_step, this one has disabled"):
        pair("disabled").load_state_dict(state)
    for ended in (np.zeros(3, bool), np.zeros(2), np.array([2, 0], np.uint8).view(bool), None):
        with pytest.raises(varmix.CheckpointError, match="ended"):
            pair().load_state_dict(state | {"ended": ended})


@pytest.mark.parametrize("environments", [1, 2])
def test_a_batch_is_refused_while_it_is_not_known_how_its_environments_reset(environments):
    buffer = ReplayBuffer(20, BOX, DISCRETE, environments=environments, rng=0)
    before = buffer.state_dict()
    with pytest.raises(ValueError, match=r"does not know how .* reset.*envs=envs.*'next_step'"):
        buffer.add_batch(*(field[:environments] for field in step_of(0)))
    assert stays(buffer, before)


def test_one_environment_that_adds_step_by_step_need_not_say():
    assert len(filled(20)) == 20


def test_one_environment_that_resets_in_the_next_step_adds_no_resets_either():
    buffer = ReplayBuffer(20, BOX, DISCRETE, autoreset="next_step", rng=0)
    for step in range(8):
        buffer.add(*numbered(step), terminated=step == 2, truncated=step == 5)
    assert everything(buffer).actions.tolist() == [0, 1, 2, 4, 5, 7]


FINALS = {
    "none": (None, r"environment 1 ended.*infos\['final_obs'\]"),
    "none of the one that ended": (
        np.array([np.ones(4, np.float32), None], object),
        r"final_observations\[1\] is None",
    ),
    "too many": (np.array([None] * 3, object), r"one per environment, \(2,\), got \(3,\)"),
    "of another shape": (np.array([None, np.ones(3, np.float32)], object), "final_observation must have shape"),
    "a batch of another shape": (np.ones((3, 4), np.float32), "final_observation must have shape"),
}


@pytest.mark.parametrize("name", FINALS)
def test_an_end_without_its_final_observation_is_refused_and_nothing_is_added(name):
    finals, says = FINALS[name]
    buffer = pair("same_step")
    buffer.add_batch(*step_of(0))
    before = buffer.state_dict()
    with pytest.raises(ValueError, match=says):
        buffer.add_batch(*step_of(1, ends=(False, True)), final_observations=finals)
    assert stays(buffer, before)


def test_final_observations_may_be_a_batch_and_the_caller_keeps_its_arrays():
    buffer, step = pair("same_step"), step_of(1, ends=(False, True))
    buffer.add_batch(*step, final_observations=np.full((2, 4), 50, np.float32))
    assert everything(buffer).next_observations[:, 0].tolist() == [2.0, 50.0]
    assert step[3][:, 0].tolist() == [2.0, 2.0]


def test_final_observations_are_not_needed_of_rows_that_do_not_count():
    buffer = pair("same_step")
    buffer.add_batch(*step_of(1, ends=(False, True)), where=[True, False])
    assert len(buffer) == 1


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_final_observations_are_refused_where_there_are_none(mode):
    with pytest.raises(ValueError, match="belong to autoreset='same_step'"):
        pair(mode).add_batch(*step_of(0), final_observations=np.zeros((2, 4), np.float32))


def test_one_environment_that_resets_in_the_same_step_is_sent_to_batches():
    buffer = ReplayBuffer(20, BOX, DISCRETE, autoreset="same_step", rng=0)
    buffer.add(*numbered(0), terminated=False)
    with pytest.raises(ValueError, match="use add_batch, which takes final observations"):
        buffer.add(*numbered(1), terminated=True)
    assert len(buffer) == 1


def environment(mode=None, number=2):
    return SimpleNamespace(num_envs=number, metadata={} if mode is None else {"autoreset_mode": mode})


UNKNOWN = {
    "a mode that is none": ({"autoreset": "later"}, ValueError, "autoreset must be 'next_step', .* got 'later'"),
    "a mode by number": ({"autoreset": 1}, ValueError, "autoreset must be"),
    "environments that do not say": ({"envs": environment()}, ValueError, "does not say how it resets.*autoreset="),
    "environments that say something else": ({"envs": environment("later")}, ValueError, "does not say .*'later'"),
    "environments that say otherwise": (
        {"envs": environment("NextStep"), "autoreset": "same_step"},
        ValueError,
        "autoreset = 'same_step', but envs resets by 'next_step'",
    ),
    "another number of environments": (
        {"envs": environment("NextStep"), "environments": 3},
        ValueError,
        "environments = 3, but envs has 2",
    ),
    "a single environment": ({"envs": SimpleNamespace(metadata={})}, TypeError, "vector environment.*use add"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_known_of_environments_is_an_error(name):
    arguments, error, says = UNKNOWN[name]
    with pytest.raises(error, match=says):
        ReplayBuffer(20, BOX, DISCRETE, **arguments)


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_and_the_number_are_those_of_the_environments(gymnasium, mode):
    envs = counters(gymnasium, mode)
    settings = made(envs).state_dict()["settings"]
    assert (settings["autoreset"], settings["environments"]) == (mode, 3)
    told = ReplayBuffer(20, BOX, DISCRETE, autoreset=envs.metadata["autoreset_mode"]).state_dict()["settings"]
    assert told["autoreset"] == mode


def test_environments_that_do_not_say_may_be_told_of():
    buffer = ReplayBuffer(20, BOX, DISCRETE, envs=environment(), autoreset="next_step", rng=0)
    assert buffer.state_dict()["settings"]["autoreset"] == "next_step"
