"""Targets that need PyTorch: loaders and batch samplers with receipts in flight, streams, TorchRL's sampler."""

from functools import partial

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from fuzz.targets import Target, check_draw, check_history, check_meter, check_mixture, demand, norms_of, play_tickets
from support.families import LABELS, N, probabilities
from support.loaders import NEARLY
from support.streams import Counting, Shuffled
from varmix import Dense, Groups
from varmix.learners import BarrierNewton, Cautious
from varmix.torch import AdaptiveLoader, Interleave, MixtureBatchSampler

SIZE = 7
COMPONENTS = {
    "labels": (lambda: LABELS, {"learner": BarrierNewton()}),
    "labels, cautious": (lambda: LABELS, {"learner": NEARLY}),
    "resplit": (lambda: Groups(LABELS, replacement=False, resplit="norms"), {"learner": BarrierNewton()}),
    "labels with a history": (lambda: LABELS, {"learner": NEARLY, "history": True}),
    "dense": (lambda: Dense(probabilities()), {}),
}


def _losses(rng, size, batch):
    return torch.from_numpy(norms_of(rng, size, batch)).float()


def _check_batch(indices, weights, size):
    demand(len(indices) == len(weights) and 0 < len(indices) <= size, f"a batch of {len(indices)}")
    demand(min(indices) >= 0 and max(indices) < N, f"indices {min(indices)}..{max(indices)}")
    weights = np.asarray(weights, dtype=float)
    demand(np.isfinite(weights).all() and (weights > 0).all(), f"weights {weights}")


def play_loader(loader, rng, batches):
    """Go on with the epoch, then with others, and give feedback for every batch."""
    seen = 0
    while seen < batches:
        here = 0
        for (items,), draw in loader:
            _check_batch(draw.indices.tolist(), draw.weights.numpy(), SIZE)
            demand(items.tolist() == draw.indices.tolist(), "items that are not those of the receipt")
            check_draw(draw.part, loader.sampler.components.space, loader.sampler.components.k)
            loader.update(draw, _losses(rng, len(items), seen))
            here, seen = here + 1, seen + 1
            demand(here <= len(loader), "more batches than an epoch has")
            if seen == batches:
                break
        demand(loader.epoch >= 0 and here > 0, "an epoch without batches")
    check_mixture(loader.mixture)
    check_meter(loader.meter)
    if loader.history is not None:
        check_history(loader.history)


def prepare_loader(loader):
    """Stop in the middle of an epoch, with three batches fetched ahead as workers do it."""
    rng = np.random.default_rng(5)
    play_loader(loader, rng, 9)
    ahead = iter(loader.batches)
    for _ in range(3):
        next(ahead)


def _loader(components, options, rng):
    return AdaptiveLoader(TensorDataset(torch.arange(N)), components, SIZE, rng=rng, layout="alone", **options)


def play_batches(batches, rng, count):
    """Iterate as a DataLoader of the user's does, with feedback by number, two batches late."""
    dataset = batches.tagged(TensorDataset(torch.arange(N)))
    late, seen = [], 0
    while seen < count:
        here = 0
        for items, weight, draw_id in DataLoader(dataset, batch_sampler=batches, collate_fn=batches.collate()):
            _check_batch(items.tolist(), weight.numpy(), SIZE)
            late.append((draw_id, len(items)))
            if len(late) > 2:
                draw, size = late.pop(0)
                batches.update(draw, _losses(rng, size, seen))
            here, seen = here + 1, seen + 1
            demand(here <= len(batches), "more batches than an epoch has")
            if seen == count:
                break
        demand(batches.epoch >= 0 and here > 0, "an epoch without batches")
    check_mixture(batches.mixture)
    if count > 3:
        check_meter(batches.meter)


def prepare_batches(batches):
    rng = np.random.default_rng(5)
    play_batches(batches, rng, 9)
    ahead = iter(batches)
    for _ in range(3):
        next(ahead)


def loader_targets():
    def foreign():
        return _loader(LABELS[::-1].copy(), {"learner": BarrierNewton()}, 0)

    for name, (components, options) in COMPONENTS.items():
        yield Target(
            f"loader of {name}",
            lambda rng, components=components, options=options: _loader(components(), options, rng),
            play_loader,
            prepare_loader,
            (foreign,),
            weight=3,
        )
    for name in ("labels", "dense"):
        components, options = COMPONENTS[name]
        yield Target(
            f"batches of {name}",
            lambda rng, components=components, options=options: MixtureBatchSampler(
                components(), SIZE, rng=rng, layout="alone", **options
            ),
            play_batches,
            prepare_batches,
            weight=3,
        )


def play_interleave(interleave, rng, batches):
    """Take batches until the stream ends, if it does."""
    for batch in range(batches):
        try:
            items, draw = next(interleave)
        except StopIteration:
            return
        k = len(interleave.names)
        demand(len(items) == len(draw) == SIZE, f"a batch of {len(items)}")
        demand(bool(((draw.indices >= 0) & (draw.indices < k)).all()), f"sources {draw.indices}")
        demand(bool((torch.isfinite(draw.weights) & (draw.weights > 0)).all()), f"weights {draw.weights}")
        check_draw(draw.receipt, interleave.sampler.components.space, interleave.sampler.components.k)
        interleave.update(draw, _losses(rng, len(items), batch))
        check_mixture(interleave.mixture)
        demand(abs(sum(interleave.shares.values()) - 1) < 1e-9, f"shares {interleave.shares}")
        demand(min(interleave.taken.values()) >= 0, f"taken {interleave.taken}")
    check_meter(interleave.meter)


class Checked(Counting):
    """A source with a state of its own, which it checks."""

    def load_state_dict(self, state):
        position, epochs = state["position"], state["epochs"]
        if set(state) != {"position", "epochs"} or not (type(position) is type(epochs) is int):
            raise TypeError("not a state of this source")
        if not (0 <= position <= self.n and -1 <= epochs < 2**40):
            raise ValueError("a place outside of this source")
        super().load_state_dict(state)


def _streams(ended, rng, stateful=False):
    sources = {"calm": [0.5 * i for i in range(60)], "loud": [2.0 + i for i in range(400)], "other": Shuffled(300)}
    if stateful:
        sources["own"] = Checked(500)
    return Interleave(sources, SIZE, on_exhausted=ended, rng=rng, target={name: 1.0 + len(name) for name in sources})


def _prepare_interleave(interleave):
    play_interleave(interleave, np.random.default_rng(5), 6)


class UnreadTarget(Target):
    """A target that must be loaded into before anything is read."""

    def build(self):
        return self.make(1)


def stream_targets():
    for ended in ("stop", "restart", "drop"):
        make = partial(_streams, ended)
        foreign = (lambda: _streams("stop", 0, stateful=True), lambda ended=ended: _cautious_streams(ended))
        yield UnreadTarget(f"streams, {ended}", make, play_interleave, _prepare_interleave, foreign, weight=2)
    make = partial(_streams, "restart", stateful=True)
    yield UnreadTarget("streams with states", make, play_interleave, _prepare_interleave, weight=2)


def _cautious_streams(ended):
    sources = {"calm": [0.5] * 60, "loud": [2.0] * 400, "other": Shuffled(300)}
    learner = Cautious(BarrierNewton(gamma=0.3))
    return Interleave(sources, SIZE, on_exhausted=ended, rng=0, learner=learner)


def torchrl_targets():
    """Yield TorchRL's sampler, fed by hand: its storage is one of as many items as the sampler knows."""
    from torchrl.data import ListStorage

    from varmix.rl.torchrl import MixtureSampler

    CAPACITY = 30
    receipts = []

    def storage(count):
        items = ListStorage(CAPACITY)
        items.set(range(count), list(range(count)))
        return items

    def play(sampler, rng, batches):
        for receipt in receipts:
            play_tickets(lambda part, norms: sampler.update(part, torch.from_numpy(norms)), receipt, rng)
        for batch in range(batches):
            space = sampler.replay.space
            written = (space.first + space.n + np.arange(2)) % CAPACITY
            sampler.mark_update(torch.from_numpy(written))
            slots, info = sampler.sample(storage(len(sampler.replay)), SIZE)
            demand(bool(((slots >= 0) & (slots < CAPACITY)).all()), f"slots {slots}")
            weights = info["priority_weight"]
            demand(bool((torch.isfinite(weights) & (weights > 0)).all()), f"weights {weights}")
            sampler.update(info["receipt"], _losses(rng, SIZE, batch))
            sampler.update_priority(slots, _losses(rng, SIZE, batch + 1))
            check_mixture(sampler.sampler.mixture)
            demand(np.isfinite(sampler.default_priority), f"default priority {sampler.default_priority}")

    def make(rng, settings=((0.01, 0.9), (0.0, 0.4), (1.0, 0.5))):
        sampler = MixtureSampler(CAPACITY, settings, rng=rng)
        sampler.mark_update(torch.arange(CAPACITY - 3))
        return sampler

    def prepare(sampler):
        kept, receipts[:] = list(receipts), []
        play(sampler, np.random.default_rng(5), 5)
        outstanding = [sampler.sample(storage(len(sampler.replay)), SIZE)[1]["receipt"] for _ in range(3)]
        sampler.update(outstanding[0][:2], torch.ones(2))
        receipts[:] = kept or outstanding

    yield Target("TorchRL", make, play, prepare, (lambda: make(0, ((0.01, 0.9),)),), weight=3)
