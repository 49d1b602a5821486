"""Feedback with receipts, through TorchRL's tensordicts."""

import numpy as np
import pytest

import varmix
from support.torchrl_buffers import buffer, deltas, errors_of, feed, told_buffer, torch
from varmix.rl._replay_buffer import DEFAULT_LEARNER


def test_feedback_moves_the_mixture_and_the_priorities():
    rb = buffer()
    before = rb.sampler.sampler.mixture
    batch = rb.sample(64)
    feed(rb, batch)
    assert not np.array_equal(before, rb.sampler.sampler.mixture)
    kept = rb.sampler.replay.delta(batch["index"].numpy())
    assert np.allclose(kept, errors_of(batch).numpy(), rtol=0.05)


def test_feedback_is_that_of_a_plain_sampler_with_the_same_seed():
    rb = buffer()
    replay = varmix.Replay(100)
    plain = varmix.vrm(replay, learner=DEFAULT_LEARNER, rng=0)
    replay.insert(80)
    for _ in range(5):
        batch, draw = rb.sample(32), plain.draw(32)
        assert np.array_equal(batch["index"].numpy(), draw.indices)
        feed(rb, batch)
        plain.update(draw, errors_of(batch).numpy())
    assert np.array_equal(rb.sampler.sampler.mixture, plain.mixture)


@pytest.mark.parametrize("shape", [(32,), (32, 1), (32, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_priorities_of_a_row_may_have_further_dimensions_and_any_sign(shape, dtype):
    rb = buffer()
    batch = rb.sample(32)
    batch["td_error"] = torch.full(shape, 0.5, dtype=dtype)
    batch["td_error"].reshape(32, -1)[:, -1] = -2.0
    rb.update_tensordict_priority(batch)
    assert np.allclose(rb.sampler.replay.delta(batch["index"].numpy()), 2.0, rtol=0.05)


def test_feedback_out_of_order_reaches_the_receipts_it_belongs_to():
    rb = buffer()
    replay = varmix.Replay(100)
    plain = varmix.vrm(replay, learner=DEFAULT_LEARNER, rng=0)
    replay.insert(80)
    feed(rb, rb.sample(16))
    draw = plain.draw(16)
    plain.update(draw, errors_of({"value": torch.from_numpy(draw.indices.copy())}).numpy())
    batches, draws = [rb.sample(32) for _ in range(4)], [plain.draw(32) for _ in range(4)]
    for i in (2, 0, 3, 1):
        feed(rb, batches[i])
        plain.update(draws[i], errors_of(batches[i]).numpy())
    assert np.array_equal(rb.sampler.sampler.mixture, plain.mixture)


def test_rows_may_come_shuffled_and_joined_with_those_of_other_batches():
    rb, straight = buffer(), buffer()
    batches, same = [rb.sample(32) for _ in range(2)], [straight.sample(32) for _ in range(2)]
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    order = torch.cat([order[order < 32], order[order >= 32]])  # the first batch is the first round of the learner
    feed(rb, torch.cat(batches)[order])
    for batch in same:
        feed(straight, batch)
    assert np.array_equal(rb.sampler.sampler.mixture, straight.sampler.sampler.mixture)
    assert np.array_equal(deltas(rb), deltas(straight))


def test_feedback_in_parts_refreshes_at_once_and_teaches_when_it_is_complete():
    rb, whole = buffer(), buffer()
    batch, before = rb.sample(32), rb.sampler.sampler.mixture
    feed(whole, whole.sample(32))
    feed(rb, batch[:20])
    assert np.array_equal(rb.sampler.sampler.mixture, before)
    kept = rb.sampler.replay.delta(batch["index"][:20].numpy())
    assert np.allclose(kept, errors_of(batch[:20]).numpy(), rtol=0.05)
    feed(rb, batch[20:])
    assert np.array_equal(rb.sampler.sampler.mixture, whole.sampler.sampler.mixture)


def test_feedback_that_comes_twice_refreshes_priorities_only():
    rb = buffer()
    batch = rb.sample(32)
    feed(rb, batch)
    once = rb.sampler.sampler.mixture
    batch["td_error"] = torch.full((32,), 7.0)
    rb.update_tensordict_priority(batch)
    assert np.array_equal(rb.sampler.sampler.mixture, once)
    assert np.allclose(rb.sampler.replay.delta(batch["index"].numpy()), 7.0, rtol=0.05)


def test_late_feedback_is_taken_up_to_the_limit_and_refused_beyond_it():
    rb = buffer(filled=10)
    first, second = rb.sample(2), rb.sample(2)
    for _ in range(4095):
        rb.sampler.sample(rb.storage, 2)
    before = rb.sampler.sampler.mixture
    with pytest.raises(ValueError, match="4096 batches or 262,144 rows have been sampled since"):
        feed(rb, first)
    assert np.array_equal(rb.sampler.sampler.mixture, before)
    feed(rb, second)
    assert not np.array_equal(rb.sampler.sampler.mixture, before)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e200])
def test_feedback_that_is_not_finite_is_refused_and_changes_nothing(bad):
    told = told_buffer()
    batch = told.sample(32)
    before, state = deltas(told), told.sampler.sampler.state_dict()
    batch["td_error"] = torch.ones(32, dtype=torch.float64)
    batch["td_error"][7] = bad
    with pytest.raises(ValueError, match="norms must"):
        told.update_tensordict_priority(batch)
    if bad != 1e200:  # which priorities alone may be
        with pytest.raises(ValueError, match="delta must be finite"):
            told.update_priority(torch.tensor([1, 2]), torch.tensor([1.0, bad]))
    assert np.array_equal(deltas(told), before)
    assert varmix._core.validation.same(told.sampler.sampler.state_dict(), state)
    feed(told, batch)  # the receipt is still good


def test_a_batch_of_another_buffer_is_refused_and_changes_nothing():
    rb, other = buffer(), buffer()
    batch, foreign = rb.sample(32), other.sample(32)
    before, mixture = deltas(rb), rb.sampler.sampler.mixture
    with pytest.raises(ValueError, match="issued by another buffer"):
        feed(rb, torch.cat([batch, foreign]))
    assert np.array_equal(deltas(rb), before)
    assert np.array_equal(rb.sampler.sampler.mixture, mixture)
    feed(rb, batch)


def test_a_batch_without_priorities_is_refused():
    rb = buffer()
    with pytest.raises(KeyError, match="has no entry 'td_error'"):
        rb.update_tensordict_priority(rb.sample(8))


def test_receipts_and_priorities_that_do_not_fit_are_refused():
    rb = buffer()
    batch = rb.sample(8)
    with pytest.raises(ValueError, match=r"got receipts \(8,\) of int64 and priorities \(7,\)"):
        rb.sampler.update(batch["receipt"], torch.ones(7))
    with pytest.raises(ValueError, match=r"expected shape \(8,\), got \(7,\)"):
        rb.update_priority(batch["index"], torch.ones(7))
    with pytest.raises(ValueError, match=r"slots must lie in 0\.\.79"):
        rb.update_priority(torch.tensor([80]), 1.0)
    with pytest.raises(ValueError, match=r"got indices of shape \(2, 2\)"):
        rb.update_priority(torch.zeros(2, 2, dtype=torch.long), 1.0)


def test_an_empty_part_of_a_batch_is_no_feedback():
    rb = told_buffer()
    batch, before = rb.sample(8), rb.sampler.sampler.mixture
    feed(rb, batch[:0])
    assert np.array_equal(rb.sampler.sampler.mixture, before)
    feed(rb, batch)
    assert not np.array_equal(rb.sampler.sampler.mixture, before)


@pytest.mark.parametrize("index", [[True, False], [0.5, 1.0]])
def test_indices_must_be_whole_numbers(index):
    rb = told_buffer()
    before = deltas(rb)
    with pytest.raises(TypeError, match="Indices must be whole numbers"):
        rb.update_priority(torch.tensor(index), torch.ones(2))
    assert np.array_equal(deltas(rb), before)
