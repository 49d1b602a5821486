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
from varmix import Dense, Groups, checkpoint
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
        assert file.metadata()["varmix_format"] == "1"
        assert json.loads(file.metadata()["state"])["serial"] == 10
        assert "/learner/mixture" in file.keys()  # noqa: SIM118


def test_reading_gives_the_state_itself(path):
    saved = checkpoint.read(path)
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


def test_other_formats_are_refused(path):
    _rewrite(path, lambda arrays, metadata: metadata.update(varmix_format="2"))
    _refuses(path, "format 2; this varmix reads format 1")


def _edit(metadata, **changes):
    metadata["state"] = json.dumps(json.loads(metadata["state"]) | changes)


DAMAGE = {
    "no header": (lambda a, m: m.pop("state"), "header cannot be read"),
    "half a header": (lambda a, m: m.update(state=m["state"][:50]), "header cannot be read"),
    "a missing array": (lambda a, m: a.pop("/learner/mixture"), "header cannot be read"),
    "a missing entry": (lambda a, m: _edit(m, serial=None) or _edit_out(m, "serial"), "expected the entries"),
    "a number that is none": (lambda a, m: a["/learner/curvature"].fill(np.nan), "not finite"),
    "a mixture that is none": (lambda a, m: a["/learner/mixture"].fill(0.7), "damaged"),
    "cursors outside": (lambda a, m: a["/components/position"].fill(99), "outside their groups"),
    "a generator that is none": (lambda a, m: _edit(m, uniforms={"generator": {}, "length": 1, "position": 0}), "random"),
    "a place outside": (lambda a, m: _edit_in(m, "uniforms", position=10**6), "random state is damaged"),
}


def _edit_out(metadata, name):
    state = json.loads(metadata["state"])
    del state[name]
    metadata["state"] = json.dumps(state)


def _edit_in(metadata, part, **changes):
    state = json.loads(metadata["state"])
    state[part] |= changes
    metadata["state"] = json.dumps(state)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_are_refused(name, path):
    change, says = DAMAGE[name]
    _rewrite(path, change)
    _refuses(path, says)


OTHERS = {
    "fewer groups": (lambda: varmix.vrm(Groups(LABELS % 2, replacement=False)), "shape"),
    "more points": (lambda: varmix.vrm(Groups([*LABELS, 2], replacement=False)), "n was 30 and is 31"),
    "with replacement": (lambda: varmix.vrm(Groups(LABELS)), "allocate = carried, this one has stratified"),
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
                time.sleep(0.01)
            time.sleep(pause)
            process.kill()
        sampler = varmix.load(path, varmix.vrm(Groups(LABELS, replacement=False)))
        assert sampler.draw(7).serial > 0
        path.unlink()
