import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import varmix
from varmix import Dense, Groups
from varmix._core import checkpoint
from varmix.testing import same

LABELS = np.repeat([0, 1, 2], [5, 10, 15])


def _trained(rng=0):
    sampler = varmix.vrm(Groups(LABELS, replacement=False), rng=rng)
    for _ in range(10):
        draw = sampler.draw(7)
        sampler.update(draw, draw.indices / 30)
    return sampler


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "sampler.varmix"
    varmix.save(file, _trained())
    return file


def test_a_checkpoint_is_small_and_readable_without_varmix(path):
    assert path.stat().st_size < 10_000  # positions of cursors, not orders of points
    with safe_open(path, framework="numpy") as file:
        assert file.metadata()["varmix_format"] == "3"
        assert json.loads(file.metadata()["state"])["serial"] == 10
        assert "/learner/mixture" in file.keys()  # noqa: SIM118


def test_reading_gives_the_state_itself(path):
    saved = checkpoint.read_checkpoint(path)
    sampler = varmix.load(path, varmix.vrm(Groups(LABELS, replacement=False)))
    assert same(sampler.state_dict(), saved)


def _refuses(path, says, sampler=None):
    sampler = sampler or _trained(rng=1)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=says):
        varmix.load(path, sampler)
    assert same(sampler.state_dict(), before)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95, 0.999])
def test_truncated_files_are_refused(share, path):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    _refuses(path, "truncated or not a varmix checkpoint")


def test_files_of_something_else_are_refused(path, tmp_path):
    path.write_text("hello, this is no checkpoint at all")
    _refuses(path, "truncated or not")
    other = tmp_path / "weights.safetensors"
    save_file({"x": np.zeros(3)}, other)
    _refuses(other, "not a varmix checkpoint")


def _rewrite(path, change):
    with safe_open(path, framework="numpy") as file:
        metadata = dict(file.metadata())
        arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    change(arrays, metadata)
    save_file(arrays, path, metadata)


def test_states_of_other_things_are_refused_by_the_name_of_the_entry(tmp_path):
    class Owner:
        def state_dict(self):
            return {"inner": {"weights": {1, 2}}}

        def load_state_dict(self, state):
            pass

    with pytest.raises(TypeError, match=r"inner/weights is a set. Save the state of a loader"):
        varmix.save(tmp_path / "file", Owner())
    assert not list(tmp_path.iterdir())


def test_other_formats_are_refused(path):
    _rewrite(path, lambda arrays, metadata: metadata.update(varmix_format="1"))
    _refuses(path, f"format 1, written by varmix {varmix.__version__}; varmix {varmix.__version__} reads format 3")


def test_files_of_the_first_format_are_refused_by_its_name(path):
    def as_it_was(arrays, metadata):
        del metadata["varmix_version"]
        metadata["varmix_format"] = "1"

    _rewrite(path, as_it_was)
    _refuses(path, "format 1, written by varmix 0.1.0 or older; .* reads format 3. Load it with the version")


def test_states_of_the_first_format_are_refused_by_its_name():
    state = _trained().state_dict()
    del state["format"], state["varmix"]
    with pytest.raises(varmix.CheckpointError, match=r"has format 1, written by .* or older; .* reads format 3"):
        _trained().load_state_dict(state)


DAMAGE = {
    "no header": lambda arrays, metadata: metadata.pop("state"),
    "another header": lambda arrays, metadata: metadata.update(
        state=metadata["state"].replace('"serial": 10', '"serial": 11')
    ),
    "a missing array": lambda arrays, metadata: arrays.pop("/learner/mixture"),
    "another number": lambda arrays, metadata: arrays["/learner/mixture"].__setitem__(0, 0.123),
    "no checksum": lambda arrays, metadata: metadata.pop("sha256"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_are_refused(name, path):
    _rewrite(path, DAMAGE[name])
    _refuses(path, "do not match its checksum")


def test_a_changed_byte_anywhere_is_noticed(path):
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(content), size=60):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"damaged|truncated|not a varmix|format"):
            checkpoint.read_checkpoint(path)


def _with(path_in_state, value):
    def change(state):
        *parents, name = path_in_state.split("/")
        for parent in parents:
            state = state[parent]
        if value is None:
            del state[name]
        else:
            state[name] = value

    return change


WRONG = {
    "a missing entry": (_with("serial", None), "expected the entries"),
    "another entry": (_with("extra", 1), "expected the entries"),
    "a number that is none": (_with("learner/curvature", np.full((4, 4), np.nan)), "not finite"),
    "a mixture that is none": (_with("learner/mixture", np.full(4, 0.7)), "mixture is damaged"),
    "too little uniform": (_with("learner/mixture", np.array([0.5, 0.25, 0.25, 0.0])), "must be at least 0.1"),
    "a cost in words": (_with("learner/cost", "much"), "must be a number"),
    "a learner that is none": (_with("learner", 3), "must be a dictionary"),
    "another shape": (_with("learner/mixture", np.full(3, 1 / 3)), r"shape \(3,\)"),
    "cursors outside": (_with("components/position", np.full(3, 99)), "outside their groups"),
    "cursors without a seed": (_with("components/seed", False), "64 bits"),
    "cursors whose seed is missing": (lambda state: state["components"].update(seed=None), "seed is missing"),
    "a seed too long": (_with("components/seed", 2**70), "64 bits"),
    "other groups": (_with("components/masses", np.full(3, 1 / 3)), "other masses"),
    "a generator that is none": (_with("uniforms/generator", {}), "random generator"),
    "a block that is too long": (_with("uniforms/left", 2**32), "left must be a whole number in 0..4096"),
    "receipts that are none": (_with("used/above", np.zeros((2, 2))), "above must be an array of shape"),
    "other settings": (_with("settings/learner/gamma", 0.3), "learner"),
    "no settings": (_with("settings", {}), "expected the entries"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_states_are_refused_and_change_nothing(name, path):
    change, says = WRONG[name]
    state = checkpoint.read_checkpoint(path)
    change(state)
    sampler = _trained(rng=1)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=says):
        sampler.load_state_dict(state)
    assert same(sampler.state_dict(), before)
    assert np.array_equal(sampler.draw(20).indices, _trained(rng=1).draw(20).indices)


def test_states_must_be_dictionaries():
    with pytest.raises(ValueError, match="must be a dictionary"):
        _trained().load_state_dict(None)


def test_receipts_newer_than_the_checkpoint_are_refused():
    sampler = _trained()
    state = sampler.state_dict()
    newer = [sampler.draw(2) for _ in range(3)]
    sampler.load_state_dict(state)
    with pytest.raises(ValueError, match="newer than the checkpoint"):
        sampler.update(newer[-1], [1.0, 1.0])
    again = [sampler.draw(2) for _ in range(3)]
    sampler.update(again[-1], [1.0, 1.0])


def test_a_state_does_not_change_with_its_sampler():
    sampler = _trained()
    state = sampler.state_dict()
    copy = sampler.state_dict()
    sampler.update(sampler.draw(5000), np.ones(5000))
    state["uniforms"]["generator"]["state"]["inc"] = 1
    assert same(copy["learner"], state["learner"])
    assert sampler.state_dict()["uniforms"]["generator"]["state"]["inc"] != 1


OTHERS = {
    "fewer groups": (lambda: varmix.vrm(Groups(LABELS % 2, replacement=False)), "shape"),
    "other groups": (lambda: varmix.vrm(Groups(np.repeat([0, 1, 2], 10), replacement=False)), "other masses"),
    "more points": (lambda: varmix.vrm(Groups([*LABELS, 2], replacement=False)), "n was 30 and is 31"),
    "with replacement": (lambda: varmix.vrm(Groups(LABELS)), "allocate"),
    "another family": (lambda: varmix.vrm(Dense(np.full((30, 3), 1 / 30))), "allocate"),
    "another learner": (lambda: varmix.vrm(Groups(LABELS, replacement=False), gamma=0.2), "learner"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_checkpoints_of_other_samplers_are_refused(name, path):
    make, says = OTHERS[name]
    _refuses(path, says, make())


def test_a_missing_file_is_what_it_is(tmp_path):
    with pytest.raises(FileNotFoundError):
        varmix.load(tmp_path / "nothing", _trained())


def test_saving_over_a_checkpoint_leaves_nothing_else_behind(path):
    varmix.save(path, _trained(rng=2))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_failed_save_keeps_the_old_checkpoint(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("no space left on device")))
    with pytest.raises(OSError, match="no space left"):
        varmix.save(path, _trained(rng=2))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


ENDLESS = """
import sys
import numpy as np, varmix
sampler = varmix.vrm(varmix.Groups(np.repeat([0, 1, 2], [5, 10, 15]), replacement=False), rng=0)
print("ready", flush=True)
while True:
    draw = sampler.draw(7)
    sampler.update(draw, draw.indices / 30)
    varmix.save(sys.argv[1], sampler)
"""


def test_a_kill_never_leaves_half_a_file(tmp_path):
    path = tmp_path / "sampler.varmix"
    for pause in (0.05, 0.15, 0.3):
        with subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            while not path.exists():
                assert process.poll() is None, "the process ended by itself"
                time.sleep(0.01)
            time.sleep(pause)
            process.kill()
        sampler = varmix.load(path, varmix.vrm(Groups(LABELS, replacement=False)))
        assert sampler.draw(7).serial > 0
        path.unlink()


class Holder:
    """Whatever has a state."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def test_entries_are_told_apart_whatever_their_names(tmp_path):
    state = {"a/b": np.ones(2), "a": {"b": np.zeros(3), "~1b": np.full(1, 5.0)}, "a~1b": np.array(7.0), "": {"": 1}}
    varmix.save(tmp_path / "state", Holder(state))
    assert same(varmix.load(tmp_path / "state", Holder({})).state, state)


def test_keys_that_are_no_strings_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match="must be strings, got 1"):
        varmix.save(tmp_path / "state", Holder({"a": {1: np.ones(2)}}))
    assert not list(tmp_path.iterdir())
