"""Section 6.3: the agent against plain computations, and its runs for a few episodes."""

import json

import numpy as np
import pytest

from lab.experiments import cartpole
from lab.experiments.cartpole.comparison import MIN_SEEDS
from lab.experiments.cartpole.mixture import EARLY_EPISODES, MOMENT_TO_EPISODE
from lab.experiments.cartpole.protocol import AGAIN, ARMS, COMPONENTS, EVEN, SINGLES, UNIFORM, VRM, plan, run
from varmix._core.evidence import Evidence
from varmix.hindsight import best_mixture
from varmix.rl import Batch, ReplayBuffer

gymnasium, torch = pytest.importorskip("gymnasium"), pytest.importorskip("torch")

from lab.experiments.cartpole.dqn import Agent, Network, Settings  # noqa: E402 - they import torch
from lab.experiments.cartpole.training import measure_costs  # noqa: E402 - they import torch

TIMES = ("seconds", "buffer_seconds")


def transitions_of(count, rng):
    """Random transitions, every fourth of them the last of its episode."""
    ended = np.arange(count) % 4 == 3
    return Batch(
        rng.normal(size=(count, 4)).astype(np.float32),
        rng.integers(2, size=count),
        rng.normal(size=count).astype(np.float32),
        rng.normal(size=(count, 4)).astype(np.float32),
        ended,
        np.where(ended, 0.0, 0.9).astype(np.float32),
    )


def agent(**settings):
    made = Agent(4, 2, Settings(hidden=(8, 8), **settings), np.random.default_rng(0))
    made.slow.flat += torch.linspace(-0.1, 0.1, len(made.slow.flat))  # as after some steps
    return made


def outputs(network, x, flat=None):
    """The network in double precision, parameter by parameter from a vector: matrices and biases in turn."""
    flat, place = np.asarray(network.flat if flat is None else flat, dtype=float), 0
    for number, (ins, outs) in enumerate(zip(network.sizes[:-1], network.sizes[1:], strict=True)):
        W = flat[place : place + ins * outs].reshape(ins, outs)
        b = flat[place + ins * outs : place + ins * outs + outs]
        x = (np.maximum(x, 0.0) if number else np.asarray(x, dtype=float)) @ W + b
        place += (ins + 1) * outs
    assert place == len(flat)
    return x


def goals(agent, batch):
    """Row by row: double targets, and nothing to come where an episode has ended."""
    found = []
    for reward, discount, after in zip(batch.rewards, batch.discounts, batch.next_observations, strict=True):
        best = int(np.argmax(outputs(agent.online, after)))
        found.append(float(reward) + float(discount) * outputs(agent.slow, after)[best])
    return np.array(found)


def loss(agent, batch, weights, flat=None):
    """The mean of weight times squared error, the targets held fixed."""
    values = outputs(agent.online, batch.observations, flat)[np.arange(len(weights)), batch.actions]
    return np.mean(weights * (values - goals(agent, batch)) ** 2)


def test_errors_are_those_of_double_targets():
    mine, batch = agent(), transitions_of(40, np.random.default_rng(1))
    expected = outputs(mine.online, batch.observations)[np.arange(40), batch.actions] - goals(mine, batch)
    before = mine.online.flat.clone()
    np.testing.assert_allclose(mine.errors(batch), expected, atol=1e-5)
    np.testing.assert_array_equal(mine.online.flat, before)
    np.testing.assert_allclose(mine.learn(batch, np.ones(40)), expected, atol=1e-5)
    assert (mine.online.flat != before).any()


def test_double_targets_are_not_the_largest_values():
    """A negative control: with the slow network's own maximum the errors would be others."""
    mine, batch = agent(), transitions_of(40, np.random.default_rng(1))
    greedy = batch.rewards + batch.discounts * outputs(mine.slow, batch.next_observations).max(1)
    values = outputs(mine.online, batch.observations)[np.arange(40), batch.actions]
    assert np.abs(values - greedy - mine.errors(batch)).max() > 1e-3


def test_the_gradient_is_that_of_the_mean_of_weight_times_squared_error():
    mine, rng = agent(clip=1e9, step=0.0, soft=0.0), np.random.default_rng(1)
    batch, weights = transitions_of(40, rng), rng.uniform(0.1, 3.0, 40)
    mine.learn(batch, weights)
    flat = mine.online.flat.numpy().astype(float)
    steps = 1e-6 * np.eye(len(flat))
    differences = [loss(mine, batch, weights, flat + e) - loss(mine, batch, weights, flat - e) for e in steps]
    np.testing.assert_allclose(mine.online.flat.grad, np.array(differences) / 2e-6, atol=1e-4)
    assert mine.online.flat.grad.abs().max() > 0.1


def test_a_gradient_does_not_add_to_the_one_before():
    mine, batch = agent(step=0.0, soft=0.0), transitions_of(16, np.random.default_rng(1))
    mine.learn(batch, np.ones(16))
    once = mine.online.flat.grad.clone()
    mine.learn(transitions_of(16, np.random.default_rng(2)), np.ones(16))
    assert (mine.online.flat.grad != once).any()
    mine.learn(batch, np.ones(16))
    np.testing.assert_array_equal(mine.online.flat.grad, once)


@pytest.mark.parametrize(("clip", "shortened"), [(0.01, True), (1e6, False)])
def test_a_long_gradient_is_shortened_and_keeps_its_direction(clip, shortened):
    mine, free, batch = agent(clip=clip), agent(clip=1e9), transitions_of(16, np.random.default_rng(1))
    mine.learn(batch, np.ones(16))
    free.learn(batch, np.ones(16))
    length = np.linalg.norm(free.online.flat.grad)
    assert length > 0.01
    factor = 0.01 / length if shortened else 1.0
    np.testing.assert_allclose(mine.online.flat.grad, factor * free.online.flat.grad, rtol=1e-5)


def test_the_slow_network_follows_softly():
    mine = agent(soft=0.25)
    before = mine.slow.flat.clone()
    mine.learn(transitions_of(16, np.random.default_rng(1)), np.ones(16))
    np.testing.assert_allclose(mine.slow.flat, 0.75 * before + 0.25 * mine.online.flat, atol=1e-6)


def test_parameters_are_views_of_one_vector():
    network = Network([4, 8, 3], np.random.default_rng(0))
    network.flat[:] = 0.0
    network.flat[-3:] = torch.tensor([1.0, 2.0, 3.0])  # the last biases
    assert network(torch.ones(5, 4)).tolist() == [[1.0, 2.0, 3.0]] * 5
    assert network.plain(np.ones(4, np.float32)).tolist() == [1.0, 2.0, 3.0]
    assert len(network.flat) == sum(W.numel() + b.numel() for W, b in network.layers) == 4 * 8 + 8 + 8 * 3 + 3


def test_numpy_and_pytorch_read_the_same_parameters():
    network, x = Network([4, 16, 3], np.random.default_rng(0)), np.random.default_rng(1).normal(size=(32, 4))
    x = x.astype(np.float32)
    np.testing.assert_allclose(network.plain(x), network(torch.from_numpy(x)).detach(), atol=1e-6)
    network.flat.mul_(2.0)
    np.testing.assert_allclose(network.plain(x), network(torch.from_numpy(x)).detach(), atol=1e-5)


def test_a_step_moves_every_parameter_by_adams_first_step():
    mine, batch = agent(step=0.01, clip=1e9), transitions_of(40, np.random.default_rng(1))
    before = mine.online.flat.clone()
    mine.learn(batch, np.ones(40))
    moved = mine.online.flat.grad.abs() > 1e-4
    expected = -0.01 * torch.sign(mine.online.flat.grad[moved])
    np.testing.assert_allclose((mine.online.flat - before)[moved], expected, rtol=1e-3)
    assert moved.sum() > 50


def test_first_values_are_within_one_over_the_root_of_the_inputs():
    network = Network([4, 64, 64, 2], np.random.default_rng(0))
    for (W, b), ins in zip(network.layers, (4, 64, 64), strict=True):
        values = np.append(W.detach(), b.detach())
        assert 0.9 / np.sqrt(ins) < np.abs(values).max() <= 1 / np.sqrt(ins)


def test_a_copy_has_memory_of_its_own():
    network = Network([4, 8, 3], np.random.default_rng(0))
    twin = network.copy()
    np.testing.assert_array_equal(twin.flat, network.flat)
    twin.flat[:] = 0.0
    assert network.flat.any()
    assert not twin.plain(np.ones(4, np.float32)).any()


def test_the_action_is_the_one_that_the_network_values_most():
    mine, rows = agent(), np.random.default_rng(3).normal(size=(200, 4)).astype(np.float32)
    expected = outputs(mine.online, rows).argmax(1)
    assert [mine.act(row) for row in rows] == expected.tolist()
    assert len(set(expected.tolist())) == 2


def test_random_actions_become_rare_and_never_vanish():
    settings = Settings(half_life=100.0, least_chance=0.02)
    assert [settings.chance(steps) for steps in (0, 100, 200)] == [1.0, 0.5, 0.25]
    assert settings.chance(10**9) == 0.02


def small_buffer(capacity=50, items=70):
    """A buffer that has wrapped, after some feedback."""
    space = gymnasium.make("CartPole-v1")
    buffer = ReplayBuffer(capacity, space.observation_space, space.action_space, rng=0)
    rng = np.random.default_rng(5)
    for i in range(items):
        row = rng.normal(size=(2, 4)).astype(np.float32)
        buffer.add(row[0], i % 2, float(i), row[1], i % 7 == 0)
    for _ in range(5):
        _, draw = buffer.sample(16)
        buffer.update(draw, rng.lognormal(sigma=2.0, size=16))
    return buffer


def test_costs_are_those_of_an_enumeration():
    buffer, mine = small_buffer(), agent()
    found = measure_costs(mine, buffer)
    ids = np.arange(20, 70)
    delta, n = buffer.replay.delta(ids), 50
    laws = [(delta + epsilon) ** alpha for epsilon, alpha in buffer.replay.settings] + [np.ones(n)]
    p = np.stack([law / law.sum() for law in laws], axis=1)
    norms = np.abs(mine.errors(buffer.transitions(ids)))
    # E[ (l / (n p))^2 ] under p, item by item: what the estimate of the mean of l has for its second moment
    expected = [sum(p[i, j] * (norms[i] / (n * p[i, j])) ** 2 for i in range(n)) for j in range(10)]
    assert found.components == pytest.approx(expected)
    mixed = p @ buffer.sampler.mixture
    assert found.mixture == pytest.approx(sum(mixed * (norms / (n * mixed)) ** 2))
    assert found.best == pytest.approx(best_mixture(Evidence(n * p, norms**2)).cost, rel=2e-3)
    assert found.components[-1] == pytest.approx(np.mean(norms**2))
    assert found.ideal == pytest.approx(norms.mean() ** 2)
    assert found.ideal <= found.best <= min(*found.components, found.mixture) * 1.002


def test_looking_at_costs_changes_nothing_that_is_drawn_later():
    looked, left = small_buffer(), small_buffer()
    measure_costs(agent(), looked)
    np.testing.assert_array_equal(looked.sample(16)[1].indices, left.sample(16)[1].indices)


def test_every_arm_runs_on_every_seed_and_quick_is_two_arms_in_short():
    full, quick = plan("full"), plan("quick")
    assert len(full) == 50 * 13
    assert {config["episodes"] for config in full} == {200}
    assert {config["seed"] for config in full} == set(range(50))
    assert [(config["arm"], config["seed"]) for config in quick] == [
        (arm, seed) for seed in range(MIN_SEEDS) for arm in (UNIFORM, VRM)
    ]
    assert EARLY_EPISODES <= quick[0]["episodes"] < MOMENT_TO_EPISODE  # who leads early is seen, and nothing else
    assert all(cartpole.EXPERIMENT.seconds(config) > 0 for config in full + quick)


def test_the_arms_are_single_settings_mixtures_and_uniform_twice():
    assert len(SINGLES) == 9
    assert len(ARMS) == 13
    for arm in ARMS.values():
        buffer = ReplayBuffer(64, *_spaces(), settings=arm.settings, learner=arm.learner, rng=0)
        assert buffer.sampler.mixture.shape == (len(arm.settings) + 1,)
    assert ARMS[UNIFORM].learner == ARMS[AGAIN].learner
    assert ARMS[UNIFORM].stream != ARMS[AGAIN].stream
    assert [arm for arm in ARMS if ARMS[arm].looked] == [EVEN, VRM]


def _spaces():
    environment = gymnasium.make("CartPole-v1")
    return environment.observation_space, environment.action_space


@pytest.mark.parametrize("arm", ["epsilon 0.1, alpha 0.5", UNIFORM])
def test_single_arms_draw_by_their_own_law_alone(arm):
    buffer = ReplayBuffer(64, *_spaces(), settings=ARMS[arm].settings, learner=ARMS[arm].learner, rng=0)
    for _ in range(64):
        buffer.add(np.zeros(4, np.float32), 0, 1.0, np.zeros(4, np.float32), False)
    delta = np.linspace(0.0, 5.0, 64)
    buffer.replay.set_delta(np.arange(64), delta)
    law = np.ones(64) if arm == UNIFORM else (buffer.replay.delta(np.arange(64)) + 0.1) ** 0.5
    _, draw = buffer.sample(32)
    np.testing.assert_allclose(draw.weights, 1 / (64 * law / law.sum())[draw.indices])


def without_times(result):
    return {name: value for name, value in result.items() if name not in TIMES}


@pytest.mark.parametrize("arm", [UNIFORM, VRM])
def test_a_run_follows_from_its_seed_bit_for_bit(arm):
    config = {"arm": arm, "seed": 7, "episodes": 8}
    once, twice = run(config), run(config)
    assert without_times(once) == without_times(twice)
    assert once["steps"] > Settings().warm_up
    assert without_times(run(config | {"seed": 8})) != without_times(once)
    json.dumps(once, allow_nan=False)


def test_no_global_random_numbers_are_used():
    np.random.seed(0)  # noqa: NPY002
    before, theirs = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    run({"arm": UNIFORM, "seed": 0, "episodes": 5})
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.testing.assert_array_equal(theirs, torch.random.get_rng_state())


def test_uniform_again_has_other_random_numbers():
    config = {"arm": UNIFORM, "seed": 7, "episodes": 6}
    assert run(config)["rewards"] != run(config | {"arm": AGAIN})["rewards"]


def test_a_run_tells_rewards_mixtures_and_costs():
    result = run({"arm": VRM, "seed": 1, "episodes": 10})
    assert len(result["rewards"]) == 10
    assert result["steps"] == sum(result["rewards"])
    assert np.array(result["mixtures"]).shape == (10, len(COMPONENTS))
    assert result["looks"] == [5, 10]
    assert np.array(result["components"]).shape == (2, len(COMPONENTS))
    assert result["mixtures"][-1] != result["mixtures"][0]
    assert 0 < result["buffer_seconds"] < result["seconds"]
    assert all(low <= best * 1.002 for low, best in zip(result["ideal"], result["best"], strict=True))
    assert "mixtures" not in run({"arm": UNIFORM, "seed": 1, "episodes": 1})
