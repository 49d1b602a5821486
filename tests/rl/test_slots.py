"""Slots and tickets: they connect a sampler to a storage that numbers its rows."""

import copy

import numpy as np
import pytest

import varmix
from varmix import CheckpointError
from varmix._core.draw import MAX_RECEIPT_AGE, Ledger
from varmix._core.validation import same
from varmix.rl._tickets import MAX_RECEIPT_ROWS, MAX_RECEIPTS, SlotSampler, TicketBook


def slot_sampler(capacity=20, filled=20, rng=0):
    replay = varmix.Replay(capacity)
    slots = SlotSampler(varmix.vrm(replay, rng=rng), replay)
    slots.write(np.arange(filled))
    return slots


def test_slots_are_where_a_ring_stores_the_items():
    slots = slot_sampler(capacity=7, filled=7)
    slots.write(np.array([0, 1, 2]))
    drawn, _, tickets = slots.draw(200)
    [(receipt, rows, _)] = slots._book.find(tickets)
    assert np.array_equal(slots.find_items(drawn), receipt.ids[rows])
    assert set(receipt.ids.tolist()) == set(range(3, 10))


@pytest.mark.parametrize("written", [[1], [5], [0, 1, 3], [0, 0]])
def test_items_that_are_not_written_round_and_round_are_refused(written):
    slots = slot_sampler()
    with pytest.raises(ValueError, match="round-robin order"):
        slots.write(np.array(written))
    assert slots.replay.space.first == 0
    slots.write(np.array([0, 1, 2]))
    assert slots.replay.space.first == 3


def test_writing_nothing_is_nothing():
    slots = slot_sampler()
    slots.write(np.array([], dtype=np.int64))
    assert slots.replay.space.first == 0


def test_a_row_that_is_named_twice_counts_with_its_largest_norm():
    slots, other = slot_sampler(), slot_sampler()
    _, _, tickets = slots.draw(8)
    _, _, again = other.draw(8)
    norms = np.arange(1.0, 9.0)
    slots.update(np.concatenate([tickets, tickets]), np.concatenate([norms, 0.1 + 0.0 * norms]))
    other.update(again, norms)
    assert np.array_equal(slots.sampler.mixture, other.sampler.mixture)
    assert np.array_equal(slots.replay.delta(np.arange(20)), other.replay.delta(np.arange(20)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 1e121])
def test_norms_that_cannot_be_are_refused_before_any_receipt_is_touched(bad):
    slots = slot_sampler()
    tickets = np.concatenate([slots.draw(8)[2], slots.draw(8)[2]])
    norms = np.ones(16)
    norms[-1] = bad
    before = slots.state_dict()
    with pytest.raises(ValueError, match="norms must"):
        slots.update(tickets, norms)
    assert same(slots.state_dict(), before)


def test_no_rows_are_no_feedback():
    slots = slot_sampler()
    before = slots.state_dict()
    slots.update(np.array([], dtype=np.int64), [])
    assert same(slots.state_dict(), before)


def test_zero_is_a_norm_like_any_other():
    slots = slot_sampler()
    _, _, tickets = slots.draw(8)
    slots.update(tickets, np.zeros(8))
    [(receipt, _, _)] = slots._book.find(tickets)
    assert receipt.draw is None


def test_the_same_slots_are_awaited_until_their_feedback_has_come():
    slots = slot_sampler()
    drawn, _, tickets = slots.draw(8)
    assert slots.awaits(drawn)
    assert not slots.awaits(drawn[::-1])
    slots.update(tickets, np.ones(8))
    assert not slots.awaits(drawn)


def test_only_the_ledger_decides_which_receipts_are_open():
    slots = slot_sampler()
    drawn, _, tickets = slots.draw(8)
    [(receipt, _, _)] = slots._book.find(tickets)
    slots.sampler.update(receipt.draw, np.ones(8))  # the book does not see this
    assert not slots.awaits(drawn)
    assert slots.state_dict()["receipts"]["serials"].tolist() == [-1]
    before = slots.state_dict()
    with pytest.raises(ValueError, match="used"):
        slots.update(tickets, np.full(8, 2.0))
    assert same(slots.state_dict(), before)


def test_slots_without_items_cannot_be_refreshed():
    slots = slot_sampler(filled=5)
    with pytest.raises(ValueError, match=r"slots must lie in 0\.\.4"):
        slots.refresh(np.array([5]), [1.0])


def test_tickets_of_another_sampler_are_refused():
    slots, other = slot_sampler(), slot_sampler()
    slots.draw(8)
    with pytest.raises(ValueError, match="issued by another buffer"):
        slots.update(other.draw(8)[2], np.ones(8))


def test_tickets_that_are_too_old_are_refused():
    sampler = varmix.uniform(10, rng=0)
    book = TicketBook(sampler, max_receipts=2)
    old, kept, _ = [book.issue(sampler.draw(3)) for _ in range(3)]
    assert len(book.find(kept)) == 1
    with pytest.raises(ValueError, match="2 batches or"):
        book.find(old)


def test_a_state_finds_the_same_rows_after_the_oldest_were_let_go():
    sampler = varmix.uniform(10, rng=0)
    book, again = TicketBook(sampler, max_receipts=2), TicketBook(sampler, max_receipts=2)
    old, *kept = [book.issue(sampler.draw(m)) for m in (5, 3, 4)]
    again.load_state_dict(book.state_dict(), Ledger.loaded(sampler.state_dict()), items=10)
    for tickets in kept:
        [(receipt, rows, _)], [(expected, _, _)] = again.find(tickets), book.find(tickets)
        assert np.array_equal(receipt.ids[rows], expected.ids)
        assert receipt.draw.serial == expected.draw.serial
    with pytest.raises(ValueError, match="is no longer kept"):
        again.find(old)


def test_clearing_keeps_the_mixture_and_the_stream_of_random_numbers():
    slots, other = slot_sampler(), slot_sampler()
    for one in (slots, other):
        drawn, _, tickets = one.draw(8)
        one.update(tickets, 1.0 + (drawn == 3))
    mixture = slots.sampler.mixture
    slots.clear()
    with pytest.raises(ValueError, match="is empty"):
        slots.draw(4)
    assert np.array_equal(slots.sampler.mixture, mixture)
    with pytest.raises(ValueError, match="the buffer was emptied"):
        slots.update(tickets - tickets[0] + slots._book._base, np.ones(8))


def test_a_state_takes_whole_used_and_half_used_receipts_along():
    slots = slot_sampler()
    used, half, whole = (slots.draw(m)[2] for m in (8, 6, 4))
    slots.update(used, np.ones(8))
    slots.update(half[:3], [1.0, 2.0, 3.0])
    again = slot_sampler(filled=0, rng=5)
    again.load_state_dict(slots.state_dict())
    assert same(again.state_dict(), slots.state_dict())
    for one in (slots, again):
        one.update(half[3:], [4.0, 5.0, 6.0])
        one.update(whole, np.ones(4))
        one.update(used, np.full(8, 2.0))
    assert same(again.state_dict(), slots.state_dict())
    assert np.array_equal(again.draw(50)[0], slots.draw(50)[0])


def test_a_state_without_receipts_can_be_loaded():
    slots, again = slot_sampler(), slot_sampler(filled=0, rng=5)
    again.load_state_dict(slots.state_dict())
    assert np.array_equal(again.draw(50)[0], slots.draw(50)[0])


@pytest.mark.parametrize(
    "damage",
    [
        {"ids": np.arange(3)},
        {"ratios": np.ones((2, 10))},
        {"serials": np.array([0])},
        {"lengths": np.array([8, 4, 1])},
        {"lengths": np.array([13, -1])},
        {"issued": 2},
        {"base": -1},
        {"more": 1},
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(damage):
    slots = slot_sampler()
    slots.draw(8), slots.draw(4)
    state = slots.state_dict()
    with pytest.raises(CheckpointError, match=r"damaged|belong|Saved"):
        slots.load_state_dict(state | {"receipts": state["receipts"] | damage})
    assert same(slots.state_dict(), state)
    with pytest.raises(CheckpointError, match="does not belong to a Sampler"):
        slots.load_state_dict(state | {"sampler": {}})
    assert same(slots.state_dict(), state)


def test_a_checkpoint_holds_the_receipts_too(tmp_path):
    slots, again = slot_sampler(), slot_sampler(filled=0, rng=5)
    _, _, tickets = slots.draw(8)
    varmix.save(tmp_path / "slots.varmix", slots)
    varmix.load(tmp_path / "slots.varmix", again)
    again.update(tickets, np.arange(8.0))
    assert not np.array_equal(again.sampler.mixture, slots.sampler.mixture)


def test_what_was_refreshed_since_is_not_undone_by_the_last_part_of_a_batch():
    slots = slot_sampler()
    drawn, _, tickets = slots.draw(8)
    only_first = ~np.isin(drawn, drawn[4:])[:4]
    assert only_first.any()
    slots.update(tickets[:4], np.full(4, 50.0))
    slots.refresh(drawn[:4], np.full(4, 0.5))
    slots.update(tickets[4:], np.full(4, 3.0))
    kept = slots.replay.delta(slots.find_items(drawn))
    assert np.allclose(kept[:4][only_first], 0.5, rtol=0.05)
    assert np.allclose(kept[4:], 3.0, rtol=0.05)


def test_receipts_are_bounded_by_rows_and_one_is_always_kept():
    sampler = varmix.uniform(10, rng=0)
    book = TicketBook(sampler, max_rows=10)
    first, second = book.issue(sampler.draw(6)), book.issue(sampler.draw(6))
    with pytest.raises(ValueError, match="10 rows have been sampled since"):
        book.find(first)
    large = book.issue(sampler.draw(25))
    assert len(book.find(large)) == 1
    with pytest.raises(ValueError, match="no longer kept"):
        book.find(second)


DAMAGED = {
    "tickets out of order": lambda s: s | {"firsts": s["firsts"][::-1].copy()},
    "a ticket beyond the next": lambda s: s | {"next": s["next"] - 1},
    "a ticket before the first": lambda s: s | {"base": s["base"] + 1},
    "a base that is none": lambda s: s | {"base": -1},
    "a base in words": lambda s: s | {"base": "x"},
    "an empty receipt": lambda s: s | {"lengths": np.array([0, 9])},
    "a length too many": lambda s: s | {"lengths": np.array([4, 5, 1])},
    "too few rows": lambda s: s | {"ids": s["ids"][1:]},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_state_of_receipts_that_does_not_fit_is_refused(name):
    sampler = varmix.uniform(10, rng=0)
    book = TicketBook(sampler)
    book.issue(sampler.draw(4))
    book.issue(sampler.draw(5))
    before = book.state_dict()
    with pytest.raises(CheckpointError, match=r"damaged|Saved"):
        book.load_state_dict(DAMAGED[name](before), Ledger.loaded(sampler.state_dict()), items=10)
    assert same(book.state_dict(), before)


def in_flight():
    """Return a state of 8 rows that were used, 6 of which half are to come, and 5 that are; 20 items came."""
    slots = slot_sampler()
    used, half, _ = (slots.draw(m)[2] for m in (8, 6, 5))
    slots.update(used, np.ones(8))
    slots.update(half[:3], [1.0, 2.0, 3.0])
    return slots.state_dict()


def entry(name, value, at=0):
    """Change one entry of a table of receipts."""

    def change(receipts):
        table = receipts[name].copy()
        table[at] = value
        return receipts | {name: table}

    return change


def replaced(**entries):
    return lambda receipts: receipts | entries


HOSTILE = {
    "ratios of one column": replaced(ratios=np.ones((11, 1))),
    "ratios of too many columns": replaced(ratios=np.ones((11, 11))),
    "ratios by column": lambda r: r | {"ratios": np.ascontiguousarray(r["ratios"].T)},
    "ratios in single precision": lambda r: r | {"ratios": r["ratios"].astype(np.float32)},
    "a ratio that is none": entry("ratios", np.nan, (0, 3)),
    "a negative ratio": entry("ratios", -1.0, (0, 3)),
    "an endless ratio": entry("ratios", np.inf, (0, 3)),
    "a ratio of more than all items": entry("ratios", 1e300, (0, 3)),
    "no density": entry("density", 0.0),
    "a negative density": entry("density", -1.0),
    "a density that is none": entry("density", np.nan),
    "an endless density": entry("density", np.inf),
    "a density whose weight is endless": entry("density", 1e-310),
    "a density of other ratios": entry("density", 30.0),
    "too few densities": lambda r: r | {"density": r["density"][1:]},
    "a norm that is none": entry("norms", np.nan),
    "a negative norm": entry("norms", -0.5),
    "too large a norm": entry("norms", 1e121),
    "norms in whole numbers": lambda r: r | {"norms": r["norms"].astype(np.int64)},
    "an item that never came": entry("ids", 20),
    "an item far away": entry("ids", 2**62),
    "an item below zero": entry("ids", -1),
    "items in fractions": lambda r: r | {"ids": r["ids"].astype(np.float64)},
    "items in two dimensions": lambda r: r | {"ids": r["ids"][None]},
    "a receipt that was used": entry("serials", 0, 1),
    "a receipt that was never issued": entry("serials", 3, 2),
    "a receipt twice": entry("serials", 1, 2),
    "receipts out of order": replaced(serials=np.array([-1, 2, 1])),
    "a serial below -1": entry("serials", -2),
    "serials in words": replaced(serials="abc"),
    "a length beyond the rows": entry("lengths", 2**62),
    "lengths that sum to something else": entry("lengths", 7),
    "tickets before the first": entry("firsts", 0),
    "tickets that end too late": lambda r: r | {"next": 2**63 - 1, "base": 2**63 - 2, "firsts": r["firsts"][:0]},
    "a next ticket beyond 64 bits": replaced(next=2**63 - 1),
    "a next ticket in fractions": lambda r: r | {"next": float(r["next"])},
    "a next ticket that is true": replaced(base=False, next=True),
    "a table that is missing": lambda r: {name: r[name] for name in r if name != "norms"},
    "nothing": lambda r: None,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_receipts_that_no_sampler_can_have_issued_are_refused_and_change_nothing(name):
    state = in_flight()
    slots = slot_sampler(filled=7, rng=3)
    slots.draw(5)
    before = slots.state_dict()
    with pytest.raises(CheckpointError):
        slots.load_state_dict(state | {"receipts": HOSTILE[name](state["receipts"])})
    assert same(slots.state_dict(), before)
    slots.load_state_dict(state)  # it is the change alone that was refused


def test_a_state_cannot_hold_more_receipts_than_are_kept():
    slots = slot_sampler()
    slots.draw(1)
    state = slots.state_dict()
    first, many = state["receipts"]["firsts"][0], MAX_RECEIPTS + 1
    table = {
        "next": int(first) + many,
        "firsts": np.arange(first, first + many),
        "lengths": np.ones(many, np.int64),
        "serials": np.full(many, -1),
        "ids": np.zeros(many, np.int64),
        "norms": np.zeros(many),
        "density": np.empty(0),
        "ratios": np.empty((0, 10)),
    }
    with pytest.raises(CheckpointError, match="4,097 receipts"):
        slots.load_state_dict(state | {"receipts": state["receipts"] | table})
    kept = {name: value[1:] if np.ndim(value) and len(value) else value for name, value in table.items()}
    slots.load_state_dict(state | {"receipts": state["receipts"] | kept})


def test_a_state_cannot_hold_more_rows_than_are_kept():
    slots = slot_sampler()
    slots.draw(1)
    state = slots.state_dict()
    first, rows = int(state["receipts"]["firsts"][0]), MAX_RECEIPT_ROWS + 1
    table = {
        "next": first + rows,
        "firsts": np.array([first, first + 1]),
        "lengths": np.array([1, MAX_RECEIPT_ROWS]),
        "serials": np.full(2, -1),
        "ids": np.zeros(rows, np.int64),
        "norms": np.zeros(rows),
        "density": np.empty(0),
        "ratios": np.empty((0, 10)),
    }
    with pytest.raises(CheckpointError, match="262,145 rows"):
        slots.load_state_dict(state | {"receipts": state["receipts"] | table})


def test_one_receipt_of_any_length_is_kept_in_a_state():
    slots, again = slot_sampler(), slot_sampler(filled=0)
    _, _, tickets = slots.draw(MAX_RECEIPT_ROWS + 5)
    again.load_state_dict(slots.state_dict())
    again.update(tickets, np.ones(MAX_RECEIPT_ROWS + 5))


def test_a_receipt_that_its_sampler_has_forgotten_does_not_spoil_the_state():
    slots = slot_sampler()
    _, _, tickets = slots.draw(4)
    for _ in range(2 * MAX_RECEIPT_AGE + 2):  # draws past the buffer, whose feedback comes at once
        slots.sampler._ledger.use(slots.sampler._ledger.issue())
    again = slot_sampler(filled=0, rng=5)
    again.load_state_dict(slots.state_dict())
    mixture = again.sampler.mixture
    again.update(tickets, np.full(4, 7.0))
    assert np.array_equal(again.sampler.mixture, mixture)


def test_tickets_after_loading_fit_64_bits_wherever_a_state_ends():
    slots = slot_sampler()
    state = slots.state_dict()
    last = {"base": 2**63 - 2**50, "next": 2**63 - 2**50}
    slots.load_state_dict(state | {"receipts": state["receipts"] | last})
    _, _, tickets = slots.draw(8)
    assert tickets.dtype == np.int64
    assert tickets.min() > 2**63 - 2**50
    slots.update(tickets, np.ones(8))


def test_a_state_of_an_older_format_names_both_versions():
    slots = slot_sampler()
    state = slots.state_dict()
    old = {name: value for name, value in state["sampler"].items() if name not in ("format", "varmix")}
    with pytest.raises(CheckpointError, match=r"format 1.*0\.1\.0 or older.*reads format"):
        slots.load_state_dict(state | {"sampler": old})


def test_a_copy_and_its_original_refuse_each_others_tickets_and_take_those_from_before():
    slots = slot_sampler()
    _, _, before = slots.draw(4)
    again = copy.deepcopy(slots)
    mine, theirs = slots.draw(8)[2], again.draw(8)[2]
    for one, other in ((slots, theirs), (again, mine)):
        with pytest.raises(ValueError, match="issued by another buffer"):
            one.update(other, np.ones(8))
    for one, own in ((slots, mine), (again, theirs)):
        one.update(own, np.ones(8))
        one.update(before, np.ones(4))
