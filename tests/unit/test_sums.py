"""Value and gradient are all that most learners ask for: evidence of one row that has both serves them as well."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import varmix
from varmix import Groups
from varmix.learners import Evidence, Leader, Neyman
from varmix.learners._base import save_state

LEARNERS = [
    varmix.learners.BarrierNewton(),
    varmix.learners.BarrierNewton(window=5),
    varmix.learners.OGD(),
    varmix.learners.OGD(step_size=0.1),
]
LEARNERS += [
    varmix.learners.ONS(gamma=0.1),
    varmix.learners.ONS(gamma=0.1, projection="pgd"),
    varmix.learners.Fixed([0.2, 0.3, 0.5]),
]
LEARNERS += [varmix.learners.Cautious(off_below=1.0, on_above=1.2, window=3)]


def problem(seed, m=7, k=3):
    rng = np.random.default_rng(seed)
    ratios, coefficients = rng.gamma(0.5, 2.0, size=(m, k)), rng.gamma(0.5, size=m)
    ratios[:, -1] = 1.0
    coefficients *= 0.1 + ratios[:, 0] ** 2  # the first component is worth more than the others
    w = rng.dirichlet(np.ones(k))
    return Evidence(ratios, coefficients), 0.9 * w + 0.1 * np.eye(k)[-1]


def in_one_row(evidence, w):
    return Evidence.from_sums(evidence.value(w), evidence.gradient(w), evidence.at_uniform)


@given(st.integers(0, 10**6))
def test_one_row_has_the_same_value_and_gradient(seed):
    evidence, w = problem(seed)
    one = in_one_row(evidence, w)
    assert len(one.ratios) == 1
    np.testing.assert_allclose(one.value(w), evidence.value(w), rtol=1e-12)
    np.testing.assert_allclose(one.gradient(w), evidence.gradient(w), rtol=1e-10)
    assert one.at_uniform == evidence.at_uniform == pytest.approx(evidence.value([0.0, 0.0, 1.0]))


@given(st.integers(0, 10**6))
def test_elsewhere_it_is_a_bound_from_below(seed):
    evidence, w = problem(seed)
    other = np.random.default_rng(seed + 1).dirichlet(np.ones(3)) * 0.9 + 0.1 * np.eye(3)[-1]
    assert in_one_row(evidence, w).value(other) <= evidence.value(other) * (1 + 1e-12)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learners_without_rows_take_the_same_steps(learner):
    assert not learner.needs_rows
    whole = parts = learner.init(3)
    for seed in range(30):
        evidence, _ = problem(seed)
        whole = learner.step(whole, evidence)
        parts = learner.step(parts, in_one_row(evidence, getattr(parts, "learned", parts).mixture))
        np.testing.assert_allclose(parts.mixture, whole.mixture, rtol=0, atol=1e-9)
    assert isinstance(learner, varmix.learners.Fixed) or not np.allclose(whole.mixture, learner.init(3).mixture)


@pytest.mark.parametrize("learner", [Leader(), Neyman([0.5, 0.5])], ids=repr)
def test_learners_that_need_rows_do_not(learner):
    evidence, _ = problem(0)
    state = learner.init(3)
    one = in_one_row(evidence, state.mixture)
    whole, parts = save_state(learner.step(state, evidence)), save_state(learner.step(state, one))
    assert learner.needs_rows
    assert any(not np.array_equal(whole[name], parts[name]) for name in whole)


def test_a_round_without_loss_has_a_row_of_zero():
    one = Evidence.from_sums(0.0, np.zeros(3))
    assert one.value([0.2, 0.3, 0.5]) == 0.0
    assert not one.gradient([0.2, 0.3, 0.5]).any()


@pytest.mark.parametrize("resplit", [None, "norms"])
@pytest.mark.parametrize("replacement", [True, False])
def test_parts_of_a_receipt_make_up_the_whole(replacement, resplit):
    sampler = varmix.vrm(Groups(np.arange(40) % 4, replacement=replacement, resplit=resplit), rng=0)
    whole = sampler.draw(12)
    parts = [whole.select(slice(rank, None, 3)) for rank in range(3)]
    for name in ("indices", "weights", "density", "ratios", "groups"):
        woven = np.stack([getattr(part, name) for part in parts], axis=1)
        assert np.array_equal(woven.reshape(12, *woven.shape[2:]), getattr(whole, name))
    assert {(part.serial, part.sampler_id) for part in parts} == {(whole.serial, whole.sampler_id)}
    with pytest.raises(ValueError, match="read-only"):
        parts[0].density[0] = 1.0


def test_parts_of_other_families_have_their_ratios():
    whole = varmix.vrm(varmix.Dense(np.full((5, 1), 0.2)), rng=0).draw(6)
    part = whole.select(slice(1, None, 2))
    assert np.array_equal(part.ratios, whole.ratios[1::2])
    assert part.groups is None


def test_evidence_from_elsewhere_uses_the_receipt_up():
    one, other = (varmix.vrm(Groups([0, 0, 1]), rng=0) for _ in range(2))
    draw, same = one.draw(4), other.draw(4)
    norms = np.array([1.0, 2.0, 3.0, 4.0])
    evidence = Evidence.from_draw(draw, norms)
    one.check(draw)
    one.learn(draw, in_one_row(evidence, one.mixture))
    other.update(same, norms)
    np.testing.assert_allclose(one.mixture, other.mixture, rtol=1e-12)
    with pytest.raises(ValueError, match="used already"):
        one.check(draw)
    with pytest.raises(ValueError, match="another sampler"):
        one.check(same)


class Hearing(varmix.components.Family):
    """A family that learns."""

    space, k, c = varmix.components.Points(3), 1, 1.0

    def draw(self, lanes, uniforms):
        return np.zeros(len(lanes), np.int64), self.ratios(lanes)

    def ratios(self, atoms):
        return np.ones((len(atoms), 1))

    def observe(self, draw, norms):
        self.heard = norms


@pytest.mark.parametrize(
    ("family", "observes"),
    [
        (varmix.Uniform(3), False),
        (varmix.Dense(np.full((3, 1), 1 / 3)), False),
        (Groups([0, 1, 1]), False),
        (Groups([0, 0, 1, 1], replacement=False, resplit="norms"), True),
        (varmix.components.Cumulative(3), True),
        (varmix.components.with_uniform(varmix.Replay(3)), True),
        (Hearing(), True),
        (varmix.Stack(varmix.Uniform(3), varmix.Uniform(3)), False),
        (varmix.Stack(varmix.Uniform(3), Hearing()), True),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_families_say_whether_feedback_changes_them(family, observes):
    assert family.observes is observes


def test_components_see_norms_only_where_there_are_any():
    family = Hearing()
    sampler = varmix.Sampler(varmix.components.with_uniform(family), learner=varmix.learners.BarrierNewton(), rng=0)
    draw = sampler.draw(2)
    evidence = Evidence.from_draw(draw, [1.0, 2.0])
    sampler.learn(draw, evidence)
    assert not hasattr(family, "heard")
    draw = sampler.draw(2)
    sampler.learn(draw, evidence, np.array([1.0, 2.0]))
    assert family.heard.tolist() == [1.0, 2.0]
