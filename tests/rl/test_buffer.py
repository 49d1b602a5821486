import numpy as np
import pytest

import varmix
from support.replay import BOX, DISCRETE, Space, filled, numbered
from varmix.rl import Batch, ReplayBuffer


def test_every_field_of_a_batch_is_of_the_transitions_drawn():
    buffer = filled(100)
    batch, draw = buffer.sample(64)
    assert isinstance(batch, Batch)
    assert (batch.observations == draw.indices[:, None]).all()
    assert (batch.actions == draw.indices).all()
    assert (batch.rewards == draw.indices).all()
    assert (batch.next_observations == draw.indices[:, None] + 1).all()
    assert (batch.terminated == (draw.indices % 10 == 9)).all()
    assert (batch.discounts == np.where(batch.terminated, 0, np.float32(0.99))).all()


def test_a_batch_is_in_the_dtypes_of_its_spaces_and_in_single_precision():
    batch, _ = filled(100).sample(5)
    assert [field.dtype for field in batch] == [np.float32, np.int64, np.float32, np.float32, np.bool_, np.float32]


def test_the_latest_transitions_are_kept():
    buffer = filled(250, capacity=100)
    assert len(buffer) == 100
    batch, draw = buffer.sample(100)
    assert draw.indices.min() >= 150
    assert (batch.actions == draw.indices).all()


def test_a_batch_is_a_copy():
    buffer = filled(10, capacity=10)
    batch, draw = buffer.sample(10)
    for step in range(10, 20):
        buffer.add(*numbered(step), terminated=False)
    assert (batch.actions == draw.indices).all()
    batch.observations[:] = -1.0
    assert (buffer.sample(10)[0].observations >= 10).all()


def test_truncation_ends_an_episode_but_not_its_value():
    buffer = ReplayBuffer(10, BOX, DISCRETE, discount=0.5, rng=0)
    buffer.add(*numbered(0), terminated=False, truncated=True)
    buffer.add(*numbered(1), terminated=True, truncated=True)
    rows = buffer.state_dict()["transitions"]
    assert rows["discount"].tolist() == [0.5, 0.0]
    assert rows["terminated"].tolist() == [False, True]


def _batch(number, first=0):
    steps = np.arange(first, first + number)
    rows = np.repeat(steps[:, None], 4, axis=1).astype(np.float32)
    return rows, steps, steps.astype(float), rows + 1, steps % 10 == 9, np.zeros(number, bool)


def test_environments_add_in_their_order_and_only_where_told():
    buffer = ReplayBuffer(100, BOX, DISCRETE, environments=4, autoreset="disabled", rng=0)
    buffer.add_batch(*_batch(4))
    buffer.add_batch(*_batch(4, first=4), where=[True, False, False, True])
    buffer.add_batch(*_batch(4, first=8), where=np.zeros(4, bool))
    assert buffer.state_dict()["transitions"]["action"].tolist() == [0, 1, 2, 3, 4, 7]


def test_rows_that_do_not_count_may_have_any_reward():
    buffer = ReplayBuffer(100, BOX, DISCRETE, environments=2, autoreset="disabled", rng=0)
    rows, steps, rewards, after, terminated, truncated = _batch(2)
    rewards[1] = np.nan
    buffer.add_batch(rows, steps, rewards, after, terminated, truncated, where=[True, False])
    assert len(buffer) == 1


def test_one_environment_may_add_by_batches_too():
    one, other = filled(30), ReplayBuffer(1000, BOX, DISCRETE, autoreset="disabled", rng=0)
    for step in range(30):
        other.add_batch(*_batch(1, first=step))
    for name, column in one.state_dict()["transitions"].items():
        assert np.array_equal(column, other.state_dict()["transitions"][name]), name
    assert np.array_equal(one.sample(20)[1].indices, other.sample(20)[1].indices)


def test_rewards_and_ends_may_be_numpy_scalars_or_whole_numbers():
    buffer = ReplayBuffer(10, BOX, DISCRETE, rng=0)
    observation, action, _, after = numbered(3)
    for reward in (1, np.float32(1.0), np.float64(1.0), np.int64(1), np.array(1.0), True):
        buffer.add(observation, action, reward, after, np.bool_(False), np.array(True))
    assert buffer.state_dict()["transitions"]["reward"].tolist() == [1.0] * 6


def test_feedback_teaches_priorities_and_mixture():
    buffer = filled(200)
    mixture = buffer.sampler.mixture
    for _ in range(50):
        batch, draw = buffer.sample(64)
        buffer.update(draw, np.where(batch.actions < 5, -10.0, 0.01))
    assert buffer.replay.delta(np.arange(5)) == pytest.approx(np.full(5, 10.0), rel=0.05)
    assert (buffer.sampler.mixture != mixture).all()
    assert (buffer.sample(64)[0].actions < 5).sum() > 8  # uniform draws would bring 1.6 of them


def test_weights_make_means_over_a_batch_unbiased():
    buffer = filled(100)
    for _ in range(20):
        batch, draw = buffer.sample(64)
        buffer.update(draw, batch.rewards / 100)
    estimates = [(draw.weights * batch.rewards).mean() for batch, draw in (buffer.sample(64) for _ in range(400))]
    spread = np.std(estimates) / 20
    assert abs(np.mean(estimates) - 49.5) < 4 * spread
    assert abs(np.mean([buffer.sample(64)[0].rewards.mean() for _ in range(400)]) - 49.5) > 4 * spread


def test_single_precision_and_either_sign_will_do_for_td_errors():
    one, other = filled(100), filled(100)
    errors = np.linspace(-1, 1, 32).astype(np.float32)
    one.update(one.sample(32)[1], errors)
    other.update(other.sample(32)[1], np.abs(errors).astype(float).tolist())
    assert np.array_equal(one.sampler.mixture, other.sampler.mixture)
    assert np.array_equal(one.replay.delta(np.arange(100)), other.replay.delta(np.arange(100)))


def test_td_errors_may_be_a_tensor_without_a_gradient():
    torch = pytest.importorskip("torch")
    buffer = filled(100)
    _, draw = buffer.sample(32)
    errors = torch.linspace(-1, 1, 32, requires_grad=True)
    with pytest.raises(TypeError, match="detach it"):
        buffer.update(draw, errors)
    buffer.update(draw, errors.detach())
    assert buffer.replay.delta(draw.indices[-1:]) == pytest.approx(1.0, rel=0.05)


def test_what_was_overwritten_is_counted_and_still_teaches():
    buffer = filled(10, capacity=10)
    _, draw = buffer.sample(8)
    for step in range(10, 20):
        buffer.add(*numbered(step), terminated=False)
    before = buffer.sampler.mixture
    buffer.update(draw, np.arange(8.0))
    assert buffer.replay.overwritten == 8
    assert (buffer.sampler.mixture != before).any()


def test_settings_learner_and_reweighting_reach_the_sampler():
    learner, power = varmix.learners.BarrierNewton(gamma=0.3), varmix.reweight.Power(0.4)
    buffer = filled(100, settings=[(0.0, 0.6)], learner=learner, reweight=power)
    assert buffer.replay.settings == ((0.0, 0.6),)
    assert buffer.sampler.learner is learner
    assert len(buffer.sampler.mixture) == 2
    for exponent in (0.4, 1.0):
        buffer.sampler.reweight = varmix.reweight.Power(exponent)
        _, draw = buffer.sample(50)
        assert draw.weights == pytest.approx(draw.density**-exponent)
        buffer.update(draw, draw.indices / 100)


def test_equal_seeds_draw_equal_batches():
    for one, other in zip(filled(50, rng=3).sample(20)[0], filled(50, rng=3).sample(20)[0], strict=True):
        assert np.array_equal(one, other)


def test_observations_may_be_anything_finite_or_not():
    buffer = ReplayBuffer(10, Space(shape=(2,), dtype=np.float64), DISCRETE, rng=0)
    buffer.add([np.nan, np.inf], 0, 0.0, [0, 0], terminated=False)
    assert np.isnan(buffer.sample(1)[0].observations[0, 0])


def test_it_tells_its_size():
    buffer = filled(30, capacity=100)
    assert repr(buffer) == "ReplayBuffer(30 of 100, k=10)"
    assert len(buffer) == 30
    assert buffer.nbytes == 101 * (16 + 8 + 16 + 4 + 1 + 4)  # a row more than items: the one that is written next


def _drive(gymnasium, steps, keep_all):
    environments = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3)
    spaces = environments.single_observation_space, environments.single_action_space
    buffer = ReplayBuffer(10_000, *spaces, environments=3, autoreset="disabled", rng=0)  # `where` alone decides
    observations, _ = environments.reset(seed=0)
    environments.action_space.seed(0)
    ended = np.zeros(3, bool)
    counted = 0
    for _ in range(steps):
        actions = environments.action_space.sample()
        after, rewards, terminated, truncated, _ = environments.step(actions)
        where = np.ones(3, bool) if keep_all else ~ended
        buffer.add_batch(observations, actions, rewards, after, terminated, truncated, where=where)
        counted += where.sum()
        observations, ended = after, terminated | truncated
    environments.close()
    assert len(buffer) == counted
    return buffer


def test_vector_environments_of_gymnasium_leave_out_the_steps_that_only_reset():
    gymnasium = pytest.importorskip("gymnasium")
    for keep_all in (False, True):
        batch, draw = _drive(gymnasium, 300, keep_all).sample(256)
        # A cart moves on by its speed: x' = x + 0.02 v.  What a reset gives does not follow from what was before.
        moved = np.abs(batch.next_observations[:, 0] - batch.observations[:, 0] - 0.02 * batch.observations[:, 1])
        assert (moved < 1e-6).all() == (not keep_all)
        assert batch.terminated.any()
    assert draw.weights.shape == (256,)


def test_transitions_are_found_by_their_numbers():
    buffer = filled(70, capacity=50)
    ids = buffer.sampler.draw_all().indices
    assert ids.tolist() == list(range(20, 70))
    assert buffer.transitions(ids).rewards.tolist() == list(range(20, 70))  # the reward of item i was i
    batch, draw = buffer.sample(8)
    for mine, theirs in zip(buffer.transitions(draw.indices), batch, strict=True):
        assert np.array_equal(mine, theirs)
    with pytest.raises(ValueError, match="Item 19 has been overwritten"):
        buffer.transitions([19, 20])
