"""MixtureBatchSampler in a DataLoader of the user's own: weights and receipts travel through workers."""

import re

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import varmix
from support.loaders import EAGER, LABELS, Numbers, losses
from varmix.torch import MixtureBatchSampler
from varmix.torch._engine import MAX_WAITING_RECEIPTS


def make(**options):
    return MixtureBatchSampler(LABELS, 8, **{"rng": 0, "learner": EAGER, **options})


def loader_of(batches, dataset=None, collate_fn=None, **options):
    dataset = Numbers() if dataset is None else dataset
    return DataLoader(batches.tagged(dataset), batch_sampler=batches, collate_fn=batches.collate(collate_fn), **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_weights_and_receipts_belong_to_the_batch(workers):
    batches = make()
    for numbers, weight, draw_id in loader_of(batches, num_workers=workers):
        batches.update(draw_id, losses(numbers))
        receipt = batches.sampler.components.ratios(numbers.numpy())
        assert len(numbers) == len(weight) == len(receipt)
    assert batches.mixture[:-1].argmax() == 2
    assert batches.meter.draws == 100


def test_weights_are_one_over_the_density():
    batches = make()
    for numbers, weight, draw_id in loader_of(batches):
        mixture = batches.mixture  # without workers nothing is drawn ahead
        density = batches.sampler.components.ratios(numbers.numpy()) @ mixture
        np.testing.assert_allclose(weight, 1 / density, rtol=1e-6)
        batches.update(draw_id, losses(numbers))


class Rows(Dataset):
    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 100

    def __getitem__(self, index):
        return {"dict": {"x": index}, "tuple": (index, -index), "list": [index], "number": index}[self.kind]


class Together(Rows):
    def __getitems__(self, indices):
        return [self[i] for i in indices]


@pytest.mark.parametrize("kind", ["dict", "tuple", "list", "number"])
@pytest.mark.parametrize("rows", [Rows, Together])
def test_batches_of_any_kind_get_both(kind, rows):
    batches = make()
    batch = next(iter(loader_of(batches, rows(kind))))
    if kind == "dict":
        assert set(batch) == {"x", "weight", "draw_id"}
        weight, draw_id = batch["weight"], batch["draw_id"]
    else:
        assert isinstance(batch, tuple)
        assert len(batch) == {"tuple": 4, "list": 3, "number": 3}[kind]
        *_, weight, draw_id = batch
    assert weight.shape == (8,)
    assert weight.dtype == torch.get_default_dtype()
    assert draw_id.item() % 2**31 == 0


def test_a_collate_function_of_ones_own():
    batches = make()
    batch = next(iter(loader_of(batches, collate_fn=lambda samples: {"sum": sum(samples)})))
    assert set(batch) == {"sum", "weight", "draw_id"}


def test_a_tagged_dataset_is_the_dataset():
    tagged = make().tagged(Numbers())
    assert len(tagged) == 100
    assert tagged[7] == 7


def test_the_same_batches_as_an_adaptive_loader():
    from varmix.torch import AdaptiveLoader

    batches, adaptive = make(), AdaptiveLoader(Numbers(), LABELS, 8, learner=EAGER, rng=0)
    for (numbers, weight, draw_id), (batch, draw) in zip(loader_of(batches), adaptive, strict=True):
        assert torch.equal(numbers, batch)
        assert torch.equal(weight, draw.weights)
        batches.update(draw_id, losses(numbers))
        adaptive.update(draw, losses(batch))


def test_lists_of_indices_are_lists():
    slots = next(iter(make()))
    assert isinstance(slots, list)
    assert all(type(index) is int for index in slots)
    assert (slots.draw_id % 2**31, len(slots.weights)) == (0, 8)


def test_numbers_of_another_sampler_are_refused():
    mine, other = make(), make()
    (*_, first), (*_, second) = next(iter(loader_of(mine))), next(iter(loader_of(other)))
    with pytest.raises(ValueError, match=r"Unknown draw_id .*belongs to another sampler"):
        mine.update(second, torch.ones(8))
    assert mine.meter.draws == 0
    mine.update(first, torch.ones(8))


def test_feedback_may_come_after_the_next_loop_has_begun():
    batches = make()
    late = [(numbers, draw_id) for numbers, _, draw_id in loader_of(batches)]
    next(iter(loader_of(batches)))
    for numbers, draw_id in late:
        batches.update(draw_id, losses(numbers))
    assert batches.meter.draws == 100


class Shrinking(Numbers):
    """Leaves out what cannot be read, or grows."""

    def __getitems__(self, indices):
        return [i for i in indices if i % 7]


def test_samples_that_are_left_out_are_noticed():
    with pytest.raises(ValueError, match=r"one sample per index: got \d for 8. Return something in place"):
        list(loader_of(make(), Shrinking()))


def test_a_wrapped_dataset_that_changed_length_is_refused():
    batches, data = make(), Numbers()
    loader = loader_of(batches, data)
    next(iter(loader))
    data.n = 120
    with pytest.raises(ValueError, match="had 100 items when it was wrapped, and has 120 now"):
        next(iter(loader))


@pytest.mark.parametrize("kind", [int, torch.tensor])
def test_feedback_may_come_late_and_out_of_order(kind):
    batches = make()
    seen = [(numbers, draw_id) for numbers, _, draw_id in loader_of(batches, num_workers=1)]
    for numbers, draw_id in seen[::-1]:
        batches.update(kind(int(draw_id)), losses(numbers))
    assert batches.meter.batches == 13


@pytest.mark.parametrize("draw", [None, 0.7, torch.tensor(0.0), torch.arange(3), torch.tensor(True), "0"])
def test_what_is_no_number_of_a_draw_is_refused(draw):
    batches = make()
    next(iter(loader_of(batches)))
    with pytest.raises(TypeError, match="or its draw_id, and then its norms"):
        batches.update(draw, torch.ones(8))


def test_draws_in_flight_are_dropped_where_nobody_gives_feedback():
    batches = MixtureBatchSampler(np.zeros(10, int), 1, rng=0, steps=3 * MAX_WAITING_RECEIPTS)
    ids = [slots.draw_id for slots in batches]
    assert len(batches.state_dict()["loader"][0]["epoch"]["in_flight"]) == MAX_WAITING_RECEIPTS
    batches.update(ids[-1], torch.ones(1))


def test_a_dataset_of_another_length_is_not_tagged():
    with pytest.raises(ValueError, match="99 items"):
        make().tagged(Numbers(99))


@pytest.mark.parametrize("name", ["weight", "draw_id"])
def test_entries_of_the_batch_are_not_overwritten(name):
    with pytest.raises(ValueError, match=f"already has an entry '{name}'"):
        next(iter(loader_of(make(), collate_fn=lambda samples: {name: samples})))


@pytest.mark.parametrize("draw_id", [0, 5, -1, 10**9])
def test_a_number_that_is_not_in_flight_is_refused(draw_id):
    batches = make()
    loop = iter(loader_of(batches, num_workers=1))
    batches.update(next(loop)[-1], torch.ones(8))
    before = str(batches.state_dict())
    with pytest.raises(ValueError, match=f"Unknown draw_id {draw_id}:"):
        batches.update(draw_id, torch.ones(8))
    assert str(batches.state_dict()) == before


def test_norms_that_are_refused_do_not_use_up_the_receipt():
    batches = make()
    *_, draw_id = next(iter(loader_of(batches)))
    with pytest.raises(ValueError, match="nan"):
        batches.update(draw_id, torch.full((8,), float("nan")))
    batches.update(draw_id, torch.ones(8))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "wrong", [{"norms": torch.full((8,), float("nan"))}, {"norms": None}, {"gradient": [np.nan]}, {"gradient": "none"}]
)
def test_feedback_that_is_refused_does_not_move_the_position(workers, wrong):
    batches = make()
    loop = iter(loader_of(batches, num_workers=workers))
    batches.update(next(loop)[-1], torch.ones(8))
    *_, draw_id = [next(loop) for _ in range(3)][-1]
    before = str(batches.state_dict())
    with pytest.raises((ValueError, TypeError)):
        batches.update(draw_id, **{"norms": torch.ones(8), **wrong})
    assert (batches.position, batches.batches_left) == (1, 12)
    assert str(batches.state_dict()) == before
    batches.update(draw_id, torch.ones(8))
    assert (batches.position, batches.batches_left) == (4, 9)


def test_receipts_without_feedback_are_dropped_after_a_while():
    batches = MixtureBatchSampler(np.zeros(10, int), 1, rng=0, steps=MAX_WAITING_RECEIPTS + 10)
    ids = [slots.draw_id for slots in batches]
    batches.update(ids[-1], torch.ones(1))
    with pytest.raises(ValueError, match="Unknown draw_id"):
        batches.update(ids[0], torch.ones(1))
    batches.update(ids[20], torch.ones(1))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 6, 13, 17])
def test_a_run_goes_on_where_it_was_saved(workers, stop):
    def run(batches, steps):
        seen = []
        while len(seen) < steps:
            for numbers, weight, draw_id in loader_of(batches, num_workers=workers):
                batches.update(draw_id, losses(numbers))
                seen.append((numbers.tolist(), weight.tolist()))
                if len(seen) == steps:
                    break
        return seen

    whole, first, second = run(make(), 26), make(), make(rng=9)
    before = run(first, stop)
    second.load_state_dict(first.state_dict())
    assert before + run(second, 26 - stop) == whole


class Sharing:
    """Passes on only the batches of one process, and waits for full ones, as accelerate does it."""

    def __init__(self, batch_sampler, num_processes):
        self.batch_sampler, self.num_processes = batch_sampler, num_processes

    def __iter__(self):
        for place, batch in enumerate(self.batch_sampler):
            if place % self.num_processes == 0:
                yield batch


def test_batches_are_not_shared_out_once_more():
    batches = make()
    with pytest.raises(RuntimeError, match=r"Sharing would share out batches among 2 processes.*accelerator\.prepare"):
        next(iter(Sharing(batches, 2)))
    assert len(list(Sharing(batches, 1))) == 13


def test_what_was_added_to_a_batch_on_its_way_is_noticed():
    class Padding(Sharing):
        def __iter__(self):
            for batch in self.batch_sampler:
                batch += [0]
                yield batch

    batches = make()
    loader = DataLoader(batches.tagged(Numbers()), batch_sampler=Padding(batches, 1), collate_fn=batches.collate())
    with pytest.raises(ValueError, match="A batch of 8 points came with 9 indices"):
        next(iter(loader))


def test_untagged_data_are_refused():
    batches = make()
    with pytest.raises(TypeError, match="tagged"):
        next(iter(DataLoader(Numbers(), batch_sampler=batches, collate_fn=batches.collate())))
    with pytest.raises(TypeError, match="batch_sampler"):
        next(iter(DataLoader(batches.tagged(Numbers()), 8, collate_fn=batches.collate())))


def test_samples_that_are_a_batch_already_are_refused():
    class Whole(Rows):
        def __getitems__(self, indices):
            return torch.tensor(indices)

    with pytest.raises(TypeError, match="__getitems__ of Whole must return a list"):
        next(iter(loader_of(make(), Whole("number"))))


def test_it_has_what_other_loaders_ask_for():
    batches = make(drop_last=True)
    assert (batches.batch_size, batches.drop_last, len(batches), batches.epoch) == (8, True, 12, 0)
    batches.set_epoch(3)
    assert batches.epoch == 3
    assert isinstance(batches, torch.utils.data.Sampler)


@pytest.mark.parametrize(("replacement", "words"), [(False, "keep it on"), (True, "may or may not beat")])
def test_the_verdict_asks_more_of_draws_with_replacement(replacement, words):
    groups = varmix.Groups(LABELS, replacement=replacement)
    batches = MixtureBatchSampler(groups, 50, learner=EAGER, rng=0, steps=300)
    for slots in batches:
        batches.update(slots.draw_id, torch.where(torch.tensor(slots) >= 90, 5.0, 1.0))
    assert 1.5 < batches.meter.gain.value < 3.5
    assert words in batches.meter.summary()["verdict"]


@pytest.mark.parametrize(
    ("learner", "words"),
    [(EAGER, "use plain shuffling|switch it off"), (None, "from no gain, .* nothing has to be switched off")],
)
def test_a_gain_that_is_not_above_one_is_said_to_be_none(learner, words):
    batches = MixtureBatchSampler(LABELS, 50, learner=learner, rng=0, steps=50)
    for slots in batches:
        batches.update(slots.draw_id, torch.ones(50))
    summary = batches.meter.summary()
    assert summary["gain"] <= 1.01
    assert re.search(words, summary["verdict"])


def test_a_plain_training_loop():
    x = torch.randn(100, 3)
    data = TensorDataset(x, torch.tensor(LABELS))
    batches = make()
    model = torch.nn.Linear(3, 3)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for features, labels, weight, draw_id in loader_of(batches, data):
        each = torch.nn.functional.cross_entropy(model(features), labels, reduction="none")
        optimiser.zero_grad()
        (weight * each).mean().backward()
        optimiser.step()
        batches.update(draw_id, each)
    assert np.isfinite(batches.mixture).all()
