"""Replay, against a buffer that is written as one would say it."""

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import varmix
from support.families import use_general_sample
from varmix import Replay, Sampler, vrm
from varmix._core.spaces import Window
from varmix._core.validation import same
from varmix.components import with_uniform
from varmix.components._replay import BUCKET_MAGNITUDES, PAPER_SETTINGS
from varmix.components._replay_kernels import bucket_of
from varmix.learners import Fixed

PAIRS = ((0.01, 0.9), (1.0, 0.5), (0.0, 2.0))


class Naive:
    """The newest items with their rounded |delta|, in a dictionary."""

    def __init__(self, capacity, settings=PAIRS):
        self.capacity, self.settings = capacity, settings
        self.deltas, self.next, self.seen, self.overwritten = {}, 0, [], 0

    def insert(self, deltas):
        for delta in deltas:
            if delta is None:
                delta = max(self.seen, default=1.0)
            else:
                self.seen.append(abs(delta))
            self.deltas[self.next] = abs(delta)
            self.deltas.pop(self.next - self.capacity, None)
            self.next += 1

    def tell(self, ids, deltas):
        for i, delta in zip(ids, deltas, strict=True):
            self.seen.append(abs(delta))
            if i in self.deltas:
                self.deltas[i] = abs(delta)
            else:
                self.overwritten += 1

    @property
    def ids(self):
        return sorted(self.deltas)

    def probabilities(self):
        """(n, k + 1), the uniform law last."""
        kept = np.array([BUCKET_MAGNITUDES[bucket_of(self.deltas[i])] for i in self.ids])
        columns = [(kept + epsilon) ** alpha for epsilon, alpha in self.settings] + [np.ones(len(kept))]
        return np.column_stack([column / column.sum() for column in columns])


class Grid:
    """Uniforms in even steps: as many of them fall to an atom as its probability says, to one."""

    def take(self, count):
        return (np.arange(count) + 0.5) / count


DELTAS = st.floats(-1e13, 1e13) | st.sampled_from([0.0, 1e-12, -3.0, 1e12, 0.5])


class Buffers(RuleBasedStateMachine):
    """Inserts, wrap-around, feedback in any order, saving: the same law as the naive buffer's after each."""

    @initialize(capacity=st.integers(1, 12))
    def build(self, capacity):
        self.replay, self.naive = Replay(capacity, PAIRS), Naive(capacity)
        self.sampler = vrm(self.replay, rng=0)
        self.receipts = []

    @rule(deltas=st.lists(DELTAS, min_size=1, max_size=30))
    def insert_with_errors(self, deltas):
        first = self.naive.next
        ids = self.replay.insert(len(deltas), deltas)
        self.naive.insert(deltas)
        assert ids.tolist() == list(range(first, first + len(deltas)))

    @rule(count=st.integers(1, 30))
    def insert(self, count):
        self.sampler.components.insert(count)  # the view that the sampler has, as good as the replay itself
        self.naive.insert([None] * count)

    @precondition(lambda self: self.naive.next > 0)
    @rule(data=st.data())
    def tell(self, data):
        ids = data.draw(st.lists(st.integers(0, self.naive.next - 1), max_size=8))
        deltas = data.draw(st.lists(DELTAS, min_size=len(ids), max_size=len(ids)))
        self.replay.set_delta(np.array(ids, dtype=np.int64), deltas)
        self.naive.tell(ids, deltas)

    @precondition(lambda self: self.naive.next > 0)
    @rule(m=st.integers(1, 9))
    def draw(self, m):
        draw, mixture = self.sampler.draw(m), self.sampler.mixture
        probabilities = self.naive.probabilities()
        rows = np.searchsorted(self.naive.ids, draw.indices)
        ratios = len(self.naive.ids) * probabilities[rows]
        assert np.allclose(draw.ratios, ratios, rtol=1e-12, atol=0)
        assert np.allclose(draw.weights * (ratios @ mixture), 1.0, rtol=1e-12, atol=0)
        self.receipts.append(draw)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def feed_back(self, data):
        draw = self.receipts.pop(data.draw(st.integers(0, len(self.receipts) - 1)))
        norms = np.abs(data.draw(st.lists(st.floats(0, 1e6), min_size=len(draw), max_size=len(draw))))
        self.sampler.update(draw, norms)
        self.naive.tell(draw.indices.tolist(), norms)

    @rule()
    def save_and_load(self):
        fresh = Replay(self.replay.capacity, PAIRS)
        sampler = vrm(fresh, rng=1)
        state = self.sampler.state_dict()
        sampler.load_state_dict(state)
        assert same(sampler.state_dict(), state)
        self.replay, self.sampler = fresh, sampler

    @precondition(lambda self: self.naive.next > 0)
    @rule(count=st.integers(1, 30), m=st.integers(1, 9))
    def go_back_in_time(self, count, m):
        state = self.sampler.state_dict()
        self.replay.insert(count)
        given_up = self.sampler.draw(m)
        self.sampler.load_state_dict(state)
        self.receipts.append(self.sampler.draw(m))
        with pytest.raises(ValueError, match="an abandoned run"):
            self.sampler.update(given_up, np.ones(m))

    @invariant()
    def it_holds_what_it_should(self):
        assert len(self.replay) == len(self.naive.ids)
        assert self.replay.overwritten == self.naive.overwritten
        assert self.replay.space == Window(len(self.naive.ids), max(self.naive.next - self.naive.capacity, 0))

    @invariant()
    def every_component_is_the_law_it_should_be(self):
        if self.naive.ids:
            family, probabilities, ids = self.sampler.components, self.naive.probabilities(), np.array(self.naive.ids)
            assert np.allclose(family.ratios(ids), len(ids) * probabilities, rtol=1e-12, atol=0)
            assert np.isclose(family.c, (len(ids) * probabilities).max(), rtol=1e-12)

    @precondition(lambda self: self.naive.next > 0)
    @rule()
    def draws_follow_every_component(self):
        family, probabilities, steps = self.sampler.components, self.naive.probabilities(), 500
        for lane in range(family.k):
            atoms, _ = family.draw(np.full(steps, lane), Grid())
            counts = np.bincount(np.searchsorted(self.naive.ids, atoms), minlength=len(self.naive.ids))
            assert np.abs(counts - steps * probabilities[:, lane]).max() <= 1.0 + 1e-6

    @precondition(lambda self: self.naive.next > 0)
    @rule()
    def estimates_are_unbiased(self):
        draw_all, mixture, n = self.sampler.draw_all(), self.sampler.mixture, len(self.naive.ids)
        values = np.cos(np.arange(n))
        density = draw_all.ratios @ mixture
        expectation = ((self.naive.probabilities() @ mixture) * values / density).sum()
        assert np.isclose(expectation, values.mean(), rtol=1e-12, atol=1e-14)


Buffers.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=25, deadline=None)
TestBuffers = Buffers.TestCase


def filled(capacity=10, count=14, settings=PAIRS):
    replay = Replay(capacity, settings)
    replay.insert(count, np.arange(count) + 0.5)
    return replay


def test_new_items_get_the_largest_error_ever_told():
    replay = Replay(3)
    replay.insert(1)
    assert replay.delta([0]) == pytest.approx(1.0, rel=0.05)
    replay.set_delta([0], [-0.25])
    replay.insert(1)
    assert replay.delta([1]) == pytest.approx(0.25, rel=0.05)
    replay.set_delta([1], [7.0])
    replay.set_delta([1], [0.1])
    replay.insert(4)
    assert replay.delta([5]) == pytest.approx(7.0, rel=0.05)  # the item with 7 has left long ago
    replay.set_delta([0], [100.0])  # heard too late to be kept, but heard
    replay.insert(1)
    assert replay.delta([6]) == pytest.approx(100.0, rel=0.05)


def test_feedback_of_an_overwritten_item_reaches_the_learner_and_not_its_successor():
    replay = Replay(4, PAIRS)
    sampler = vrm(replay, rng=0)
    replay.insert(4, [1.0, 1.0, 1.0, 8.0])
    draw = sampler.draw(32)
    replay.insert(4, [1.0, 2.0, 3.0, 4.0])
    before, mixture = replay.delta([4, 5, 6, 7]), sampler.mixture
    sampler.update(draw, np.where(draw.indices == 3, 50.0, 0.01))
    assert np.array_equal(replay.delta([4, 5, 6, 7]), before)
    assert replay.overwritten == 32
    assert not np.array_equal(sampler.mixture, mixture)


def test_feedback_of_items_that_are_yet_to_come_touches_nothing():
    """Someone loads the replay alone, and not the sampler that drew from it."""
    replay = filled(capacity=100, count=10)
    sampler, state = vrm(replay, rng=0), replay.state_dict()
    replay.insert(60)
    draw = sampler.draw(32)
    replay.load_state_dict(state)
    kept = replay.delta(np.arange(10))
    sampler.update(draw, np.full(32, 50.0))
    there = np.isin(np.arange(10), draw.indices)
    assert replay.overwritten == (draw.indices >= 10).sum() > 0
    assert np.array_equal(replay.delta(np.arange(10))[~there], kept[~there])
    replay.insert(90)
    assert len(replay) == 100
    assert np.isclose(replay.ratios(np.arange(100)).mean(axis=0), 1.0).all()


def test_settings_of_the_paper_are_the_default():
    assert Replay(5).settings == PAPER_SETTINGS
    assert len(PAPER_SETTINGS) == 9
    assert set(PAPER_SETTINGS) == {(e, a) for e in (0.01, 0.1, 1.0) for a in (0.1, 0.5, 0.9)}


def test_any_error_from_1e_minus_12_to_1e_12_is_told_apart():
    magnitudes = np.geomspace(1e-12, 1e12, 500)
    replay = Replay(500, [(0.0, 1.0)])
    replay.insert(500, magnitudes)
    assert np.allclose(replay.delta(np.arange(500)), magnitudes, rtol=0.045)
    q = replay.ratios(np.arange(500))[:, 0]
    assert (np.diff(q) > 0).all()
    assert q[-1] / q[0] == pytest.approx(1e24, rel=0.1)


def test_memory_is_at_most_24_bytes_an_item_for_any_number_of_settings():
    for settings in (PAPER_SETTINGS, PAPER_SETTINGS * 11):
        for capacity in (10**5, 10**6):
            assert 12 * capacity <= Replay(capacity, settings).nbytes <= 24 * capacity


def test_one_setting_alone_is_prioritised_replay():
    replay = filled(settings=[(0.01, 0.9)])
    sampler = Sampler(with_uniform(replay), learner=Fixed([1.0, 0.0]), rng=0)
    kept = replay.delta(replay.space.atoms)
    expected = (kept + 0.01) ** 0.9 / ((kept + 0.01) ** 0.9).sum()
    assert np.allclose(sampler.draw_all().ratios[:, 0] / 10, expected, rtol=1e-12)


def test_a_stratified_draw_in_one_call_is_that_of_separate_calls():
    one, two = vrm(filled(), rng=3), vrm(use_general_sample(filled()), rng=3)
    assert type(one.components).sample is Replay.sample is not type(two.components).sample
    for _ in range(20):
        a, b = one.draw(7), two.draw(7)
        for name in ("indices", "weights", "ratios", "density"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name


def test_more_items_than_there_is_room_for_leave_the_newest():
    replay = filled(capacity=3, count=50)
    assert replay.space.atoms.tolist() == [47, 48, 49]
    assert np.allclose(replay.delta([47, 48, 49]), [47.5, 48.5, 49.5], rtol=0.045)


def test_an_empty_replay_is_not_drawn_from_and_its_sampler_stays_as_it_was():
    replay = Replay(4)
    sampler = vrm(replay, rng=0)
    before = sampler.state_dict()
    for draw in (lambda: sampler.draw(3), sampler.draw_all, lambda: sampler.draw(2, batches=2)):
        with pytest.raises(ValueError, match="empty"):
            draw()
    assert same(sampler.state_dict(), before)
    assert (replay.c, len(replay), replay.space.n, replay.space.log_count) == (1.0, 0, 0, -np.inf)


REFUSED = {
    "capacity 0": (lambda: Replay(0), ValueError, "capacity must be at least 1"),
    "too large": (lambda: Replay(2**31), ValueError, "at most 2,147,483,647"),
    "no settings": (lambda: Replay(5, []), TypeError, "pairs"),
    "settings in words": (lambda: Replay(5, "per"), TypeError, "pairs"),
    "triples": (lambda: Replay(5, [(1, 2, 3)]), TypeError, "pairs"),
    "one number": (lambda: Replay(5, 0.5), TypeError, "pairs"),
    "negative epsilon": (lambda: Replay(5, [(-1.0, 0.5)]), ValueError, "epsilon from 0"),
    "alpha too large": (lambda: Replay(5, [(1.0, 11.0)]), ValueError, "alpha from 0 to 10"),
    "nan": (lambda: Replay(5, [(np.nan, 0.5)]), ValueError, "epsilon from 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_built_is_refused(name):
    build, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        build()


CALLS = {
    "insert none": (lambda r: r.insert(0), ValueError, "count must be at least 1"),
    "insert nan": (lambda r: r.insert(2, [1.0, np.nan]), ValueError, r"delta\[1\] is nan"),
    "insert one number for many": (lambda r: r.insert(3, 1.0), ValueError, r"expected shape \(3,\), got \(\)"),
    "insert one number for one": (lambda r: r.insert(1, 1.0), ValueError, r"expected shape \(1,\), got \(\)"),
    "insert a wrong number": (lambda r: r.insert(2, [1.0]), ValueError, r"expected shape \(2,\), got \(1,\)"),
    "tell nan": (lambda r: r.set_delta([9, 10], [np.nan, 1.0]), ValueError, r"delta\[0\] is nan"),
    "tell infinity": (lambda r: r.set_delta([9], [np.inf]), ValueError, "finite"),
    "tell a wrong number": (lambda r: r.set_delta([9], [1.0, 2.0]), ValueError, "one TD error per item"),
    "tell of an item to come": (lambda r: r.set_delta([14], [1.0]), ValueError, r"0\.\.13"),
    "tell of fractions": (lambda r: r.set_delta([1.5], [1.0]), TypeError, "whole numbers"),
    "ask for what has left": (lambda r: r.delta([3]), ValueError, "Item 3 has been overwritten"),
    "ratios of what has left": (lambda r: r.ratios(np.array([0])), ValueError, "items 4 and later"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_refused_changes_nothing(name):
    call, error, message = CALLS[name]
    replay = filled()
    before = replay.state_dict()
    with pytest.raises(error, match=message):
        call(replay)
    assert same(replay.state_dict(), before)


DAMAGED = {
    "a position twice": lambda s: s | {"buckets": np.full(10, 5, np.int16)},
    "a bucket that is none": lambda s: s | {"buckets": np.full(10, 640, np.int16)},
    "too few": lambda s: s | {"buckets": s["buckets"][:5]},
    "another dtype": lambda s: s | {"buckets": s["buckets"].astype(np.int64)},
    "a top that is none": lambda s: s | {"top": 640},
    "another capacity": lambda s: s | {"capacity": 11},
    "other settings": lambda s: s | {"settings": [[0.5, 0.5]] * 3},
    "an entry more": lambda s: s | {"more": 1},
    "a negative count": lambda s: s | {"gone": -1},
    "a count in fractions": lambda s: s | {"total": 14.0},
    "a count in words": lambda s: s | {"total": "14"},
    "a count beyond 64 bits": lambda s: s | {"total": 10**30},
    "buckets that are a list": lambda s: s | {"buckets": s["buckets"].tolist()},
    "positions in another dtype": lambda s: s | {"positions": s["positions"].astype(np.int64)},
    "a bucket below zero": lambda s: s | {"buckets": np.full(10, -1, np.int16)},
    "a position outside": lambda s: s | {"positions": s["positions"] + np.int32(2**30)},
    "a priority above the largest seen": lambda s: s | {"top": 330},
    "priorities though none was seen": lambda s: s | {"seen": False},
    "seen by number": lambda s: s | {"seen": 1},
    "settings in an array": lambda s: s | {"settings": np.ones((3, 2))},
    "nothing": lambda s: None,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(name):
    replay = filled()
    before = replay.state_dict()
    with pytest.raises(varmix.CheckpointError):
        replay.load_state_dict(DAMAGED[name](replay.state_dict()))
    assert same(replay.state_dict(), before)


def test_a_saved_sampler_goes_on_with_the_same_items(tmp_path):
    sampler = vrm(filled(), rng=0)
    sampler.update(sampler.draw(6), np.linspace(0, 3, 6))
    varmix.save(tmp_path / "replay.varmix", sampler)
    fresh = Replay(10, PAIRS)
    again = varmix.load(tmp_path / "replay.varmix", vrm(fresh))
    assert np.array_equal(fresh.delta(fresh.space.atoms), sampler.components.delta(fresh.space.atoms))
    for family, one in ((fresh, again), (sampler.components, sampler)):
        family.insert(3)
        one.update(one.draw(5), np.arange(5.0))
    assert np.array_equal(again.draw(50).indices, sampler.draw(50).indices)


def test_nothing_else_is_mixed_with_a_buffer_that_grows():
    with pytest.raises(TypeError, match="cannot follow a buffer that grows"):
        varmix.Uniform(Replay(5).space)
    with pytest.raises(TypeError, match="cannot follow a buffer that grows"):
        varmix.components.Cumulative(Replay(5).space)
    for other in (varmix.Uniform(5), Replay(5).with_uniform()):
        with pytest.raises(TypeError, match="cannot follow a buffer that grows"):
            varmix.Stack(Replay(5), other)
    with pytest.raises(ValueError, match="share one space"):
        varmix.Stack(varmix.Uniform(5), Replay(5))
    assert Sampler(Replay(5)).components.has_uniform


def test_windows_are_the_same_where_their_atoms_are():
    assert Window(3, first=2) == Window(3, first=2)
    assert Window(3, first=2) != Window(3, first=1)
    assert Window(3, first=0) != varmix.components.Points(3)
    assert varmix.components.Points(3) != Window(3, first=0)
    assert repr(Window(3, first=2)) == "Window(3, first=2)"
