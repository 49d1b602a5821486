"""The convex experiment: its runs, on problems that need no data set."""

import math

import numpy as np
import pytest

from lab.experiments import convex
from lab.experiments.convex import arms, protocol, tasks
from lab.experiments.convex.arms import AGAIN, ARMS, ONCE, RESHUFFLING, FixedOrder
from lab.experiments.convex.findings import findings
from lab.experiments.convex.protocol import (
    BASELINE_TEST_SEEDS,
    BATCH_SIZES,
    EDGE_SEEDS,
    TEST_SEEDS,
    TUNING_SEEDS,
    best_steps,
    find_step,
    make_key,
    plan,
    run,
    then,
)
from lab.experiments.convex.tasks import TASKS, Task
from lab.reproduce.records import Record
from support.readings import read_numbers
from varmix import Sampler
from varmix.learners import Fixed
from varmix.solvers import Linear


def record(config, result):
    return Record("convex", config, result, {}, 1.0, 1.0)


@pytest.fixture
def small(monkeypatch):
    """Two tasks of 400 points that need no data set."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * np.where(np.arange(400) < 40, 5.0, 0.3)[:, None]
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=400) * np.where(np.arange(400) < 40, 3.0, 0.1)
    made = {
        "adult": Linear(X, np.where(y > 0, 1.0, -1.0), loss="logistic", l2=1e-2, intercept=True),
        "california_housing": Linear(X, y, loss="squared", l2=1e-2, intercept=True),
    }
    for module in (tasks, arms, protocol):
        monkeypatch.setattr(module, "load_problem", made.__getitem__)
    monkeypatch.setattr(protocol, "at_hand", lambda: list(made))
    monkeypatch.setattr(protocol, "BUNDLED_TASKS", ["california_housing"])
    for cached in (tasks.find_minimum, arms.make_groups):
        cached.cache_clear()
    yield made
    for cached in (tasks.find_minimum, arms.make_groups):
        cached.cache_clear()


def config(task, arm, **more):
    return {"part": "test", "task": task, "batch": 32, "arm": arm, "epochs": 4, "step": 0.0, "seed": 0} | more


@pytest.mark.parametrize("task", ["adult", "california_housing"])
def test_every_arm_runs_repeats_itself_and_comes_closer(small, task):
    for arm in ARMS:
        if arm != "mixture of labels" or task == "adult":
            once, again = run(config(task, arm)), run(config(task, arm))
            assert {**once, "seconds": 0} == {**again, "seconds": 0}
            assert 0 < once["excess"] == once["excesses"][-1] < 0.7 * once["excesses"][0]
            assert once["early_gain"] == pytest.approx(1) or arm not in ("uniform", RESHUFFLING, AGAIN, ONCE)
            assert len(once["excesses"]) == len(once["evaluations"]) == 4 * 2 + 1  # two looks an epoch, and one before


def test_reshuffling_again_is_the_same_problem_with_other_draws(small):
    once, again = (run(config("adult", arm)) for arm in (RESHUFFLING, AGAIN))
    assert once["excesses"][0] == again["excesses"][0]
    assert once["excess"] != again["excess"]


def test_shuffling_once_repeats_one_order_and_leaves_no_point_out():
    sampler = Sampler(FixedOrder(10, seed=3), learner=Fixed(), rng=0)
    drawn = [sampler.draw(4) for _ in range(5)]
    order = np.concatenate([draw.indices for draw in drawn])
    assert sorted(order[:10]) == list(range(10))
    assert np.array_equal(order[:10], order[10:])
    assert all((draw.weights == 1).all() for draw in drawn)
    assert order[:10].tolist() != Sampler(FixedOrder(10, seed=4), learner=Fixed()).draw(10).indices.tolist()


def test_bundled_data_have_the_shapes_that_times_are_told_by():
    for task in TASKS.values():
        if task.bundled:
            X, y = task.load()
            assert (X.shape, y.shape) == (task.shape, task.shape[:1])


def test_the_least_objective_is_below_what_any_step_reaches(small):
    for name, p in small.items():
        floor = tasks.find_minimum(name)
        near = run(config(name, RESHUFFLING, epochs=200, step=2.0 if p.loss == "logistic" else -2.0))["excess"]
        assert 0 < near < 0.01 * (p.objective(np.zeros(p.dim)) - floor)


def test_a_step_that_is_too_long_is_a_run_that_diverged(small):
    result = run(config("california_housing", RESHUFFLING, step=9.0, epochs=200))
    assert result["excess"] is None
    assert findings([record(config("california_housing", RESHUFFLING), result)]).experiment == "convex"


@pytest.mark.parametrize(("batch", "seeds"), [(32, TUNING_SEEDS), (1, EDGE_SEEDS)])
def test_a_search_finds_the_best_step_on_its_own_seeds(small, monkeypatch, batch, seeds):
    seen = []
    descend = protocol._run_arm
    monkeypatch.setattr(
        protocol, "_run_arm", lambda c, e, seed, **options: seen.append(seed) or descend(c, e, seed, **options)
    )
    found = run({"part": "tune", "task": "california_housing", "batch": batch, "arm": RESHUFFLING, "epochs": 2})
    assert set(seen) == set(seeds)
    assert not set(seeds) & set(TEST_SEEDS)
    tried = {float(e): math.inf if score is None else score for e, score in found["tried"].items()}
    assert tried[found["best"]] == min(tried.values())
    assert {found["best"] - 0.5, found["best"] + 0.5} <= set(tried)


@pytest.mark.parametrize("best", [-7.3, -0.2, 3.9, 6.6])
def test_the_search_ends_within_a_quarter_octave_of_where_the_minimum_is(best):
    found, tried = find_step(lambda e: (e - best) ** 2)
    assert abs(found - best) <= 0.25
    assert len(tried) < 25


def test_the_search_ends_where_everything_diverges():
    found, tried = find_step(lambda e: math.inf)
    assert (found, min(tried)) == (-12.0, -12.0)


def test_a_plan_has_a_search_per_arm_and_then_follow_the_test_runs(small):
    for mode, batches, seeds in (("quick", {32}, 12), ("full", set(BATCH_SIZES), len(TEST_SEEDS))):
        planned = plan(mode)
        assert {c["part"] for c in planned} == {"tune"}
        assert {c["batch"] for c in planned} == batches
        assert AGAIN not in {c["arm"] for c in planned}
        records = [record(c, {"best": 0.5, "tried": {"0.5": 1.0}}) for c in planned]
        following = then(mode, records)
        assert {c["step"] for c in following} == {0.5}
        assert len(following) == len(then(mode, []))
        for key in {make_key(c) for c in following}:
            baseline = key[1] == 32 and key[2] in (RESHUFFLING, AGAIN)
            expected = list(BASELINE_TEST_SEEDS if baseline else range(seeds))
            assert [c["seed"] for c in following if make_key(c) == key] == expected
        assert {make_key(c) for c in following if c["arm"] != AGAIN} == {make_key(c) for c in planned}
    assert {c["task"] for c in plan("quick")} == {"california_housing"}
    labelled = {c["task"] for c in plan("full") if c["arm"] == "mixture of labels"}
    assert labelled == {"adult"}  # a regression has none


def test_an_arm_whose_search_is_missing_is_not_tested_at_a_step_that_nobody_chose(small):
    records = [record(c, {"best": 1.0, "tried": {}}) for c in plan("full") if c["arm"] == RESHUFFLING]
    assert {c["arm"] for c in then("full", records)} == {RESHUFFLING, AGAIN}
    assert set(best_steps(records).values()) == {1.0}


def test_the_whole_of_it_on_two_small_tasks(small, monkeypatch):
    monkeypatch.setattr(protocol, "TASKS", {**TASKS, "adult": Task("adult", 2), "california_housing": Task("adult", 2)})
    monkeypatch.setattr("lab.experiments.convex.comparison.TASKS", protocol.TASKS)
    made = [record(c, run(c)) for c in plan("quick")]
    made += [record(c, run(c)) for c in then("quick", made)]
    found = convex.EXPERIMENT.findings(made)
    assert {c.verdict for c in found.claims if "worse" not in c.name} == {"too few runs", "measured"}
    assert read_numbers(found.claims[0].settings)[0] == 12  # seeds
