import pickle

import numpy as np
import pytest

import varmix
import varmix.testing
from varmix import Dense, Groups
from varmix._core.draw import MAX_RECEIPT_AGE, PastIds, UsedReceipts


@pytest.fixture
def sampler():
    return varmix.vrm(Groups([0, 0, 1, 1, 1]), rng=0)


def test_receipts_cannot_be_changed(sampler):
    draw = sampler.draw(3)
    for name in ("indices", "ratios", "density"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(draw, name)[...] = 0
    for name in ("indices", "weights", "ratios", "density", "serial", "sampler_id"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(draw, name, None)
    with pytest.raises(AttributeError, match="cannot be changed"):
        del draw.serial
    with pytest.raises(AttributeError):
        draw.other = 1


def test_receipts_travel_between_processes(sampler):
    draw = sampler.draw(3)
    again = pickle.loads(pickle.dumps(draw))  # what a worker process does with it
    assert again.indices.tolist() == draw.indices.tolist()
    assert not again.density.flags.writeable
    sampler.update(again, np.ones(3))
    with pytest.raises(ValueError, match="used already"):
        sampler.update(draw, np.ones(3))


def test_a_receipt_says_what_it_is(sampler):
    draw = sampler.draw(4)
    assert repr(draw) == "Draw(serial=0, m=4, k=3)"
    assert len(draw) == 4
    assert sampler.draw(1).serial == 1


def test_receipts_keep_what_was_true_when_drawn():
    sampler = varmix.vrm(Dense([[0.7], [0.2], [0.1]]), rng=0)
    draw = sampler.draw(50)
    mixture = sampler.mixture
    for _ in range(200):
        later = sampler.draw(1)
        sampler.update(later, [3.0 if later.indices[0] == 0 else 0.0])
    assert np.abs(sampler.mixture - mixture).max() > 0.1
    assert draw.density == pytest.approx(draw.ratios @ mixture)
    assert draw.weights == pytest.approx(1 / draw.density)


def test_receipts_of_another_sampler_are_refused(sampler):
    other = varmix.vrm(Groups([0, 0, 1, 1, 1]), rng=0)
    before = sampler.mixture
    with pytest.raises(ValueError, match="another sampler"):
        sampler.update(other.draw(3), np.ones(3))
    assert sampler.mixture.tolist() == before.tolist()


def test_receipts_count_once_and_may_be_skipped(sampler):
    draws = [sampler.draw(2) for _ in range(10)]
    for i in (9, 2, 3):
        sampler.update(draws[i], [1.0, 2.0])
    before = sampler.mixture
    for i in (9, 2, 3):
        with pytest.raises(ValueError, match="used already"):
            sampler.update(draws[i], [1.0, 2.0])
    assert sampler.mixture.tolist() == before.tolist()


def test_memory_of_used_receipts_is_bounded_and_never_forgives():
    used = UsedReceipts()
    for serial in range(1, 5 * MAX_RECEIPT_AGE):  # receipt 0 never comes back and holds the floor
        _use(used, serial)
    assert len(used.state_dict()["above"]) <= 2 * MAX_RECEIPT_AGE + 1
    for serial in (5 * MAX_RECEIPT_AGE - 1, 4 * MAX_RECEIPT_AGE, MAX_RECEIPT_AGE, 0):
        with pytest.raises(ValueError, match="used already, or is more than"):
            _use(used, serial)


def test_used_receipts_agree_with_a_set():
    rng = np.random.default_rng(0)
    used, naive = UsedReceipts(), set()
    for serial in np.clip(np.arange(4000) // 2 + rng.integers(-40, 40, size=4000), 0, None).tolist():
        if serial in naive:
            with pytest.raises(ValueError):
                _use(used, serial)
        else:
            _use(used, serial)
            naive.add(serial)
    copy = UsedReceipts.loaded(used.state_dict(), issued=2100)
    assert all(_refused(copy, serial) == (serial in naive) for serial in range(2100))


def _refused(used, serial):
    try:
        used.check(serial)
    except ValueError:
        return True
    return False


def _use(used, serial):
    used.check(serial)
    used.add(serial)


def test_receipts_are_made_by_samplers_only():
    with pytest.raises(TypeError, match="Only samplers make"):
        varmix.Draw(1, 2, 3)


def test_weights_cannot_be_changed_in_place():
    draw = varmix.vrm(Groups([0, 0, 1, 1, 1]), rng=0).draw(4)
    before = draw.weights.copy()
    with pytest.raises(ValueError, match="read-only"):
        draw.weights /= 7.0
    with pytest.raises(ValueError, match="read-only"):
        draw.weights[0] = 7.0
    assert draw.weights.tolist() == before.tolist()
    assert (draw.weights * 7.0).tolist() == (before * 7.0).tolist()


def test_receipts_of_groups_write_their_ratios_when_asked():
    labels = np.arange(30) % 3
    groups = varmix.Groups(labels, smoothing=0.2)
    sampler = varmix.vrm(groups, rng=0)
    draw, mixture = sampler.draw(12), sampler.mixture
    np.testing.assert_array_equal(draw.groups, labels[draw.indices])
    sampler.update(draw, np.ones(12))
    np.testing.assert_array_equal(draw.ratios, sampler.components.ratios(draw.indices))
    np.testing.assert_allclose(draw.density, draw.ratios @ mixture, rtol=1e-14)
    assert draw.ratios is draw.ratios
    for array in (draw.ratios, draw.groups):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    again = pickle.loads(pickle.dumps(sampler.draw(4)))
    np.testing.assert_array_equal(again.groups, labels[again.indices])
    np.testing.assert_array_equal(again.ratios, sampler.components.ratios(again.indices))


def test_receipts_of_other_families_have_no_groups():
    assert varmix.uniform(5, rng=0).draw(2).groups is None
    assert varmix.vrm(varmix.Groups([0, 1]), varmix.Groups([1, 0]), rng=0).draw(2).groups is None


def test_a_run_that_was_given_up_is_told_from_the_one_that_goes_on(sampler):
    early = sampler.draw(2)
    state = sampler.state_dict()
    given_up = [sampler.draw(2) for _ in range(3)]
    sampler.load_state_dict(state)
    with pytest.raises(ValueError, match="by an abandoned run"):
        sampler.update(given_up[0], [1.0, 2.0])
    going_on = [sampler.draw(2) for _ in range(5)]  # by now every serial of the other run has come again
    before = sampler.state_dict()
    for draw in given_up:
        with pytest.raises(ValueError, match="by an abandoned run"):
            sampler.update(draw, [1.0, 2.0])
    assert varmix.testing.same(sampler.state_dict(), before)
    for draw in (early, *going_on):
        sampler.update(draw, [1.0, 2.0])


def test_receipts_are_taken_over_several_loads_and_by_every_copy(sampler):
    first = sampler.draw(2)
    sampler.load_state_dict(sampler.state_dict())
    second = sampler.draw(2)
    copies = [varmix.vrm(Groups([0, 0, 1, 1, 1]), rng=1) for _ in range(2)]
    for copy in copies:
        copy.load_state_dict(sampler.state_dict())
        third = copy.draw(2)
        for draw in (first, third, second):
            copy.update(draw, [1.0, 2.0])
    with pytest.raises(ValueError, match="by another sampler"):
        copies[0].update(third, [1.0, 2.0])  # of the other copy, though its serial and its numbers are the same


def test_ids_of_long_ago_are_forgotten(sampler):
    first = sampler.draw(2)
    for _ in range(PastIds.MOST + 1):
        sampler.load_state_dict(sampler.state_dict())
        sampler.draw(1)
    assert len(sampler.state_dict()["past"]) == PastIds.MOST
    with pytest.raises(ValueError, match="by another sampler"):
        sampler.update(first, [1.0, 2.0])


@pytest.mark.parametrize("damaged", [None, {"a": -1}, {"a": "x"}])
def test_damaged_ids_are_refused(sampler, damaged):
    before = sampler.state_dict()
    with pytest.raises((ValueError, TypeError)):
        sampler.load_state_dict(before | {"past": damaged})
    assert varmix.testing.same(sampler.state_dict(), before)
