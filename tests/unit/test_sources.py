import numpy as np
import pytest

import varmix
from support.families import ended
from support.oracles import random_mixture
from varmix import Sampler
from varmix.allocate import independent, round_robin
from varmix.components import Sources, with_uniform
from varmix.learners import BarrierNewton, Fixed, Leader
from varmix.testing import COMPONENT_CHECKS, same

TARGET = np.array([4.0, 1.0, 2.0, 0.5, 2.5])
ENDED = [(), (0,), (3, 1), (4, 0, 2), (1, 2, 3, 4)]


def mixtures(k, seed=0):
    rng = np.random.default_rng(seed)
    return [random_mixture(rng, k, 0.1, on_bounds=on_bounds) for on_bounds in (False, True) for _ in range(5)]


def left(gone):
    """Return the target over the sources that are left."""
    target = np.where(np.isin(np.arange(5), gone), 0.0, TARGET)
    return target / target.sum()


@pytest.mark.parametrize("gone", ENDED)
def test_estimates_are_unbiased_for_the_sources_that_are_left(gone):
    """Sum probability times weight times value over the sources, exactly, for any mixture."""
    values, family = np.random.default_rng(1).normal(size=5), ended(with_uniform(Sources(5, TARGET)), *gone)
    alive = np.flatnonzero(family.alive)
    for w in mixtures(6):
        shares = family.lanes(w)
        weights = 1.0 / (family.ratios(alive) @ w)
        assert (shares[alive] * weights) @ values[alive] == pytest.approx(left(gone) @ values, abs=1e-12)
        assert weights == pytest.approx(left(gone)[alive] / shares[alive])
        assert weights.max() <= 10 * (1 + 1e-12)


@pytest.mark.parametrize("gone", ENDED)
def test_shares_are_own_weights_and_the_targets_part_of_the_rest(gone):
    family = ended(with_uniform(Sources(5, TARGET)), *gone)
    for w in mixtures(6):
        expected = (w[5] + w[list(gone)].sum()) * left(gone)
        expected[family.alive] += w[:5][family.alive]
        assert family.lanes(w) == pytest.approx(expected)
        assert (family.lanes(w)[list(gone)] == 0).all()


@pytest.mark.parametrize("check", COMPONENT_CHECKS, ids=lambda check: check.__name__)
def test_the_last_source_keeps_the_contract(check):
    check(lambda: ended(with_uniform(Sources(3)), 2, 0))


def test_a_component_whose_source_is_gone_is_the_target():
    family = ended(with_uniform(Sources(3, [1, 1, 2])), 1)
    assert family.ratios(np.array([0, 1, 2])).tolist() == [[3, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1.5, 1]]
    assert family.c == 3
    assert repr(family) == "Sources(n=3, k=4)"


def test_sources_have_names_and_a_target_by_name():
    assert Sources(3).names == ("0", "1", "2")
    assert Sources(3).space.target is None
    family = Sources(["b", "a"], {"a": 3, "b": 1})
    assert family.names == ("b", "a")
    assert family.space.target.tolist() == [0.25, 0.75]
    assert Sources(name for name in "xy").names == ("x", "y")


@pytest.mark.parametrize(
    ("names", "target", "error", "message"),
    [
        (0, None, ValueError, "names must be at least 1"),
        ("web", None, TypeError, "names must be one or more names"),
        ([], None, TypeError, "names must be one or more names"),
        (["a", 1], None, TypeError, "names must be one or more names"),
        (2.5, None, TypeError, "names must be one or more names"),
        (["a", "a"], None, ValueError, "names of sources must be distinct"),
        (["a", "b"], {"a": 1}, ValueError, "a share for every source"),
        (["a", "b"], {"a": 1, "b": "much"}, TypeError, "target\\['b'\\] must be a number"),
        (["a", "b"], [1, 0], ValueError, "'b' has none"),
        (["a", "b"], [1, -1], ValueError, "non-negative"),
        (["a", "b"], [1, 1, 1], ValueError, "shape"),
    ],
)
def test_other_names_and_targets_are_refused(names, target, error, message):
    with pytest.raises(error, match=message):
        Sources(names, target)


def test_what_cannot_be_dropped_is_refused_and_nothing_changes():
    family = ended(Sources(["a", "b", "c"]), 1)
    before = family.state_dict()
    for source, error, message in (
        (1, ValueError, "'b' was dropped already"),
        (3, ValueError, "source must lie in 0..2"),
        (-1, ValueError, "source must lie in 0..2"),
        (0.5, TypeError, "source must be whole numbers"),
    ):
        with pytest.raises(error, match=message):
            family.drop(source)
        assert same(family.state_dict(), before)
    family.drop(0)
    with pytest.raises(ValueError, match="'c' is the last one"):
        family.drop(2)
    assert family.alive.tolist() == [False, False, True]


def test_what_is_dropped_is_dropped_in_the_sampler_too():
    sources = Sources(3)
    sampler = varmix.vrm(sources, rng=0)
    sources.drop(0)
    assert sampler.components.lanes(sampler.mixture).tolist()[0] == 0
    assert 0 not in sampler.draw(1000).indices
    assert sampler.draw_all().indices.tolist() == [1, 2]


def test_sources_are_mixed_with_no_other_family():
    for families in ((Sources(3), varmix.Uniform(3)), (varmix.Groups([0, 1, 2]), Sources(3))):
        with pytest.raises(TypeError, match="cannot be mixed with other families"):
            varmix.vrm(*families)


def test_loading_brings_back_who_is_left_and_refuses_other_sources():
    saved = ended(with_uniform(Sources(list("abc"), [1, 2, 3])), 1).state_dict()
    family = with_uniform(Sources(list("abc"), [1, 2, 3]))
    family.load_state_dict(saved)
    assert same(family.state_dict(), saved)
    assert family.space.target.tolist() == [0.25, 0, 0.75]
    for other in (Sources(list("acb"), [1, 2, 3]), Sources(list("abc")), Sources(list("abc"), [3, 2, 1]), Sources(2)):
        extended = with_uniform(other)
        before = extended.state_dict()
        with pytest.raises(ValueError, match="The saved sources are other sources"):
            extended.load_state_dict(saved)
        assert same(extended.state_dict(), before)
    for alive, message in (
        (np.zeros(3, dtype=bool), "None of the saved sources is left"),
        (np.ones(3), "alive must be an array of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            family.load_state_dict(saved | {"alive": alive})
        assert same(family.state_dict(), saved)
    family.load_state_dict(with_uniform(Sources(list("abc"), [1, 2, 3])).state_dict())  # back to when all were there
    assert family.alive.all()


@pytest.mark.parametrize("learner", [BarrierNewton(window=100), Leader(window=50)], ids=["barrier newton", "leader"])
@pytest.mark.parametrize("allocate", [round_robin, independent], ids=repr)
def test_a_loud_source_is_drawn_more_often_also_after_another_has_ended(learner, allocate):
    sources = Sources(["a", "b", "c"], [0.6, 0.2, 0.2])
    sampler = varmix.vrm(sources, learner=learner, allocate=allocate, rng=0)
    for _ in range(400):
        draw = sampler.draw(16)
        sampler.update(draw, np.array([0.1, 5.0, 0.1])[draw.indices])
    assert sources.lanes(sampler.mixture)[1] > 0.6
    sources.drop(1)
    for _ in range(400):
        draw = sampler.draw(16)
        assert 1 not in draw.indices
        sampler.update(draw, np.array([0.1, 0.0, 2.0])[draw.indices])
    shares = sources.lanes(sampler.mixture)
    assert shares[1] == 0
    assert shares[2] > 0.5  # of a target of a quarter


def _estimates(weighted, rounds=2000, m=10):
    """Return by how many standard errors the mean of a stream is off, before and after a source ended."""
    sources, rng = Sources(["a", "b", "c"], [0.5, 0.2, 0.3]), np.random.default_rng(3)
    sampler = varmix.vrm(sources, allocate=independent, rng=4)
    means, spread = np.array([1.0, -2.0, 4.0]), np.array([0.1, 0.3, 3.0])
    for wanted in (np.array([0.5, 0.2, 0.3]), np.array([0.0, 0.4, 0.6])):
        estimates = np.empty(rounds)
        for i in range(rounds):
            draw = sampler.draw(m)
            values = means[draw.indices] + spread[draw.indices] * rng.normal(size=m)
            estimates[i] = ((draw.weights if weighted else 1.0) * values).mean()
            sampler.update(draw, np.abs(values))
        yield abs(estimates.mean() - wanted @ means) / (estimates.std() / np.sqrt(rounds))
        sources.drop(0) if sources.alive.all() else None


def test_the_weighted_mean_of_a_stream_is_that_of_the_target():
    assert max(_estimates(weighted=True)) < 3.9


def test_the_plain_mean_of_a_stream_is_not():
    assert min(_estimates(weighted=False)) > 10


def test_fixed_proportions_at_the_target_weigh_nothing():
    sampler = Sampler(with_uniform(Sources(3, [1, 2, 3])), learner=Fixed([0, 0, 0, 1.0]), rng=0, allocate=round_robin)
    draw = sampler.draw(60)
    assert draw.weights == pytest.approx(1.0)
    assert np.bincount(draw.indices).tolist() == [10, 20, 30]
