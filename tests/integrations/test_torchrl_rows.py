"""Feedback without receipts, and rows of several dimensions."""

import numpy as np
import pytest

from support.torchrl_buffers import (
    LazyTensorStorage,
    MixtureReplayBuffer,
    MixtureSampler,
    ReplayBuffer,
    SequenceUnit,
    TensorDict,
    TensorDictReplayBuffer,
    buffer,
    errors_of,
    feed,
    torch,
    transitions,
)
from varmix.rl import _tickets as slots_module


def test_priorities_without_a_receipt_are_refreshed_and_teach_nothing():
    rb = buffer()
    before = rb.sampler.sampler.mixture
    rb.sample(8)
    rb.update_priority(torch.tensor([3, 5]), torch.tensor([2.0, -4.0]))
    rb.update_priority(7, 9.0)
    rb.update_priority(torch.tensor([8, -1, 9]), 0.25)
    assert np.allclose(rb.sampler.replay.delta([3, 5, 7, 8, 9]), [2, 4, 9, 0.25, 0.25], rtol=0.05)
    assert np.array_equal(rb.sampler.sampler.mixture, before)


def test_priorities_without_a_receipt_go_to_what_is_in_the_slot_now():
    rb = buffer(capacity=10, filled=13)
    rb.update_priority(torch.tensor([2, 3]), torch.tensor([5.0, 6.0]))
    assert np.allclose(rb.sampler.replay.delta([12, 3]), [5, 6], rtol=0.05)


def test_a_buffer_that_drops_receipts_is_told_so_once():
    rb = buffer(kind=TensorDictReplayBuffer)
    before, batch = rb.sampler.sampler.mixture, rb.sample(32)
    with pytest.warns(UserWarning, match="came without its receipt"):
        feed(rb, batch)
    feed(rb, rb.sample(32))  # a second warning would be an error
    assert np.array_equal(rb.sampler.sampler.mixture, before)
    assert np.allclose(rb.sampler.replay.delta(batch["index"].numpy()), errors_of(batch).numpy(), rtol=0.05)


def test_a_buffer_without_tensordicts_gives_the_receipt_in_info():
    rb = ReplayBuffer(storage=LazyTensorStorage(50), sampler=MixtureSampler(50, rng=0), batch_size=16)
    rb.extend(torch.arange(50.0))
    before = rb.sampler.sampler.mixture
    data, info = rb.sample(return_info=True)
    rb.sampler.update(info["receipt"], torch.where(data < 5, 3.0, 0.1))
    assert not np.array_equal(rb.sampler.sampler.mixture, before)


def test_items_that_are_trajectories_have_one_priority_each():
    rb = MixtureReplayBuffer(storage=LazyTensorStorage(20), sampler=MixtureSampler(20, rng=0))
    rb.extend(TensorDict({"value": torch.arange(20.0)[:, None].expand(20, 5).clone()}, [20, 5]))
    batch = rb.sample(16)
    assert batch["receipt"].shape == (16, 5)
    batch["td_error"] = batch["value"] * torch.arange(1, 6)
    rb.update_tensordict_priority(batch)
    items = batch["index"][:, 0].numpy()
    assert np.allclose(rb.sampler.replay.delta(items[items > 0]), 5.0 * items[items > 0], rtol=0.05)


def test_windows_of_records_give_their_largest_valid_priority_to_their_anchor():
    unit = SequenceUnit(length=3, done_key=None)
    rb = MixtureReplayBuffer(storage=LazyTensorStorage(20), sampler=MixtureSampler(20, rng=0), sample_unit=unit)
    rb.extend(transitions(20))
    before, batch = rb.sampler.sampler.mixture, rb.sample(8)
    batch["td_error"] = torch.where(batch["validity_mask"], batch["value"] + 1.0, 1000.0)
    rb.update_tensordict_priority(batch)
    anchors = batch["anchor_index"].reshape(8, 3)[:, 0].numpy()
    assert np.allclose(rb.sampler.replay.delta(anchors), np.minimum(anchors + 3.0, 20.0), rtol=0.05)
    assert not np.array_equal(rb.sampler.sampler.mixture, before)


def test_only_recent_batches_are_looked_through_for_a_lost_receipt():
    rb = buffer()
    batch = rb.sample(8)
    for _ in range(slots_module.MAX_RECENT_RECEIPTS):
        rb.sample(8)
    rb.update_priority(batch["index"], torch.ones(8))  # a warning would be an error
    assert np.allclose(rb.sampler.replay.delta(batch["index"].numpy()), 1.0, rtol=0.05)
