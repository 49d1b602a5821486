"""A mixture inside TorchRL's replay buffers: what a batch brings."""

import numpy as np
import pytest

import varmix
from support.torchrl_buffers import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    MixtureReplayBuffer,
    MixtureSampler,
    buffer,
    deltas,
    told_buffer,
    torch,
    transitions,
)


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


def test_weights_are_one_over_the_density_of_the_receipt(monkeypatch):
    told = told_buffer()
    draws = []
    draw = told.sampler.sampler.draw
    monkeypatch.setattr(told.sampler.sampler, "draw", lambda m: draws.append(draw(m)) or draws[-1])
    batch = told.sample(64)
    assert np.array_equal(batch["priority_weight"].numpy(), (1 / draws[0].density).astype(np.float32))
    assert batch["priority_weight"].numpy().max() > 1.5 * batch["priority_weight"].numpy().min()
    assert np.array_equal(batch["index"].numpy(), draws[0].indices)


def test_weights_times_the_written_out_law_are_one_for_every_item():
    """The law from its formula: p_j(i) proportional to (|delta_i| + epsilon_j)^alpha_j, and uniform last."""
    told = told_buffer()
    scores = np.array(
        [(deltas(told) + epsilon) ** alpha for epsilon, alpha in told.sampler.replay.settings] + [80 * [1]]
    )
    law = told.sampler.sampler.mixture @ (scores / scores.sum(axis=1, keepdims=True))
    batch = told.sample(2000)
    assert len(set(batch["index"].tolist())) == 80
    assert np.allclose(batch["priority_weight"].numpy() * law[batch["index"].numpy()] * 80, 1.0, rtol=1e-6)


def test_weighted_values_average_to_the_mean_of_the_buffer_and_plain_ones_do_not():
    told = told_buffer()
    batches = [told.sample(64) for _ in range(400)]
    values = torch.cat([batch["value"] for batch in batches])
    hot = (values % 10 == 3).double()
    weights = torch.cat([batch["priority_weight"] for batch in batches]).double()
    error = float((weights * hot).std() / len(values) ** 0.5)
    assert abs(float((weights * hot).mean()) - 0.1) < 4 * error
    assert abs(float(hot.mean()) - 0.1) > 20 * error


def test_a_mixture_has_no_single_alpha_or_beta():
    sampler = MixtureSampler(10)
    with pytest.raises(AttributeError, match=r"replay\.settings"):
        _ = sampler.alpha
    with pytest.raises(AttributeError, match="reweight"):
        _ = sampler.beta
    assert sampler.device == torch.device("cpu")
    assert sampler.max_size == 10


def test_the_words_for_a_sampler_say_how_full_it_is_and_what_it_learned():
    rb = MixtureReplayBuffer(storage=LazyTensorStorage(10), sampler=MixtureSampler(10, settings=[(0.1, 0.5)]))
    rb.extend(transitions(4))
    assert repr(rb.sampler) == "MixtureSampler(4 of 10 items, mixture=[0.5 0.5])"
    assert "MixtureSampler(4 of 10 items" in repr(rb)


def test_settings_learner_and_reweighting_are_those_given():
    sampler = MixtureSampler(
        10, [(0.1, 0.5)], learner=varmix.learners.Fixed([1.0, 0.0]), reweight=varmix.reweight.Clip(2.0)
    )
    assert sampler.replay.settings == ((0.1, 0.5),)
    assert sampler.sampler.mixture.tolist() == [1.0, 0.0]
    assert sampler.sampler.reweight == varmix.reweight.Clip(2.0)
