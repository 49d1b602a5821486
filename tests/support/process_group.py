"""Scenarios that the processes of one gloo group play; started as a script, once per process.

    python process_group.py SCENARIO,SCENARIO,... RANK WORLD FOLDER

Each returns plain values, which the script writes to FOLDER/RANK.json under the name of the scenario.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from filelock import FileLock
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import varmix
from support.loaders import EAGER, LABELS, Numbers, follow, losses
from varmix.allocate import Shuffled
from varmix.torch import AdaptiveLoader, MixtureBatchSampler

SIZES = (40, 60, 100, 140)  # of shards
STEPS = {2: 200, 4: 50}  # of every family, by the number of processes: four share two cores
SHARD_STEPS = {2: 500, 4: 250}


def start(scenarios, world, folder, check=True, tries=2):
    """Play some scenarios; return what every process returned, by rank.

    CPython can hang in a DataLoader worker that is forked while torch has threads: then they are played once more.
    """
    folder = Path(folder)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    commands = [[sys.executable, __file__, scenarios, str(rank), str(world), str(folder)] for rank in range(world)]
    running = [
        subprocess.Popen(c, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for c in commands
    ]
    try:
        deadline = time.monotonic() + 100
        ended = [process.communicate(timeout=max(deadline - time.monotonic(), 1.0))[1] for process in running]
    except subprocess.TimeoutExpired:
        if tries == 1:
            raise
        ended = None
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the workers of its loaders
            process.wait()
    if ended is None:
        (folder / "store").unlink(missing_ok=True)
        return start(scenarios, world, folder, check, tries - 1)
    if check:
        assert [process.returncode for process in running] == [0] * world, "\n".join(ended)
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]
    return [(process.returncode, error) for process, error in zip(running, ended, strict=True)]


def start_once(scenarios, world, base):
    """Play scenarios once for all processes of pytest: the first one plays them, the others read its files."""
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"processes-{world}"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "done").exists():
            start(scenarios, world, folder)
            (folder / "done").touch()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


def count_collectives():
    """Count the calls of collectives from now on."""
    calls = Counter()
    for name in ("all_reduce", "all_gather", "broadcast"):
        setattr(dist, name, _counted(name, getattr(dist, name), calls))
    return calls


def _counted(name, function, calls):
    def counted(*arguments, **options):
        calls[name] += 1
        return function(*arguments, **options)

    return counted


def bits(array):
    return np.asarray(array).tobytes().hex()


def seen_by(loader, steps, epochs=100):
    """Follow a loader; return the indices of this process and the last mixture."""
    seen = follow(loader, steps, epochs)
    return {
        "batches": [batch for batch, _, _ in seen],
        "mixture": loader.mixture.tolist(),
        "bits": bits(loader.mixture),
    }


FAMILIES = {
    "groups": lambda: (varmix.Groups(LABELS, replacement=False), EAGER),
    "cautious": lambda: (varmix.Groups(LABELS, replacement=False), varmix.learners.Cautious(window=20)),
    "dense": lambda: (varmix.Dense(_laws()), None),
    "ons": lambda: (varmix.Groups(LABELS, replacement=False), varmix.learners.ONS(gamma=0.1)),
    "leader": lambda: (varmix.Groups(LABELS, replacement=False), varmix.learners.Leader()),
    "resplit": lambda: (varmix.Groups(LABELS, replacement=False, resplit="norms"), EAGER),
}


def _laws():
    laws = np.random.default_rng(0).gamma(1.0, size=(100, 3))
    return laws / laws.sum(axis=0)


def build(name, **options):
    family, learner = FAMILIES[name]()
    return AdaptiveLoader(Numbers(), family, 24, learner=learner, **{"rng": 0, **options})


def replicated(rank, world):
    """Follow loaders over all families and count collectives; also with `sync_every`, and with workers."""
    found, steps = {}, STEPS[world]
    for name in FAMILIES:
        loader = build(name, rng=rank)  # the seed of the first process counts
        calls = count_collectives()
        found[name] = {**seen_by(loader, steps), "exchanged": loader.batches.exchanged, "calls": dict(calls)}
    loader = build("groups", sync_every=5)
    calls = count_collectives()
    found["sync_every"] = {**seen_by(loader, steps), "calls": dict(calls)}
    found["cautious, sync_every"] = seen_by(build("cautious", sync_every=5), steps)
    found["workers"] = seen_by(build("groups", num_workers=1), 30)
    found["draws"] = loader.meter.draws
    found["gain"] = loader.meter.gain
    return found


def heard(rank):
    """Report feedback from one buffer that is used again: feedback that waits must be a copy."""
    n = SIZES[rank]
    loader = AdaptiveLoader(Numbers(n), varmix.components.Cumulative(n), 24, layout="sharded", rng=0, sync_every=2)
    norms, told = torch.empty(0, dtype=torch.float64), []
    loader.sampler.components.observe = lambda draw, seen: told.append(seen.tolist())
    for step, (batch, draw) in zip(range(2), loader, strict=False):
        norms.resize_(len(batch)).fill_(step + 1.0)
        loader.update(draw, norms)
    return [one[0] for one in told]


def sharded(rank, world):
    """Follow loaders over shards."""
    found = {"heard": heard(rank)}
    n, offset = SIZES[rank], sum(SIZES[:rank])
    labels = np.arange(n) % 3
    for name, learner in (("sums", EAGER), ("rows", varmix.learners.Leader()), ("cautious", None)):
        loader = AdaptiveLoader(
            Numbers(n), labels, 24, layout="sharded", rng=0, learner=learner, steps=SHARD_STEPS[world]
        )
        calls, total, largest = count_collectives(), 0.0, 0.0
        for batch, draw in loader:
            largest = max(largest, draw.weights.max().item())
            values = (batch + offset).double() ** 1.5
            loader.update(draw, values)
            total += (draw.weights.double() * values).mean().item()
        found[name] = {
            "bits": bits(loader.mixture),
            "mixture": loader.mixture.tolist(),
            "mean": total / len(loader),
            "exchanged": loader.batches.exchanged,
            "calls": dict(calls),
            "scale": loader.batches.layout.scale,
            "draws": loader.meter.draws,
            "meter": loader.meter.summary(),
            "largest": largest,
            "gain": loader.sampler.learned_gain,
        }
    found["labels"] = _error(lambda: AdaptiveLoader(Numbers(n), labels + rank, 24, layout="sharded", rng=0))
    found["steps"] = len(AdaptiveLoader(Numbers(n), labels, 24, layout="sharded", rng=0))
    return found


def descend(model, loader, steps=60):
    """Train a model with the weights of a loader; return its parameters."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    done = 0
    while done < steps:
        for batch, draw in loader:
            x = features(batch)
            errors = (model(x)[:, 0] - x[:, 0] * x[:, 1] - (batch >= 90).double()) ** 2
            optimiser.zero_grad()
            (draw.weights * errors).mean().backward()
            optimiser.step()
            loader.update(draw, errors.detach().sqrt())
            done += 1
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def features(indices):
    return torch.stack([torch.sin(indices.double() * f) for f in (1.0, 0.37, 0.11)], dim=1)


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()


def ddp(rank, world):
    """DistributedDataParallel averages gradients."""
    torch.set_default_dtype(torch.float64)
    try:
        return descend(DistributedDataParallel(model()), build("groups"))
    finally:
        torch.set_default_dtype(torch.float32)


def refusals(rank, world):
    """Collect errors that all processes raise, and errors of one process that the others learn about."""
    found = {}
    loader = build("groups")
    for step, (batch, draw) in enumerate(loader):
        norms = losses(batch)
        before = bits(loader.mixture), loader.meter.draws
        if step == 3 and rank == 1:
            norms[0] = float("nan")
        try:
            loader.update(draw, norms)
        except ValueError as error:
            found["nan"] = [step, str(error), (bits(loader.mixture), loader.meter.draws) == before]
            loader.update(draw, losses(batch))  # it was not used up
    found["bits"], found["draws"] = bits(loader.mixture), loader.meter.draws
    loader = build("leader", sync_every=2, steps=6)
    _, draw = next(iter(loader))
    short = loader.sampler.draw(2)  # which no process can have been given
    found["none"] = [
        _error(lambda: loader.update(draw, None if rank else torch.ones(24 // world))),
        _error(lambda: loader.update(short if rank else next(iter(loader))[1], torch.ones(24 // world))),
        bits(loader.mixture),
    ]
    loader = build("groups", sync_every=4, steps=8)
    found["late"] = []
    for step, (batch, draw) in enumerate(loader):
        norms = losses(batch) if (step, rank) != (1, 1) else torch.full((len(batch),), float("inf"))
        try:
            loader.update(draw, norms)
        except ValueError as error:
            found["late"].append([step, str(error)])
    found["late_bits"], found["late_draws"] = bits(loader.mixture), loader.meter.draws
    twice = build("groups", sync_every=3)
    _, draw = next(iter(twice))
    twice.update(draw, torch.ones(24 // world))
    found["twice"] = _error(lambda: twice.update(draw, torch.ones(24 // world)))
    found["save"] = _error(twice.state_dict)
    twice.sync()
    found["saved"] = _error(twice.state_dict)
    found["given up"] = given_up(world)
    found["by number"] = by_number(rank, world)
    found["lengths"] = lengths(world)
    found["undivided"] = _error(lambda: AdaptiveLoader(Numbers(), LABELS, 24 * world + 1))
    found["batch_size"] = _error(lambda: AdaptiveLoader(Numbers(), LABELS, 24 * (rank + 1)))
    found["labels"] = _error(lambda: AdaptiveLoader(Numbers(), np.roll(LABELS, rank) // (1 + rank), 24))
    ready = varmix.vrm(varmix.Groups(LABELS), rng=rank)
    found["kinds"] = _error(lambda: AdaptiveLoader(Numbers(), ready if rank else LABELS, 24))
    found["rng"] = _error(lambda: AdaptiveLoader(Numbers(), ready, 24))
    found["allocate"] = _error(
        lambda: AdaptiveLoader(Numbers(), LABELS, 24, allocate=[None, Shuffled(60)][rank % 2], rng=0)
    )
    found["learner"] = _error(
        lambda: AdaptiveLoader(
            Numbers(), LABELS, 24, learner=varmix.learners.Cautious(varmix.learners.BarrierNewton(gamma=0.1 + rank / 9))
        )
    )
    thousands = np.full(1501, 1 / 1501) + 1e-5 * rank * (np.eye(1501)[700] - np.eye(1501)[701])
    uneven = 1e-3 * np.outer(np.eye(100)[0] - np.eye(100)[1], np.eye(1500)[1499])  # the last law is not uniform
    family = varmix.Dense(np.full((100, 1500), 0.01) + uneven)
    found["one number"] = _error(
        lambda: AdaptiveLoader(Numbers(), family, 24, learner=varmix.learners.Fixed(thousands), rng=0)
    )
    loader = build("groups")
    batch, draw = next(iter(loader))
    if rank == 1:
        loader.sampler.draw(5)
    loader.update(draw, losses(batch))
    batch, draw = next(iter(loader))
    found["draws differ"] = _error(lambda: loader.update(draw, losses(batch)))
    return found


SEEDS = {
    "zero": lambda rank: 0,
    "one number of many digits": lambda rank: 2**200 + 12345 + rank,
    "generator": lambda rank: np.random.default_rng(3 + 96 * rank),
    "generator of another kind": lambda rank: np.random.Generator(np.random.MT19937(rank)),
}


def seeds(rank, world):
    """Draw two epochs with several seeds; the seed of the first process counts."""
    found = {}
    for name, make in SEEDS.items():
        batches = MixtureBatchSampler(LABELS, 24, rng=make(rank))
        found[name] = [list(slots) for _ in range(2) for slots in batches]
    shards = MixtureBatchSampler(LABELS, 24, rng=0, layout="sharded")
    found["sharded"] = [list(slots) for slots in shards]
    return found


LONELY = {
    "labels": {"components": np.full(100, 0.5)},
    "no labels": {"components": None},
    "batch_size": {"batch_size": 0},
    "undivided": {"batch_size": 25},
    "rng": {"rng": "zero"},
    "dataset": {"dataset": Numbers(99)},
    "layout": {"layout": "spread"},
    "in_order": {"in_order": False},
    "shuffle": {"shuffle": True},
    "gamma": {"gamma": 5.0},
    "steps": {"steps": -1},
    "sync_every": {"sync_every": 0},
    "num_workers": {"num_workers": -1},
    "learner": {"learner": "adam"},
}


def lonely(rank, world):
    """Build loaders that only the last process cannot build, then one that all can."""
    found = {}
    for name, change in LONELY.items():
        settings = {"dataset": Numbers(), "components": LABELS, "batch_size": 24, "rng": 0}
        found[name] = _error(partial(AdaptiveLoader, **settings | (change if rank == world - 1 else {})))
    few = [0] * (3 if rank == world - 1 else 100)
    found["sharded"] = _error(lambda: AdaptiveLoader(Numbers(100), few, 24, rng=0, layout="sharded"))
    found["batches"] = _error(lambda: MixtureBatchSampler("abc" if rank == world - 1 else LABELS, 24))
    found["none"] = seen_by(build("groups"), 3)["bits"]
    return found


def accelerated(rank, world):
    """Iterate over a loader that went through accelerate."""
    from accelerate import Accelerator

    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500}
    os.environ |= {name: str(value) for name, value in numbers.items()}  # as torchrun does; the group is there already
    batches = MixtureBatchSampler(LABELS, 24, rng=0)
    plain = DataLoader(batches.tagged(Numbers()), batch_sampler=batches, collate_fn=batches.collate())
    loader = Accelerator(cpu=True).prepare(plain)
    return [_error(lambda: next(iter(loader))), len(list(plain))]


def given_up(world):
    """Load a state while rounds wait: they belong to the abandoned run."""
    loader = build("groups", sync_every=3)
    saved, before = loader.state_dict(), bits(loader.mixture)
    _, draw = next(iter(loader))
    loader.update(draw, torch.ones(24 // world))
    loader.load_state_dict(saved)
    loader.sync()
    batch, draw = next(iter(loader))
    unchanged = bits(loader.mixture) == before
    return [unchanged, _error(lambda: loader.update(draw, losses(batch)))]


def by_number(rank, world):
    """Report a round again, by its number too, after one process rejected it while it waited."""
    batches = MixtureBatchSampler(LABELS, 24, rng=0, sync_every=2)
    first, second = (slots.draw_id for slots, _ in zip(batches, range(2), strict=False))
    good = torch.ones(24 // world)
    told = [
        _error(lambda: batches.update(first, good * float("nan") if rank else good)),
        _error(lambda: batches.update(second, good)),
        _error(lambda: batches.update(first, good)),
    ]
    batches.sync()
    return [told, batches.meter.draws]


def lengths(world):
    """Report gradients whose length changes while rounds wait: they are no pair, and raise nothing."""
    loader = build("groups", sync_every=2)
    for length, (batch, draw) in zip((2, 3), loader, strict=False):
        loader.update(draw, losses(batch), gradient=torch.ones(length))
    return loader.meter.draws


def _error(call):
    try:
        call()
    except (ValueError, RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def resumed(rank, world):
    """Stop in the middle of an epoch and resume from the state of the first process."""
    folder = Path(sys.argv[4])
    whole = seen_by(build("groups", num_workers=1), 15)
    first = build("groups", num_workers=1)
    before = seen_by(first, 6)
    if rank == 0:
        torch.save(first.state_dict(), folder / "state.pt")
    dist.barrier()
    second = build("groups", num_workers=1, rng=5)
    second.load_state_dict(torch.load(folder / "state.pt", weights_only=True))
    after = seen_by(second, 9)
    return {"same": before["batches"] + after["batches"] == whole["batches"], "bits": after["bits"] == whole["bits"]}


def taken_up(rank, world):
    """Resume a run of one process, with an odd last batch in flight."""
    found = {}
    for name, resplit in (("sums", None), ("rows", "norms")):
        groups = [varmix.Groups(LABELS[:99], replacement=False, resplit=resplit) for _ in range(2)]
        alone = AdaptiveLoader(Numbers(99), groups[0], 24, learner=EAGER, rng=0, layout="alone", num_workers=1)
        loop = iter(alone)
        for _ in range(3):
            next(loop)
        loader = AdaptiveLoader(Numbers(99), groups[1], 24, learner=EAGER, rng=0)
        loader.load_state_dict(alone.state_dict())
        sizes = []
        for batch, draw in loader:
            loader.update(draw, losses(batch))
            sizes.append(len(batch))
        found[name] = sizes, bits(loader.mixture)
    return found


def dying(rank, world):
    """Let one process die in the middle."""
    loader = build("groups")
    for step, (batch, draw) in enumerate(loader):
        if step == 2 and rank == 1:
            os._exit(7)
        loader.update(draw, losses(batch))


def main():
    scenarios, rank, world, folder = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    found = {scenario: globals()[scenario](rank, world) for scenario in scenarios}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    gc.collect()  # as in training.py
