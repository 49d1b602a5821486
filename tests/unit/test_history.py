"""The history of a sampler: what is recorded, how it is thinned, saved and resumed, and what is refused."""

import copy

import numpy as np
import pytest

import varmix
from varmix import history as module
from varmix.history import History
from varmix.meter import Interval
from varmix.testing import same

LABELS = np.repeat(["common", "rare"], [90, 10])
NORMS = np.repeat([0.1, 3.0], [90, 10])


def play(sampler, updates, m=8):
    """Draw and update, and return shares, draws and gains as they were after every update."""
    seen = []
    for _ in range(updates):
        draw = sampler.draw(m)
        sampler.update(draw, NORMS[draw.indices])
        seen.append((sampler.meter.draws, sampler.shares, sampler.gain, sampler.learned_gain))
    return seen


def build(rng=0, history=True, **options):
    return varmix.Sampler(LABELS, rng=rng, history=history, **options)


def rows(history):
    gains = history.gain, history.gain_low, history.gain_high, history.learned_gain
    return [history.draws, *history.shares.values(), *gains]


def test_entries_are_how_things_were_at_the_start_and_after_every_update():
    sampler = build()
    start = (0, sampler.shares, sampler.gain, sampler.learned_gain)
    seen = [start, *play(sampler, 100)]
    history = sampler.history
    assert len(history) == 101
    assert history.draws.tolist() == [draws for draws, *_ in seen]
    assert history.names == ("common", "rare")
    for name, column in history.shares.items():
        assert column.tolist() == [shares[name] for _, shares, *_ in seen]
    found = zip(history.gain, history.gain_low, history.gain_high, strict=True)
    assert list(found) == [tuple(gain) for *_, gain, _ in seen]
    assert history.learned_gain.tolist() == [learned for *_, learned in seen]


def test_a_full_history_drops_every_second_entry_and_shows_the_whole_course():
    sampler = build()
    draws = [0] + [draws for draws, *_ in play(sampler, 2500)]
    history = sampler.history
    assert (history.updates, history.stride, len(history)) == (2500, 8, 313)
    assert history.draws.tolist() == draws[::8]


def test_it_never_has_more_than_512_entries():
    history = History(["a"])
    for updates in range(5000):
        if updates == 0 or history.count_update():
            history.record(updates, np.ones(1), Interval(1.0, 0.0, np.inf), 1.0)
        assert history.draws.tolist() == list(range(0, updates + 1, history.stride)) or updates % history.stride
        assert len(history) <= 512
    assert len(history) > 256


def test_many_components_mean_fewer_entries():
    even = varmix.learners.Fixed(np.full(10_000, 1e-4))
    sampler = varmix.Sampler(varmix.Groups(np.arange(20_000) % 10_000), learner=even, rng=0, history=True)
    for _ in range(200):
        sampler.update(draw := sampler.draw(4), np.ones(len(draw)))
    assert (len(sampler.history), len(sampler.history.shares)) == (101, 10_000)
    assert History(range(10**6)).state_dict()["shares"].shape == (0, 10**6)
    assert len(History(range(10**6))._draws) == 16


def test_without_being_asked_a_sampler_keeps_none():
    sampler = build(history=False)
    play(sampler, 3)
    assert sampler.history is None
    assert "history" not in sampler.state_dict()


def test_a_history_changes_no_draw():
    one, other = build(), build(history=False)
    for _ in range(50):
        draws = one.draw(8), other.draw(8)
        assert draws[0].indices.tolist() == draws[1].indices.tolist()
        assert draws[0].weights.tolist() == draws[1].weights.tolist()
        for sampler, draw in zip((one, other), draws, strict=True):
            sampler.update(draw, NORMS[draw.indices])


@pytest.mark.parametrize("value", [1, None, "yes", 0.0])
def test_history_is_true_or_false(value):
    with pytest.raises(TypeError, match="history must be True or False"):
        build(history=value)


def test_feedback_with_full_information_is_recorded_without_draws():
    sampler = build()
    draw = sampler.draw_all()
    sampler.update(draw, NORMS)
    assert sampler.history.draws.tolist() == [0, 0]
    assert sampler.history.updates == 1


def test_refused_feedback_leaves_no_entry():
    sampler = build()
    draw = sampler.draw(8)
    with pytest.raises(ValueError, match="norms"):
        sampler.update(draw, np.full(8, np.nan))
    assert (len(sampler.history), sampler.history.updates) == (1, 0)


def test_the_shares_of_the_points_are_those_of_disjoint_groups_and_of_nothing_else():
    assert build().history.point_shares == {"common": 0.9, "rare": 0.1}
    target = varmix.Groups(LABELS, target=np.where(LABELS == "rare", 9.0, 1.0))
    assert varmix.Sampler(target, history=True).history.point_shares == pytest.approx({"common": 0.5, "rare": 0.5})
    streams = varmix.components.Sources(["web", "code"], target={"web": 3, "code": 1})
    assert varmix.Sampler(streams, history=True).history.point_shares == {"web": 0.75, "code": 0.25}
    table = varmix.Dense(np.full((100, 2), 0.01))
    for overlapping in ((table,), (varmix.Groups(LABELS), table)):
        assert varmix.Sampler(*overlapping, history=True).history.point_shares is None


def test_limits_are_those_of_a_learner_that_switches():
    assert build().history.limits == (1.25, 1.5)
    assert build(learner=varmix.learners.BarrierNewton()).history.limits is None


def test_sub_groups_keep_their_names_when_they_are_cut_anew():
    sampler = varmix.Sampler(varmix.Groups(LABELS, replacement=False, resplit="norms"), rng=0, history=True)
    names = sampler.history.names
    for _ in range(3):
        play(sampler, 12)
        sampler.end_epoch()
    assert names == sampler.history.names == tuple(sampler.components.names)
    assert "rare, norms 3/3" in names
    assert len(sampler.history) == 37


@pytest.mark.parametrize("updates", [0, 100, 511, 512, 700, 1025])
def test_a_saved_sampler_resumes_its_history_exactly(updates, tmp_path):
    sampler, whole = build(), build()
    play(sampler, updates)
    varmix.save(tmp_path / "state", sampler)
    again = varmix.load(tmp_path / "state", build(rng=7))
    assert same(again.history.state_dict(), sampler.history.state_dict())
    play(again, 600)
    play(whole, updates + 600)
    assert all(map(np.array_equal, rows(again.history), rows(whole.history)))
    assert (again.history.updates, again.history.stride) == (whole.history.updates, whole.history.stride)


def test_who_holds_a_history_goes_on_with_it_after_a_load():
    saved, sampler = build(), build(rng=1)
    play(saved, 20)
    held = sampler.history
    sampler.load_state_dict(saved.state_dict())
    assert held is sampler.history
    assert len(held) == 21


def test_a_copy_goes_on_by_itself():
    sampler = build()
    play(sampler, 5)
    other = copy.deepcopy(sampler)
    play(other, 5)
    assert (len(sampler.history), len(other.history)) == (6, 11)


def test_what_it_returns_is_a_copy():
    sampler = build()
    play(sampler, 5)
    before = sampler.history.state_dict()
    for array in (*rows(sampler.history), *sampler.state_dict()["history"].values()):
        if isinstance(array, np.ndarray):
            array[...] = 7
    assert same(sampler.history.state_dict(), before)


@pytest.mark.parametrize(("saved", "here", "says"), [(True, False, "with history=True"), (False, True, "without")])
def test_a_state_with_a_history_and_a_sampler_without_do_not_fit(saved, here, says):
    sampler = build(history=here)
    before = sampler.state_dict()
    with pytest.raises(varmix.CheckpointError, match=f"build it {says}"):
        sampler.load_state_dict(build(history=saved).state_dict())
    assert same(sampler.state_dict(), before)


def change(name, edit):
    def damage(history):
        history[name] = edit(history[name])

    return damage


def put(name, place, value):
    def damage(history):
        history[name][place] = value

    return damage


DAMAGED = {
    "more updates than entries": (change("updates", lambda updates: 200), "shape"),
    "updates beyond all memory": (change("updates", lambda updates: 2**61), "shape"),
    "updates that are no number": (change("updates", lambda updates: "20"), "whole number"),
    "draws that fall": (put("draws", 3, 1), "never decrease"),
    "draws before the start": (put("draws", 0, 1), "begin at 0"),
    "more draws than the run had": (put("draws", -1, 10**6), "damaged"),
    "draws that are no whole numbers": (change("draws", lambda draws: draws * 1.0), "dtype int64"),
    "shares above one": (put("shares", (2, 0), 1.5), "must lie in"),
    "shares that do not sum to one": (put("shares", (2, 0), 0.0), "sum to one"),
    "shares of other components": (change("shares", lambda shares: np.c_[shares, shares[:, 0]]), "shape"),
    "shares that are none": (put("shares", (2, 0), np.nan), "not finite"),
    "a gain below its interval": (put("gains", (5, 0), 1e-9), "in their intervals"),
    "a gain above its interval": (put("gains", (5, 0), 1e9), "in their intervals"),
    "a negative gain": (put("gains", (5, 3), -1.0), "must lie in"),
    "an entry too many": (lambda history: history.update(more=1), "expected the entries"),
    "an entry too few": (lambda history: history.pop("gains"), "expected the entries"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_history_is_refused_and_changes_nothing(name):
    damage, says = DAMAGED[name]
    saved, sampler = build(), build(rng=1)
    play(saved, 20)
    play(sampler, 10)
    state = saved.state_dict()
    sampler.load_state_dict(saved.state_dict())  # what is damaged below is all that is wrong
    before = sampler.state_dict()
    damage(state["history"])
    with pytest.raises(varmix.CheckpointError, match=says):
        sampler.load_state_dict(state)
    assert same(sampler.state_dict(), before)


def test_a_history_of_more_updates_than_there_were_receipts_is_refused():
    longer, sampler = build(), build()
    for _ in range(20):
        longer.update(longer.draw_all(), NORMS)  # without draws, of which there would be too many as well
    play(sampler, 10)
    state = sampler.state_dict() | {"history": longer.state_dict()["history"]}
    with pytest.raises(varmix.CheckpointError, match="20 updates"):
        sampler.load_state_dict(state)


def test_a_history_that_is_no_dictionary_is_refused():
    sampler = build()
    with pytest.raises(varmix.CheckpointError, match="must be a dictionary"):
        sampler.load_state_dict(sampler.state_dict() | {"history": None})


def test_presets_and_as_sampler_pass_it_on():
    assert len(varmix.vrm(varmix.Groups(LABELS), history=True).history) == 1
    ready = build()
    from varmix._sampler import as_sampler

    assert as_sampler(ready) is ready
    with pytest.raises(TypeError, match="history already"):
        as_sampler(ready, history=True)


def test_room_is_even_for_any_number_of_components():
    for k in (1, 2049, 2050, 3001, 65_537, 10**6):
        assert len(History(range(k))._draws) % 2 == 0
    assert module.MAX_ENTRIES == 512


def test_it_says_what_it_is():
    sampler = build()
    play(sampler, 600)
    assert repr(sampler.history) == "History(301 entries over 600 updates, 2 components)"
