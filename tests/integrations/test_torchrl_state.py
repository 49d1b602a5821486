"""Saving and loading inside TorchRL's buffers."""

import copy

import numpy as np
import pytest

import varmix
from support.torchrl_buffers import buffer, feed, told_buffer, torch
from varmix.__main__ import print_checkpoint


def go_on(rb, rounds=3):
    seen = []
    for _ in range(rounds):
        batch = rb.sample(32)
        seen.append(batch["index"].clone())
        feed(rb, batch)
    return torch.cat(seen)


def test_a_state_goes_on_with_the_same_draws_and_takes_receipts_in_flight(tmp_path):
    told = told_buffer()
    batch, half = told.sample(32), told.sample(32)
    feed(told, half[:16])
    torch.save(told.state_dict(), tmp_path / "state.pt")
    again = buffer(filled=0, rng=9)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for rb in (told, again):
        feed(rb, batch.clone())
        feed(rb, half[16:].clone())
    assert torch.equal(go_on(told), go_on(again))
    assert np.array_equal(told.sampler.sampler.mixture, again.sampler.sampler.mixture)


def test_a_folder_goes_on_with_the_same_draws(tmp_path):
    told = told_buffer()
    batch = told.sample(32)
    told.dumps(tmp_path / "buffer")
    again = buffer(filled=0, rng=9)
    again.loads(tmp_path / "buffer")
    feed(told, batch.clone())
    feed(again, batch.clone())
    assert torch.equal(go_on(told), go_on(again))


def test_prefetched_batches_are_part_of_the_state():
    rb = buffer(batch_size=16, prefetch=2)
    feed(rb, rb.sample())
    again = buffer(filled=0, rng=9, batch_size=16, prefetch=2)
    again.load_state_dict(rb.state_dict())
    for _ in range(2):
        batch, same = rb.sample(), again.sample()
        assert torch.equal(batch["index"], same["index"])
        mixture = again.sampler.sampler.mixture
        feed(again, same)
        assert not np.array_equal(again.sampler.sampler.mixture, mixture)


def test_a_state_is_not_touched_by_what_happens_later():
    told = told_buffer()
    state = told.sampler.state_dict()
    kept = copy.deepcopy(state)
    go_on(told)
    assert varmix._core.validation.same(as_arrays(state), as_arrays(kept))


def as_arrays(state):
    return {k: as_arrays(v) if isinstance(v, dict) else np.asarray(v) for k, v in state.items()}


def test_a_damaged_state_is_refused_and_changes_nothing():
    told = told_buffer()
    batch = told.sample(32)
    good = told.sampler.state_dict()
    receipts = good["receipts"]
    bad = [
        {"sampler": good["sampler"]},
        good | {"receipts": receipts | {"ids": receipts["ids"][:-1]}},
        good | {"receipts": receipts | {"serials": receipts["serials"][:-1]}},
        good | {"receipts": receipts | {"issued": 3}},
        good | {"sampler": {"sampler_id": "x"}},
        good | {"sampler": good["sampler"] | {"serial": -1}},
    ]
    for state in bad:
        with pytest.raises(varmix.CheckpointError, match=r"belong|damaged|Saved|format"):
            told.sampler.load_state_dict(state)
    assert varmix._core.validation.same(as_arrays(told.sampler.state_dict()), as_arrays(good))
    feed(told, batch)


def test_receipts_newer_than_a_loaded_state_are_refused():
    told = told_buffer()
    state = told.sampler.state_dict()
    batch = told.sample(32)
    told.sampler.load_state_dict(state)
    with pytest.raises(ValueError, match="newer than the state"):
        feed(told, batch)
    new = [told.sample(32) for _ in range(3)]
    mixture = told.sampler.sampler.mixture
    with pytest.raises(ValueError, match="newer than the state"):
        feed(told, batch)  # as many have been issued by now, but to others
    assert np.array_equal(told.sampler.sampler.mixture, mixture)
    for batch in new:
        feed(told, batch)
    assert not np.array_equal(told.sampler.sampler.mixture, mixture)


def test_the_checkpoint_of_a_sampler_can_be_inspected(tmp_path, capsys):
    told_buffer().sampler.dumps(tmp_path)
    assert print_checkpoint(tmp_path / "mixture_sampler.varmix") == 0
    printed = capsys.readouterr().out
    assert "A replay buffer: TorchRL's" in printed
    assert "epsilon 0.01, alpha 0.9" in printed


def test_a_copy_goes_on_by_itself():
    told = told_buffer()
    again = copy.deepcopy(told.sampler)
    index, _ = again.sample(told.storage, 16)
    assert torch.equal(index, told.sample(16)["index"])


HOSTILE = {
    "ratios of one column": lambda receipts: {"ratios": torch.ones(len(receipts["ratios"]), 1, dtype=torch.float64)},
    "an item that never came": lambda receipts: {"ids": torch.full_like(receipts["ids"], 2**62)},
    "a density that is none": lambda receipts: {"density": receipts["density"] * float("nan")},
    "a tensor that NumPy does not know": lambda receipts: {"norms": receipts["norms"].to(torch.bfloat16)},
    "a tensor without numbers": lambda receipts: {"norms": receipts["norms"].to("meta")},
    "a sparse tensor": lambda receipts: {"norms": receipts["norms"].to_sparse()},
    "a table that is a list": lambda receipts: {"serials": receipts["serials"].tolist()},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_tensors_that_no_sampler_can_have_saved_are_refused_and_change_nothing(name):
    told = told_buffer()
    batch = told.sample(32)
    good = told.sampler.state_dict()
    with pytest.raises(varmix.CheckpointError):
        told.sampler.load_state_dict(good | {"receipts": good["receipts"] | HOSTILE[name](good["receipts"])})
    assert varmix._core.validation.same(as_arrays(told.sampler.state_dict()), as_arrays(good))
    feed(told, batch)


def test_a_folder_with_receipts_of_one_column_is_refused_and_changes_nothing(tmp_path):
    class Forged:
        def state_dict(self):
            told = told_buffer()
            told.sample(32)
            state = told.sampler._slots.state_dict()
            return state | {"receipts": state["receipts"] | {"ratios": np.ones((32, 1))}}

    varmix.save(tmp_path / "mixture_sampler.varmix", Forged())
    rb = told_buffer()
    good = rb.sampler.state_dict()
    with pytest.raises(varmix.CheckpointError, match="ratios"):
        rb.sampler.loads(tmp_path)
    assert varmix._core.validation.same(as_arrays(rb.sampler.state_dict()), as_arrays(good))
