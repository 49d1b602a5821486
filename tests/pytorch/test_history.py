"""Loaders keep a history when they are asked to, and save it."""

import io

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from varmix import CheckpointError, Sampler
from varmix.testing import same
from varmix.torch import AdaptiveLoader, Interleave, MixtureBatchSampler

LABELS = np.repeat(["common", "rare"], [90, 10])
DATA = TensorDataset(torch.arange(100))


def loader(rng=0, **options):
    return AdaptiveLoader(DATA, LABELS, batch_size=10, rng=rng, layout="alone", **options)


def train(made, epochs=1):
    for _ in range(epochs):
        for (items,), draw in made:
            made.update(draw, torch.where(items < 90, 0.1, 3.0))


def test_a_loader_keeps_the_history_of_its_sampler():
    made = loader(history=True)
    train(made)
    assert made.history is made.batches.history is made.sampler.history
    assert made.history.draws.tolist() == list(range(0, 101, 10))
    assert made.history.names == ("common", "rare")
    assert loader().history is None


def test_batch_samplers_and_streams_keep_one_too():
    assert len(MixtureBatchSampler(LABELS, 10, layout="alone", history=True).history) == 1
    assert MixtureBatchSampler(LABELS, 10, layout="alone").history is None
    sources = {"calm": [0.1] * 500, "loud": [3.0] * 500}
    stream = Interleave(sources, 8, history=True)
    for _, (batch, draw) in zip(range(5), stream, strict=False):
        stream.update(draw, batch)
    assert stream.history.names == ("calm", "loud")
    assert len(stream.history) == 6
    assert stream.history.point_shares == {"calm": 0.5, "loud": 0.5}
    assert Interleave(sources, 8).history is None


def test_a_ready_sampler_brings_its_own():
    ready = Sampler(LABELS, history=True)
    assert AdaptiveLoader(DATA, ready, batch_size=10, layout="alone").history is ready.history
    with pytest.raises(TypeError, match="history already"):
        AdaptiveLoader(DATA, ready, batch_size=10, layout="alone", history=True)


def test_it_is_saved_by_torch_and_resumed_exactly():
    one, whole, file = loader(history=True), loader(history=True), io.BytesIO()
    train(one, 2)
    torch.save(one.state_dict(), file)
    file.seek(0)
    again = loader(rng=5, history=True)
    again.load_state_dict(torch.load(file, weights_only=True))
    train(again, 2)
    train(whole, 4)
    assert same(again.history.state_dict(), whole.history.state_dict())


@pytest.mark.parametrize("saved", [True, False])
def test_states_with_and_without_a_history_are_told_apart(saved):
    made = loader(history=not saved)
    with pytest.raises(CheckpointError, match="build it with"):
        made.load_state_dict(loader(history=saved).state_dict())


def test_it_cannot_be_set_later():
    with pytest.raises(ValueError, match="history cannot be set"):
        loader().history = True


@pytest.mark.parametrize("function", ["shares", "gain"])
def test_loaders_can_be_plotted(function):
    pytest.importorskip("matplotlib")
    from varmix import plot

    made = loader(history=True)
    train(made)
    axes = getattr(plot, function)(made)
    assert axes.lines[0].get_xdata().tolist() == made.history.draws.tolist()
    with pytest.raises(ValueError, match="This AdaptiveLoader keeps no history"):
        getattr(plot, function)(loader())
