"""Items and slots: wrap-around, adding, filled and shared storages, other writers."""

import numpy as np
import pytest

from support.torchrl_buffers import (
    LazyTensorStorage,
    MixtureReplayBuffer,
    MixtureSampler,
    TensorDict,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    buffer,
    deltas,
    feed,
    told_buffer,
    torch,
    transitions,
)


def test_feedback_for_overwritten_items_never_touches_their_successors():
    rb = buffer(capacity=10, filled=10)
    batch = rb.sample(64)
    rb.extend(transitions(4, start=10))  # slots 0 to 3 hold items 10 to 13 now
    fresh = rb.sampler.replay.delta([10, 11, 12, 13])
    batch["td_error"] = torch.full((64,), 0.01)
    gone = int((batch["index"] < 4).sum())
    assert gone > 0
    rb.update_tensordict_priority(batch)
    assert rb.sampler.replay.overwritten == gone
    assert np.array_equal(rb.sampler.replay.delta([10, 11, 12, 13]), fresh)
    kept = np.unique(batch["index"].numpy()[batch["index"].numpy() >= 4])
    assert np.allclose(rb.sampler.replay.delta(kept), 0.01, rtol=0.05)


def test_indices_follow_the_storage_round_and_round():
    rb = buffer(capacity=7, filled=0)
    for i in range(5):
        rb.extend(transitions(5, start=5 * i))
        batch = rb.sample(50)
        assert torch.equal(batch["index"], batch["value"].long() % 7)
        assert float(batch["value"].min()) >= max(0, 5 * (i + 1) - 7)


def test_one_extend_may_be_larger_than_the_buffer():
    rb = buffer(capacity=7, filled=0)
    rb.extend(transitions(20))
    assert rb.sampler.replay.space.first == 13
    assert set(rb.sample(200)["value"].tolist()) == set(range(13, 20))


def test_items_may_be_added_one_by_one_with_priorities_or_without():
    rb = buffer(capacity=10, filled=0)
    rb.add(TensorDict({"value": torch.tensor(0.0), "td_error": torch.tensor(4.0)}, []))
    rb.add(TensorDict({"value": torch.tensor(1.0), "td_error": torch.tensor(0.5)}, []))
    assert np.allclose(deltas(rb), [4.0, 0.5], rtol=0.05)
    plain = buffer(capacity=10, filled=0)
    plain.add(TensorDict({"value": torch.tensor(0.0)}, []))
    plain.add(TensorDict({"value": torch.tensor(1.0)}, []))
    assert np.allclose(deltas(plain), plain.sampler.default_priority, rtol=0.05)


def test_data_that_come_with_td_errors_are_inserted_with_them():
    rb = buffer(capacity=10, filled=0)
    data = transitions(4)
    data["td_error"] = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    rb.extend(data)
    assert np.allclose(deltas(rb), [1, 2, 3, 4], rtol=0.05)


def test_a_sampled_item_that_is_added_again_is_a_new_item():
    rb = buffer(capacity=100, filled=10)
    before = rb.sampler.sampler.mixture
    item = rb.sample(1)[0].select("value", "receipt")
    item["td_error"] = torch.tensor(5.0)
    other = buffer(capacity=100, filled=0)
    other.add(item)
    assert np.array_equal(before, rb.sampler.sampler.mixture)
    assert np.allclose(deltas(other), 5.0, rtol=0.05)


def test_a_sampler_set_on_a_filled_buffer_takes_its_items_over():
    rb = MixtureReplayBuffer(storage=LazyTensorStorage(100))
    rb.extend(transitions(30))
    rb.set_sampler(MixtureSampler(100, rng=0))
    assert int(rb.sample(200)["index"].max()) > 20
    rb.extend(transitions(5, start=30))
    assert len(rb.sampler.replay) == 35
    rb.set_sampler(MixtureSampler(100, rng=0))
    rb.extend(transitions(5, start=35))
    assert len(rb.sampler.replay) == 40


def test_a_buffer_around_a_filled_storage_knows_its_items():
    storage = LazyTensorStorage(40)
    TensorDictReplayBuffer(storage=storage).extend(transitions(40))
    rb = MixtureReplayBuffer(storage=storage, sampler=MixtureSampler(40, rng=0))
    assert len(rb.sampler.replay) == 40
    assert np.allclose(deltas(rb), 1.0, rtol=0.05)


def test_a_buffer_may_build_its_parts_when_they_are_first_used():
    rb = MixtureReplayBuffer(
        storage=lambda: LazyTensorStorage(30), sampler=lambda: MixtureSampler(30, rng=0), delayed_init=True
    )
    rb.extend(transitions(30))
    before, batch = rb.sampler.sampler.mixture, rb.sample(16)
    feed(rb, batch)
    assert not np.array_equal(rb.sampler.sampler.mixture, before)


def test_another_sampler_in_the_buffer_is_left_as_it_is():
    rb = MixtureReplayBuffer(storage=LazyTensorStorage(30), batch_size=8)
    rb.extend(transitions(30))
    batch = rb.sample()
    feed(rb, batch)
    assert "receipt" not in batch.keys()  # noqa: SIM118 - a tensordict is not a mapping


def test_two_buffers_on_one_storage_both_learn_about_new_items():
    storage = LazyTensorStorage(40)
    one = MixtureReplayBuffer(storage=storage, sampler=MixtureSampler(40, rng=0))
    two = MixtureReplayBuffer(storage=storage, sampler=MixtureSampler(40, rng=1))
    one.extend(transitions(25))
    assert len(one.sampler.replay) == len(two.sampler.replay) == 25
    feed(two, two.sample(16))


def test_emptying_forgets_the_items_and_keeps_what_was_learned():
    told = told_buffer()
    batch, mixture = told.sample(16), told.sampler.sampler.mixture
    told.empty()
    assert len(told.sampler.replay) == 0
    with pytest.raises(RuntimeError, match="Cannot sample from an empty storage"):
        told.sample(8)
    told.extend(transitions(20))
    fresh = deltas(told)
    with pytest.raises(ValueError, match="the buffer was emptied"):
        feed(told, batch)
    assert np.array_equal(deltas(told), fresh)
    assert np.array_equal(told.sampler.sampler.mixture, mixture)
    assert int(told.sample(64)["index"].max()) < 20


def test_an_empty_storage_cannot_be_sampled():
    with pytest.raises(RuntimeError, match="Cannot sample from an empty storage"):
        buffer(filled=0).sample(4)


def test_a_storage_of_another_size_or_dimension_is_refused():
    with pytest.raises(ValueError, match="built for 10 items and the storage has room for 20"):
        MixtureReplayBuffer(storage=LazyTensorStorage(20), sampler=MixtureSampler(10))
    with pytest.raises(ValueError, match="one dimension, got ndim=2"):
        MixtureReplayBuffer(storage=LazyTensorStorage(20, ndim=2), sampler=MixtureSampler(20))
    late = TensorDictReplayBuffer(storage=LazyTensorStorage(20), sampler=MixtureSampler(10))
    with pytest.raises(ValueError, match="built for 10 items"):
        late.extend(transitions(3))


def ranked(*values):
    return TensorDict({"value": torch.tensor(values, dtype=torch.float64)}, [len(values)])


def test_a_writer_that_is_not_round_robin_is_refused_when_it_shows():
    rb = buffer(capacity=4, filled=0, writer=TensorDictMaxValueWriter(rank_key="value"))
    rb.extend(ranked(10, 40, 20, 30))
    rb.extend(ranked(5))  # the writer does not keep it
    rb.extend(ranked(50))  # takes the place of the least, which is the oldest
    space = rb.sampler.replay.space
    assert space.first == 1
    with pytest.raises(ValueError, match=r"the next one belongs in slot 1, got 2\. Use a RoundRobinWriter"):
        rb.extend(ranked(60))
    assert rb.sampler.replay.space == space


def test_items_written_behind_the_sampler_are_noticed():
    rb = buffer(filled=10)
    rb.storage.set(torch.arange(10, 15), transitions(5))
    with pytest.raises(RuntimeError, match="holds 15 items, but the sampler knows 10"):
        rb.sample(4)
