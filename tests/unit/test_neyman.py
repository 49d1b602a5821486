"""Neyman: prior knowledge, and groups that are parts of larger groups."""

import numpy as np
import pytest

import varmix
from varmix import Groups
from varmix.learners import Evidence, Neyman

MASSES = np.array([0.2, 0.3, 0.5])


def evidence(group, norm, count=1):
    ratios = np.tile(np.append(np.eye(3)[group] / MASSES, 1.0), (count, 1))
    return Evidence(ratios, np.full(count, norm**2))


def test_a_prior_counts_as_a_window_of_draws():
    told = Neyman(MASSES, window=50, prior=[4.0, 1.0, 9.0])
    heard, state = Neyman(MASSES, window=50), Neyman(MASSES, window=50).init(4)
    for group, norm in enumerate((2.0, 1.0, 3.0)):
        state = heard.step(state, evidence(group, norm, 2000))
    np.testing.assert_allclose(told.init(4).mixture, state.mixture, rtol=1e-12)
    again = evidence(1, 5.0, 10)
    np.testing.assert_allclose(told.step(told.init(4), again).mixture, heard.step(state, again).mixture, rtol=1e-10)


def test_no_part_is_drawn_less_than_half_as_often_as_its_parent_asks_for():
    learner, alone = Neyman(MASSES, parents=[7, 7, 1], gamma=0.1), Neyman(MASSES, gamma=0.1)
    states = [learner.init(4), alone.init(4)]
    for group, norm in ((0, 0.0), (1, 3.0), (2, 1.0)):
        states = [one.step(state, evidence(group, norm)) for one, state in zip((learner, alone), states, strict=True)]
    assert states[1].mixture[0] == 0.0
    parent = np.sqrt(0.3 * 9 / 0.5)
    assert states[0].mixture[0] == pytest.approx(0.9 * 0.5 * 0.2 * parent / (0.5 * parent + 0.5))


def test_receipts_say_their_groups_and_evidence_finds_them():
    groups = Groups(np.repeat([0, 1, 2], [2, 3, 5]))
    sampler = varmix.vrm(groups, learner=Neyman(groups), rng=0)
    draw = sampler.draw(40)
    norms = 1.0 + draw.groups
    state, other = sampler.learner.init(4), sampler.learner.init(4)
    given = Evidence.from_draw(draw, norms)
    found = Evidence(draw.ratios, norms**2 / draw.density, draw.density)
    assert found.groups is None
    np.testing.assert_allclose(
        sampler.learner.step(state, given).mixture, sampler.learner.step(other, found).mixture, rtol=1e-12
    )


def test_a_sampler_with_prior_and_parents_goes_on_where_it_was_saved():
    groups = Groups([0, 0, 1, 2, 2, 2])
    learner = Neyman(groups, prior=[1.0, 2.0, 3.0], parents=list("aab"))
    sampler, other = (varmix.vrm(groups, learner=learner, rng=1) for _ in range(2))
    sampler.update(sampler.draw(5), np.arange(5.0))
    other.load_state_dict(sampler.state_dict())
    np.testing.assert_array_equal(other.draw(9).indices, sampler.draw(9).indices)
    third = varmix.vrm(groups, learner=Neyman(groups, prior=[1.0, 2.0, 4.0], parents=list("aab")), rng=1)
    with pytest.raises(ValueError, match="saved sampler had learner"):
        third.load_state_dict(sampler.state_dict())
