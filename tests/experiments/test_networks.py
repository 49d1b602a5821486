"""Networks against reshuffling: runs on small data, every arm, and what steps are chosen by."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from lab.experiments import networks as mnist
from lab.experiments.networks import arms, data
from lab.experiments.networks import data as digits
from lab.experiments.networks.data import Sample, Split
from lab.experiments.networks.protocol import (
    FIRST_TUNING_SEED,
    best_steps,
    find_step,
    make_key,
    plan,
    run,
    seconds,
    then,
)
from lab.experiments.networks.tasks import (
    AGAIN,
    BALANCED,
    CROSS,
    LABELS,
    LARGER,
    LARGER_BATCH_FACTOR,
    MNIST_TASKS,
    OTHER_TASKS,
    RARE,
    RESHUFFLING,
    STATIC,
    TASKS,
)
from lab.reproduce.records import Record

torch = pytest.importorskip("torch")

from lab.experiments.networks import training  # noqa: E402 - they import torch
from lab.experiments.networks import training as looks  # noqa: E402 - they import torch
from lab.experiments.networks.training import compute_losses, compute_norms  # noqa: E402 - they import torch

SMALL = ("MLP, imbalanced, SGD", "CNN, balanced, Adam", RARE, "long tail, balanced loss", "sources of unequal noise")


def record(config, result):
    return Record("mnist", config, result, {}, 1.0, 1.0)


def images(rng, count=400):
    """Pictures of two kinds of stripes, one kind rarer."""
    y = (rng.random(count) < 0.2).astype(np.int64)
    X = rng.normal(size=(count, 784)).astype(np.float32)
    X[np.arange(count) % 784, :] += 0.1
    return X + y[:, None].astype(np.float32), y


def rows(rng, count=1200):
    X = rng.normal(size=(count, 5)).astype(np.float32)
    return X, (X[:, 0] + 0.3 * rng.normal(size=count) > 1.8).astype(np.int64)


@pytest.fixture
def small(monkeypatch):
    """Tasks on a few points that need no data set."""
    rng = np.random.default_rng(0)
    made = {}
    for name in sorted({task.data for task in TASKS.values()}):
        X, y = (images if TASKS_BY_DATA[name].needs == "mnist" else rows)(rng)
        half = len(y) // 2
        costs = None
        if name in ("sources", "kegg"):
            y = X[:, 1] + X[:, 2] ** 2
        elif name == "long tail":
            costs = (half / 2 / np.bincount(y[:half]))[y[:half]]
        groups = (X[:half, 0] > 1).astype(np.int64) if y.dtype.kind == "f" else y[:half]
        made[name] = Split(X[:half], y[:half], groups, Sample(X[half:], y[half:]), costs)
    for name, split in made.items():
        monkeypatch.setitem(data.SPLITS, name, lambda split=split: split)
    for cached in (data.load_split, arms.make_fine_groups):
        cached.cache_clear()
    yield made
    for cached in (data.load_split, arms.make_fine_groups):
        cached.cache_clear()


TASKS_BY_DATA = {task.data: task for task in TASKS.values()}


def config(task, arm, **more):
    return {"part": "test", "task": task, "arm": arm, "epochs": TASKS[task].epochs, "step": 0.0, "seed": 0} | more


@pytest.mark.parametrize("task", SMALL)
def test_every_arm_runs_repeats_itself_and_learns(small, task):
    for arm in TASKS[task].arms:
        once, again = run(config(task, arm)), run(config(task, arm))
        assert once == again
        assert 0 < once["train"] == pytest.approx(once["losses"][-1], rel=1e-6)  # so few points are all looked at
        assert once["losses"][-1] < once["losses"][0]
        assert len(once["gains"]) == len(once["signals"]) == len(once["evaluations"]) == 5
        assert once["gains"] == pytest.approx([1] * 5) or arm not in (RESHUFFLING, AGAIN, LARGER)
        assert json.dumps(once, allow_nan=False)


def test_reshuffling_again_has_another_network_and_other_draws(small):
    once, again = (run(config(RARE, arm)) for arm in (RESHUFFLING, AGAIN))
    assert once["losses"][0] != again["losses"][0]
    assert once["evaluations"] == again["evaluations"]


def test_larger_batches_take_as_many_steps_and_more_gradients(small):
    once, larger = (run(config(RARE, arm)) for arm in (RESHUFFLING, LARGER))
    assert larger["evaluations"] == [LARGER_BATCH_FACTOR * count for count in once["evaluations"]]


@pytest.mark.parametrize("task", [RARE, "long tail, balanced loss"])
def test_whatever_is_weighted_estimates_the_loss_that_is_meant(small, task):
    split = small[TASKS[task].data]
    values = 1.0 + 3.0 * split.y + np.abs(split.X[:, 0])
    meant = np.average(values, weights=split.costs)
    for name in (RESHUFFLING, LABELS, CROSS, STATIC, BALANCED):
        arm = arms.build_arm(name, task, seed=3)
        total = []
        for _ in range(400):
            draw = arm.sampler.draw(64)
            total.append(np.mean(arm.weigh(draw) * values[draw.indices]))
            if arm.adapts:
                arm.sampler.update(draw, values[draw.indices])
        if name == STATIC and split.costs is not None:
            continue  # its weights are for a loss without costs
        biased = name == BALANCED and split.costs is None
        assert (abs(np.mean(total) / meant - 1) > 0.2) == biased  # unweighted draws estimate something else
        if not biased:
            assert np.mean(total) == pytest.approx(meant, rel=0.02)


def test_draws_that_make_classes_equal_are_put_right_afterwards(small):
    shares = np.bincount(small["covtype"].y) / len(small["covtype"].y)
    np.testing.assert_allclose(np.exp(arms.build_arm(BALANCED, RARE, 0).shift), shares)
    assert arms.build_arm(BALANCED, "long tail, balanced loss", 0).shift is None
    course = training.Training(RARE, BALANCED, 0.008, 0, 8)
    course.go_on(course.steps, metered=False)
    held = looks.make_points(course.data.held)
    left, right = (
        looks.mean_loss(looks.compute_outputs(course.network, held, s), held) for s in (None, course.arm.shift)
    )
    assert right < left
    before = looks.compute_outputs(course.network, held)
    after = looks.compute_outputs(course.network, held, course.arm.shift)
    assert looks.measure_precision(before, held) == looks.measure_precision(
        after, held
    )  # which comes before which is as it was


def test_a_step_that_is_too_long_is_a_run_that_diverged(small):
    result = run(config("sources of unequal noise", RESHUFFLING, step=60.0, epochs=30))
    assert result["train"] is None
    assert (
        mnist.EXPERIMENT.findings([record(config("sources of unequal noise", RESHUFFLING), result)]).claims is not None
    )
    tuned = run({"part": "tune", "task": "sources of unequal noise", "arm": RESHUFFLING, "epochs": 2, "seeds": 2})
    assert math.isfinite(tuned["best"])


def test_losses_and_norms_are_those_of_plain_formulas():
    rng = np.random.default_rng(0)
    said, y = rng.normal(size=(6, 4)), rng.integers(4, size=6)
    shares = np.exp(said) / np.exp(said).sum(axis=1, keepdims=True)
    outputs, targets = torch.from_numpy(said), torch.from_numpy(y)
    np.testing.assert_allclose(compute_losses(outputs, targets), -np.log(shares[np.arange(6), y]))
    np.testing.assert_allclose(compute_norms(outputs, targets), np.linalg.norm(shares - np.eye(4)[y], axis=1))
    numbers = torch.from_numpy(said[:, 1])
    np.testing.assert_allclose(compute_losses(outputs[:, :1], numbers), 0.5 * (said[:, 0] - said[:, 1]) ** 2)
    np.testing.assert_allclose(compute_norms(outputs[:, :1], numbers), np.abs(said[:, 0] - said[:, 1]))


def test_a_search_uses_seeds_and_points_that_no_report_uses(small, monkeypatch):
    seen = []
    begin = training.Training.__init__
    monkeypatch.setattr(training.Training, "__init__", lambda self, *a: seen.append(a[3]) or begin(self, *a))
    found = run({"part": "tune", "task": RARE, "arm": CROSS, "epochs": 1, "seeds": 3})
    assert set(seen) == {FIRST_TUNING_SEED, FIRST_TUNING_SEED + 1, FIRST_TUNING_SEED + 2}
    tried = {float(e): math.inf if score is None else score for e, score in found["tried"].items()}
    assert tried[found["best"]] == min(tried.values())
    rows = np.arange(10)
    assert not set(rows[looks.CHOOSING_HALF]) & set(rows[looks.REPORTING_HALF])
    assert len(rows[looks.CHOOSING_HALF]) + len(rows[looks.REPORTING_HALF]) == 10


@pytest.mark.parametrize("best", [-4.7, 0.2, 3.4])
def test_the_search_ends_within_half_an_octave(best):
    found, tried = find_step(lambda e: (e - best) ** 2)
    assert abs(found - best) <= 0.5
    assert len(tried) < 9
    assert find_step(lambda e: math.inf)[0] == -6.0


def test_a_plan_has_a_search_per_arm_and_then_follow_the_test_runs(small, monkeypatch):
    monkeypatch.setattr("lab.experiments.networks.protocol.at_hand", lambda: list(TASKS))
    planned = plan("full")
    assert {c["part"] for c in planned} == {"tune"}
    assert AGAIN not in {c["arm"] for c in planned}
    assert {c["task"] for c in planned} == {*MNIST_TASKS, *OTHER_TASKS}
    records = [record(c, {"best": 1.0, "tried": {}}) for c in planned]
    following = then("full", records)
    assert {c["step"] for c in following} == {1.0}
    assert len(following) == len(then("full", []))
    assert {make_key(c) for c in following if c["arm"] != AGAIN} == {make_key(c) for c in planned}
    assert {c["seed"] for c in following if c["task"] == RARE} == set(range(200, 216))
    assert [c["epochs"] for c in planned if (c["task"], c["arm"]) == (RARE, CROSS)] == [1, 2]
    assert then("full", records[:1])[0]["seed"] < FIRST_TUNING_SEED
    assert all(seconds(c) > 0 for c in planned + following)
    assert best_steps(records[:1]) == {make_key(planned[0]): 1.0}


def test_an_arm_whose_search_is_missing_is_not_tested_at_a_step_that_nobody_chose(small, monkeypatch):
    monkeypatch.setattr("lab.experiments.networks.protocol.at_hand", lambda: list(TASKS))
    records = [record(c, {"best": 1.0, "tried": {}}) for c in plan("full") if c["arm"] == RESHUFFLING]
    assert {c["arm"] for c in then("full", records)} == {RESHUFFLING, AGAIN}


def test_only_tasks_whose_data_are_at_hand_are_planned(nothing):
    assert {c["task"] for c in plan("full")} == {"next word"}
    (nothing / "mnist.npz").touch()
    assert {c["task"] for c in plan("full")} == {*MNIST_TASKS, "long tail, balanced loss", "next word"}


def test_quick_mode_plans_nothing_and_says_nothing():
    assert plan("quick") == then("quick", []) == []
    found = mnist.EXPERIMENT.findings([])
    assert found.claims == found.pictures == []


@pytest.fixture
def made_up(monkeypatch):
    """An MNIST of 2,000 images of noise, 500 of them held out."""
    rng = np.random.default_rng(0)
    made = SimpleNamespace(X=rng.integers(256, size=(2000, 784)).astype(np.uint8), y=np.arange(2000) % 10)
    monkeypatch.setattr(digits.datasets, "load", lambda name, fetch: made)
    monkeypatch.setattr(digits, "TRAINING_IMAGES", 1500)
    for function in (digits.load_images, digits.load_imbalanced):
        monkeypatch.setattr(function, "__defaults__", (1500,))
    return made


def test_imbalanced_images_keep_few_of_five_classes_and_held_out_ones_weigh_alike(made_up):
    split = digits.load_imbalanced()
    assert np.bincount(split.y).tolist() == [8] * 5 + [150] * 5
    weight = np.bincount(split.held.y, weights=split.held.costs)
    np.testing.assert_allclose(weight / weight.sum(), np.bincount(split.y) / len(split.y))
    assert digits.load_imbalanced(1000).X.shape == (25 + 500, 784)
    assert digits.load_images().X.shape == (1500, 784)


def test_the_long_tail_weighs_all_classes_alike(made_up):
    split = digits.long_tail()
    counts = np.bincount(split.y)
    assert (counts[0], counts[-1]) == (150, 2)
    for sample in (split, split.held):
        np.testing.assert_allclose(np.bincount(sample.y, weights=sample.costs), len(sample.y) / 10)


def test_sources_differ_by_their_noise_and_the_held_out_have_none(monkeypatch):
    rng = np.random.default_rng(0)
    made = SimpleNamespace(X=np.column_stack([rng.normal(size=(3000, 2)), np.ones(3000)]), y=rng.normal(size=3000))
    monkeypatch.setattr(data.datasets, "load", lambda name, fetch: made)
    clean, noisy = data._load_regression("california_housing"), data._load_sources()
    off = noisy.y - clean.y
    found = [off[noisy.groups == source].std() for source in range(3)]
    np.testing.assert_allclose(found, data.SOURCE_NOISE, rtol=0.15)
    np.testing.assert_array_equal(noisy.held.y, clean.held.y)
    assert clean.X.shape == (2400, 2)  # a constant column says nothing
    assert np.bincount(data._load_kegg().groups).tolist() == [1200, 600, 600]


def test_words_and_rare_classes_are_split_too(monkeypatch):
    split = data._load_words()
    assert split.X.shape[1] == 6
    assert split.classes <= 1000
    assert 0.05 < len(split.held.y) / len(split.y) < 0.2
    made = SimpleNamespace(X=np.random.default_rng(0).normal(size=(100, 2)), y=np.arange(100) % 10 == 0)
    monkeypatch.setattr(data.datasets, "load", lambda name, fetch: made)
    rare = data._load_rare("kdd_bio")
    assert (rare.classes, len(rare.y), len(rare.held.y)) == (2, 80, 20)
