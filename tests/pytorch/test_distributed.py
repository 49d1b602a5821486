"""Many processes hold one mixture, to the bit, and train as one process with the whole batch would."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import varmix
from support import process_group
from support.loaders import Numbers, follow
from varmix.torch import AdaptiveLoader, MixtureBatchSampler

WORLDS = [2, 4]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes returned. Starting them takes most of the time, so they play everything."""
    return process_group.start_once(
        "replicated,sharded,ddp,refusals,resumed,taken_up,seeds,lonely", 2, tmp_path_factory.getbasetemp()
    )


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return process_group.start_once("replicated,sharded", 4, tmp_path_factory.getbasetemp())


@pytest.fixture(params=WORLDS)
def all_of_them(request):
    return request.getfixturevalue({2: "two", 4: "four"}[request.param])


@pytest.fixture
def replicated(all_of_them):
    return [found["replicated"] for found in all_of_them]


@pytest.fixture
def sharded(all_of_them):
    return [found["sharded"] for found in all_of_them]


@pytest.fixture
def refusals(two):
    return [found["refusals"] for found in two]


@pytest.mark.parametrize("name", [*process_group.FAMILIES, "sync_every", "cautious, sync_every", "workers"])
def test_mixtures_are_the_same_bits_on_all_processes(replicated, name):
    assert len({found[name]["bits"] for found in replicated}) == 1


@pytest.mark.parametrize("name", list(process_group.FAMILIES))
def test_processes_agree_with_one_that_has_the_whole_batch(replicated, name):
    world = len(replicated)
    alone, steps = process_group.build(name, layout="alone"), process_group.STEPS[world]
    whole = follow(alone, steps, 100)
    for rank, found in enumerate(replicated):
        assert found[name]["batches"] == [batch[rank::world] for batch, _, _ in whole]
        np.testing.assert_allclose(found[name]["mixture"], alone.mixture, rtol=0, atol=1e-10)
    assert len({str(mixture) for *_, mixture in whole}) > steps // 2  # which moves


@pytest.mark.parametrize("name", list(process_group.SEEDS))
def test_a_seed_gives_the_batches_that_it_gives_one_process(two, name):
    rng = process_group.SEEDS[name](0)
    alone = MixtureBatchSampler(process_group.LABELS, 24, rng=rng)
    whole = [list(slots) for _ in range(2) for slots in alone]
    for rank, found in enumerate(two):
        assert found["seeds"][name] == [batch[rank::2] for batch in whole]


def test_shards_of_one_seed_draw_each_on_their_own(two):
    first, second = (found["seeds"]["sharded"] for found in two)
    assert first != second


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("labels", "TypeError: labels"),
        ("no labels", "TypeError: Pass labels, one per point"),
        ("batch_size", "ValueError: batch_size must be at least 1"),
        ("undivided", "ValueError: batch_size is that of all processes together"),
        ("rng", "TypeError: rng must be an int"),
        ("dataset", "ValueError: The dataset has 99 items"),
        ("layout", "ValueError: layout must be one of"),
        ("in_order", "ValueError: in_order=False"),
        ("shuffle", "TypeError: AdaptiveLoader draws the batches itself, so it does not take shuffle"),
        ("gamma", "ValueError: gamma must lie in"),
        ("steps", "ValueError: steps must be at least 1"),
        ("sync_every", "ValueError: sync_every must be at least 1"),
        ("num_workers", "ValueError: num_workers"),
        ("learner", "TypeError: learner must be"),
        ("sharded", "ValueError: The dataset has 100 items and the components are over 3"),
        ("batches", "TypeError: Pass labels, one per point"),
    ],
)
def test_what_one_process_refuses_to_build_none_has(two, name, words):
    first, second = (found["lonely"][name] for found in two)
    assert first.startswith("RuntimeError: Process 1 could not build its loader, so no process has one")
    assert second.startswith(words)


def test_processes_are_still_in_step_after_one_of_them_has_refused(two):
    assert two[0]["lonely"]["none"] == two[1]["lonely"]["none"]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("groups", {"all_reduce": 1.0}),
        ("cautious", {"all_reduce": 1.0}),
        ("dense", {"all_reduce": 1.0}),
        ("ons", {"all_reduce": 1.0}),
        ("leader", {"all_gather": 1.0}),
        ("resplit", {"all_gather": 1.0}),
        ("sync_every", {"all_reduce": 0.2}),
    ],
)
def test_a_step_is_one_collective_or_less(replicated, name, sent):
    steps = process_group.STEPS[len(replicated)]
    for found in replicated:
        assert found[name]["calls"] == {call: steps * often for call, often in sent.items()}


@pytest.mark.parametrize("name", list(process_group.FAMILIES))
def test_a_loader_says_what_it_exchanges(replicated, name):
    needs_rows = name in ("leader", "resplit")
    assert {found[name]["exchanged"] for found in replicated} == {"rows" if needs_rows else "sums"}


def test_rows_give_the_bits_of_one_process(replicated):
    for name in ("leader", "resplit"):
        alone = process_group.build(name, layout="alone")
        follow(alone, process_group.STEPS[len(replicated)], 100)
        assert replicated[0][name]["bits"] == process_group.bits(alone.mixture)


def test_the_meter_is_of_all_processes(replicated):
    alone = process_group.build("groups", layout="alone")
    follow(alone, process_group.STEPS[len(replicated)], 100)
    for found in replicated:
        assert found["draws"] == alone.meter.draws
        # Fewer exchanges, another course of the mixture: about the same gain.
        np.testing.assert_allclose(found["gain"][0], alone.meter.gain.value, rtol=0.05 if len(replicated) == 2 else 0.2)
        assert found["gain"] == replicated[0]["gain"]


def test_shards_are_cautious_together(sharded):
    """Of groups that are alike there is nothing to gain, on any of them, whatever the sizes of the shards."""
    (gain,) = {found["cautious"]["gain"] for found in sharded}
    assert 0.9 < gain < 1.1
    assert {str(found["cautious"]["mixture"]) for found in sharded} == {"[0.0, 0.0, 0.0, 1.0]"}


@pytest.mark.parametrize("name", ["sums", "rows", "cautious"])
def test_shards_share_a_mixture_and_a_global_objective(sharded, name):
    world, steps = len(sharded), process_group.SHARD_STEPS[len(sharded)]
    points = np.arange(sum(process_group.SIZES[:world]))
    assert len({found[name]["bits"] for found in sharded}) == 1
    assert {found[name]["exchanged"] for found in sharded} == {"rows" if name == "rows" else "sums"}
    assert {sum(found[name]["calls"].values()) for found in sharded} == {steps}
    for rank, found in enumerate(sharded):
        assert found[name]["scale"] == world * process_group.SIZES[rank] / len(points)
        assert found[name]["draws"] == steps * 24
    estimate = np.mean([found[name]["mean"] for found in sharded])
    unscaled = np.mean([found[name]["mean"] / found[name]["scale"] for found in sharded])
    truth = (points**1.5).mean()
    assert abs(estimate / truth - 1) < 0.01
    assert abs(unscaled / truth - 1) > 0.1  # the control: without the sizes of the shards it is another objective


@pytest.mark.parametrize("name", ["sums", "rows"])
def test_the_meter_of_shards_is_of_all_and_knows_their_weights(sharded, name):
    meters = [found[name]["meter"] for found in sharded]
    assert meters == [meters[0]] * len(meters)
    assert meters[0]["largest_weight"] == pytest.approx(max(found[name]["largest"] for found in sharded), rel=1e-6)


def test_feedback_that_waits_is_a_copy(sharded):
    assert [found["heard"] for found in sharded] == [[1.0, 2.0]] * len(sharded)


def test_groups_of_shards_must_be_the_same(sharded):
    for found in sharded:
        assert found["labels"].startswith("ValueError: Processes 0 and 1 were built with different components")


def test_shards_make_as_many_steps_as_all_points_ask_for(sharded):
    world = len(sharded)
    assert {found["steps"] for found in sharded} == {sum(process_group.SIZES[:world]) // 24}


def test_gradients_that_are_averaged_train_as_one_process(two):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        alone = process_group.descend(process_group.model(), process_group.build("groups", layout="alone"))
    finally:
        torch.set_default_dtype(before)
    for found in two:
        np.testing.assert_allclose(found["ddp"], alone, rtol=0, atol=1e-10)


def test_a_round_that_one_refuses_counts_on_none(refusals):
    first, second = (found["nan"] for found in refusals)
    assert first[0] == second[0] == 3
    assert "Another process rejected" in first[1]
    assert "nan" in second[1]
    assert [first[2], second[2]] == [True, True]  # nothing was applied
    assert refusals[0]["bits"] == refusals[1]["bits"]
    assert refusals[0]["draws"] == refusals[1]["draws"] == 100


def test_a_round_that_is_refused_between_exchanges_is_left_out_of_the_next(refusals):
    (first,), (second,) = (found["late"] for found in refusals)
    assert (first[0], second[0]) == (3, 1)
    assert "Another process rejected" in first[1]
    assert "infinite" in second[1]
    assert refusals[0]["late_bits"] == refusals[1]["late_bits"]
    assert refusals[0]["late_draws"] == refusals[1]["late_draws"] == 7 * 24


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("twice", "ValueError: Receipt 0 already waits for the next exchange"),
        ("save", "RuntimeError: 2 rounds of feedback wait for the next exchange. Call sync()"),
        ("undivided", "ValueError: batch_size is that of all processes together: 49 is not divisible by 2, the number"),
        ("batch_size", "ValueError: Processes 0 and 1 were built with different batch_size"),
        ("labels", "ValueError: Processes 0 and 1 were built with different"),
        ("kinds", "ValueError: Processes 0 and 1 were built with different"),
        ("rng", "ValueError: Processes 0 and 1 were built with different rng"),
        ("allocate", "ValueError: Processes 0 and 1 were built with different allocate"),
        ("learner", "ValueError: Processes 0 and 1 were built with different learner"),
        ("one number", "ValueError: Processes 0 and 1 were built with different learner"),
        ("draws differ", "RuntimeError: The processes have made different draws"),
    ],
)
def test_what_cannot_be_is_refused_on_all_processes(refusals, name, words):
    for found in refusals:
        assert (found[name] or "").startswith(words)


def test_feedback_that_is_no_feedback_is_refused_together(refusals):
    (mine, late, bits), (other, wrong, same) = (found["none"] for found in refusals)
    assert mine is None  # it is told at the exchange
    assert other.startswith("TypeError: norms")
    assert late.startswith("ValueError: Another process rejected")
    assert wrong.startswith("TypeError: update takes the draw")
    assert bits == same


def test_a_state_can_be_saved_once_nothing_waits(refusals):
    assert [found["saved"] for found in refusals] == [None, None]


def test_rounds_that_wait_are_given_up_when_a_state_is_loaded(refusals):
    assert [found["given up"] for found in refusals] == [[True, None], [True, None]]


def test_gradients_of_another_length_leave_nothing_half_done(refusals):
    assert [found["lengths"] for found in refusals] == [48, 48]


def test_a_state_of_one_process_is_that_of_all(two):
    for found in two:
        assert found["resumed"] == {"same": True, "bits": True}


@pytest.mark.parametrize("name", ["sums", "rows"])
def test_other_processes_may_take_up_a_run_with_a_batch_in_flight_that_they_cannot_share_out(two, name):
    first, second = (found["taken_up"][name] for found in two)
    assert first == second
    assert first[0] == [12, 1]  # of 24 slots, and of 3


def test_a_round_that_was_refused_while_it_waited_can_be_given_again_by_its_number(refusals):
    ((early, late, again), draws), ((wrong, good, same), others) = (found["by number"] for found in refusals)
    assert early is good is again is same is None
    assert late.startswith("ValueError: Another process rejected")
    assert "nan" in wrong
    assert draws == others == 48


def test_a_process_that_dies_ends_the_others(tmp_path):
    (code, error), (died, _) = process_group.start("dying", 2, tmp_path, check=False)
    assert died == 7
    assert code != 0
    assert "update" in error
    assert "gloo" in error.lower() or "connection" in error.lower()


SCRIPT = """
import gc, sys
import torch.distributed as dist
from support.loaders import EAGER, LABELS, Numbers, follow
from varmix.torch import AdaptiveLoader, MixtureBatchSampler

dist.init_process_group("gloo")
loader = AdaptiveLoader(Numbers(), LABELS, 20, learner=EAGER, rng=0)
follow(loader)
with open(f"{sys.argv[1]}/{dist.get_rank()}", "w") as file:
    file.write(f"{loader.batches.layout.name} {loader.mixture.tobytes().hex()}")
dist.destroy_process_group()
del loader
gc.collect()  # as in training.py
"""


def test_torchrun_starts_it(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(tmp_path / "train.py"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / str(rank)).read_text() for rank in range(2))
    assert first == second
    assert first.startswith("replicated ")


def test_a_group_of_one_is_alone():
    loader = AdaptiveLoader(Numbers(), varmix.Groups(np.arange(100) % 2), 10, rng=0)
    assert loader.batches.layout.name == "alone"
    assert loader.batches.exchanged == "nothing"
    loader.sync()
