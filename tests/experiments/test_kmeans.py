"""Section 6.4: its runs, on a few points."""

import json

import numpy as np
import pytest

from lab import datasets
from lab.experiments import kmeans
from lab.experiments.kmeans import arms, course, data, protocol
from lab.experiments.kmeans.arms import AGAIN, ARMS, CELLS, PUBLISHED, UNIFORM, Published
from lab.experiments.kmeans.data import GENERATED, KDD, REAL_SETS, SETS
from lab.experiments.kmeans.protocol import plan, run, then
from lab.reproduce.records import Record, Records
from support.readings import read_numbers
from varmix._presets import importance, uniform

pytest.importorskip("sklearn")


def record(config, result):
    return Record("kmeans", config, result, {}, 1.0, 1.0)


@pytest.fixture
def small(nothing, monkeypatch):
    """The generated points, 1,500 of them, and ten clusters."""
    monkeypatch.setitem(SETS, GENERATED, data.Points((1500, 4)))
    monkeypatch.setattr(protocol, "CLUSTER_COUNT", 10)
    data.load_points.cache_clear()
    yield
    data.load_points.cache_clear()


def test_the_plan_tunes_every_set_at_hand_and_then_runs_all_seedings(nothing):
    for name in REAL_SETS:
        (nothing / f"{name}.npz").touch()
    full = plan("full")
    assert [config["data"] for config in full] == list(REAL_SETS)
    tests = then("full", [])
    assert len(tests) == 3 * 10
    assert {config["runs"] for config in tests} == {10}
    assert [config["data"] for config in plan("quick")] == ["chest_accel"]
    assert len(then("quick", [])) == 8  # seedings enough to judge
    assert all(kmeans.EXPERIMENT.seconds(config) > 0 for config in full + tests)
    assert not {config["seeding"] for config in tests} & set(full[0]["seedings"])


def test_settings_that_were_found_are_those_of_the_tests_and_a_set_without_any_waits(nothing):
    for name in REAL_SETS:
        (nothing / f"{name}.npz").touch()
    tuned = [record(plan("full")[0], {"best": {"beta": 10.0, "gamma": 0.01}, "tried": {}})]
    tests = then("full", tuned)
    assert {(config["data"], config["beta"], config["gamma"]) for config in tests} == {(KDD, 10.0, 0.01)}


def test_without_data_points_are_generated_and_say_so(nothing):
    assert data.at_hand() == [GENERATED]
    assert {config["data"] for config in plan("quick") + plan("full")} == {GENERATED}
    X = data.load_points(GENERATED)
    assert X.shape == SETS[GENERATED].shape
    assert np.isfinite(X).all()


def test_the_shapes_are_those_of_the_data_sets():
    for name, known in REAL_SETS.items():
        n, d = datasets.SETS[name].shape
        assert known.shape == (n, 10 if name == "mnist" else d)


def test_pixels_become_ten_whitened_components(monkeypatch):
    class Few:
        X = np.random.default_rng(0).integers(0, 255, size=(200, 30)).astype(np.uint8)

    monkeypatch.setattr(datasets, "load", lambda name, fetch: Few)
    data.load_points.cache_clear()
    X = data.load_points("mnist")
    data.load_points.cache_clear()
    assert X.shape == (200, 10)
    assert X.flags.c_contiguous
    np.testing.assert_allclose(np.cov(X.T), np.eye(10), atol=1e-6)


def test_a_split_has_every_point_once_and_follows_its_seed():
    X = np.arange(50.0)[:, None]
    train, test = data.split_points(X, np.random.default_rng(1))
    assert (len(train), len(test)) == (40, 10)
    assert sorted(np.concatenate([train, test]).ravel()) == X.ravel().tolist()
    assert (data.split_points(X, np.random.default_rng(1))[0] == train).all()


@pytest.mark.usefixtures("small")
def test_the_whole_of_it_in_small(tmp_path):
    records = Records(tmp_path / "records")
    made = [record(config, run(config)) for config in plan("quick")]
    tuned = made[0].result
    assert len(tuned["tried"]) == len(protocol.BETAS) * len(protocol.GAMMAS)
    best = tuned["tried"][f"beta {tuned['best']['beta']:g}, gamma {tuned['best']['gamma']:g}"]
    assert best == min(tuned["tried"].values()) < 1  # below the seeding
    made += [record(config, run(config)) for config in then("quick", made)]
    for one in made:
        records.write(one)
    assert all(records.has("kmeans", config) for config in plan("quick") + then("quick", made))
    result = made[-1].result
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert list(result["arms"]) == list(ARMS)
    for arm in result["arms"].values():
        assert np.shape(arm["errors"]) == np.shape(arm["seconds"]) == (1, len(result["marks"]))
        assert (np.diff(arm["seconds"]) >= 0).all()
        assert all(errors[-1] < errors[0] for errors in arm["errors"])
        assert all(ideal <= moment + 1e-9 for moment, ideal in zip(arm["moment"], arm["ideal"], strict=True))
    assert result["arms"][UNIFORM]["moment"] == pytest.approx([1.0])
    assert max(result["arms"][CELLS]["moment"]) < 1
    starts = {arm["errors"][0][0] for arm in result["arms"].values()}
    assert len(starts) == 1  # one seeding for all
    found = kmeans.EXPERIMENT.findings(made)
    judged = [claim.name for claim in found.claims if claim.verdict in ("holds", "holds in part", "does not hold")]
    assert len(judged) == 2  # the variance of VRM and of the default, on the one set that ran
    assert read_numbers(found.claims[0].settings)[:2] == [8, 1]  # seedings, and runs of each


@pytest.fixture
def start():
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(600, 3))
    return arms.make_start(X, 6, rng, Published(1.0, 0.1))


def test_every_arm_repeats_itself_and_uniform_again_does_not_repeat_uniform(start):
    for arm in ARMS:
        once, again = (course.run_course(start, arm, 3, [0, 10, 20]) for _ in range(2))
        assert all((a == b).all() for a, b in zip(once.centers, again.centers, strict=True))
    one, other = (course.run_course(start, arm, 3, [0, 10]) for arm in (UNIFORM, AGAIN))
    assert (one.centers[0] == other.centers[0]).all()
    assert (one.centers[1] != other.centers[1]).any()


def test_the_published_sampler_is_told_after_every_batch(start, monkeypatch):
    steps = []
    monkeypatch.setattr(course.Descent, "run", lambda self, sampler, count: steps.append(count))
    course.run_course(start, PUBLISHED, 0, [0, 3])
    assert steps == [1] * 6  # twice three
    steps.clear()
    course.run_course(start, CELLS, 0, [0, 3])
    assert steps == [3, 3]


def test_the_lesser_time_of_each_stretch_counts(start, monkeypatch):
    ticks = iter([0, 1, 10, 14, 20, 23, 100, 103, 110, 112, 120, 129])  # set-up 1, stretches 4 and 3; then 3, 2 and 9
    monkeypatch.setattr(course.time, "thread_time", lambda: next(ticks))
    done = course.run_course(start, UNIFORM, 0, [0, 5, 10])
    assert done.seconds.tolist() == [1, 3, 6]


def test_the_second_moment_is_that_of_the_law_over_all_points(start):
    centers = start.seeding.centers
    norms = np.linalg.norm(start.X[:, None] - centers, axis=2).min(axis=1)
    moment, ideal = course.second_moment(start.X, centers, uniform(600, rng=0))
    assert moment == pytest.approx(1)
    assert ideal == pytest.approx(norms.mean() ** 2 / (norms**2).mean(), rel=1e-5)
    best, _ = course.second_moment(start.X, centers, importance(norms + 1e-9, smoothing=0.001, rng=0))
    assert best == pytest.approx(ideal, rel=2e-3)


def test_the_settings_of_the_published_sampler_do_not_depend_on_the_scale_of_the_points(start):
    rng = np.random.default_rng(0)
    X = 1000 * rng.standard_t(3, size=(600, 3))
    large = arms.make_start(X, 6, rng, Published(1.0, 0.1))
    one, other = (ARMS[PUBLISHED](at, 0) for at in (start, large))
    for at, sampler in ((start, one), (large, other)):
        draw = sampler.draw(50)
        sampler.update(draw, at.seeding.distances[draw.indices])
    np.testing.assert_allclose(one.mixture, other.mixture, atol=1e-4)
    assert one.mixture.max() > 0.12
