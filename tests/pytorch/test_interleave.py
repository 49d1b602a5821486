import itertools
import threading

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from support.loaders import EAGER
from support.streams import Keyed
from varmix.allocate import independent, round_robin, stratified
from varmix.learners import BarrierNewton, Cautious, Fixed, Leader
from varmix.testing import same
from varmix.torch._interleave import Interleave
from varmix.torch._tensors import device_of

TARGET = {"a": 0.5, "b": 0.3, "c": 0.2}


def interleave(sizes=(40, 30, 20), batch_size=7, *, target=TARGET, **settings):
    """Return a stream whose proportions adapt at once, or as the settings say; learner=None is the default."""
    sources = {name: Keyed(j, n) for j, (name, n) in enumerate(zip("abc", sizes, strict=False))}
    settings = settings if "gamma" in settings else {"learner": EAGER, **settings}
    return Interleave(sources, batch_size, target=target, **settings)


def given(stream, steps=10_000):
    """Return the numbers of the samples of every source, in the order they came; feedback makes proportions change."""
    numbers = {name: [] for name in stream.names}
    for _, ((keys, values), draw) in zip(range(steps), stream, strict=False):
        assert keys.tolist() == draw.indices.tolist()
        stream.update(draw, 1 + keys)
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            numbers[stream.names[key]].append(value)
    return numbers


def test_batches_are_in_the_order_of_the_slots_with_weights_target_over_share():
    stream = interleave()
    assert stream.names == ("a", "b", "c")
    for _ in range(5):
        shares = stream.shares
        (keys, _), draw = next(stream)
        assert keys.tolist() == draw.indices.tolist() == draw.part.indices.tolist()
        assert draw.weights.dtype == torch.get_default_dtype()
        wanted = [TARGET[stream.names[key]] / shares[stream.names[key]] for key in keys.tolist()]
        assert draw.weights.tolist() == pytest.approx(wanted)
        stream.update(draw, torch.where(keys == 1, 9.0, 0.1))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert stream.shares["b"] > 0.3


def test_equal_shares_unless_told():
    assert list(interleave(target=None).shares.values()) == pytest.approx([1 / 3] * 3)
    assert interleave(target={"a": 5, "b": 3, "c": 2}).shares == interleave().shares


def zipf(**settings):
    """Return a stream of a hundred sources whose shares, and sizes, fall as one over their rank."""
    sizes = {f"s{rank}": 3000 // rank for rank in range(1, 101)}
    return sizes, Interleave({name: range(n) for name, n in sizes.items()}, 64, target=sizes, **settings)


def test_a_stream_keeps_to_its_target_until_other_proportions_pay():
    sizes, stream = zipf()
    total = sum(sizes.values())
    assert list(stream.shares.values()) == pytest.approx([n / total for n in sizes.values()])
    given = sum(len(draw) for _, draw in stream)  # until a source has ended
    assert given > 0.95 * total
    assert stream.meter.batches == 0
    _, eager = zipf(learner=EAGER)
    assert eager.shares["s100"] > 3 * sizes["s100"] / total
    assert sum(len(draw) for _, draw in eager) < 0.5 * total


def test_sources_that_are_alike_are_left_at_their_target():
    _, stream = zipf(on_exhausted="restart")
    shares = stream.shares
    for batch, draw in itertools.islice(stream, 200):
        assert draw.weights.tolist() == pytest.approx([1.0] * 64)
        stream.update(draw, torch.ones(len(batch)))
    assert stream.shares == shares


def test_a_stream_is_cautious_unless_told():
    assert interleave(learner=None).sampler.learner == Cautious()
    assert interleave(gamma=0.3).sampler.learner == Cautious(BarrierNewton(gamma=0.3))
    assert interleave(learner=Leader()).sampler.learner == Leader()


@pytest.mark.parametrize("allocate", [round_robin, stratified, independent], ids=repr)
@pytest.mark.parametrize("ended", ["stop", "drop"])
def test_no_sample_is_lost_or_given_twice(ended, allocate):
    for seed, sizes in enumerate([(40, 30, 20), (5, 90, 20), (1, 0, 50), (3, 3, 3), (60, 1, 1), (0, 0, 0)]):
        stream = interleave(sizes, on_exhausted=ended, rng=seed, allocate=allocate)
        numbers = given(stream)
        for name, n in zip("abc", sizes, strict=True):
            assert numbers[name] == list(range(stream.taken[name]))  # from the first on, without a gap
            assert ended == "stop" or n - 7 < stream.taken[name] <= n
        assert next(stream, None) is None


def test_a_source_that_restarts_is_gone_through_in_order_again_and_again():
    stream = interleave((4, 3, 1), on_exhausted="restart")
    for (_, numbers), n in zip(given(stream, steps=30).items(), (4, 3, 1), strict=True):
        assert numbers == [i % n for i in range(len(numbers))]
        assert len(numbers) > 2 * n
    assert sum(stream.taken.values()) == 30 * 7


def test_stop_ends_with_the_last_full_batch():
    stream = interleave((40, 6, 20), on_exhausted="stop", learner=Fixed([0, 0, 0, 1.0]), batch_size=10)
    assert len(list(stream)) == 2  # three of each ten are of b
    assert stream.taken == {"a": 10, "b": 6, "c": 4}
    assert list(stream) == []


def test_drop_goes_on_with_the_target_over_those_that_are_left():
    stream = interleave((40, 6, 20), on_exhausted="drop", learner=Fixed([0, 0, 0, 1.0]), batch_size=10)
    counts = [torch.bincount(draw.indices, minlength=3).tolist() for _, draw in stream]
    assert counts[:2] == [[5, 3, 2], [5, 3, 2]]
    assert all(count[1] == 0 for count in counts[2:])
    assert sum(count[0] for count in counts[2:]) > 20
    assert stream.shares["b"] == 0
    both = interleave((40, 6, 100), on_exhausted="drop", learner=Fixed([0, 0, 0, 1.0]), batch_size=10)
    for _, draw in itertools.islice(both, 4):
        assert draw.weights.tolist() == pytest.approx([1.0] * 10)
    assert list(both.shares.values()) == pytest.approx([5 / 7, 0, 2 / 7])


def test_a_receipt_from_before_a_drop_is_still_taken():
    stream = interleave((40, 6, 20), on_exhausted="drop", batch_size=10)
    draws = [draw for _, draw in itertools.islice(stream, 5)]
    assert stream.shares["b"] == 0
    assert [draw.serial for draw in draws] != list(range(5))  # that of the batch which b could not serve is gone
    for draw in reversed(draws):
        stream.update(draw, 1.0 + draw.indices)
    assert stream.meter.batches == 5


def test_a_second_loop_goes_on_where_the_first_was_left():
    stream, other = interleave(), interleave()
    parts = [batch[1].tolist() for _ in range(2) for batch, _ in itertools.islice(stream, 3)]
    assert parts == [batch[1].tolist() for batch, _ in itertools.islice(other, 6)]


@pytest.mark.parametrize("learner", [None, BarrierNewton(gamma=0.2), Leader(window=30)])
def test_a_loud_source_is_drawn_more_often_and_weights_stay_bounded(learner):
    stream = interleave((50, 50, 50), on_exhausted="restart", learner=learner)
    largest = 0.0
    for (keys, _), draw in itertools.islice(stream, 300):
        largest = max(largest, draw.weights.max().item())
        stream.update(draw, torch.where(keys == 2, 5.0, 0.1))
    assert stream.shares["c"] > 0.6
    assert largest <= 1.0001 / (0.1 if learner is None else learner.gamma)
    assert stream.meter.gain.low > 1.5
    assert stream.meter.largest_weight == pytest.approx(largest)


def test_gamma_is_the_least_share_of_the_target():
    stream = interleave((50, 50, 50), on_exhausted="restart", gamma=0.4)
    for (keys, _), draw in itertools.islice(stream, 300):
        stream.update(draw, (keys == 2).double())
    assert stream.mixture[-1] == pytest.approx(0.4)
    assert stream.sampler.mixture.tolist() == stream.mixture.tolist()


class Noisy:
    """Endless numbers around a mean."""

    def __init__(self, mean, spread, seed):
        self.mean, self.spread, self.seed = mean, spread, seed

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        while True:
            yield from self.mean + self.spread * rng.normal(size=100)


def _off(weighted, allocate):
    """Return by how many standard errors the mean of a stream differs from the target's."""
    sources = {"calm": Noisy(1.0, 0.1, 0), "loud": Noisy(4.0, 3.0, 1), "low": Noisy(-2.0, 0.3, 2)}
    stream = Interleave(sources, 10, target={"calm": 0.5, "low": 0.2, "loud": 0.3}, rng=3, allocate=allocate)
    estimates = []
    for batch, draw in itertools.islice(stream, 1500):
        estimates.append(((draw.weights if weighted else 1.0) * batch).mean().item())
        stream.update(draw, batch.abs())
    spread = np.std(estimates) / np.sqrt(len(estimates))
    return abs(np.mean(estimates) - (0.5 * 1.0 + 0.2 * -2.0 + 0.3 * 4.0)) / spread


@pytest.mark.parametrize("allocate", [round_robin, stratified, independent], ids=repr)
def test_the_weighted_mean_is_that_of_the_target_and_the_plain_one_is_not(allocate):
    assert _off(True, allocate) < 3.9
    assert _off(False, allocate) > 10


NORMS = {
    "float": lambda m: torch.ones(m, requires_grad=True),
    "bfloat16": lambda m: torch.ones(m, dtype=torch.bfloat16),
    "half": lambda m: torch.ones(m, dtype=torch.float16),
    "integers": lambda m: torch.ones(m, dtype=torch.int64),
    "array": np.ones,
    "list": lambda m: [1.0] * m,
}


@pytest.mark.parametrize("kind", NORMS)
def test_norms_may_be_of_any_type(kind):
    stream, other = interleave(), interleave()
    for each, norms in ((stream, NORMS[kind](7)), (other, np.ones(7))):
        _, draw = next(each)
        each.update(draw, norms)
    assert stream.mixture.tolist() == other.mixture.tolist()


@pytest.mark.parametrize("norms", [[1.0] * 6, [[1.0] * 7], [-1.0] + [1.0] * 6, [float("nan")] * 7])
def test_feedback_that_is_refused_changes_nothing(norms):
    stream = interleave()
    _, draw = next(stream)
    before, summary = stream.sampler.state_dict(), stream.meter.summary()
    with pytest.raises(ValueError, match="norms"):
        stream.update(draw, torch.tensor(norms))
    assert same(stream.sampler.state_dict(), before)
    assert stream.meter.summary() == summary
    stream.update(draw, torch.ones(7))
    with pytest.raises(ValueError, match="used already"):
        stream.update(draw, torch.ones(7))
    assert stream.meter.batches == 1
    with pytest.raises(TypeError, match="update takes the receipt that came with a batch"):
        stream.update(torch.ones(7), draw)


class Failing:
    """A source that fails once, at its fourth sample."""

    def __init__(self):
        self.left = 3

    def __iter__(self):
        return self

    def __next__(self):
        self.left -= 1
        if self.left == -1:
            raise OSError("the network is gone")
        return 1, 3 - self.left - (1 if self.left < 0 else 0)


def test_what_was_read_for_a_batch_that_failed_comes_again():
    stream = Interleave({"a": Keyed(0, 50), "b": Failing()}, 5)
    first = next(stream)[0]
    with pytest.raises(OSError, match="network"):
        next(stream)
    assert sum(stream.taken.values()) == 5
    batches = [first, *(batch for batch, _ in itertools.islice(stream, 4))]
    keys, numbers = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert numbers[keys == 0].tolist() == list(range((keys == 0).sum()))
    assert numbers[keys == 1].tolist() == list(range(1, (keys == 1).sum() + 1))


def test_samples_that_could_not_be_collated_come_again():
    failing = iter([True, False])

    def collate(samples):
        if next(failing):
            raise RuntimeError("rows differ in length")
        return samples

    stream = interleave(collate_fn=collate)
    with pytest.raises(RuntimeError, match="rows differ"):
        next(stream)
    assert stream.taken == {"a": 0, "b": 0, "c": 0}
    batch, _ = next(stream)
    assert sorted(batch) == [(j, i) for j, n in enumerate(stream.taken.values()) for i in range(n)]


def test_a_batch_may_be_anything():
    stream = Interleave({"a": [{"x": torch.ones(3), "y": "text"}] * 9}, 4)
    batch, draw = next(stream)
    assert batch["x"].shape == (4, 3)
    assert batch["y"] == ["text"] * 4
    assert draw.weights.tolist() == [1.0] * 4
    empty = interleave(collate_fn=lambda samples: None)
    assert next(empty)[0] is None


def test_weights_are_on_the_device_of_the_batch():
    stream = interleave(collate_fn=lambda samples: {"x": torch.empty(len(samples), device="meta")})
    assert next(stream)[1].weights.device.type == "meta"


def test_the_device_of_a_batch_is_that_of_its_first_tensor():
    class Sharded:
        device = torch.device("meta")

    meta, cpu = torch.empty(1, device="meta"), torch.empty(1)
    for batch in (meta, [1, meta], {"a": "text", "b": (None, [meta])}, {"a": np.ones(1), "b": meta}, [Sharded(), cpu]):
        assert device_of(batch) == torch.device("meta")
    for batch in (None, [], {"a": np.ones(2)}, cpu, (cpu, meta), "text"):
        assert device_of(batch) == torch.device("cpu")


def generate(n):
    yield from range(n)


def test_sources_may_be_anything_that_can_be_iterated():
    class Streamed(IterableDataset):
        def __iter__(self):
            return iter(range(100, 130))

    sources = {"generator": generate(30), "iterable": Streamed(), "map": map(float, range(30)), "range": range(30)}
    stream = Interleave(sources, 8, on_exhausted="drop", target=dict.fromkeys(sources, 1))
    assert sum(len(draw) for _, draw in stream) > 100


def test_a_source_may_be_a_loader_with_workers_of_its_own():
    loader = DataLoader(list(range(20)), batch_size=None, num_workers=1)
    stream = Interleave({"a": loader, "b": range(100, 120)}, 5, on_exhausted="drop")
    values = torch.cat([batch for batch, _ in stream]).tolist()
    assert [value for value in values if value < 100] == list(range(stream.taken["a"]))
    assert sum(stream.taken.values()) > 30


@pytest.mark.parametrize("sources", [{"a": [1], "b": []}, {"a": [], "b": [1]}])
def test_an_empty_source_cannot_restart(sources):
    stream = Interleave(sources, 4, on_exhausted="restart")
    for _ in range(2):
        with pytest.raises(ValueError, match="returned no items, so it cannot restart"):
            next(stream)
        assert stream.taken == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sources": []}, TypeError, "sources must be a mapping"),
        ({"sources": {}}, TypeError, "sources must be a mapping"),
        ({"sources": {"a": 5}}, TypeError, "Source 'a' must be an iterable"),
        ({"sources": {1: [5], "a": [6]}}, TypeError, "names of sources must be strings, got 1, 'a'"),
        ({"sources": {"a": iter([5])}, "on_exhausted": "restart"}, TypeError, "Source 'a' is an iterator"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"target": [1, 1]}, TypeError, "target must be a mapping"),
        ({"target": {"a": 1}}, ValueError, "a share for every source"),
        ({"target": {"a": 1, "b": 0}}, ValueError, "'b' has none"),
        ({"on_exhausted": "cycle"}, ValueError, "on_exhausted must be one of 'stop', 'restart', 'drop', got 'cycle'"),
        ({"gamma": 0.1, "learner": BarrierNewton()}, TypeError, "pass gamma or a learner, not both"),
    ],
)
def test_wrong_arguments_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        Interleave(**{"sources": {"a": [1], "b": [2]}, "batch_size": 2} | change)


def test_it_says_what_it_is():
    assert repr(interleave()) == "Interleave(a=0.417, b=0.317, c=0.267)"


def test_the_meter_takes_gradients_for_the_noise():
    stream = interleave()
    for _ in range(4):
        _, draw = next(stream)
        stream.update(draw, torch.ones(len(draw)), gradient=torch.tensor([1.0, 2.0]))
    assert stream.meter.noise is not None
    _, draw = next(stream)
    before = str(stream.state_dict())
    with pytest.raises(ValueError, match="gradient"):
        stream.update(draw, torch.ones(len(draw)), gradient=torch.tensor([float("nan"), 1.0]))
    assert str(stream.state_dict()) == before


@pytest.mark.parametrize("name", ["batch_size", "target", "on_exhausted", "sources", "learner", "collate_fn"])
def test_settings_cannot_be_changed_once_a_stream_is_built(name):
    with pytest.raises(ValueError, match=f"{name} cannot be set after the Interleave was built"):
        setattr(interleave(), name, 5)


@pytest.mark.parametrize("name", ["shares", "taken", "mixture", "meter", "sampler", "names"])
def test_what_a_stream_says_of_itself_cannot_be_set(name):
    with pytest.raises(AttributeError, match=f"{name} of the Interleave is read-only"):
        setattr(interleave(), name, 5)


def test_two_threads_at_a_time_are_refused():
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        for number in range(20):
            begun.set()
            assert go_on.wait(20)
            yield number

    stream, batches = Interleave({"a": slow()}, 4), []
    thread = threading.Thread(target=lambda: batches.append(next(stream)[0].tolist()))
    thread.start()
    assert begun.wait(20)
    with pytest.raises(RuntimeError, match="Another thread is inside this loader"):
        next(stream)
    go_on.set()
    thread.join()
    batches += [batch.tolist() for batch, _ in stream]
    assert [number for batch in batches for number in batch] == list(range(20))
