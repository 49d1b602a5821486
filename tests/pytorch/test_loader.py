"""AdaptiveLoader feels like a DataLoader, and pairs every batch with its receipt."""

import copy
import pickle
import threading
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset

import varmix
from support.loaders import EAGER, LABELS, Numbers, follow, losses
from varmix.allocate import Shuffled, round_robin, stratified
from varmix.torch import AdaptiveLoader, MixtureBatchSampler, TensorDraw
from varmix.torch._tagging import Samples, Slots


def make(**options):
    return AdaptiveLoader(Numbers(), LABELS, 8, rng=0, **{"learner": EAGER, **options})


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_and_receipts_belong_together(workers):
    loader = make(num_workers=workers)
    for batch, draw in loader:
        assert isinstance(draw, TensorDraw)
        assert batch.tolist() == draw.indices.tolist() == draw.part.indices.tolist()
        assert draw.weights.tolist() == draw.part.weights.astype(np.float32).tolist()
        loader.update(draw, losses(batch))
    assert loader.mixture[:-1].argmax() == 2


class Late(Numbers):
    """Keeps a loader waiting once."""

    waited = False

    def __getitem__(self, index):
        if index == 50 and not self.waited:
            self.waited = True
            time.sleep(3.0)
        return super().__getitem__(index)


def count_batches(loop, errors):
    """Take batches until the end in spite of errors; return how many came, and how many errors."""
    came = failed = 0
    while True:
        try:
            batch, draw = next(loop)
        except StopIteration:
            return came, failed
        except errors:
            failed += 1
        else:
            assert batch.tolist() == draw.indices.tolist()
            came += 1


def test_a_batch_that_is_late_comes_with_its_own_receipt():
    """A loader that has waited too long gives up waiting, not the batch: it is the next to come."""
    loader = AdaptiveLoader(Late(), LABELS, 8, rng=0, num_workers=1, timeout=1)
    came, failed = count_batches(iter(loader), RuntimeError)
    assert came == len(loader)
    assert failed


class Interrupted(Numbers):
    """Somebody presses Ctrl-C while an item is read."""

    pressed = False

    def __getitem__(self, index):
        if index == 50 and not self.pressed:
            self.pressed = True
            raise KeyboardInterrupt
        return super().__getitem__(index)


def test_a_loop_goes_on_behind_a_batch_that_was_interrupted():
    loader = AdaptiveLoader(Interrupted(), LABELS, 8, rng=0)
    assert count_batches(iter(loader), KeyboardInterrupt) == (len(loader) - 1, 1)


def test_tensors_that_were_replaced_are_loaded():
    data = TensorDataset(torch.zeros(100))
    loader = AdaptiveLoader(data, LABELS, 10, rng=0)
    data.tensors = (torch.ones(100),)
    ((values,), _) = next(iter(loader))
    assert values.tolist() == [1.0] * 10


def test_the_weighted_mean_wants_one_loss_per_example():
    batch, draw = next(iter(make()))
    assert draw.mean(losses(batch)) == (draw.weights * losses(batch)).mean()
    for wrong in (losses(batch)[:, None], losses(batch).mean(), losses(batch)[:-1]):
        with pytest.raises(ValueError, match=r"one per example, \(8,\), got"):
            draw.mean(wrong)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_may_be_started_in_any_way(start):
    alone, others = make(num_workers=1), make(num_workers=1, multiprocessing_context=start)
    assert follow(others) == follow(alone)


def test_labels_mean_groups_without_replacement():
    components = make().sampler.components
    assert isinstance(components, varmix.Groups)
    assert not components.replacement


@pytest.mark.parametrize("kind", ["list", "tensor", "family", "sampler"])
def test_components_may_be_given_in_several_ways(kind):
    family = varmix.Groups(LABELS, replacement=False)
    given = {"list": LABELS.tolist(), "tensor": torch.tensor(LABELS), "family": family}
    if kind == "sampler":
        loader = AdaptiveLoader(Numbers(), varmix.vrm(family, rng=0), 8)
    else:
        loader = AdaptiveLoader(Numbers(), given[kind], 8, learner=EAGER, rng=0)
    assert follow(loader) == follow(make())


@pytest.mark.parametrize("epochs", [1, 3])
def test_one_group_is_plain_reshuffling(epochs):
    loader = AdaptiveLoader(Numbers(), np.zeros(100, int), 8, rng=0)
    seen = [follow(loader) for _ in range(epochs)]
    sizes = [len(batch) for batch, _, _ in seen[0]]
    assert sizes == [len(batch) for batch in DataLoader(Numbers(), 8, shuffle=True)]
    for one in seen:
        assert sorted(i for batch, _, _ in one for i in batch) == list(range(100))
        assert {w for _, weights, _ in one for w in weights} == {1.0}
    assert len({str(one) for one in seen}) == epochs  # another order in every epoch


@pytest.mark.parametrize("allocate", [None, Shuffled(100)], ids=repr)
def test_groups_with_nothing_to_gain_give_every_point_once_an_epoch(allocate):
    """Carried batches hold of every group what is due to it, shuffled ones what chance gives them."""
    nothing = varmix.learners.Fixed([0.0, 0.0, 0.0, 1.0])
    loader = AdaptiveLoader(Numbers(), LABELS, 10, learner=nothing, allocate=allocate, rng=0)
    counts = set()
    for _ in range(3):
        seen = [(batch.tolist(), draw.weights.tolist()) for batch, draw in loader]
        assert sorted(i for batch, _ in seen for i in batch) == list(range(100))
        assert {w for _, weights in seen for w in weights} == {1.0}
        counts |= {tuple(np.bincount(LABELS[batch], minlength=3)) for batch, _ in seen}
    assert (counts == {(6, 3, 1)}) == (allocate is None)


@pytest.mark.parametrize(
    ("family", "options", "expected"),
    [
        (LABELS, {}, Shuffled(100)),
        (varmix.Groups(LABELS, replacement=False), {}, Shuffled(100)),
        (LABELS, {"learner": varmix.learners.Cautious(window=7)}, Shuffled(100)),
        (LABELS, {"learner": EAGER}, round_robin),
        (LABELS, {"allocate": round_robin}, round_robin),
        (LABELS, {"learner": EAGER, "allocate": Shuffled(100)}, Shuffled(100)),
        (varmix.Groups(LABELS), {}, stratified),
    ],
)
def test_slots_are_allocated_as_asked(family, options, expected):
    loader = AdaptiveLoader(Numbers(), family, 8, **options)
    assert loader.sampler.allocate == expected
    assert loader.sampler.reshuffled == (expected is not stratified)


@pytest.mark.parametrize(
    ("family", "options", "expected"),
    [
        (LABELS, {}, varmix.learners.Cautious(varmix.learners.BarrierNewton())),
        (LABELS, {"gamma": 0.3}, varmix.learners.Cautious(varmix.learners.BarrierNewton(gamma=0.3))),
        (varmix.Groups(LABELS), {}, varmix.learners.BarrierNewton()),
        (varmix.Groups(LABELS), {"gamma": 0.3}, varmix.learners.BarrierNewton(gamma=0.3)),
        (LABELS, {"learner": EAGER}, EAGER),
    ],
)
def test_only_what_is_shuffled_is_cautious_by_default(family, options, expected):
    assert AdaptiveLoader(Numbers(), family, 8, **options).sampler.learner == expected


def test_a_loader_is_plain_shuffling_while_there_is_nothing_to_gain():
    """In spite of feedback that differs from point to point: what the groups differ by does not pay."""
    loader = AdaptiveLoader(Numbers(), LABELS, 10, rng=0)
    for _ in range(20):
        seen = []
        for batch, draw in loader:
            seen += batch.tolist()
            assert draw.weights.tolist() == [1.0] * 10
            loader.update(draw, 1.0 + 0.01 * batch)
        assert sorted(seen) == list(range(100))
    assert "no gain, and the learner plays the mixture only as far as it pays" in loader.meter.verdict()
    assert 0.9 < loader.sampler.learned_gain < 1.25


def test_a_loader_goes_over_to_the_mixture_where_it_pays():
    loader = AdaptiveLoader(Numbers(), LABELS, 10, rng=0, steps=400)
    for batch, draw in loader:
        loader.update(draw, torch.where(batch >= 90, 10.0, 1.0))
    assert loader.mixture[2] > 0.3
    assert loader.mixture.tolist() == pytest.approx(loader.learned_mixture.tolist())
    assert loader.sampler.learned_gain > 1.5
    assert "keep it on" in loader.meter.verdict()


def test_points_of_target_zero_are_no_part_of_an_epoch():
    target = np.where(np.arange(100) < 20, 0.0, 1.0)
    loader = AdaptiveLoader(Numbers(), varmix.Groups(LABELS, replacement=False, target=target), 10, steps=8, rng=0)
    for _ in range(3):
        seen = []
        for batch, draw in loader:
            seen += batch.tolist()
            loader.update(draw, torch.ones(10))
        assert sorted(seen) == list(range(20, 100))


def test_a_mixture_that_learns_nothing_gives_every_point_once():
    loader = AdaptiveLoader(Numbers(), varmix.uniform(100, replacement=False, rng=0), 10)
    assert sorted(i for batch, _ in loader for i in batch.tolist()) == list(range(100))


@pytest.mark.parametrize(("options", "sizes"), [({}, [8] * 12 + [4]), ({"drop_last": True}, [8] * 12)])
def test_an_epoch_has_as_many_batches_as_of_a_loader(options, sizes):
    loader = make(**options)
    assert len(loader) == len(sizes) == len(DataLoader(Numbers(), 8, **options))
    assert [len(batch) for batch, _ in loader] == sizes


def test_steps_say_how_long_an_epoch_is():
    loader = make(steps=30)
    assert len(loader) == 30
    assert [len(batch) for batch, _ in loader] == [8] * 30


def test_epochs_are_counted_and_can_be_set():
    loader = make()
    assert loader.epoch == 0
    for number in range(3):
        for _ in loader:
            assert loader.epoch == number
    loader.set_epoch(7)
    for _ in loader:
        assert loader.epoch == 7


def test_the_end_of_an_epoch_reaches_the_components_with_all_feedback():
    calls = []

    class Family(varmix.components.Family):
        space, k, c = varmix.components.Points(100), 1, 1.0

        def draw(self, lanes, uniforms):
            atoms = (uniforms.take(len(lanes)) * 100).astype(np.int64)
            return atoms, self.ratios(atoms)

        def ratios(self, atoms):
            return np.ones((len(atoms), 1))

        def observe(self, draw, norms):
            calls.append("feedback")

        def end_epoch(self):
            calls.append("end")

    loader = AdaptiveLoader(Numbers(), Family(), 50, rng=0, num_workers=1)
    for _ in range(2):
        for batch, draw in loader:
            loader.update(draw, losses(batch))
    assert calls == ["feedback", "feedback", "end", "feedback", "feedback"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_norms_of_any_type_are_taken_and_detached(dtype):
    loader = make()
    for batch, draw in loader:
        norms = losses(batch).to(dtype)
        if dtype.is_floating_point:
            norms.requires_grad_()
        loader.update(draw, norms)
    assert loader.mixture[:-1].argmax() == 2


def test_norms_may_be_an_array():
    one, other = make(), make()
    for (batch, draw), (_, second) in zip(one, other, strict=True):
        one.update(draw, losses(batch))
        other.update(second, losses(batch).numpy())
    assert (one.mixture == other.mixture).all()


def test_weights_have_the_default_type():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        _, draw = next(iter(make()))
    finally:
        torch.set_default_dtype(before)
    assert draw.weights.dtype == torch.float64


def test_the_default_device_is_left_to_models():
    loader = AdaptiveLoader(TensorDataset(torch.arange(100)), LABELS, 8, rng=0)
    with torch.device("meta"):  # a DataLoader itself does not bear this one, but GPUs it does
        (batch,) = loader.loader.dataset.__getitems__([3, 5])
        draw_id = loader.batches.collate()(Samples([1, 2], Slots([3, 5], 7, np.ones(2))))[-1]
    assert batch.tolist() == [3, 5]
    assert draw_id.item() == 7


def test_weights_are_on_the_device_of_the_batch():
    loader = make(collate_fn=lambda samples: {"x": [torch.stack(samples).to("meta")]})
    _, draw = next(iter(loader))
    assert draw.weights.device.type == "meta"
    _, draw = next(iter(make()))
    assert draw.to("meta").weights.device.type == "meta"


def start(worker):
    torch.manual_seed(worker)


def test_what_a_data_loader_takes_is_passed_on():
    generator = torch.Generator().manual_seed(3)
    loader = make(
        num_workers=1,
        prefetch_factor=3,
        persistent_workers=True,
        worker_init_fn=start,
        generator=generator,
        pin_memory=False,
        timeout=60,
    )
    inner = loader.loader
    assert (inner.prefetch_factor, inner.persistent_workers, inner.timeout) == (3, True, 60)
    assert inner.worker_init_fn is start
    assert inner.generator is generator
    assert loader.lag == 3
    seen = [[batch.tolist() for batch, _ in loader] for _ in range(2)]  # persistent workers go on
    assert [len(one) for one in seen] == [13, 13]


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
@pytest.mark.parametrize(("workers", "prefetch"), [(0, None), (1, 2), (2, 2), (2, 3), (4, 2)])
def test_feedback_lags_behind_draws_by_workers_times_prefetch(workers, prefetch):
    loader = make(num_workers=workers, prefetch_factor=prefetch, steps=30)
    assert loader.lag == workers * (prefetch or 0)
    for number, (_, draw) in enumerate(loader):
        drawn = loader.sampler.state_dict()["serial"]
        assert draw.serial == number
        assert drawn - number - 1 == min(loader.lag, 30 - number - 1)


def test_feedback_changes_the_first_draw_after_the_lag():
    loader, silent = make(num_workers=2, steps=20), make(num_workers=2, steps=20)
    pairs = []
    for (batch, draw), (_, other) in zip(loader, silent, strict=True):
        loader.update(draw, losses(batch))
        pairs.append(draw.weights.tolist() == other.weights.tolist())
    assert pairs.index(False) == loader.lag + 1


def test_the_meter_hears_all_feedback():
    loader = make()
    follow(loader, epochs=5)
    assert loader.meter.draws == 500
    assert loader.meter.gain.value > 1.1
    assert set(loader.meter.summary()) >= {"gain", "gain_low", "gain_high", "verdict"}


def test_the_meter_takes_gradients_for_the_noise():
    loader = make()
    for batch, draw in loader:
        loader.update(draw, losses(batch), gradient=torch.tensor([1.0, 0.5]))
    assert loader.meter.noise is not None


def test_dropped_batches_are_legal():
    loader = make(num_workers=2)
    for _ in range(3):
        for number, (batch, draw) in enumerate(loader):
            if number % 2:
                loader.update(draw, losses(batch))
            if number == 5:
                break
    assert len(list(loader)) == 13


def test_thirty_million_points():
    n = 30_000_000
    loader = AdaptiveLoader(Numbers(n), (np.arange(n) % 10).astype(np.uint8), 4096, rng=0, steps=3)
    for batch, draw in loader:
        assert batch.tolist() == draw.indices.tolist()
        assert batch.max() > 2**24
        assert len(set((batch % 2).tolist())) == 2  # what single precision cannot tell apart
        loader.update(draw, torch.ones(4096))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


class NoLength(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return index


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: make(in_order=False), ValueError, "in_order"),
        (lambda: make(shuffle=True), TypeError, "shuffle"),
        (lambda: make(sampler=range(3)), TypeError, "sampler"),
        (lambda: AdaptiveLoader(Numbers(99), LABELS, 8), ValueError, "99 items .* 100 points"),
        (lambda: AdaptiveLoader(Stream(), LABELS, 8), TypeError, "Interleave"),
        (lambda: AdaptiveLoader(NoLength(), LABELS, 8), TypeError, "no length"),
        (lambda: AdaptiveLoader(Numbers(), varmix.Groups, 8), TypeError, "labels, one per point"),
        (lambda: AdaptiveLoader(Numbers(), varmix.Replay(100), 8), TypeError, "draws the points of a dataset"),
        (lambda: AdaptiveLoader(Numbers(), "labels", 8), TypeError, "labels, one per point"),
        (lambda: AdaptiveLoader(Numbers(), RandomSampler(range(100)), 8), TypeError, "use_distributed_sampler=False"),
        (lambda: AdaptiveLoader(Numbers(), varmix.uniform(100), 8, rng=0), TypeError, "not both"),
        (lambda: AdaptiveLoader(Numbers(), varmix.uniform(100), 8, allocate=round_robin), TypeError, "not both"),
        (lambda: AdaptiveLoader(Numbers(), varmix.Uniform(varmix.components.Subsets(100, 3)), 8), TypeError, "points"),
        (lambda: AdaptiveLoader(Numbers(), LABELS, 0), ValueError, "batch_size"),
        (lambda: AdaptiveLoader(Numbers(), LABELS, 128, drop_last=True), ValueError, "fewer than one batch"),
        (lambda: make(steps=0), ValueError, "steps"),
        (lambda: make(layout="everywhere"), ValueError, "layout"),
        (lambda: make(layout="sharded"), RuntimeError, "init_process_group"),
        (lambda: make(sync_every=0), ValueError, "sync_every"),
        (lambda: make().set_epoch(-1), ValueError, "epoch"),
    ],
)
def test_what_cannot_be_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("draw", [None, 0, torch.tensor(0), "draw", np.ones(8)])
def test_a_loader_takes_the_draw_that_came_with_a_batch(draw):
    loader = make()
    next(iter(loader))
    before = str(loader.state_dict())
    with pytest.raises(TypeError, match="update takes the draw that came with a batch and then its norms"):
        loader.update(draw, torch.ones(8))
    assert str(loader.state_dict()) == before


@pytest.mark.parametrize(
    ("norms", "error", "words"),
    [
        (torch.ones(8, dtype=torch.complex64), TypeError, "norms must be real"),
        (np.ones(8, dtype=complex), TypeError, "norms"),
        (None, TypeError, "norms"),
        ("losses", TypeError, "norms"),
    ],
)
def test_norms_that_are_no_real_numbers_are_refused(norms, error, words):
    loader = make()
    _, draw = next(iter(loader))
    with pytest.raises(error, match=words):
        loader.update(draw, norms)
    loader.update(draw, np.ones(8)[::-1])


class Faulty(Numbers):
    def __getitem__(self, index):
        if index == 17:
            raise KeyError("item 17 cannot be read")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_goes_on_behind_a_batch_that_could_not_be_fetched(workers):
    loader = AdaptiveLoader(Faulty(), LABELS, 8, rng=0, num_workers=workers)
    assert count_batches(iter(loader), KeyError) == (len(loader) - 1, 1)


@pytest.mark.parametrize(
    ("norms", "words"),
    [
        (torch.full((8,), float("nan")), "nan"),
        (torch.full((8,), float("inf")), "infinite"),
        (-torch.ones(8), "signed"),
        (torch.ones(7), r"expected shape \(8,\)"),
        (torch.tensor(1.0), "per drawn atom"),
    ],
)
def test_bad_norms_leave_everything_as_it_was(norms, words):
    loader = make()
    _, draw = next(iter(loader))
    before = str(loader.state_dict())
    with pytest.raises(ValueError, match=words):
        loader.update(draw, norms)
    assert str(loader.state_dict()) == before
    loader.update(draw, torch.ones(8))


def test_a_bad_gradient_leaves_everything_as_it_was():
    loader = make()
    _, draw = next(iter(loader))
    before = str(loader.state_dict())
    with pytest.raises(ValueError, match="gradient must be finite"):
        loader.update(draw, torch.ones(8), gradient=torch.tensor([float("nan")]))
    assert str(loader.state_dict()) == before


def test_a_receipt_is_taken_once():
    loader = make()
    _, draw = next(iter(loader))
    loader.update(draw, torch.ones(8))
    before = str(loader.state_dict())
    with pytest.raises(ValueError, match="used already"):
        loader.update(draw, torch.ones(8))
    assert str(loader.state_dict()) == before


def test_a_receipt_of_another_loader_is_refused():
    _, draw = next(iter(make()))
    with pytest.raises(ValueError, match="another sampler"):
        make().update(draw, torch.ones(8))


def test_a_dataset_that_changed_length_is_refused():
    loader = make()
    loader.dataset.n = 101
    with pytest.raises(ValueError, match="101 items"):
        iter(loader)


def test_two_loops_at_a_time_are_refused():
    loader = make()
    first = iter(loader)
    next(first)
    next(iter(loader))
    with pytest.raises(RuntimeError, match="newer loop"):
        next(first)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_loop_whose_batches_are_all_fetched_does_not_take_the_receipts_of_a_newer_one(persistent):
    loader = make(steps=3, num_workers=1, prefetch_factor=4, persistent_workers=persistent)
    old = iter(loader)
    next(old)
    new = iter(loader)
    with pytest.raises(RuntimeError, match="newer loop"):
        next(old)
    for batch, draw in new:  # the refused loop has taken nothing of it
        assert batch.tolist() == draw.indices.tolist()
    assert draw.serial == 5


def test_a_loader_says_what_it_is():
    assert repr(make(num_workers=2)) == "AdaptiveLoader(Groups(n=100, k=4), batch_size=8, lag=4)"
    assert repr(make().batches) == "MixtureBatchSampler(Groups(n=100, k=4), batch_size=8, alone)"
    assert repr(next(iter(make()))[1]) == "TensorDraw(serial=0, m=8)"


class ItemByItem(TensorDataset):
    """The same, but as a loader does not know it."""


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("tensors", [1, 2])
def test_batches_of_tensors_are_those_that_a_loader_collates(workers, tensors):
    data = (torch.randn(100, 3, 2), torch.tensor(LABELS))[:tensors]
    at_once, one_by_one = (
        AdaptiveLoader(kind(*data), LABELS, 16, rng=0, num_workers=workers) for kind in (TensorDataset, ItemByItem)
    )
    assert type(at_once.dataset) is TensorDataset
    assert at_once.loader.dataset.tensors == at_once.dataset.tensors
    assert len(at_once.loader.dataset[3]) == tensors
    for (batch, draw), (other, _) in zip(at_once, one_by_one, strict=True):
        assert type(batch) is type(other) is list
        for mine, theirs, whole in zip(batch, other, data, strict=True):
            assert torch.equal(mine, theirs)
            assert torch.equal(mine, whole[draw.indices])


def test_workers_make_nothing_on_the_default_device():
    batches = MixtureBatchSampler(LABELS, 8, rng=0)
    tensors = TensorDataset(torch.arange(100))
    indices = next(iter(batches))
    rows = AdaptiveLoader(tensors, LABELS, 8).loader.dataset
    with torch.device("meta"):
        (taken,) = rows.__getitems__(list(indices))
        *_, weight, draw_id = batches.collate(lambda samples: samples)(batches.tagged(tensors).__getitems__(indices))
    assert taken.tolist() == list(indices)
    assert {weight.device.type, draw_id.device.type} == {"cpu"}


def test_a_collate_function_gets_the_items_of_a_tensor_dataset():
    seen = []
    loader = AdaptiveLoader(TensorDataset(torch.arange(100)), LABELS, 16, rng=0, collate_fn=seen.append)
    next(iter(loader))
    assert len(seen[0]) == 16


@pytest.mark.parametrize(
    "name",
    ["dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "collate_fn", "num_workers", "pin_memory",
     "prefetch_factor", "shuffle", "generator", "timeout", "persistent_workers", "in_order", "components", "learner",
     "gamma", "allocate", "rng", "steps", "layout", "sync_every", "batches", "loader"],
)  # fmt: skip
def test_settings_cannot_be_changed_once_a_loader_is_built(name):
    loader = AdaptiveLoader(Numbers(), LABELS, 8, rng=0)
    before = str(loader.state_dict())
    with pytest.raises(ValueError, match=f"{name} cannot be set after the AdaptiveLoader was built. Build a new"):
        setattr(loader, name, getattr(loader, name, 5))
    assert str(loader.state_dict()) == before
    assert len(list(loader)) == 13


@pytest.mark.parametrize("name", ["epoch", "lag", "position", "batches_left", "meter", "mixture", "learned_mixture"])
def test_what_a_loader_says_of_itself_cannot_be_set(name):
    loader = AdaptiveLoader(Numbers(), LABELS, 8, rng=0)
    hint = "Call set_epoch" if name == "epoch" else ""
    with pytest.raises(AttributeError, match=f"{name} of the AdaptiveLoader is read-only.*{hint}"):
        setattr(loader, name, 5)


def test_a_loader_may_be_given_attributes_that_mean_nothing_to_it():
    loader = AdaptiveLoader(Numbers(), LABELS, 8, rng=0)
    loader.name = "train"
    loader.name = "train again"
    assert loader.name == "train again"


@pytest.mark.parametrize("name", ["batch_size", "drop_last", "sampler", "layout", "steps", "rng"])
def test_settings_cannot_be_changed_once_batches_are_built(name):
    batches = MixtureBatchSampler(LABELS, 8, rng=0)
    with pytest.raises(ValueError, match=f"{name} cannot be set after the MixtureBatchSampler was built"):
        setattr(batches, name, 4)
    assert len(next(iter(batches))) == 8


def test_a_receipt_beside_a_batch_cannot_be_changed():
    loader = AdaptiveLoader(Numbers(), LABELS, 8, rng=0)
    _, draw = next(iter(loader))
    for name in ("weights", "part", "receipt", "serial", "note"):
        with pytest.raises(AttributeError, match=f"A receipt cannot be changed: {name}"):
            setattr(draw, name, torch.ones(8))
        with pytest.raises(AttributeError, match="A receipt cannot be changed"):
            delattr(draw, name)
    loader.update(draw, torch.ones(8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_weights_are_a_copy_to_work_on(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        loader = AdaptiveLoader(Numbers(), LABELS, 8, learner=EAGER, rng=0)
        _, draw = next(iter(loader))
        drawn = draw.part.weights.copy()
        draw.weights *= 2
        assert draw.weights.dtype is dtype
        torch.testing.assert_close(draw.weights.double(), torch.tensor(2 * drawn), rtol=1e-2, atol=0)
        assert np.array_equal(draw.part.weights, drawn)
    finally:
        torch.set_default_dtype(before)


def test_a_receipt_that_is_moved_is_another_one():
    loader = AdaptiveLoader(Numbers(), LABELS, 8, rng=0)
    _, draw = next(iter(loader))
    moved, near = draw.to("meta"), draw.to("cpu")
    assert (draw.weights.device.type, moved.weights.device.type) == ("cpu", "meta")
    near.weights.zero_()
    assert draw.weights.tolist() == [1.0] * 8
    assert moved.receipt is draw.receipt
    loader.update(moved, torch.ones(8))
    assert loader.meter.batches == 1


@pytest.mark.parametrize("copy", [copy.deepcopy, lambda draw: pickle.loads(pickle.dumps(draw))], ids=["deep", "pickle"])
def test_a_receipt_can_be_copied(copy):
    loader = AdaptiveLoader(Numbers(), LABELS, 8, learner=EAGER, rng=0)
    _, draw = next(iter(loader))
    other = copy(draw)
    assert torch.equal(other.weights, draw.weights)
    assert other.part is other.receipt
    loader.update(other, torch.ones(8))


class Slow(Numbers):
    """Says when an item is being fetched, and waits until it may go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __getitem__(self, index):
        self.begun.set()
        assert self.go_on.wait(20)
        return torch.tensor(index)


def in_thread(call):
    """Call in another thread; return the thread and its error."""
    found = []

    def run():
        try:
            call()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


@pytest.mark.parametrize("second", ["the same loop", "another loop"])
def test_two_threads_at_a_time_are_refused(second):
    data = Slow()
    loader = AdaptiveLoader(data, LABELS, 8, rng=0)
    loop, pairs = iter(loader), []
    thread, failed = in_thread(lambda: pairs.append(next(loop)))
    assert data.begun.wait(20)
    with pytest.raises(RuntimeError, match="Another thread is inside this loader"):
        next(loop if second == "the same loop" else iter(loader))
    data.go_on.set()
    thread.join()
    assert failed == []
    pairs += loop  # the first goes on as if nothing had been
    assert [batch.tolist() for batch, _ in pairs] == [draw.indices.tolist() for _, draw in pairs]
    assert len(pairs) == 13


def test_threads_that_hammer_at_one_loader_get_clear_errors_or_batches_with_their_receipts():
    loader = AdaptiveLoader(Numbers(), LABELS, 1, rng=0, steps=2000)
    loop, pairs, errors = iter(loader), [], set()

    def take():
        while True:
            try:
                pairs.append(next(loop))
            except RuntimeError as error:
                errors.add(str(error)[:35])
            except StopIteration:
                return

    running = [in_thread(take) for _ in range(4)]
    for thread, failed in running:
        thread.join()
        assert failed == []
    assert errors <= {"Another thread is inside this loader"[:35]}
    assert len(pairs) == 2000
    assert all(batch.tolist() == draw.indices.tolist() for batch, draw in pairs)


def test_a_loader_can_be_copied():
    loader = AdaptiveLoader(Numbers(), LABELS, 8, rng=0)
    assert len(list(copy.deepcopy(loader))) == 13


def test_labels_come_in_tensors_too():
    numbers = torch.tensor([0, 1, 1, 2])
    for labels in (numbers, numbers.to(torch.uint8), numbers > 0):
        assert varmix.Sampler(labels, rng=0).components.masses.sum() == pytest.approx(1.0)
    for labels in (torch.tensor([0.5, 1.0], requires_grad=True), torch.tensor([0.5, 1.0], dtype=torch.bfloat16)):
        with pytest.raises(TypeError, match="digitize"):
            varmix.Sampler(labels)
