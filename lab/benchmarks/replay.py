"""Speed and memory of prioritised replay with nine settings and uniform, compared with cpprb with one setting.

The transitions have the shape of CartPole: two observations of four numbers, an action, a reward and an end.
"""

from dataclasses import dataclass
from itertools import cycle
from types import SimpleNamespace

import numpy as np
from rich.console import Console

import varmix
from lab.arrays import AnyArray, FloatArray
from lab.benchmarks.peers import CPPRB
from lab.benchmarks.timing import Action, best_of
from varmix.components import PAPER_SETTINGS, Uniforms
from varmix.rl import ReplayBuffer

M = 64
OBSERVATION_SPACE, ACTION_SPACE = (
    SimpleNamespace(shape=(4,), dtype=np.float32),
    SimpleNamespace(shape=(), dtype=np.int64),
)
MAX_DRAW_MICROSECONDS = 60  # goal for a draw of 64 with all ratios and an update with 64 errors, at a million items
MAX_BYTES_PER_ITEM = 24  # goal


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: items of the family, transitions of the buffers, calls and repetitions."""

    items: tuple[int, ...] = (10**4, 10**5, 10**6)
    buffer: int = 10**5
    calls: int = 1000
    repeats: int = 15


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure the family, whole buffers, and memory."""
    return {
        "family": measure_family(console, scale),
        "buffer": measure_buffers(console, scale),
        "memory": measure_memory(console, scale),
    }


def make_errors(count: int, seed: int = 0) -> FloatArray:
    """Return TD errors with heavy tails, as in practice."""
    return np.random.default_rng(seed).standard_t(3, size=count)


def measure_family(console: Console, scale: Scale) -> dict[str, float]:
    """Time a draw of 64 with the ratios of all ten components and an update with 64 errors, through `Replay`."""
    console.print(
        f"{len(PAPER_SETTINGS)} settings and uniform, a draw of {M} with all ratios, then an update with {M} errors:"
    )
    actions: dict[str, tuple[Action, int]] = {}
    for n in scale.items:
        actions[f"{n:,} items, family"] = _make_family_action(n), scale.calls
        actions[f"{n:,} items, sampler with its learner"] = _make_sampler_action(n), scale.calls
    spent = {name: 1e6 * each for name, each in best_of(actions, scale.repeats).items()}
    for name, us in spent.items():
        limit = f"  limit {MAX_DRAW_MICROSECONDS} us" if name == "1,000,000 items, family" else ""
        console.print(f"  {name:<48}{us:8.1f} us{limit}")
    return {f"{name}, us": us for name, us in spent.items()}


def _make_family_action(n: int) -> Action:
    replay = _fill_replay(n)
    laws, uniforms, errors = varmix.components.with_uniform(replay), Uniforms(1), _cycle_errors()
    lanes = np.sort(np.random.default_rng(2).integers(0, laws.k, M))

    def action() -> None:
        atoms, _ = laws.draw(lanes, uniforms)
        replay.set_delta(atoms, next(errors))

    return action


def _make_sampler_action(n: int) -> Action:
    sampler, errors = varmix.vrm(_fill_replay(n), rng=1), _cycle_errors()
    return lambda: sampler.update(sampler.draw(M), np.abs(next(errors)))


def _fill_replay(n: int) -> varmix.Replay:
    replay = varmix.Replay(n)
    replay.insert(n, make_errors(n))
    return replay


def _cycle_errors() -> "cycle[FloatArray]":
    return cycle(make_errors(100 * M, seed=3).reshape(100, M))


def measure_buffers(console: Console, scale: Scale) -> dict[str, float]:
    """Time sampling and updating 64 transitions, and adding one, for our buffer and cpprb's."""
    console.print(f"Buffers of {scale.buffer:,} transitions, {M} sampled and updated, and one added:")
    rows = np.random.default_rng(4).normal(size=(scale.buffer, 4)).astype(np.float32)
    ours, actions = _make_own_actions(rows), {}
    actions["varmix, sample and update"], actions["varmix, add"] = ours
    if CPPRB.present:
        actions["cpprb, sample and update"], actions["cpprb, add"] = _make_cpprb_actions(rows)
    timed = {name: (action, scale.calls) for name, action in actions.items()}
    spent = {name: 1e6 * each for name, each in best_of(timed, scale.repeats).items()}
    for name, us in spent.items():
        console.print(f"  {name:<48}{us:8.1f} us")
    found = {f"{name}, us": us for name, us in spent.items()}
    if CPPRB.present:
        for what, limit in (("sample and update", " (limit 1)"), ("add", "")):
            ratio = spent[f"varmix, {what}"] / spent[f"cpprb, {what}"]
            console.print(f"  {what}: {ratio:.2f} of cpprb's time{limit}")
            found[f"{what}, over cpprb"] = ratio
    return found


def _make_own_actions(rows: AnyArray) -> tuple[Action, Action]:
    buffer, errors, after = (
        ReplayBuffer(len(rows), OBSERVATION_SPACE, ACTION_SPACE, rng=0),
        _cycle_errors(),
        np.zeros(4, np.float32),
    )
    for row in rows:
        buffer.add(row, 1, 1.0, after, False)

    def learn() -> None:
        _, draw = buffer.sample(M)
        buffer.update(draw, next(errors))

    return learn, lambda: buffer.add(rows[0], 1, 1.0, after, False)


def _make_cpprb_actions(rows: AnyArray) -> tuple[Action, Action]:
    from cpprb import PrioritizedReplayBuffer

    fields = {"obs": {"shape": 4}, "act": {"dtype": np.int64}, "rew": {}, "next_obs": {"shape": 4}, "done": {}}
    buffer, errors = PrioritizedReplayBuffer(len(rows), fields, alpha=0.6, eps=0.01), _cycle_errors()
    buffer.add(obs=rows, act=np.ones(len(rows)), rew=np.ones(len(rows)), next_obs=rows, done=np.zeros(len(rows)))
    after = np.zeros(4, np.float32)

    def learn() -> None:
        batch = buffer.sample(M, 0.4)
        buffer.update_priorities(batch["indexes"], np.abs(next(errors)))

    return learn, lambda: buffer.add(obs=rows[0], act=1, rew=1.0, next_obs=after, done=0.0)


def measure_memory(console: Console, scale: Scale) -> dict[str, float]:
    """Return the bytes per item of a `Replay`."""
    console.print(f"Bytes per item, for any number of settings (limit {MAX_BYTES_PER_ITEM} for many items):")
    found = {f"{n:,} items, bytes an item": varmix.Replay(n).nbytes / n for n in scale.items}
    for name, size in found.items():
        console.print(f"  {name:<48}{size:8.1f}")
    return found
