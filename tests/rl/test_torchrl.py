"""A mixture inside TorchRL's replay buffers."""

import copy
import threading

import numpy as np
import pytest

import varmix

pytest.importorskip("torchrl")
torch = pytest.importorskip("torch")

from tensordict import TensorDict  # noqa: E402
from torchrl.data import (  # noqa: E402
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)
from torchrl.data.replay_buffers import Sequence as SequenceUnit  # noqa: E402

from varmix.rl import slots as slots_module  # noqa: E402
from varmix.rl.torchrl import MixtureReplayBuffer, MixtureSampler  # noqa: E402
from varmix.spaces import Window  # noqa: E402


def transitions(n, start=0):
    return TensorDict({"value": torch.arange(start, start + n, dtype=torch.float64)}, [n])


def buffer(capacity=100, filled=80, rng=0, kind=MixtureReplayBuffer, storage=LazyTensorStorage, **options):
    rb = kind(storage=storage(capacity), sampler=MixtureSampler(capacity, rng=rng), **options)
    if filled:
        rb.extend(transitions(filled))
    return rb


def errors_of(batch):
    """TD errors that are large for few items: there is something to learn."""
    return torch.where(batch["value"] % 10 == 3, 10.0, 0.1)


def feed(rb, batch):
    batch["td_error"] = errors_of(batch)
    rb.update_tensordict_priority(batch)


def deltas(rb):
    return rb.sampler.replay.delta(rb.sampler.replay.space.atoms)


@pytest.fixture
def told():
    """A buffer whose priorities differ, and whose mixture has moved."""
    rb = buffer()
    for _ in range(5):
        feed(rb, rb.sample(64))
    return rb


@pytest.mark.parametrize("storage", [LazyTensorStorage, ListStorage, LazyMemmapStorage])
def test_a_batch_has_weights_a_receipt_and_the_rows_at_its_indices(storage):
    rb = buffer(storage=storage)
    batch = rb.sample(32)
    assert batch.shape == (32,)
    assert batch["priority_weight"].dtype == torch.float32
    assert batch["priority_weight"].shape == (32,)
    assert batch["receipt"].dtype == torch.int64
    assert len(set(batch["receipt"].tolist())) == 32
    assert torch.equal(batch["value"], batch["index"].double())


def test_the_batch_size_may_be_given_at_construction():
    assert buffer(batch_size=16).sample().shape == (16,)


def test_weights_are_one_over_the_density_of_the_receipt(told, monkeypatch):
    draws = []
    draw = told.sampler.sampler.draw
    monkeypatch.setattr(told.sampler.sampler, "draw", lambda m: draws.append(draw(m)) or draws[-1])
    batch = told.sample(64)
    assert np.array_equal(batch["priority_weight"].numpy(), (1 / draws[0].density).astype(np.float32))
    assert batch["priority_weight"].numpy().max() > 1.5 * batch["priority_weight"].numpy().min()
    assert np.array_equal(batch["index"].numpy(), draws[0].indices)


def test_weights_times_the_written_out_law_are_one_for_every_item(told):
    """The law from its formula: p_j(i) proportional to (|delta_i| + epsilon_j)^alpha_j, and uniform last."""
    scores = np.array(
        [(deltas(told) + epsilon) ** alpha for epsilon, alpha in told.sampler.replay.settings] + [80 * [1]]
    )
    law = told.sampler.sampler.mixture @ (scores / scores.sum(axis=1, keepdims=True))
    batch = told.sample(2000)
    assert len(set(batch["index"].tolist())) == 80
    assert np.allclose(batch["priority_weight"].numpy() * law[batch["index"].numpy()] * 80, 1.0, rtol=1e-6)


def test_weighted_values_average_to_the_mean_of_the_buffer_and_plain_ones_do_not(told):
    batches = [told.sample(64) for _ in range(400)]
    values = torch.cat([batch["value"] for batch in batches])
    hot = (values % 10 == 3).double()
    weights = torch.cat([batch["priority_weight"] for batch in batches]).double()
    error = float((weights * hot).std() / len(values) ** 0.5)
    assert abs(float((weights * hot).mean()) - 0.1) < 4 * error
    assert abs(float(hot.mean()) - 0.1) > 20 * error


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
    plain = varmix.vrm(replay, rng=0)
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
    plain = varmix.vrm(replay, rng=0)
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
    with pytest.raises(ValueError, match="4096 batches have been sampled since"):
        feed(rb, first)
    assert np.array_equal(rb.sampler.sampler.mixture, before)
    feed(rb, second)
    assert not np.array_equal(rb.sampler.sampler.mixture, before)


def test_prefetched_batches_bring_their_own_receipts():
    rb = buffer(batch_size=16, prefetch=3)
    for _ in range(20):
        batch = rb.sample()
        assert torch.equal(batch["value"], batch["index"].double())
        flights = rb.sampler._slots._flights.find(batch["receipt"].numpy())
        [(flight, rows, _)] = flights
        assert np.array_equal(flight.ids[rows], batch["index"].numpy())
        assert np.allclose(1 / flight.draw.density, batch["priority_weight"].numpy(), rtol=1e-6)
        feed(rb, batch)
        assert flight.draw is None


def test_threads_may_sample_write_and_give_feedback_at_once():
    rb = buffer(batch_size=16)
    failures = []

    def work(seed):
        try:
            for i in range(30):
                feed(rb, rb.sample())
                rb.extend(transitions(3, start=100 * seed + i))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert rb.sampler.replay.space == Window(100, first=80 + 4 * 30 * 3 - 100)
    assert np.isclose(rb.sampler.sampler.mixture.sum(), 1.0)


def test_feedback_waits_while_another_thread_draws(monkeypatch):
    rb = buffer()
    batch, draw = rb.sample(8), rb.sampler._slots.draw
    late = threading.Thread(target=feed, args=(rb, batch))

    def slow_draw(m):
        late.start()
        late.join(timeout=0.5)
        assert late.is_alive()  # it would have come back, were it not kept waiting
        return draw(m)

    monkeypatch.setattr(rb.sampler._slots, "draw", slow_draw)
    before = rb.sampler.sampler.mixture
    rb.sample(8)
    late.join()
    assert not np.array_equal(rb.sampler.sampler.mixture, before)


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


def test_two_buffers_on_one_storage_both_hear_of_new_items():
    storage = LazyTensorStorage(40)
    one = MixtureReplayBuffer(storage=storage, sampler=MixtureSampler(40, rng=0))
    two = MixtureReplayBuffer(storage=storage, sampler=MixtureSampler(40, rng=1))
    one.extend(transitions(25))
    assert len(one.sampler.replay) == len(two.sampler.replay) == 25
    feed(two, two.sample(16))


def test_emptying_forgets_the_items_and_keeps_what_was_learnt(told):
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


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e200])
def test_feedback_that_is_not_finite_is_refused_and_changes_nothing(told, bad):
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
    assert varmix.arrays.same(told.sampler.sampler.state_dict(), state)
    feed(told, batch)  # the receipt is still good


def test_a_batch_of_another_buffer_is_refused_and_changes_nothing():
    rb, other = buffer(), buffer()
    batch, foreign = rb.sample(32), other.sample(32)
    before, mixture = deltas(rb), rb.sampler.sampler.mixture
    with pytest.raises(ValueError, match="of another buffer"):
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
    with pytest.raises(RuntimeError, match="holds 15 items and the sampler knows of 10"):
        rb.sample(4)


def test_a_mixture_has_no_single_alpha_or_beta():
    sampler = MixtureSampler(10)
    with pytest.raises(AttributeError, match=r"replay\.settings"):
        _ = sampler.alpha
    with pytest.raises(AttributeError, match="reweight"):
        _ = sampler.beta
    assert sampler.device == torch.device("cpu")
    assert sampler.max_size == 10


def go_on(rb, rounds=3):
    seen = []
    for _ in range(rounds):
        batch = rb.sample(32)
        seen.append(batch["index"].clone())
        feed(rb, batch)
    return torch.cat(seen)


def test_a_state_goes_on_with_the_same_draws_and_takes_receipts_in_flight(told, tmp_path):
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


def test_a_folder_goes_on_with_the_same_draws(told, tmp_path):
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


def test_a_state_is_not_touched_by_what_happens_later(told):
    state = told.sampler.state_dict()
    kept = copy.deepcopy(state)
    go_on(told)
    assert varmix.arrays.same(as_arrays(state), as_arrays(kept))


def as_arrays(state):
    return {k: as_arrays(v) if isinstance(v, dict) else np.asarray(v) for k, v in state.items()}


def test_a_damaged_state_is_refused_and_changes_nothing(told):
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
        with pytest.raises(ValueError, match=r"belong|damaged|at least"):
            told.sampler.load_state_dict(state)
    assert varmix.arrays.same(as_arrays(told.sampler.state_dict()), as_arrays(good))
    feed(told, batch)


def test_receipts_newer_than_a_loaded_state_are_refused(told):
    state = told.sampler.state_dict()
    batch = told.sample(32)
    told.sampler.load_state_dict(state)
    with pytest.raises(ValueError, match="newer than the state"):
        feed(told, batch)


def test_a_copy_goes_on_by_itself(told):
    again = copy.deepcopy(told.sampler)
    index, _ = again.sample(told.storage, 16)
    assert torch.equal(index, told.sample(16)["index"])


def test_the_words_for_a_sampler_say_how_full_it_is_and_what_it_learnt():
    rb = MixtureReplayBuffer(storage=LazyTensorStorage(10), sampler=MixtureSampler(10, settings=[(0.1, 0.5)]))
    rb.extend(transitions(4))
    assert repr(rb.sampler) == "MixtureSampler(4 of 10 items, mixture=[0.5 0.5])"
    assert "MixtureSampler(4 of 10 items" in repr(rb)


def test_settings_learner_and_reweighting_are_those_given():
    sampler = MixtureSampler(10, [(0.1, 0.5)], learner=varmix.Fixed([1.0, 0.0]), reweight=varmix.reweight.Clip(2.0))
    assert sampler.replay.settings == ((0.1, 0.5),)
    assert sampler.sampler.mixture.tolist() == [1.0, 0.0]
    assert sampler.sampler.reweight == varmix.reweight.Clip(2.0)


def test_only_recent_batches_are_looked_through_for_a_lost_receipt():
    rb = buffer()
    batch = rb.sample(8)
    for _ in range(slots_module.RECENT):
        rb.sample(8)
    rb.update_priority(batch["index"], torch.ones(8))  # a warning would be an error
    assert np.allclose(rb.sampler.replay.delta(batch["index"].numpy()), 1.0, rtol=0.05)
