"""Streams that are stopped and taken up again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.stateful import Stateful

from support.loaders import EAGER, NEARLY
from support.oracles import nameless
from support.streams import Counting, Keyed, Shuffled, went
from varmix.allocate import independent, round_robin
from varmix.learners import Fixed
from varmix.testing import same
from varmix.torch._interleave import Interleave

TARGET = {"list": 3.0, "class": 2.0, "stateful": 2.0, "epochs": 1.0, "generator": 1.0}
ENDS = ("stop", "restart", "drop")


class Pairs:
    """The samples of a source with their key, and its state, if it has one."""

    def __init__(self, key, source):
        self.key, self.source = key, source

    def __iter__(self):
        return ((self.key, value) for value in self.source)


class Stated(Pairs):
    def state_dict(self):
        return self.source.state_dict()

    def load_state_dict(self, state):
        self.source.load_state_dict(state)


class Told(Pairs):
    def set_epoch(self, epoch):
        self.source.set_epoch(epoch)


def build(ended, *, batch_size=8, rng=0, target=TARGET, last=40, **settings):
    sources = {
        "list": [(0, i) for i in range(60)],
        "class": Keyed(1, 23),
        "stateful": Stated(2, Counting(31)),
        "epochs": Told(3, Shuffled(18)),
        "generator": iter(Keyed(4, last)) if ended != "restart" else Keyed(4, last),
    }
    return Interleave(sources, batch_size, target=target, on_exhausted=ended, rng=rng, **{"learner": EAGER, **settings})


def reloaded(state, path):
    torch.save(state, path)
    return torch.load(path, weights_only=True)


def test_it_keeps_to_the_protocol():
    assert isinstance(build("stop"), Stateful)


@pytest.mark.parametrize("learner", [EAGER, NEARLY], ids=["eager", "cautious"])
@pytest.mark.parametrize("allocate", [round_robin, independent], ids=repr)
@pytest.mark.parametrize("ended", ENDS)
def test_a_stream_that_was_saved_goes_on_bit_for_bit_from_anywhere(ended, allocate, learner, tmp_path):
    steps = len(went(build(ended, allocate=allocate, learner=learner), 40))
    assert steps == 40 if ended == "restart" else 5 < steps < 40
    for before in range(steps + 1):
        stream = build(ended, allocate=allocate, learner=learner)
        went(stream, before)
        state = reloaded(stream.state_dict(), tmp_path / "stream.pt")
        other = build(ended, allocate=allocate, learner=learner, rng=5)
        other.load_state_dict(state)
        assert other.taken == stream.taken
        assert went(other, 20) == went(stream, 20)
        assert other.taken == stream.taken
        assert other.shares == stream.shares


@pytest.mark.parametrize("ended", ENDS)
def test_saving_at_every_step_and_taking_up_again_changes_nothing(ended, tmp_path):
    expected = went(build(ended), 30)
    seen, stream = [], build(ended)
    for _ in range(30):
        seen += went(stream, 1)
        state = reloaded(stream.state_dict(), tmp_path / "stream.pt")
        stream = build(ended)
        stream.load_state_dict(state)
    assert seen == expected


def test_saving_changes_nothing():
    stream, other = build("drop"), build("drop")
    for _ in range(20):
        other.state_dict()
        assert went(stream, 1) == went(other, 1)


def test_going_back_in_the_same_object():
    stream = build("restart")
    went(stream, 5)
    state = stream.state_dict()
    expected = went(stream, 10)
    stream.load_state_dict(state)
    assert went(stream, 10) == expected


def test_another_process_goes_on_bit_for_bit(tmp_path):
    expected = {}
    for ended in ENDS:
        stream = build(ended)
        went(stream, 9)
        torch.save(stream.state_dict(), tmp_path / ended)
        expected[ended] = went(stream, 12)
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]; import json, pathlib, torch, test_interleave_state as t;"
        "streams = {ended: t.build(ended) for ended in t.ENDS}; folder = pathlib.Path(sys.argv[1]);"
        "[stream.load_state_dict(torch.load(folder / ended, weights_only=True)) for ended, stream in streams.items()];"
        "print(json.dumps({ended: t.went(stream, 12) for ended, stream in streams.items()}))"
    )
    here = Path(__file__).parent
    command = [sys.executable, "-c", code, str(tmp_path), str(here), str(here.parent)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == json.loads(json.dumps(expected))


@pytest.mark.filterwarnings("ignore")
def test_distributed_checkpoints_take_states_of_any_shape(tmp_path):
    stream = build("drop")
    went(stream, 9)
    next(stream)  # without feedback
    went(stream, 2)
    checkpoint.save({"stream": stream}, checkpoint_id=tmp_path, no_dist=True)
    other = build("drop")
    went(other, 0)
    checkpoint.load({"stream": other}, checkpoint_id=tmp_path, no_dist=True)
    assert went(other, 20) == went(stream, 20)


def test_items_that_were_put_back_are_not_lost():
    """A batch that fails leaves its samples to the next one, also of a source whose state is past them."""
    stream = build("restart")
    went(stream, 3)
    stream.state_dict()
    collate, stream._collate = stream._collate, None
    with pytest.raises(TypeError):
        next(stream)
    stream._collate = collate
    state, other = stream.state_dict(), build("restart")
    other.load_state_dict(state)
    assert state["interleave"][0]["sources"]["stateful"]["mark"][0] == stream.taken["stateful"]
    assert went(other, 12) == went(stream, 12)


class Watched(Keyed):
    """Counts how often it is iterated."""

    iterated = 0

    def __iter__(self):
        self.iterated += 1
        return super().__iter__()


@pytest.mark.parametrize("size", [11, 12, 13])  # of some of them samples are left out
@pytest.mark.parametrize(("ended", "steps"), [("drop", 5), ("stop", 50)])
def test_a_source_that_has_ended_is_not_read_again(ended, steps, size):
    sources = {"a": Watched(0, size), "b": Watched(1, 90)}
    stream = Interleave(sources, 8, on_exhausted=ended)
    went(stream, steps)
    other = Interleave(sources, 8, on_exhausted=ended)
    other.load_state_dict(stream.state_dict())
    assert sources["a"].iterated == 1
    assert sources["b"].iterated == (2 if ended == "drop" else 1)
    before = other.sampler.state_dict()
    assert went(other, 0 if ended == "drop" else 5) == []
    assert same(other.sampler.state_dict(), before)  # a stream that has ended draws nothing


def test_receipts_from_before_the_state_was_saved_are_taken():
    stream = build("stop")
    (_, draw), state = next(stream), stream.state_dict()
    other = build("stop")
    other.load_state_dict(state)
    other.update(draw, torch.ones(8))
    assert other.meter.batches == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 9}, "had batch_size = 8, this one has 9"),
        ({"ended": "stop"}, "had on_exhausted = 'drop', this one has 'stop'"),
        ({"target": TARGET | {"list": 5.0}}, "target was"),
        ({"learner": Fixed()}, "had learner ="),
        ({"allocate": independent}, "had allocate ="),
    ],
)
def test_another_object_refuses_the_state_and_goes_on(change, message):
    stream = build("drop")
    went(stream, 3)
    other, expected = (build(**{"ended": "drop"} | change) for _ in range(2))
    with pytest.raises(ValueError, match=message):
        other.load_state_dict(stream.state_dict())
    assert went(other, 5) == went(expected, 5)


def test_other_names_are_refused():
    state = Interleave({"a": [1, 2], "b": [3]}, 1).state_dict()
    with pytest.raises(ValueError, match="the sources of this Interleave: expected the entries"):
        Interleave({"a": [1, 2], "c": [3]}, 1).load_state_dict(state)
    with pytest.raises(ValueError, match="names was \\['a', 'b'\\]"):
        Interleave({"b": [1, 2], "a": [3]}, 1).load_state_dict(state)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "does not belong to an Interleave"),
        ({"interleave": ({},)}, "does not belong to an Interleave"),
        ({"interleave": ()}, "must be one dictionary in a tuple"),
        ({"interleave": 5}, "must be one dictionary in a tuple"),
    ],
)
def test_damaged_states_are_refused(state, message):
    with pytest.raises(ValueError, match=message):
        build("stop").load_state_dict(state)


def test_the_verdict_of_a_stream_that_was_loaded_is_as_cautious_as_before():
    stream, other = (build("restart", learner=None) for _ in range(2))
    for _, (_, draw) in zip(range(20), stream, strict=False):
        stream.update(draw, torch.ones(8))
    other.load_state_dict(stream.state_dict())
    assert other.meter.verdict() == stream.meter.verdict()


def test_a_source_that_is_not_as_it_was_is_refused_and_the_rest_stays():
    stream = build("restart")
    went(stream, 10)
    other = build("restart", last=3)
    went(other, 2)
    before, taken = other.sampler.state_dict(), other.taken
    with pytest.raises(ValueError, match="Source 'generator' has changed"):
        other.load_state_dict(stream.state_dict())
    assert same(nameless(other.sampler.state_dict()), nameless(before))
    assert other.taken == taken
