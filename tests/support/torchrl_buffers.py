"""Buffers of TorchRL over a mixture, with items that hold their own numbers; skipped if TorchRL is missing."""

import pytest

pytest.importorskip("torchrl")

import torch
from tensordict import TensorDict
from torchrl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)
from torchrl.data.replay_buffers import Sequence as SequenceUnit

from varmix.rl.torchrl import MixtureReplayBuffer, MixtureSampler

__all__ = [
    "LazyMemmapStorage",
    "LazyTensorStorage",
    "ListStorage",
    "MixtureReplayBuffer",
    "MixtureSampler",
    "ReplayBuffer",
    "SequenceUnit",
    "TensorDict",
    "TensorDictMaxValueWriter",
    "TensorDictReplayBuffer",
    "buffer",
    "deltas",
    "errors_of",
    "feed",
    "told_buffer",
    "torch",
    "transitions",
]


def transitions(n, start=0):
    return TensorDict({"value": torch.arange(start, start + n, dtype=torch.float64)}, [n])


def buffer(capacity=100, filled=80, rng=0, kind=MixtureReplayBuffer, storage=LazyTensorStorage, **options):
    rb = kind(storage=storage(capacity), sampler=MixtureSampler(capacity, rng=rng), **options)
    if filled:
        rb.extend(transitions(filled))
    return rb


def errors_of(batch):
    """Return TD errors that are large for a few items, so that there is something to learn."""
    return torch.where(batch["value"] % 10 == 3, 10.0, 0.1)


def feed(rb, batch):
    batch["td_error"] = errors_of(batch)
    rb.update_tensordict_priority(batch)


def deltas(rb):
    return rb.sampler.replay.delta(rb.sampler.replay.space.atoms)


def told_buffer():
    """Return a buffer whose priorities differ, and whose mixture has moved."""
    rb = buffer()
    for _ in range(5):
        feed(rb, rb.sample(64))
    return rb
