"""States from a file that somebody damaged, or made: refused in words, before anything is allocated or changed."""

import copy
import json
import os
import pickle
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
from safetensors.numpy import save_file

import varmix
from varmix._core import checkpoint
from varmix._core.draw import MAX_RECEIPT_AGE, PastIds
from varmix.components import Distances
from varmix.testing import same

LABELS = np.repeat([0, 1, 2], [5, 10, 15])
LEARNERS = {
    "BarrierNewton": varmix.learners.BarrierNewton(),
    "Cautious": varmix.learners.Cautious(),
    "ONS": varmix.learners.ONS(gamma=0.1),
    "ONS with an inverse": varmix.learners.ONS(gamma=0.1, projection="pgd"),
    "OGD": varmix.learners.OGD(),
    "Leader": varmix.learners.Leader(window=20),
    "Neyman": varmix.learners.Neyman([5 / 30, 10 / 30, 15 / 30]),
    "Fixed": varmix.learners.Fixed([0.2, 0.2, 0.2, 0.4]),
}


def trained(learner="BarrierNewton", rng=0, **options):
    sampler = varmix.vrm(varmix.Groups(LABELS, replacement=False), learner=LEARNERS[learner], rng=rng, **options)
    for _ in range(10):
        draw = sampler.draw(7)
        sampler.update(draw, 0.1 + draw.indices)
    return sampler


def refuses(owner, state, says=None):
    before = owner.state_dict()
    with pytest.raises(varmix.CheckpointError, match=says):
        owner.load_state_dict(state)
    assert same(owner.state_dict(), before)


def changed(state, path, value):
    state = copy.deepcopy(state)
    *parents, name = path.split("/")
    inner = state
    for parent in parents:
        inner = inner[parent]
    inner[name] = value(inner[name]) if callable(value) else value
    return state


BOMBS = {
    "a block of random numbers of 34 GB": ("uniforms/left", 2**32),
    "past ids by the hundred thousand": ("past", {f"{i:032x}": 0 for i in range(200_000)}),
    "used receipts by the million": ("used/above", np.arange(2_000_000)),
    "a floor above all receipts": ("used/floor", 11),
    "used receipts that were never drawn": ("used/above", np.array([11])),
    "used receipts in disorder": ("used/above", np.array([9, 9])),
    "a past id that ends in the future": ("past", {"0" * 32: 11}),
    "a past id that is none": ("past", {"\x1b[2J": 0}),
    "an id that is none": ("sampler_id", "\x1b[2J"),
    "a serial beyond all numbers": ("serial", 10**5000),
    "a serial that is negative": ("serial", -1),
    "a generator that repeats itself": ("uniforms/generator/state/inc", lambda inc: inc - 1),
    "a generator of another kind": ("uniforms/generator/bit_generator", "MT19937"),
    "a mixture beyond all numbers": ("learner/mixture", np.full(4, 1e308)),
    "a generator beyond all numbers": ("uniforms/generator", lambda g: {**g, "state": {"state": 10**5000, "inc": 1}}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_numbers_from_a_file_are_bounded_before_anything_is_allocated(name):
    path, value = BOMBS[name]
    sampler = trained()
    refuses(sampler, changed(sampler.state_dict(), path, value))


def test_as_many_ids_and_used_receipts_as_a_sampler_keeps_are_taken():
    sampler = trained()
    state = sampler.state_dict()
    issued = 3 * MAX_RECEIPT_AGE
    state |= {"serial": issued, "past": {f"{i:032x}": i for i in range(PastIds.MOST)}}
    state["used"] = {"floor": 10, "above": np.arange(11, 11 + 2 * MAX_RECEIPT_AGE)}
    sampler.load_state_dict(state)
    assert sampler.draw(3).serial == issued


DAMAGED = {
    "ONS, its curvature turned round": ("ONS", "learner/hessian", lambda H: -H, "eigenvalue"),
    "ONS, a curvature below eps": ("ONS", "learner/hessian", lambda H: 0.0 * H, "eigenvalue"),
    "ONS, a curvature that is not symmetric": ("ONS", "learner/hessian", lambda H: np.triu(H) + 1.0, "symmetric"),
    "ONS, another inverse": ("ONS with an inverse", "learner/inverse", lambda H: 2.0 * H, "inverse"),
    "BarrierNewton, its curvature turned round": ("BarrierNewton", "learner/curvature", lambda R: -R, "eigenvalue"),
    "BarrierNewton, a negative cost": ("BarrierNewton", "learner/cost", -1.0, "cost of -1"),
    "BarrierNewton, costs of no rounds": ("BarrierNewton", "learner/rounds", 0.0, "over 0 rounds"),
    "Cautious, costs of no rounds": ("Cautious", "learner/rounds", 0.0, "are impossible"),
    "Cautious, more rounds than its window": ("Cautious", "learner/rounds", 99.0, "are impossible"),
    "Cautious, another learner's damage": ("Cautious", "learner/learned/curvature", lambda R: -R, "eigenvalue"),
    "Fixed, another mixture": (
        "Fixed",
        "learner/mixture",
        np.array([0.1, 0.1, 0.4, 0.4]),
        "differs from the fixed one",
    ),
    "OGD, a negative length": ("OGD", "learner/length", -1.0, "must not be negative"),
    "Leader, negative rows": ("Leader", "learner/ratios", lambda rows: -rows, "negative entries"),
    "Leader, rows that were never seen": ("Leader", "learner/seen", 3, "rows beyond those it has seen"),
    "Leader, rows without the uniform law": ("Leader", "learner/ratios", lambda rows: 0.0 * rows, "not one"),
    "Neyman, negative sums": ("Neyman", "learner/squares", lambda sums: -sums, "negative"),
    "Neyman, more draws than its window": ("Neyman", "learner/counts", lambda counts: counts + 500.0, "more than 200"),
    "Neyman, a draw that hardly was": (
        "Neyman",
        "learner/counts",
        lambda counts: 0.5 + 0.0 * counts,
        "between 0 and 1",
    ),
    "Neyman, another share of uniform": ("Neyman", "learner/mixture", np.array([0.2, 0.2, 0.2, 0.4]), "gamma is 0.1"),
    "slots that are owed for ever": (
        "BarrierNewton",
        "allocation",
        np.array([1e9, -1e9, 0.0]),
        "credit of 1e[+]09 slots",
    ),
    "slots that are owed by nobody": ("BarrierNewton", "allocation", np.array([1.0, 1.0, 1.0]), "sum to 3"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_state_that_no_feedback_can_have_led_to_is_refused(name):
    learner, path, value, says = DAMAGED[name]
    sampler = trained(learner)
    refuses(sampler, changed(sampler.state_dict(), path, value), says)


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_takes_its_own_state(learner):
    sampler, other = trained(learner), trained(learner, rng=1)
    other.load_state_dict(sampler.state_dict())
    assert other.mixture.tolist() == sampler.mixture.tolist()


@pytest.mark.parametrize("place", [-1.0, 30.0, 2.5])
def test_a_place_outside_of_an_epoch_is_refused(place):
    sampler = trained(allocate=varmix.allocate.Shuffled(30))
    refuses(sampler, changed(sampler.state_dict(), "allocation", lambda kept: np.append(kept[:-1], place)), "at slot")


X = np.random.default_rng(0).normal(size=(40, 3))
P = np.random.default_rng(1).dirichlet(np.ones(40), size=2).T
FAMILIES = {
    "Dense": (lambda i: varmix.Dense(P if i == 0 else P[::-1]), "from other data"),
    "Distances": (lambda i: Distances(X if i == 0 else X[::-1], X[:2] if i == 0 else X[-2:]), "from other data"),
    "Distances, smoothed": (lambda i: Distances(X, X[:2], smoothing=0.1 + 0.1 * i), "from other data"),
    "a target": (lambda i: varmix.Groups(LABELS, target=1.0 + (LABELS + i) % 2), "target differs"),
    "a target of points": (
        lambda i: varmix.components.Cumulative(varmix.components.Points(4, [1.0, 2.0, 3.0, 4.0 + i])),
        "target differs",
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_state_of_other_data_is_refused(name):
    make, says = FAMILIES[name]
    sampler = varmix.vrm(make(0), rng=0)
    varmix.vrm(make(0), rng=1).load_state_dict(sampler.state_dict())
    refuses(varmix.vrm(make(1), rng=1), sampler.state_dict(), says)


def test_a_memory_map_has_the_checksum_of_what_is_in_it(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = varmix.vrm(Distances(np.load(tmp_path / "X.npy", mmap_mode="r"), X[:2]), rng=0)
    mapped.load_state_dict(varmix.vrm(Distances(X, X[:2]), rng=0).state_dict())


def deep(levels):
    state = {}
    for _ in range(levels):
        state = {"inner": state}
    return state


STRANGE = {
    "a number too large for a float": ("learner/cost", 10**400),
    "a text of digits": ("serial", "10"),
    "no dictionary": ("used", [1, 2]),
    "an array of objects": ("learner/mixture", np.array([{}, {}, {}, {}])),
    "complex numbers": ("learner/mixture", np.ones(4) + 1j),
    "dictionaries without end": ("settings", deep(5000)),
    "a mixture with a mask": ("learner/mixture", np.ma.masked_less(np.array([-1.0, 0.5, 0.25, 0.25]), 0.0)),
    "a list without end": ("used", [deep(5000)]),
    "a cost in single precision": ("learner/cost", np.float32("inf")),
    "a mixture without axes": ("learner/mixture", np.array(1.0)),
    "keys of all kinds": ("used", {1: 2, "a": 3, None: 4}),
    "settings with arrays": ("settings/learner", {"class": np.ones(3)}),
    "a shape that is none": ("components/n", np.ones(3)),
}


@pytest.mark.parametrize("name", STRANGE)
def test_every_refusal_is_one_kind_of_error(name):
    sampler = trained()
    refuses(sampler, changed(sampler.state_dict(), *STRANGE[name]))


def test_a_family_of_the_users_own_may_fail_as_it_likes():
    class Fails(varmix.Dense.__mro__[1]):
        def load_state_dict(self, state):
            raise ZeroDivisionError("three times")

    family = Fails(varmix.components.Points(2), np.ones((2, 1), dtype=np.float32))
    sampler = varmix.Sampler(family, learner=varmix.learners.Fixed(), rng=0)
    refuses(sampler, sampler.state_dict(), "ZeroDivisionError: three times")


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(varmix.CheckpointError, match="is a folder"):
        varmix.load(tmp_path, trained())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(varmix.CheckpointError, match="not a regular file"):
        varmix.load(tmp_path / "pipe", trained())


def forged(path, tree, arrays=None):
    """Write a file whose checksum is right, whatever is in it."""
    arrays = arrays or {"/x": np.zeros(1)}
    header = tree if isinstance(tree, str) else json.dumps(tree)
    digest = sha256((varmix.__version__ + header).encode())
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode() + arrays[name].tobytes())
    metadata = {"varmix_format": "3", "varmix_version": varmix.__version__, "state": header}
    save_file(arrays, path, metadata | {"sha256": digest.hexdigest()})
    return path


FORGED = {
    "no JSON": "{",
    "no dictionary": [1, 2],
    "an array that is missing": {"a": {"__array__": True}},
    "dictionaries inside one another": deep(200),
    "more of them than Python counts": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a number of a hundred thousand digits": '{"serial": ' + "9" * 100_000 + "}",
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused_with_one_kind_of_error(name, tmp_path):
    path = forged(tmp_path / "file", FORGED[name])
    sampler = trained()
    before = sampler.state_dict()
    with pytest.raises(varmix.CheckpointError):
        varmix.load(path, sampler)
    assert same(sampler.state_dict(), before)


def inspect(path):
    command = [sys.executable, "-m", "varmix", "inspect", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def flat(state, place=""):
    """Split a state into its tree and its arrays, as a checkpoint has them."""
    arrays, tree = {}, {}
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            arrays[f"{place}/{name}"], tree[name] = value, {"__array__": True}
        elif isinstance(value, dict):
            tree[name], inner = flat(value, f"{place}/{name}")
            arrays |= inner
        else:
            tree[name] = value
    return tree, arrays


SHOWN = {
    "a negative mixture": ("learner/mixture", np.array([-1.0, 0.5, 0.5, 1.0])),
    "a mixture of next to nothing": ("learner/mixture", np.array([0.0, 0.0, 0.0, 1e-300])),
    "a mixture that is none": ("learner/mixture", np.array([np.nan, 0.5, 0.5, 0.0])),
    "a meter without draws": ("meter/draws", 0),
    "a meter that is none": ("meter", "keep it on"),
    "a serial that is none": ("serial", "\x1b[31mred"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_inspect_tells_damage_in_one_line(name, tmp_path):
    ended = inspect(forged(tmp_path / "file", *flat(changed(trained().state_dict(), *SHOWN[name]))))
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stdout == ""
    assert ended.stderr.isascii() or all(character.isprintable() for character in ended.stderr.rstrip("\n"))


def test_inspect_prints_only_printable_characters(tmp_path):
    state = changed(trained().state_dict(), "settings/learner/class", "evil\x1b[2J\x07name")
    state["settings"]["\x1b]0;title\x07"] = {"class": "x"}
    ended = inspect(forged(tmp_path / "file", *flat(state)))
    assert ended.returncode == 0
    assert "evil\\x1b[2J\\x07name" in ended.stdout
    assert all(character.isprintable() for line in ended.stdout.splitlines() for character in line)


COPIES = {"copy.deepcopy": copy.deepcopy, "pickle": lambda sampler: pickle.loads(pickle.dumps(sampler))}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_and_its_original_refuse_each_others_receipts(name):
    sampler = trained()
    early = sampler.draw(3)
    other = COPIES[name](sampler)
    late, own = sampler.draw(3), other.draw(3)
    assert late.indices.tolist() == own.indices.tolist()  # they go on from the same state
    for one, receipt in ((sampler, own), (other, late)):
        before = one.state_dict()
        with pytest.raises(ValueError, match=r"by another sampler|by another copy"):
            one.update(receipt, [1.0, 1.0, 1.0])
        assert same(one.state_dict(), before)
    for one, receipt in ((sampler, late), (other, own)):
        one.update(early, [1.0, 1.0, 1.0])
        one.update(receipt, [1.0, 1.0, 1.0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_draws_under_an_id_of_its_own():
    sampler = trained()
    early, (read, write) = sampler.draw(3), os.pipe()
    if os.fork() == 0:  # only varmix and NumPy run here, no threads
        taken = b"no"
        try:
            sampler.update(early, [1.0, 1.0, 1.0])
            taken = pickle.dumps(sampler.draw(3))
        finally:
            os.write(write, taken)
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        theirs = pickle.loads(pipe.read())
    os.wait()
    ours = sampler.draw(3)
    assert (theirs.serial, theirs.indices.tolist()) == (ours.serial, ours.indices.tolist())
    with pytest.raises(ValueError, match="by another sampler"):
        sampler.update(theirs, [1.0, 1.0, 1.0])
    sampler.update(ours, [1.0, 1.0, 1.0])


def test_writing_into_a_state_does_not_reach_the_sampler():
    sampler = trained("Neyman")
    before = sampler.state_dict()
    state = sampler.state_dict()
    for part in (state, state["settings"]["learner"], state["learner"], state["components"], state["used"]):
        for value in part.values():
            if isinstance(value, np.ndarray) and value.size and value.flags.writeable:
                value[...] = 0
    assert same(sampler.state_dict(), before)


def test_masses_of_groups_cannot_be_written():
    groups = varmix.Groups(LABELS)
    with pytest.raises(ValueError, match="read-only"):
        groups.masses[0] = 0.9


def test_a_checkpoint_says_which_varmix_wrote_it(tmp_path):
    varmix.save(tmp_path / "file", trained())
    state = checkpoint.read_checkpoint(tmp_path / "file")
    assert (state["format"], state["varmix"]) == (3, varmix.__version__)
