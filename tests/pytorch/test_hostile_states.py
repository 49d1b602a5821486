"""States of loaders and streams that were damaged, or made to do damage: refused, and nothing has changed."""

from functools import partial

import numpy as np
import pytest
import torch

import varmix
from support.loaders import EAGER, LABELS, Numbers
from support.streams import Counting
from varmix import CheckpointError
from varmix.testing import same
from varmix.torch import AdaptiveLoader, Interleave, MixtureBatchSampler
from varmix.torch._engine import MAX_WAITING_RECEIPTS
from varmix.torch._tensors import as_arrays

TARGET = np.where(np.arange(100) < 5, 0.0, 1.0)
LAWS = np.random.default_rng(0).gamma(1.0, size=(100, 3))
FAMILIES = {
    "groups": partial(varmix.Groups, LABELS, replacement=False),
    "resplit": partial(varmix.Groups, LABELS, replacement=False, resplit="norms"),
    "target": partial(varmix.Groups, LABELS, target=TARGET),
    "dense": partial(varmix.Dense, LAWS / LAWS.sum(axis=0)),
    "cumulative": partial(varmix.components.Cumulative, 100),
}


def build(family="groups", steps=3):
    """Return batches with feedback for the first; two others are in flight."""
    batches = MixtureBatchSampler(FAMILIES[family](), 8, learner=EAGER, rng=0)
    loop = iter(batches)
    slots = [next(loop) for _ in range(steps)]
    batches.update(slots[0].draw_id, 1.0 + torch.tensor(slots[0]))
    return batches


def saved(batches):
    return as_arrays(batches.state_dict()["loader"][0])


def refused(batches, state):
    """Return the error of a state that cannot be loaded, after checking that nothing has changed."""
    before = saved(batches)
    with pytest.raises(CheckpointError) as caught:
        batches.load_state_dict({"loader": (state,)})
    assert same(saved(batches), before)
    return str(caught.value)


def receipt(state):
    return state["epoch"]["in_flight"]["1"]


def put(name, value):
    """Write a value, or what a function makes of the one that is there, into the second receipt in flight."""

    def damage(state):
        entries = receipt(state)
        entries[name] = value(entries[name]) if callable(value) else value

    return damage


def entry(value):
    """Write one number into an array, and leave the rest."""

    def damaged(tensor):
        changed = tensor.clone()
        changed.view(-1)[3] = value
        return changed

    return damaged


STRANGE = {
    "nothing": None,
    "a text": "0123",
    "a list": [0] * 8,
    "a number": 7,
    "a dictionary": {"0": torch.zeros(8)},
    "no slots": torch.zeros(0, dtype=torch.int64),
    "no dimension": torch.tensor(3),
    "single precision": torch.ones(8),
    "half precision": torch.ones(8, dtype=torch.float16),
    "bfloat16": torch.ones(8, dtype=torch.bfloat16),
    "complex": torch.ones(8, dtype=torch.complex128),
    "truth": torch.ones(8, dtype=torch.bool),
    "short whole numbers": torch.ones(8, dtype=torch.int32),
    "unsigned": torch.ones(8, dtype=torch.uint8),
    "sparse": torch.ones(8, dtype=torch.float64).to_sparse(),
    "without data": torch.ones(8, dtype=torch.float64, device="meta"),
    "terabytes": torch.ones(1, dtype=torch.float64).expand(2**38),
    "terabytes of indices": torch.zeros(1, dtype=torch.int64).expand(2**38),
    "a row": torch.ones(1, 8, dtype=torch.float64),
}

RECEIPTS = {
    **{f"{name}: {kind}": put(name, value) for name in ("indices", "weights", "density", "rows", "serial", "sampler_id")
       for kind, value in STRANGE.items() if (name, kind) not in {("sampler_id", "a text")}},
    "indices: negative": put("indices", entry(-1)),
    "indices: behind the end": put("indices", entry(100)),
    "indices: far away": put("indices", entry(2**40)),
    "indices: farthest": put("indices", entry(-(2**63))),
    "indices: one too few": put("indices", lambda values: values[:-1]),
    "indices: one too many": put("indices", lambda values: torch.cat([values, values[:1]])),
    "indices: numbers with a fraction": put("indices", lambda values: values.double()),
    **{f"{name}: {value}": put(name, entry(value)) for name in ("weights", "density")
       for value in (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, 1e-300, 5e-324)},
    "density: of no mixture": put("density", entry(1e6)),
    **{f"serial: {value}": put("serial", value) for value in (-1, 2**70, 1.0, True, 10**6, 3, 0, torch.tensor(2))},
    "serial: twice": put("serial", 1),
    "serial: not in order": put("serial", 0),
    "sampler_id: of another": put("sampler_id", "0" * 32),
    "sampler_id: long": put("sampler_id", "0" * 10**6),
    "sampler_id: no digits": put("sampler_id", "\x1b" * 32),
    "a missing entry": lambda state: receipt(state).pop("weights"),
    "an entry too many": lambda state: receipt(state).update(more=1),
    "a receipt that is none": lambda state: state["epoch"]["in_flight"].update({"1": 5}),
    "nested without end": lambda state: receipt(state).update(indices=receipt(state)),
}  # fmt: skip

OF_GROUPS = {
    "groups: negative": put("rows", entry(-1)),
    "groups: behind the end": put("rows", entry(30)),
    "groups: far away": put("rows", entry(2**40)),
    "groups: one too few": put("rows", lambda values: values[:-1]),
    "groups: as ratios of one column": put("rows", torch.ones(8, 1, dtype=torch.float64)),
    "groups: numbers with a fraction": put("rows", lambda values: values.double()),
}

OF_RATIOS = {
    "ratios: one column": put("rows", lambda rows: rows[:, :1].clone()),
    "ratios: a column too many": put("rows", lambda rows: torch.cat([rows, rows[:, :1]], dim=1)),
    "ratios: a row too few": put("rows", lambda rows: rows[:-1]),
    "ratios: transposed": put("rows", lambda rows: rows.T),
    "ratios: single precision": put("rows", lambda rows: rows.float()),
    "ratios: as groups": put("rows", torch.zeros(8, dtype=torch.int64)),
    "ratios: all nothing": put("rows", torch.zeros_like),
    "ratios: larger than n": put("rows", entry(101.0)),
    **{f"ratios: {value}": put("rows", entry(value)) for value in (np.nan, np.inf, -1.0, -1e-9, 1e300)},
}


def epoch(**entries):
    return lambda state: state["epoch"].update(entries)


def in_flight(change):
    return lambda state: state["epoch"].update(in_flight=change(state["epoch"]["in_flight"]))


EPOCHS = {
    "in_flight: a list": in_flight(lambda receipts: list(receipts.values())),
    "in_flight: numbers for names": in_flight(lambda receipts: dict(enumerate(receipts.values()))),
    "in_flight: from one on": in_flight(lambda receipts: dict(zip("12", receipts.values(), strict=True))),
    "in_flight: with a gap": in_flight(lambda receipts: dict(zip("02", receipts.values(), strict=True))),
    "in_flight: in another order": in_flight(lambda receipts: dict(zip("10", receipts.values(), strict=True))),
    "in_flight: one twice": in_flight(lambda receipts: {"0": receipts["0"], "1": receipts["0"]}),
    "in_flight: more than were drawn": in_flight(lambda receipts: {str(i): receipts["0"] for i in range(4)}),
    "in_flight: far too many": in_flight(
        lambda receipts: {str(i): receipts["0"] for i in range(MAX_WAITING_RECEIPTS + 1)}
    ),
    "in_flight: nothing at all": epoch(in_flight=None),
    "drawn: fewer than are in flight": epoch(drawn=1),
    "drawn: nothing": epoch(drawn=0),
    "drawn: more than an epoch has": epoch(drawn=14),
    "drawn: far away": epoch(drawn=2**61),
    "drawn: too large for anything": epoch(drawn=2**100),
    "drawn: an array": epoch(drawn=torch.arange(3)),
    "drawn: with a fraction": epoch(drawn=3.0),
    "epoch: negative": epoch(epoch=-1),
    "epoch: no number": epoch(epoch=float("nan")),
    "next: a text": epoch(next="1"),
    "state: a number": epoch(state=1),
    "state: unknown": epoch(state="paused"),
    "state: running, which no state is saved in": epoch(state="running"),
    "state: no epoch has begun, and yet batches were drawn": epoch(state="idle"),
    "state: no epoch has begun, and yet batches were drawn, none in flight": epoch(state="idle", in_flight={}),
    "state: finished, and yet with receipts": epoch(state="finished"),
    "state: an array": epoch(state=torch.ones(2, dtype=torch.bool)),
    "state: a long text": epoch(state="idle" * 10**6),
    "size: of other batches": epoch(size=9),
    "size: an array": epoch(size=torch.tensor([8, 8])),
    "full: of a longer epoch": epoch(full=13),
    "an entry too many": epoch(more=0),
}


def replace(**entries):
    return lambda state: state.update(entries)


WHOLES = {
    "no sampler": replace(sampler=None),
    "a sampler that is a list": replace(sampler=[1]),
    "no meter": lambda state: state["sampler"].update(meter={}),
    "a meter that is a text": lambda state: state["sampler"].update(meter="keep it on"),
    "a meter of its own": replace(meter={}),
    "no epoch": replace(epoch=()),
    "an epoch that is an array": replace(epoch=torch.ones(3)),
    "no format": lambda state: state["sampler"].pop("format"),
    "used receipts in flight": lambda state: state["sampler"]["used"].update(floor=3),
    "fewer draws than receipts": lambda state: state["sampler"].update(serial=2),
    "another sampler": lambda state: state["sampler"].update(sampler_id="0" * 32),
    "a sparse mixture": lambda state: state["sampler"]["learner"].update(mixture=torch.eye(4).to_sparse()),
    "a meter of complex numbers": lambda state: state["sampler"]["meter"].update(
        sums=torch.ones(5, dtype=torch.complex64)
    ),
}

DAMAGE = [
    *(("groups", name, change) for part in (RECEIPTS, OF_GROUPS, EPOCHS, WHOLES) for name, change in part.items()),
    *(("dense", name, change) for part in (RECEIPTS, OF_RATIOS) for name, change in part.items()),
    *(("resplit", name, change) for name, change in OF_GROUPS.items()),
    *(("cumulative", name, change) for name, change in OF_RATIOS.items()),
]


@pytest.mark.parametrize(
    ("family", "change"), [row[::2] for row in DAMAGE], ids=[f"{family}, {name}" for family, name, _ in DAMAGE]
)
def test_a_damaged_state_of_a_loader_is_refused_and_nothing_changes(family, change):
    state = build(family).state_dict()["loader"][0]
    change(state)
    refused(build(family, steps=2), state)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_state_that_is_as_it_was_saved_is_taken(family):
    batches, other = build(family), build(family, steps=1)
    other.load_state_dict(batches.state_dict())
    rest = list(other)
    assert len(rest) == 12  # of thirteen, the first of which was answered
    for slots in rest:
        other.update(slots.draw_id, torch.ones(len(slots)))
    assert np.isfinite(other.mixture).all()


@pytest.mark.parametrize("family", ["groups", "resplit", "target"])
def test_a_point_that_is_not_of_its_group_is_refused(family):
    state = build(family).state_dict()["loader"][0]
    indices = receipt(state)["indices"]
    slot = int((indices < 60).nonzero()[0])
    receipt(state)["indices"][slot] = 99  # of the last group, instead of the first
    assert "not of the group" in refused(build(family), state)


def test_a_point_that_is_never_drawn_is_refused():
    state = build("target").state_dict()["loader"][0]
    slot = int((receipt(state)["indices"] < 60).nonzero()[0])
    receipt(state)["indices"][slot] = 2  # of the same group, and of target zero
    assert "target zero" in refused(build("target"), state)


def test_receipts_must_be_those_of_the_sampler_that_was_saved_with_them():
    state, other = build().state_dict()["loader"][0], build().state_dict()["loader"][0]
    state["epoch"] = other["epoch"]
    assert "not one of the saved sampler" in refused(build(), state)


def test_a_batch_that_is_full_has_all_its_slots():
    state = build().state_dict()["loader"][0]
    for name in ("indices", "weights", "density", "rows"):
        receipt(state)[name] = receipt(state)[name][:5]
    assert "must have 8..8 slots" in refused(build(), state)


def test_a_state_of_another_format_says_so():
    state = build().state_dict()["loader"][0]
    for name in ("format", "varmix"):
        del state["sampler"][name]
    del state["epoch"]["state"]  # as an older version may have it
    state["meter"] = {}
    assert "has format 1, written by varmix 0.1.0 or older" in refused(build(), state)


@pytest.mark.parametrize("state", [None, 5, [], {}, {"loader": None}, {"loader": ("",)}, {"loader": (None, None)}])
def test_what_is_no_state_of_a_loader_is_refused(state):
    with pytest.raises(CheckpointError):
        build().load_state_dict(state)


def test_a_loader_with_workers_refuses_damage_and_goes_on():
    loader, other = (AdaptiveLoader(Numbers(), LABELS, 8, learner=EAGER, rng=0, num_workers=1) for _ in range(2))
    loop, twin = iter(loader), iter(other)
    next(loop), next(twin)
    state = loader.state_dict()
    state["loader"][0]["epoch"]["in_flight"]["0"]["rows"][0] = 2**40
    with pytest.raises(CheckpointError, match="rows must lie in 0\\.\\.2"):
        loader.load_state_dict(state)
    for _ in range(5):
        (batch, draw), (expected, _) = next(loop), next(twin)
        assert torch.equal(batch, expected)
        loader.update(draw, torch.ones(8))


class Rowed(varmix.components.Family):
    """A family of a user's own, with an attribute whose name means something else to others."""

    rows = 5

    def __init__(self):
        self.space, self.k, self.c = varmix.components.Points(100), 2, 1.0

    def draw(self, lanes, uniforms):
        return (uniforms.take(len(lanes)) * 100).astype(np.int64), np.ones((len(lanes), 2))

    def ratios(self, atoms):
        return np.ones((len(atoms), 2))


def test_a_family_may_have_rows_of_its_own():
    first, second = (MixtureBatchSampler(Rowed(), 8, rng=0, learner=EAGER) for _ in range(2))
    loop = iter(first)
    expected = [list(next(loop)) for _ in range(3)]
    second.load_state_dict(first.state_dict())
    assert [list(slots) for slots, _ in zip(second, range(3), strict=False)] == expected


def test_receipts_are_told_apart_after_two_thousand_million_draws():
    batches = build()
    state = batches.state_dict()
    sampler = state["loader"][0]["sampler"]
    sampler["serial"] += 2**31
    sampler["used"]["floor"] += 2**31
    for waiting in state["loader"][0]["epoch"]["in_flight"].values():
        waiting["serial"] += 2**31
    batches.load_state_dict(state)
    for slots in batches:
        batches.update(slots.draw_id, torch.ones(len(slots)))
    assert batches.meter.batches == 13


def stream(ended="restart", steps=4):
    sources = {"list": list(range(50)), "stateful": Counting(20), "endless": Endless()}
    interleave = Interleave(sources, 6, on_exhausted=ended, rng=0)
    for _, (batch, draw) in zip(range(steps), interleave, strict=False):
        interleave.update(draw, 1.0 + batch)
    return interleave


class Endless:
    """A source without end, which says how far it was read."""

    read = 0

    def __iter__(self):
        while True:
            self.read += 1
            yield self.read


def source(name="list", **entries):
    return lambda state: state["sources"][name].update(entries)


STREAMS = {
    **{f"place: {value}": source(place=value) for value in (
        None, 3, [1, 0], [8.0, 0, 8], [-1, 0, -1], [2**70, 0, 2**70], [8, 0, 7], [8, 1, 8], [0, 3, 0], torch.ones(3))},
    **{f"mark: {value}": source(mark=value) for value in (None, [4, 0, 4], [9, 0, 9], [0, 1, 0], "000")},
    "place: without end": source("endless", place=[2**50, 0, 2**50]),
    "place: read again for years": source(place=[2**50, 2**49, 2], mark=[2**50 - 2, 2**49, 0]),
    "place: read again for years, from the start": source("stateful", place=[2**50, 2**46, 1]),
    "ended: a number": source(ended=0),
    "ended: where nothing ends": source(ended=True),
    "own: of a list": source(own={"position": 3}),
    "own: not what it gave": source("stateful", own={}),
    "own: missing": source("stateful", own=None),
    "an entry too many": source(more=1),
    "a source that is none": lambda state: state["sources"].update(list=5),
    "a source too few": lambda state: state["sources"].pop("list"),
    "sources in a list": replace(sources=[]),
    "batch_size: an array": replace(batch_size=torch.tensor([6, 6])),
    "batch_size: another": replace(batch_size=7),
    "on_exhausted: an array": replace(on_exhausted=torch.tensor([1, 2])),
    "on_exhausted: another": replace(on_exhausted="drop"),
    "no sampler": replace(sampler=None),
    "no meter": lambda state: state["sampler"].update(meter=None),
    "no format": lambda state: state["sampler"].pop("format"),
    "a source that went": lambda state: state["sampler"]["components"].update(alive=torch.tensor([True, False, True])),
    "sparse": lambda state: state["sampler"]["components"].update(alive=torch.ones(3, dtype=torch.bool).to_sparse()),
    "fewer draws than samples": lambda state: state["sampler"].update(serial=1),
}  # fmt: skip


@pytest.mark.parametrize("change", STREAMS.values(), ids=STREAMS)
def test_a_damaged_state_of_a_stream_is_refused_and_nothing_changes(change):
    state = stream().state_dict()
    change(state["interleave"][0])
    other = stream(steps=0)
    before, read = as_arrays(other.state_dict()["interleave"][0]), other._readers[2]._source.read
    with pytest.raises(CheckpointError):
        other.load_state_dict(state)
    assert same(as_arrays(other.state_dict()["interleave"][0]), before)
    assert other._readers[2]._source.read == read


def test_a_stream_that_lost_a_source_before_its_end_is_refused():
    state, other = stream("drop").state_dict(), stream("drop", steps=0)
    state["interleave"][0]["sampler"]["components"]["alive"][0] = False
    with pytest.raises(CheckpointError, match="'list' was dropped before its end"):
        other.load_state_dict(state)
    assert other.sampler.components.alive.all()


def test_a_source_that_refuses_its_state_is_named():
    class Stubborn(Counting):
        def load_state_dict(self, state):
            raise RuntimeError("not mine")

    first, second = (Interleave({"a": Stubborn(9)}, 2, rng=0) for _ in range(2))
    next(first)
    with pytest.raises(CheckpointError, match=r"Source 'a' cannot load its own saved state .*RuntimeError: not mine"):
        second.load_state_dict(first.state_dict())


def test_a_stream_of_another_format_says_so():
    state = stream().state_dict()
    del state["interleave"][0]["sampler"]["format"]
    with pytest.raises(CheckpointError, match="an Interleave has format 1"):
        stream(steps=0).load_state_dict(state)
