"""Cautious plays the uniform component until what was learned pays, and loses nothing on the way."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import varmix
from varmix import Groups, Sampler
from varmix.allocate import Shuffled
from varmix.components import with_uniform
from varmix.learners import BarrierNewton, Cautious, Evidence, Fixed, Learner
from varmix.learners._base import save_state
from varmix.testing import same

K = 3
UNIFORM = np.array([0.0, 0.0, 1.0])
RARE, COMMON = [20.0, 0.0, 1.0], [0.0, 20 / 19, 1.0]  # groups of a twentieth of the points, and of the rest


def uneven(scale=1.0):
    """The rare group carries nearly everything."""
    return Evidence([RARE, COMMON], np.array([4.0, 0.01]) * scale)


def level():
    """As many of either as there are, and all alike."""
    return Evidence([RARE, *[COMMON] * 19], np.ones(20))


def course(learner, rounds):
    states = [learner.init(K)]
    for evidence in rounds:
        states.append(learner.step(states[-1], evidence))
    return states


def random_rounds(seed, count=40):
    rng = np.random.default_rng(seed)
    rounds = []
    for _ in range(count):
        rows = np.where(rng.random(4)[:, None] < 0.3, RARE, COMMON)
        rounds.append(Evidence(rows, rng.gamma(0.3, size=4) * np.where(rows[:, 0] > 0, 3.0, 1.0)))
    return rounds


def test_where_there_is_nothing_to_gain_the_uniform_component_is_played_to_the_bit():
    for state in course(Cautious(), [level()] * 300):
        assert state.mixture.tolist() == UNIFORM.tolist()


def test_where_there_is_much_to_gain_the_learner_is_played():
    states = course(Cautious(window=10), [uneven()] * 100)
    assert states[0].mixture.tolist() == UNIFORM.tolist()
    np.testing.assert_allclose(states[-1].mixture, states[-1].learned.mixture, rtol=1e-12)
    assert states[-1].mixture[0] > 0.5


def test_what_does_not_pay_any_more_is_given_up():
    learner = Cautious(Fixed([0.8, 0.1, 0.1]), window=10)
    *_, paying = course(learner, [uneven()] * 50)
    after = paying
    for _ in range(100):
        after = learner.step(after, level())
    assert paying.mixture.tolist() == pytest.approx([0.8, 0.1, 0.1])
    assert learner.gain(after) < 1.0
    assert after.mixture.tolist() == UNIFORM.tolist()


@given(st.integers(0, 10**6))
def test_the_learner_steps_as_it_would_alone(seed):
    rounds = random_rounds(seed)
    alone, cautious = course(BarrierNewton(), rounds), course(Cautious(), rounds)
    for mine, state in zip(alone, cautious, strict=True):
        assert same(save_state(mine), save_state(state.learned))


@given(st.integers(0, 10**6), st.integers(2, 30))
def test_the_gain_is_that_of_mixtures_that_had_not_seen_the_round(seed, window):
    """The oracle: all rounds at hand, weighted by their age, and filled up to the window with rounds without gain."""
    rounds, learner = random_rounds(seed), Cautious(window=window)
    states = course(learner, rounds)
    weights = (1.0 - 1.0 / window) ** np.arange(len(rounds))[::-1]
    uniform = np.array([evidence.value(UNIFORM) for evidence in rounds])
    cost = np.array([e.value(state.learned.mixture) for e, state in zip(rounds, states, strict=False)])
    scales = [uniform[0]]
    for a in uniform[1:]:
        scales.append(0.9 * scales[-1] + 0.1 * a)
    uniform, cost = uniform / scales, cost / scales
    mean, missing = weights @ uniform / weights.sum(), window - weights.sum()
    expected = (weights @ uniform + missing * mean) / (weights @ cost + missing * mean)
    assert learner.gain(states[-1]) == pytest.approx(expected)


@given(st.integers(0, 10**6))
def test_what_is_played_lies_between_the_uniform_component_and_what_was_learned(seed):
    learner = Cautious(off_below=1.0, on_above=1.3, window=5)
    for state in course(learner, random_rounds(seed)):
        part = learner.part(learner.gain(state))
        np.testing.assert_allclose(state.mixture, (1 - part) * UNIFORM + part * state.learned.mixture, atol=1e-12)
        assert state.mixture[-1] >= learner.gamma


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_losses_does_not_matter(scale):
    plain, scaled = (course(Cautious(window=5), [uneven(s)] * 20)[-1].mixture for s in (1.0, scale))
    assert 0.0 < plain[0] < 1.0
    np.testing.assert_allclose(scaled, plain, rtol=1e-9)


def test_early_rounds_are_not_believed_at_once():
    learner = Cautious(Fixed([0.8, 0.1, 0.1]), window=100)
    states = course(learner, [uneven()] * 200)
    played = [state.mixture[0] > 0 for state in states]
    assert learner.gain(states[-1]) > 5
    assert 5 < played.index(True) < 50


def test_losses_that_were_large_at_first_do_not_outweigh_what_came_after():
    """As in training: for five rounds all points are as bad as can be, and then the rare ones alone."""
    early = [Evidence([RARE, *[COMMON] * 19], np.full(20, 60.0))] * 5
    states = course(Cautious(Fixed([0.5, 0.3, 0.2])), early + [uneven()] * 50)
    assert states[6].mixture.tolist() == UNIFORM.tolist()
    assert states[-1].mixture[0] == pytest.approx(0.5)


def test_rounds_without_any_loss_tell_nothing():
    learner, nothing = Cautious(Fixed([0.8, 0.1, 0.1])), Evidence([COMMON], [0.0])
    for before in ([], [uneven()], [uneven()] * 60):
        heard = course(learner, before)[-1]
        after = heard
        for _ in range(1000):
            after = learner.step(after, nothing)
        assert learner.gain(after) == learner.gain(heard)
        assert after.mixture.tolist() == heard.mixture.tolist()


def test_a_mixture_that_leaves_out_what_was_drawn_is_not_played():
    learner = Cautious(Fixed([1.0, 0.0, 0.0]), window=5)
    for state in course(learner, [uneven()] * 20):
        assert state.mixture.tolist() == UNIFORM.tolist()
        assert np.isfinite(state.cost)


def test_it_needs_rows_where_its_learner_does():
    assert not Cautious().needs_rows
    assert Cautious(varmix.learners.Leader()).needs_rows


def test_the_uniform_component_is_added_where_it_is_missing():
    for family in (Groups([0, 0, 1]), with_uniform(Groups([0, 0, 1]))):
        sampler = Sampler(family, learner=Cautious(Fixed()), rng=0)
        assert sampler.mixture.tolist() == UNIFORM.tolist()


def trained(groups, norms, rounds=200):
    sampler = varmix.vrm(groups, learner=Cautious(), rng=0)
    assert sampler.allocate == Shuffled(groups.space.n)
    draws = []
    for _ in range(rounds):
        draws.append(sampler.draw(10))
        sampler.update(draws[-1], norms[draws[-1].indices])
    return sampler, draws


@pytest.mark.parametrize("resplit", [None, "norms"])
def test_a_cautious_sampler_of_even_points_is_plain_shuffling(resplit):
    """Every point once a pass, without weights, in spite of the feedback."""
    groups = Groups(np.repeat([0, 1, 2], [60, 30, 10]), replacement=False, resplit=resplit)
    sampler, draws = trained(groups, np.random.default_rng(0).uniform(0.9, 1.1, size=100))
    assert sampler.learned_mixture.max() < 0.99  # which is not where the learner is
    assert {weight for draw in draws for weight in draw.weights} == {1.0}
    for first in range(0, 200, 10):
        drawn = np.concatenate([draw.indices for draw in draws[first : first + 10]])
        assert sorted(drawn) == list(range(100))


def test_a_cautious_sampler_of_uneven_points_goes_over_to_the_mixture():
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    sampler, draws = trained(Groups(labels, replacement=False), np.array([1.0, 1.0, 8.0])[labels])
    assert {weight for draw in draws[:5] for weight in draw.weights} == {1.0}
    assert sampler.mixture[2] > 0.4
    np.testing.assert_allclose(sampler.mixture, sampler.learned_mixture, rtol=1e-12)
    values = np.arange(100.0)
    estimate = np.mean([(draw.weights * values[draw.indices]).mean() for draw in draws])
    assert estimate == pytest.approx(values.mean(), rel=0.03)


def test_states_are_refused_where_the_learner_inside_differs(tmp_path):
    def build(gamma):
        return varmix.vrm(Groups([0, 0, 1]), learner=Cautious(BarrierNewton(gamma=gamma)), rng=0)

    varmix.save(tmp_path / "state", build(0.1))
    with pytest.raises(ValueError, match=r"had learner = .*'gamma': 0.1.* this one has .*'gamma': 0.2"):
        varmix.load(tmp_path / "state", build(0.2))


def test_a_learner_of_ones_own_may_be_inside_and_need_not_be_a_dataclass(tmp_path):
    class Mine(Learner):
        gamma, needs_rows = 0.1, False

        def init(self, k):
            return BarrierNewton().init(k)

        def step(self, state, evidence):
            return BarrierNewton().step(state, evidence)

    one, other = (varmix.vrm(Groups([0, 0, 1]), learner=Cautious(Mine()), rng=0) for _ in range(2))
    one.update(one.draw(4), np.ones(4))
    varmix.save(tmp_path / "state", one)
    varmix.load(tmp_path / "state", other)
    assert other.learned_mixture.tolist() == one.learned_mixture.tolist()


def test_a_state_may_have_something_else_under_the_name_of_learned():
    class State(NamedTuple):
        mixture: Any
        learned: int

    class Counts(Fixed):
        def init(self, k):
            return State(np.full(k, 1 / k), 0)

        def step(self, state, evidence):
            return state._replace(learned=state.learned + 1)

    sampler = Sampler(with_uniform(Groups([0, 0, 1])), learner=Counts(), rng=0)
    sampler.update(sampler.draw(4), np.ones(4))
    assert sampler.learned_mixture.tolist() == sampler.mixture.tolist()


def test_a_sampler_tells_what_was_learned_would_gain():
    sampler = varmix.vrm(Groups([0] * 95 + [1] * 5), learner=Cautious(Fixed([0.1, 0.5, 0.4]), on_above=9.0), rng=0)
    gains = []
    for _ in range(200):
        draw = sampler.draw(20)
        sampler.update(draw, np.where(draw.indices < 95, 0.1, 5.0))
        gains.append(sampler.learned_gain)
    assert gains[0] < 2 < 4 < gains[-1]
    assert sampler.learned_mixture.tolist() == [0.1, 0.5, 0.4]
    assert 0.4 < sampler.mixture[-1] < 1.0
    assert gains[-1] > sampler.gain.value  # which counts what was played, from the first draw on


def test_the_learned_gain_of_a_mixture_that_is_always_on_is_that_of_its_draws():
    sampler = varmix.vrm(Groups([0, 1, 1, 1]), rng=0)
    assert sampler.learned_gain == 1.0
    for _ in range(50):
        draw = sampler.draw(8)
        sampler.update(draw, np.where(draw.indices == 0, 3.0, 0.1))
    assert sampler.learned_gain == sampler.gain.value > 1.5


@pytest.mark.parametrize("name", ["uniform", "cost", "scale"])
def test_damaged_sums_do_not_reach_the_mixture(name):
    sampler = varmix.vrm(Groups([0, 0, 1]), learner=Cautious(window=2), rng=0)
    sampler.update(sampler.draw(4), np.ones(4))
    state = sampler.state_dict()
    state["learner"][name] = 1e308
    if name == "scale":  # losses may have been as large as that
        sampler.load_state_dict(state)
    else:
        with pytest.raises(varmix.CheckpointError, match="too large"):
            sampler.load_state_dict(state)
    for _ in range(5):
        sampler.update(sampler.draw(4), np.ones(4))
        assert np.isfinite(sampler.mixture).all()


def test_a_mixture_that_was_not_earned_is_refused():
    sampler = varmix.vrm(Groups([0, 0, 1]), learner=Cautious(), rng=0)
    state = sampler.state_dict()
    state["learner"]["mixture"] = np.array([0.5, 0.4, 0.1])
    with pytest.raises(varmix.CheckpointError, match="does not follow from the saved gain"):
        sampler.load_state_dict(state)


def test_damage_inside_what_was_learned_is_refused():
    sampler = varmix.vrm(Groups([0, 0, 1]), learner=Cautious(), rng=0)
    state = sampler.state_dict()
    state["learner"]["learned"]["mixture"] = np.full(3, 0.7)
    with pytest.raises(ValueError, match="damaged"):
        sampler.load_state_dict(state)
    assert sampler.mixture.tolist() == UNIFORM.tolist()
