"""Targets: everything in the core and in `varmix.rl` that loads a state, and what must work after it was loaded."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import signature
from typing import Any

import numpy as np

from fuzz.mutations import Mutations
from support import families
from varmix import Dense, Distances, Groups, KDpp, Replay, Sampler, Uniform, literature, uniform, vrm
from varmix.allocate import Shuffled, independent, one_component, round_robin, stratified, systematic
from varmix.components import Cumulative, Exponential, MirrorDescent, Ranks, Sources, Subsets, with_uniform
from varmix.learners import BarrierNewton, Cautious, Fixed
from varmix.meter import GainMeter
from varmix.rl import ReplayBuffer
from varmix.rl._tickets import SlotSampler
from varmix.testing import all_atoms

BATCHES, SIZE = 20, 6  # of an accepted state


class InvalidError(Exception):
    """What was loaded gives something that no sampler may give."""


def demand(condition, words):
    if not condition:
        raise InvalidError(words)


@dataclass(frozen=True)
class Target:
    """A way to build an object that loads a state, always the same for a seed, and to use it afterwards.

    `play(thing, rng, batches)` uses it and raises `InvalidError` when anything is wrong; `prepare(thing)` brings it to
    where its state is saved.  States of `foreign` objects must be refused; parts of them are put into others.
    """

    name: str
    make: Callable[[int], Any]
    play: Callable[[Any, np.random.Generator, int], None]
    prepare: Callable[[Any], None]
    foreign: tuple[Callable[[], Any], ...] = ()
    weight: int = 1
    seconds: float = 2.0  # of computing, for one case

    def cases(self, seed):
        """Return the damaged states, by number."""
        return Mutations(self.name, self.saved(), [self.state(make) for make in self.foreign], seed)

    @cache  # noqa: B019  it lives as long as the process
    def saved(self):
        """Return the state that is damaged."""
        return self.state(partial(self.make, 0))

    def state(self, make):
        thing = make()
        self.prepare(thing)
        return self.snapshot(thing)

    def build(self):
        """Return the object that a state is loaded into; it has a past of its own."""
        thing = self.make(1)
        self.play(thing, np.random.default_rng(1), 2)
        return thing

    def snapshot(self, thing):
        return thing.state_dict()

    def load(self, thing, state):
        thing.load_state_dict(state)


def norms_of(rng, size, batch):
    """Return norms of many sizes, in some batches none but zeros."""
    return np.zeros(size) if batch % 7 == 6 else rng.lognormal(sigma=2.0, size=size)


def check_draw(draw, space, k, mixture=None):
    """Check a receipt by itself, and against the mixture that drew it if that is known."""
    m, indices = len(draw), draw.indices
    demand(indices.dtype.kind == "i", f"indices of {indices.dtype}")
    first = getattr(space, "first", 0)
    demand((indices >= first).all() and (indices < first + space.n).all(), f"indices {indices.min()}..{indices.max()}")
    if isinstance(space, Subsets):
        demand(indices.shape == (m, space.size) and (np.diff(indices, axis=1) > 0).all(), "sets with a point twice")
    demand(draw.weights.shape == (m,) and draw.density.shape == (m,), "weights or density of another shape")
    demand(np.isfinite(draw.weights).all() and (draw.weights > 0).all(), f"weights {draw.weights}")
    demand(np.isfinite(draw.density).all() and (draw.density > 0).all(), f"density {draw.density}")
    ratios = draw.ratios
    demand(ratios.shape == (m, k), f"ratios of shape {ratios.shape}")
    demand(np.isfinite(ratios).all() and (ratios >= 0).all(), f"ratios {ratios.min()}..{ratios.max()}")
    if mixture is not None:
        demand(np.allclose(ratios @ mixture, draw.density, rtol=1e-6), "a density that is not that of the mixture")


def check_mixture(mixture):
    demand(np.isfinite(mixture).all() and (mixture >= 0).all(), f"mixture {mixture}")
    demand(abs(mixture.sum() - 1) < 1e-9, f"mixture with sum {mixture.sum()}")


def play_sampler(sampler, rng, batches):
    """Draw and update, with the end of an epoch in between."""
    for batch in range(batches):
        mixture = sampler.mixture
        check_mixture(mixture)
        draw = sampler.draw(SIZE)
        check_draw(draw, sampler.components.space, sampler.components.k, mixture)
        sampler.update(draw, norms_of(rng, SIZE, batch))
        if batch % 9 == 4:
            sampler.end_epoch()
    check_mixture(sampler.mixture)
    generator = sampler.state_dict()["uniforms"]["generator"]
    demand(generator["state"]["inc"] % 2 == 1, "a random generator with an even increment, whose numbers repeat soon")


def prepare_sampler(sampler):
    """Leave receipts that have come back in another order, one that never does, and the id of a past run."""
    rng = np.random.default_rng(5)
    play_sampler(sampler, rng, 7)
    late = [sampler.draw(SIZE) for _ in range(4)]
    for draw in late[:1:-1]:
        sampler.update(draw, rng.lognormal(size=SIZE))
    sampler.load_state_dict(sampler.state_dict())
    play_sampler(sampler, rng, 3)


def sampler_target(name, make, *foreign, weight=1):
    return Target(name, make, play_sampler, prepare_sampler, foreign, weight)


def over(family, rng, allocate=stratified):
    """Return a sampler over a family, that learns if the last component is the anchor."""
    atoms = all_atoms(family.space)
    some = atoms[atoms.reshape(len(atoms), -1)[:, 0] > 0]
    learner = BarrierNewton() if np.all(family.ratios(some)[:, -1] == 1) else Fixed()
    return Sampler(family, learner=learner, rng=rng, allocate=allocate)


N, LABELS, TARGET = families.N, families.LABELS, families.TARGET
OTHER_LABELS = LABELS[::-1].copy()

# The same classes and shapes over other data, or with other settings: their states must be refused.
FOREIGN = {
    "uniform": lambda: Uniform(N + 1),
    "dense": lambda: Dense(families.probabilities(seed=9)),
    "dense, uniform": lambda: with_uniform(Dense(families.probabilities(seed=9))),
    "dense, target": lambda: with_uniform(Dense(families.probabilities(seed=9, target=TARGET), target=TARGET)),
    "groups": lambda: Groups(OTHER_LABELS),
    "groups, uniform": lambda: with_uniform(Groups(OTHER_LABELS)),
    "groups, smoothed": lambda: with_uniform(Groups(LABELS, smoothing=0.3)),
    "groups, resplit": lambda: with_uniform(Groups(OTHER_LABELS, resplit="norms")),
    "distances": lambda: with_uniform(Distances(families.features(seed=5), families.features(seed=5)[:3])),
    "stack": lambda: families.Stack(Dense(families.probabilities()), Groups(OTHER_LABELS), Uniform(N)),
    "cumulative": lambda: families.taught(Cumulative(N + 3)),
    "cumulative, uniform": lambda: with_uniform(families.taught(Cumulative(N, gamma=0.25))),
    "exponential": lambda: families.taught(Exponential(N + 3)),
    "mirror descent": lambda: families.taught(MirrorDescent(N, step=0.03)),
    "ranks": lambda: families.taught(Ranks(N, period=11)),
    "replay": lambda: _other_replay(),
    "replay, growing": lambda: with_uniform(families.replayed(count=20, capacity=N + 5)),
    "sources": lambda: Sources(6),
    "sources, target": lambda: with_uniform(Sources(list("abcde"), families.SHARES[::-1])),
    "k-dpp": lambda: KDpp(families.rows(seed=7), families.SIZE, [0.1, 1.0, 10.0]),
    "k-dpp, uniform": lambda: with_uniform(KDpp(families.rows(), families.SIZE, [0.2, 1.0, 10.0])),
    "k-dpp, from kernel": lambda: with_uniform(KDpp.from_kernel(families.kernel() ** 2, families.SIZE, [0.0, 0.5])),
    "reshuffled": lambda: with_uniform(Groups(OTHER_LABELS, replacement=False)),
    "reshuffled, resplit": lambda: with_uniform(Groups(OTHER_LABELS, replacement=False, resplit="norms")),
}


def _other_replay():
    replay = Replay(N, [(0.02, 0.9), (1.0, 0.5), (0.0, 0.1)])
    replay.insert(50, np.geomspace(1e-2, 1e1, 50))
    return replay


def family_targets():
    for name, make in families.FAMILIES.items():
        if name != "drifting":  # a family of tests
            foreign = [partial(_foreign, name, stratified)] if name in FOREIGN else []
            yield sampler_target(name, lambda rng, make=make: over(make(), rng), *foreign)
    for name, make in families.RESHUFFLED.items():
        foreign = [partial(_foreign, name, round_robin)] if name in FOREIGN else []
        yield sampler_target(name, lambda rng, make=make: over(make(), rng, round_robin), *foreign)


def _foreign(name, allocate):
    return over(FOREIGN[name](), 0, allocate)


def learner_targets():
    family = families.FAMILIES["groups, uniform"]
    for name, learner in families.LEARNERS.items():
        yield sampler_target(
            f"learner {name}",
            lambda rng, learner=learner: Sampler(family(), learner=learner(), rng=rng),
            lambda: Sampler(family(), learner=Cautious(BarrierNewton(gamma=0.2)), rng=0),
        )


def play_history(sampler, rng, batches):
    play_sampler(sampler, rng, batches)
    check_history(sampler.history)


def check_history(history):
    demand(1 <= len(history) <= 512, f"{len(history)} entries")
    demand(history.updates // history.stride + 1 == len(history), f"{history!r} with a stride of {history.stride}")
    demand(history.draws[0] == 0 and (np.diff(history.draws) >= 0).all(), f"draws {history.draws}")
    total = sum(history.shares.values())
    demand(np.allclose(total, 1.0, atol=1e-5), f"shares with sums {total.min()}..{total.max()}")
    demand((history.gain_low <= history.gain).all() and (history.gain <= history.gain_high).all(), "intervals")
    demand(np.isfinite(history.gain).all() and np.isfinite(history.learned_gain).all(), "gains that are not finite")


def prepare_history(sampler):
    """Play until the history is thinned, if it is one that is saved."""
    prepare_sampler(sampler)
    rng = np.random.default_rng(6)
    for batch in range(600 if sampler.history is not None else 0):
        sampler.update(sampler.draw(SIZE), norms_of(rng, SIZE, batch))


def allocation_targets():
    reshuffled = families.RESHUFFLED["reshuffled"]
    for allocate in (independent, stratified, systematic, one_component, round_robin, Shuffled(7)):
        yield sampler_target(
            f"allocation {type(allocate).__name__.lower()}",
            lambda rng, allocate=allocate: Sampler(reshuffled(), learner=BarrierNewton(), rng=rng, allocate=allocate),
            lambda: Sampler(reshuffled(), learner=BarrierNewton(), rng=0, allocate=Shuffled(8)),
        )
    yield Target(
        "history",
        lambda rng: Sampler(LABELS, learner=Cautious(off_below=1.0, on_above=1.1, window=2), rng=rng, history=True),
        play_history,
        prepare_history,
        (
            lambda: Sampler(OTHER_LABELS, learner=Cautious(off_below=1.0, on_above=1.1, window=2), rng=0, history=True),
            lambda: Sampler(LABELS, learner=Cautious(off_below=1.0, on_above=1.1, window=2), rng=0),
        ),
        weight=3,
    )
    yield sampler_target(
        "cautious and reshuffled",
        lambda rng: vrm(
            Groups(LABELS, replacement=False), learner=Cautious(off_below=1.0, on_above=1.1, window=2), rng=rng
        ),
    )


def preset_targets():
    yield sampler_target("preset vrb", lambda rng: literature.vrb(N, rng=rng))
    yield sampler_target("preset bandit", lambda rng: literature.bandit(N, rng=rng))
    yield sampler_target("preset reshuffling", lambda rng: uniform(N, replacement=False, rng=rng))


def play_meter(meter, rng, batches):
    sampler = uniform(N, rng=0)
    for batch in range(batches):
        draw = sampler.draw(SIZE)
        meter.update(draw, norms_of(rng, SIZE, batch), gradient=rng.normal(size=3) if batch % 2 else None)
        check_meter(meter)


def check_meter(meter):
    value, low, high = meter.gain
    demand(
        np.isfinite(value) and value >= 0 and 0 <= low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9), meter.gain
    )
    demand(0 <= meter.effective_sample_size <= 1 + 1e-9, f"effective sample size {meter.effective_sample_size}")
    demand(meter.noise is None or meter.noise >= 0, f"noise {meter.noise}")
    demand(meter.variance_gain is None or not np.isnan(meter.variance_gain), f"variance gain {meter.variance_gain}")
    demand(np.isfinite(meter.largest_weight) and meter.largest_weight > 0, f"largest weight {meter.largest_weight}")
    demand(isinstance(meter.summary(), dict) and "nan" not in meter.verdict() and repr(meter), "no verdict")


def prepare_meter(meter):
    rng = np.random.default_rng(5)
    sampler = vrm(Groups(LABELS), rng=0)
    for batch in range(20):
        draw = sampler.draw(SIZE)
        meter.update(draw, rng.lognormal(size=SIZE), gradient=1.0 + rng.normal(size=3))
        if batch == 10:
            meter.gain_since_last_call()


def meter_targets():
    yield Target("meter", lambda rng: GainMeter(), play_meter, prepare_meter, (lambda: GainMeter(window=9),))
    yield Target("meter, window", lambda rng: GainMeter(window=10), play_meter, prepare_meter)


@dataclass(frozen=True)
class Space:
    shape: tuple
    dtype: type


BOX, DISCRETE, FLAGS = Space((2,), np.float32), Space((), np.int64), Space((3,), np.bool_)


@dataclass(frozen=True)
class Nested:
    spaces: dict = field(default_factory=lambda: {"place": BOX, "doors": FLAGS})


def _transition(rng, *lead):
    observations = {"place": rng.normal(size=(*lead, 2)).astype(np.float32), "doors": rng.random((*lead, 3)) < 0.5}
    after = {"place": rng.normal(size=(*lead, 2)).astype(np.float32), "doors": rng.random((*lead, 3)) < 0.5}
    actions = rng.integers(5, size=lead) if lead else int(rng.integers(5))
    return observations, actions, rng.normal(size=lead) if lead else float(rng.normal()), after


def _add(buffer, rng, environments):
    if environments == 1:
        buffer.add(*_transition(rng), terminated=rng.random() < 0.1, truncated=rng.random() < 0.1)
        return
    ended = rng.random((2, environments)) < 0.1
    buffer.add_batch(*_transition(rng, environments), *ended)


def play_buffer(buffer, rng, batches, environments):
    """Sample, update, and add: also what was pending."""
    for batch in range(batches):
        _add(buffer, rng, environments)
        if len(buffer) < SIZE:
            continue
        mixture = buffer.sampler.mixture
        found, draw = buffer.sample(SIZE)
        check_mixture(mixture)
        check_draw(draw, buffer.replay.space, buffer.sampler.components.k, mixture)
        check_transitions(found)
        buffer.update(draw, norms_of(rng, SIZE, batch) * rng.choice([-1.0, 1.0], size=SIZE))
    check_mixture(buffer.sampler.mixture)
    if len(buffer):
        check_transitions(buffer.transitions(buffer.sampler.draw_all().indices))


def check_transitions(batch):
    demand(np.isfinite(batch.rewards).all(), f"rewards {batch.rewards}")
    demand(((batch.discounts >= 0) & (batch.discounts <= 1)).all(), f"discounts {batch.discounts}")
    for flags in (batch.terminated, batch.observations["doors"], batch.next_observations["doors"]):
        demand(flags.dtype == np.bool_ and flags.view(np.uint8).max(initial=0) <= 1, "flags that are not 0 or 1")
    demand(not (batch.discounts[batch.terminated] != 0).any(), "a discount after the end")


def buffer_targets():
    yield from (_buffer_target(n, environments) for n in (1, 3) for environments in (1, 2))


def _buffer_target(n_steps, environments):
    options = {"autoreset": "disabled"} if "autoreset" in signature(ReplayBuffer).parameters else {}

    def make(rng, capacity=30, settings=((0.01, 0.9), (0.0, 0.4))):
        return ReplayBuffer(
            capacity,
            Nested(),
            DISCRETE,
            settings=settings,
            n_steps=n_steps,
            environments=environments,
            rng=rng,
            **options,
        )

    def prepare(buffer):
        rng = np.random.default_rng(5)
        for _ in range(3):
            _add(buffer, rng, environments)
        play_buffer(buffer, rng, 12, environments)

    return Target(
        f"buffer of {n_steps} steps, {environments} environments",
        make,
        partial(play_buffer, environments=environments),
        prepare,
        (lambda: make(0, capacity=31), lambda: make(0, settings=((0.02, 0.9), (0.0, 0.4)))),
        weight=3,
    )


class OutstandingSlots(SlotSampler):
    """A SlotSampler and the tickets of the draws that were under way when its state was saved."""

    tickets = ()


def play_slots(slots, rng, batches):
    """Take feedback for what was in flight, then draw, update and write."""
    for tickets in slots.tickets:
        play_tickets(slots.update, tickets, rng)
    for batch in range(batches):
        space, capacity = slots.replay.space, slots.replay.capacity
        slots.write((space.first + space.n + np.arange(2)) % capacity)
        drawn, weights, tickets = slots.draw(SIZE)
        demand((drawn >= 0).all() and (drawn < capacity).all(), f"slots {drawn}")
        demand(np.isfinite(weights).all() and (weights > 0).all(), f"weights {weights}")
        slots.update(tickets, norms_of(rng, SIZE, batch))
        check_mixture(slots.sampler.mixture)
        draw = slots.sampler.draw(SIZE)
        check_draw(draw, slots.replay.space, slots.sampler.components.k, slots.sampler.mixture)


def play_tickets(update, tickets, rng):
    """Give feedback for receipts that were in flight; a damaged state may have lost them, and then they are refused."""
    for part in (tickets[:2], tickets[2:]):
        try:
            update(part, rng.lognormal(size=len(part)))
        except ValueError as error:
            demand("receipt" in str(error).lower(), f"feedback for a receipt in flight was refused: {error}")


def slot_targets():
    tickets = []

    def make(rng, settings=((0.01, 0.9), (0.0, 0.4), (1.0, 0.5)), capacity=30):
        replay = Replay(capacity, settings)
        slots = OutstandingSlots(vrm(replay, rng=rng), replay)
        slots.write(np.arange(capacity - 3))
        slots.tickets = tickets
        return slots

    def prepare(slots):
        rng, slots.tickets = np.random.default_rng(5), ()
        play_slots(slots, rng, 5)
        outstanding = [slots.draw(SIZE)[2] for _ in range(3)]
        slots.update(outstanding[0][:2], np.ones(2))
        if not tickets:
            tickets.extend(outstanding)

    foreign = lambda: make(0, settings=((0.01, 0.9),)), lambda: make(0, capacity=31)
    yield Target("slots", make, play_slots, prepare, foreign, weight=3)
