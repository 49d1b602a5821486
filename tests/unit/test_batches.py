"""Several batches in one draw: the law of as many draws, one receipt."""

import numpy as np
import pytest

import varmix
from support.oracles import Constant
from varmix import Dense, Groups, Sampler
from varmix._core.rng import Uniforms
from varmix.allocate import Allocation, Shuffled, independent, one_component, round_robin, stratified, systematic
from varmix.components import with_uniform
from varmix.learners import Fixed
from varmix.testing import same

STATELESS = [independent, stratified, systematic, one_component]
SHARES = np.array([0.3, 0.0, 0.45, 0.25])
LABELS = np.repeat([0, 1, 2], [5, 20, 75])


class Theirs(Allocation):
    """An allocation that has nothing but `assign`, and remembers how many slots it has served."""

    def init(self, lanes):
        return np.zeros(1)

    def assign(self, state, shares, m, uniforms):
        lanes, _ = stratified.assign(np.empty(0), shares, m, uniforms)
        return lanes, state + m

    def __repr__(self):
        return "theirs"


@pytest.mark.parametrize("allocation", [*STATELESS, Theirs()], ids=repr)
@pytest.mark.parametrize("m", [1, 2, 9])
@pytest.mark.parametrize("u", [0.0, 0.31, 0.7, 1 - 2**-53])
def test_every_batch_is_assigned_as_if_it_were_alone(allocation, m, u):
    state = allocation.init(4)
    alone, _ = allocation.assign(state, SHARES, m, Constant(u))
    lanes, _ = allocation.assign_batches(state, SHARES, m, 5, Constant(u))
    np.testing.assert_array_equal(lanes.reshape(5, m), np.tile(alone, (5, 1)))


@pytest.mark.parametrize("allocation", STATELESS, ids=repr)
def test_batches_have_uniforms_of_their_own(allocation):
    lanes, _ = allocation.assign_batches(np.empty(0), SHARES, 3, 50, Uniforms(0))
    assert len(np.unique(lanes.reshape(50, 3), axis=0)) > 2


@pytest.mark.parametrize("allocation", [independent, stratified, systematic, one_component], ids=repr)
def test_batches_of_one_are_independent_whatever_the_allocation(allocation):
    lanes, _ = allocation.assign_batches(np.empty(0), SHARES, 1, 200, Uniforms(0))
    expected, _ = independent.assign(np.empty(0), SHARES, 200, Uniforms(0))
    np.testing.assert_array_equal(lanes, expected)


def counts(draw, batches):
    return [np.bincount(LABELS[batch], minlength=3).tolist() for batch in draw.indices.reshape(batches, -1)]


def test_every_batch_is_stratified_by_itself():
    sampler = Sampler(Groups(LABELS), learner=Fixed([0.25, 0.25, 0.5]), rng=0)
    assert counts(sampler.draw(8, batches=30), 30) == [[2, 2, 4]] * 30


def test_independent_batches_are_not():
    """Negative control of the test above."""
    sampler = Sampler(Groups(LABELS), learner=Fixed([0.25, 0.25, 0.5]), rng=0, allocate=independent)
    assert len({tuple(count) for count in counts(sampler.draw(8, batches=30), 30)}) > 5


def test_shared_batches_have_one_group_each():
    sampler = Sampler(Groups(LABELS), learner=Fixed([0.25, 0.25, 0.5]), rng=0, allocate=one_component)
    groups = LABELS[sampler.draw(4, batches=30).indices].reshape(30, 4)
    assert (groups == groups[:, :1]).all()
    assert set(groups[:, 0].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("rest", [(), (1,)])
def test_one_batch_is_a_plain_draw_to_the_last_bit(rest):
    first, second = (varmix.vrm(Dense(np.full((4, 2), 0.25)), rng=3) for _ in range(2))
    a, b = first.draw(9), second.draw(9, *rest)
    for field in ("indices", "weights", "ratios", "density"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


@pytest.mark.parametrize(("m", "batches"), [(1, 40), (7, 9), (100, 3)])
@pytest.mark.parametrize("allocate", [round_robin, Shuffled(100)], ids=repr)
def test_batches_without_replacement_are_consecutive_draws_without_updates(m, batches, allocate):
    one, many = (varmix.vrm(Groups(LABELS, replacement=False), rng=3, allocate=allocate) for _ in range(2))
    for sampler in (one, many):
        for _ in range(5):
            sampler.update(sampler.draw(8), np.arange(8.0))
    draw = one.draw(m, batches)
    parts = [many.draw(m) for _ in range(batches)]
    for field in ("indices", "weights", "ratios", "density"):
        np.testing.assert_array_equal(getattr(draw, field), np.concatenate([getattr(part, field) for part in parts]))
    assert same(one.state_dict()["allocation"], many.state_dict()["allocation"])


@pytest.mark.parametrize("allocation", [*STATELESS, round_robin, Shuffled(10), Theirs()], ids=repr)
def test_a_receipt_of_several_batches_is_one_round_of_feedback(allocation):
    sampler = Sampler(with_uniform(Groups(LABELS)), learner=varmix.learners.BarrierNewton(), rng=0, allocate=allocation)
    draw = sampler.draw(4, batches=6)
    assert len(draw) == len(draw.weights) == 24
    sampler.update(draw, 1.0 * (LABELS[draw.indices] == 0))
    assert sampler.draw(1).serial == 1
    assert sampler.mixture.sum() == pytest.approx(1.0)


def test_an_allocation_of_others_is_asked_batch_by_batch_and_keeps_its_state():
    sampler = Sampler(Groups(LABELS), learner=Fixed([0.25, 0.25, 0.5]), rng=0, allocate=Theirs())
    assert counts(sampler.draw(8, batches=30), 30) == [[2, 2, 4]] * 30
    assert sampler.state_dict()["allocation"].tolist() == [240.0]


class Tires(Theirs):
    """Fails at the third batch."""

    calls = 0

    def assign(self, state, shares, m, uniforms):
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("tired")
        return super().assign(state, shares, m, uniforms)


def test_a_failure_in_a_later_batch_rewinds_all_of_them():
    sampler = Sampler(Groups(LABELS), learner=Fixed(), rng=0, allocate=Tires())
    before = sampler.state_dict()
    with pytest.raises(RuntimeError, match="tired"):
        sampler.draw(3000, batches=4)
    assert same(sampler.state_dict(), before)
