"""How far an epoch has come: its states, and `position` and `batches_left` that users see."""

import gc
import subprocess
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import varmix
from support.loaders import EAGER, LABELS, Numbers, follow, losses
from varmix.torch import AdaptiveLoader, MixtureBatchSampler
from varmix.torch._engine import EpochPlan, EpochProgress, EpochState, plan_epoch
from varmix.torch._layout import ProcessLayout

IDLE, RUNNING, INTERRUPTED, FINISHED = EpochState


def make(workers=0, rng=0, **options):
    return AdaptiveLoader(Numbers(), LABELS, 8, **{"learner": EAGER, "num_workers": workers, "rng": rng, **options})


def loader_of(batches, workers=0):
    return DataLoader(
        batches.tagged(Numbers()), batch_sampler=batches, collate_fn=batches.collate(), num_workers=workers
    )


def progress(*, tracks_arrival=True, state=IDLE):
    made = EpochProgress(EpochPlan(size=8, full=3, last=0), tracks_arrival=tracks_arrival)
    made.state = state
    return made


@pytest.mark.parametrize(
    ("before", "expected", "ended", "epoch"),
    [(IDLE, RUNNING, 0, 5), (RUNNING, RUNNING, 1, 5), (INTERRUPTED, RUNNING, 0, 2), (FINISHED, RUNNING, 1, 5)],
)
def test_a_loop_begins_a_new_epoch_or_finishes_an_interrupted_one(before, expected, ended, epoch):
    made, calls = progress(state=before), []
    made.epoch, made._next_epoch, made._drawn = 2, 5, 2
    loop = made.begin(lambda: calls.append("end"))
    assert made.state is expected
    assert len(calls) == ended
    assert made.epoch == epoch
    assert made.position == (2 if before is INTERRUPTED else 0)
    made.check_loop(loop)
    made.begin(lambda: None)
    with pytest.raises(RuntimeError, match="newer loop"):
        made.check_loop(loop)


def test_only_what_reports_no_arrivals_finishes_with_its_last_draw():
    sampler = varmix.Sampler(LABELS, rng=0)
    for tracks in (True, False):
        made = progress(tracks_arrival=tracks)
        loop = made.begin(lambda: None)
        for left in (2, 1, 0):
            assert made.issue(loop, sampler.draw) is not None
            assert made.state is (FINISHED if left == 0 and not tracks else RUNNING)
        assert made.issue(loop, sampler.draw) is None
        made.finish()
        assert made.state is FINISHED


@pytest.mark.parametrize("tracks_arrival", [True, False])
def test_the_next_loop_of_an_interrupted_epoch_with_nothing_left_is_empty(tracks_arrival):
    made = progress(tracks_arrival=tracks_arrival, state=INTERRUPTED)
    made._drawn, made.loop = made.plan.batches, 1
    assert made.batches_left == 0
    assert made.issue(0, None) is None  # a loop from before the state was loaded ends, and finishes nothing
    assert made.state is INTERRUPTED
    loop = made.begin(lambda: None)
    assert made.issue(0, None) is None
    assert made.state is RUNNING
    assert made.issue(loop, None) is None
    assert made.state is (RUNNING if tracks_arrival else FINISHED)
    made.finish()
    assert made.batches_left == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_that_was_saved_at_the_last_batch_gives_an_empty_loop_first(workers):
    loader, other = make(workers), make(workers, rng=3)
    for _ in loader:
        if loader.batches_left == 0:
            other.load_state_dict(loader.state_dict())
    assert (other.position, other.batches_left) == (13, 0)
    assert list(other) == []
    assert (other.epoch, other.batches_left) == (0, 13)
    assert [draw.indices.tolist() for _, draw in other] == [draw.indices.tolist() for _, draw in loader]
    assert other.epoch == loader.epoch == 1


def layout_of(name, points, world):
    return ProcessLayout(name, points, SimpleNamespace(world=world, rank=0), (1.0,) * world)


@pytest.mark.parametrize(
    ("layout", "drop_last", "plan"),
    [
        (ProcessLayout("alone", 30), False, (8, 3, 6)),
        (ProcessLayout("alone", 30), True, (8, 3, 0)),
        (layout_of("replicated", 30, 4), False, (8, 3, 4)),
        (layout_of("sharded", 30, 4), False, (8, 3, 0)),
        (layout_of("sharded", 6, 4), False, (8, 0, 4)),
    ],
)
def test_the_last_batch_is_divided_evenly_or_left_out(layout, drop_last, plan):
    assert plan_epoch(layout, 8, None, drop_last=drop_last) == plan


@pytest.mark.parametrize(
    ("layout", "drop_last", "advice"),
    [
        (ProcessLayout("alone", 6), True, "a smaller batch_size or drop_last=False"),
        (layout_of("replicated", 6, 4), True, "a smaller batch_size or drop_last=False"),
        (layout_of("replicated", 3, 4), False, "fewer processes"),
        (layout_of("sharded", 3, 4), True, "fewer processes"),
    ],
)
def test_an_epoch_without_a_batch_names_what_would_help(layout, drop_last, advice):
    with pytest.raises(ValueError, match=f"fewer than one batch of 8.* Use {advice}, or pass steps"):
        plan_epoch(layout, 8, None, drop_last=drop_last)


@pytest.mark.parametrize("workers", [0, 2])
def test_position_counts_what_has_come_and_not_what_workers_fetch_ahead(workers):
    loader = make(workers)
    assert (loader.position, loader.batches_left) == (0, 13)
    for epoch in range(2):
        for count, _ in enumerate(loader, start=1):
            assert (loader.position, loader.batches_left) == (count, 13 - count)
        assert loader.epoch == epoch
        assert (loader.position, loader.batches_left) == (13, 13)  # the next loop has a whole epoch


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 7, 12, 13])
def test_a_loaded_state_says_what_the_next_loop_gives(workers, stop):
    first, second = make(workers), make(workers, rng=3)
    follow(first, steps=stop)
    second.load_state_dict(first.state_dict())
    assert (second.position, second.batches_left) == (stop, 13 - stop)
    assert len(list(second)) == 13 - stop
    assert (second.position, second.batches_left) == (13, 13)


def test_a_loop_that_is_left_early_stays_where_it_was_until_the_next_one_begins():
    loader = make()
    follow(loader, steps=4)
    assert (loader.position, loader.batches_left) == (4, 9)
    next(iter(loader))
    assert (loader.position, loader.batches_left) == (1, 12)


class Faulty(Numbers):
    def __getitem__(self, index):
        if index == 17:
            raise KeyError("item 17 cannot be read")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_is_lost_counts(workers):
    loader = AdaptiveLoader(Faulty(), LABELS, 8, rng=0, num_workers=workers)
    loop, seen = iter(loader), 0
    for seen in range(1, 14):  # noqa: B007
        try:
            next(loop)
        except KeyError:
            break
    assert (loader.position, loader.batches_left) == (seen, 13 - seen)


@pytest.mark.parametrize("workers", [0, 2])
def test_position_of_a_batch_sampler_counts_up_to_the_last_feedback(workers):
    batches = MixtureBatchSampler(LABELS, 8, rng=0, learner=EAGER)
    late = []
    for count, (numbers, _, draw_id) in enumerate(loader_of(batches, workers), start=1):
        late.append((numbers, draw_id))
        if count % 3 == 0:
            batches.update(late[-1][1], losses(late[-1][0]))  # and the two before it are still without
        assert batches.position == count - count % 3
        assert batches.batches_left == 13 - batches.position
    other = MixtureBatchSampler(LABELS, 8, rng=1, learner=EAGER)
    other.load_state_dict(batches.state_dict())
    assert (other.position, other.batches_left) == (12, 1)
    assert len(list(other)) == 1  # the last one, which may not have come
    batches.update(late[-1][1], losses(late[-1][0]))
    assert (batches.position, batches.batches_left) == (13, 13)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [4, 8, 12])
def test_accumulated_gradients_resume_with_the_same_steps(workers, stop):
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(x, torch.tensor(LABELS))

    def build(rng):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 3)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        loader = AdaptiveLoader(data, LABELS, 8, learner=EAGER, num_workers=workers, rng=rng)
        return model, optimiser, loader

    def train(model, optimiser, loader, epochs, until=None):
        """Step after every fourth batch and at the end of an epoch; return the batches of every step."""
        steps, here = [], []
        for _ in range(epochs):
            for (features, labels), draw in loader:
                each = torch.nn.functional.cross_entropy(model(features), labels, reduction="none")
                (draw.mean(each) / 4).backward()
                loader.update(draw, each)
                here.append(draw.serial)
                if loader.position % 4 == 0 or loader.batches_left == 0:
                    optimiser.step()
                    optimiser.zero_grad()
                    steps.append(here)
                    here = []
                if loader.position == until:
                    return steps
        return steps

    whole = build(0)
    expected = train(*whole, epochs=2)
    assert [len(step) for step in expected] == [4, 4, 4, 1] * 2
    first = build(0)
    steps = train(*first, epochs=1, until=stop)
    state = [part.state_dict() for part in first]
    second = build(9)
    for part, saved in zip(second, state, strict=True):
        part.load_state_dict(saved)
    assert steps + train(*second, epochs=2) == expected
    for mine, other in zip(second[0].parameters(), whole[0].parameters(), strict=True):
        assert torch.equal(mine, other)


class Rowed(varmix.components.Family):
    """A user's family with attributes whose names mean something else elsewhere."""

    rows, parents, groups = 5, "none", [1]

    def __init__(self):
        self.space, self.k, self.c = varmix.components.Points(100), 2, 2.0

    @property
    def has_uniform(self):
        return True

    def draw(self, lanes, uniforms):
        atoms = (uniforms.take(len(lanes)) * np.where(lanes == 0, 50, 100)).astype(np.int64)
        return atoms, self.ratios(atoms)

    def ratios(self, atoms):
        return np.column_stack([np.where(atoms < 50, 2.0, 0.0), np.ones(len(atoms))])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_over_a_family_with_rows_of_its_own_resumes(workers):
    def build(rng):
        return AdaptiveLoader(Numbers(), Rowed(), 8, learner=EAGER, num_workers=workers, rng=rng)

    whole, first, second = follow(build(0), epochs=2), build(0), build(4)
    before = follow(first, steps=5)
    second.load_state_dict(first.state_dict())
    assert before + follow(second, steps=21, epochs=2) == whole


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_loop_that_is_left_frees_the_iterator_of_its_data_loader(adaptive):
    loader = make() if adaptive else loader_of(MixtureBatchSampler(LABELS, 8, rng=0))
    gc.disable()  # a cycle would be found by it, at a time when it hurts: in a worker process, for example
    try:
        loop = iter(loader)
        next(loop)
        alive = weakref.ref(loop._batches if adaptive else loop)
        del loop
        assert alive() is None
    finally:
        gc.enable()


SCRIPT = """
import sys
import numpy as np
from varmix.torch import AdaptiveLoader, MixtureBatchSampler
loader = AdaptiveLoader(list(range(20)), np.arange(20) % 2, 4, rng=0)
for batch, draw in loader:
    loader.update(draw, np.ones(4))
loader.load_state_dict(loader.state_dict())
MixtureBatchSampler(np.arange(20) % 2, 4, rng=0).sync()
print(*[name for name in sys.modules if name.startswith("varmix.torch.")])
"""


def test_one_process_imports_nothing_that_only_many_need():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert "varmix.torch._engine" in names
    assert not {"varmix.torch._feedback", "varmix.torch._exchange", "varmix.torch._process_group"} & set(names)


def test_a_batch_sampler_shows_users_what_they_need_and_no_more():
    public = {name for name in dir(MixtureBatchSampler(LABELS, 8, rng=0)) if not name.startswith("_")}
    assert public == {
        "batch_size", "batches_left", "collate", "drop_last", "epoch", "exchanged", "gain", "history", "layout",
        "learned_mixture", "load_state_dict", "meter", "mixture", "position", "sampler", "set_epoch", "state_dict",
        "sync", "tagged", "update",
    }  # fmt: skip
