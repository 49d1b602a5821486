import numpy as np
import pytest

from lab.experiments.blobs.data import MIDDLE_BLOBS, PLACES, make_blobs
from lab.experiments.blobs.findings import COMPONENT_NAMES, findings
from lab.experiments.blobs.protocol import (
    ACCURACY_LEVEL,
    ARMS,
    OTHER_PLACE_ARMS,
    SHUFFLE,
    compute_lasting_accuracy,
    find_sustained,
    plan,
    run,
    train_svm,
)
from lab.reproduce.records import Record
from support.readings import read_intervals, read_numbers, read_shares
from varmix import Groups, uniform, vrm


@pytest.mark.parametrize("place", PLACES)
def test_blobs_are_balanced_separated_and_labelled_by_side(place):
    data = make_blobs(600, place=place)
    assert np.bincount(data.blob).tolist() == [100] * 6
    assert np.mean(np.sign(data.X[:, 0]) == data.y) > 0.98
    middle = np.isin(data.blob, MIDDLE_BLOBS)
    assert np.quantile(np.abs(data.X[middle, 0]), 0.95) < np.quantile(np.abs(data.X[~middle, 0]), 0.05)


@pytest.mark.parametrize("ahead", [1, None])
def test_the_mixture_finds_the_middle_blobs(ahead):
    data = make_blobs(6000)
    mixed = train_svm(data, vrm(Groups(data.blob), rng=0), batches_per_update=ahead)
    plain = train_svm(data, uniform(6000, rng=0), batches_per_update=ahead)
    assert mixed.mixtures[-1, list(MIDDLE_BLOBS)].sum() > (0.8 if ahead else 0.6)
    assert mixed.run.meter.gain.low > 1.5
    assert plain.run.meter.gain.value == 1
    assert mixed.run.trace.accuracies[-1] > 0.99


def test_the_steps_are_those_of_a_plain_loop():
    data = make_blobs(600)
    theta, sampler = np.zeros(3), vrm(Groups(data.blob), rng=3)
    for t in range(1, 601):
        draw = sampler.draw(1)
        i = draw.indices[0]
        active = data.y[i] * (data.X[i] @ theta) < 1
        if active:
            theta += 0.01 / np.sqrt(t) * draw.weights[0] * data.y[i] * data.X[i]
        sampler.update(draw, [np.linalg.norm(data.X[i]) if active else 0.0])
    done = train_svm(data, vrm(Groups(data.blob), rng=3), epochs=1)
    np.testing.assert_allclose(done.run.theta, theta, rtol=1e-10)
    np.testing.assert_allclose(done.mixtures[-1], sampler.mixture, rtol=1e-8)


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [([1.0, 1.0], 25), ([0.5, 0.99], 50), ([0.995, 0.5, 0.99, 0.99], 75), ([0.99, 0.989], None)],
)
def test_accuracy_is_sustained_from_when_it_is_never_lost_again(accuracies, expected):
    assert find_sustained(np.array(accuracies), 25 * np.arange(1, 5)) == expected
    kept = compute_lasting_accuracy(np.array(accuracies))
    assert (np.diff(kept) >= 0).all()
    first = np.flatnonzero(kept >= ACCURACY_LEVEL)
    assert (len(first) == 0) == (expected is None)


def small(arm, seed):
    return {"arm": arm, "seed": seed, "n": 600, "epochs": 1, "place": "row"}


def records(seeds=2):
    configs = [small(arm, seed) for seed in range(seeds) for arm in ARMS]
    return [Record("blobs", config, run(config), {}, 1.0, 1.0) for config in configs]


def test_every_arm_runs_and_repeats_itself():
    for arm in ARMS:
        once, again = run(small(arm, 0)), run(small(arm, 0))
        assert {**once, "seconds": 0} == {**again, "seconds": 0}
    assert {config["arm"] for config in plan("full")} == set(ARMS)
    assert {(c["place"], c["arm"]) for c in plan("full") if c["place"] != "row"} == {
        (place, arm) for place in PLACES if place != "row" for arm in OTHER_PLACE_ARMS
    }


def test_reshuffling_is_the_same_whether_its_loop_runs_ahead_or_not():
    data = make_blobs(600)
    one, ahead = (train_svm(data, ARMS[SHUFFLE](data, 3), epochs=2, batches_per_update=ahead) for ahead in (1, None))
    np.testing.assert_array_equal(one.run.theta, ahead.run.theta)
    assert one.run.trace.losses == ahead.run.trace.losses


def test_uniform_again_is_the_same_problem_with_other_draws():
    once, again = run(small("uniform", 0)), run(small("uniform again", 0))
    assert once["kept"] != again["kept"]


def test_findings_compare_every_sampler_with_uniform_draws_and_show_the_mixture():
    made = records()
    found = findings(made)
    weight, mixed, authors, chance = found.claims
    weights = [sum(r.result["mixture"][j] for j in MIDDLE_BLOBS) for r in made if r.config["arm"] == "mixture"]
    assert read_intervals(weight.number)[0].value == pytest.approx(np.mean(weights), rel=1e-2)
    assert len(mixed.details.rows) == len(ARMS) - 1  # every arm but the uniform draws that are compared with
    compared = [read_intervals(row[1]) for row in mixed.details.rows]
    assert compared[0] == read_intervals(mixed.number)
    assert compared[2] == read_intervals(authors.number)
    assert compared[-1] == read_intervals(chance.number)
    assert [claim.verdict == "measured" for claim in found.claims] == [False, False, False, True]
    assert len(found.pictures) == 1
    assert found.pictures[0].plot().axes[2].get_xlabel() == "iterations"
    (evolution,) = found.evolutions
    assert set(evolution.arms) == set(COMPONENT_NAMES)
    assert all(len(line) == len(evolution.x) for line in evolution.arms.values())
    assert sum(line[0] for line in evolution.arms.values()) == pytest.approx(1, abs=1e-3)


def synthetic(arm, times):
    mixture = {"mixture": [0, 0, 0.45, 0.45, 0, 0, 0.1], "mixture_in_figure": [0] * 7, "mixtures": [[0.1] * 7]}
    results = ({"sustained": time, "iterations": [5000], "seconds": 1.0, **mixture} for time in times)
    return [Record("blobs", small(arm, seed), result, {}, 1.0, 1.0) for seed, result in enumerate(results)]


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [
        ([100, 110, 120, 90, 100, 100, 105, 95], "holds"),
        ([1000, 100, 3000, 500, 2000, 1000, 4000, 300], "too few runs"),
        ([400, 410, 420, 400, 390, 400, 395, 410], "does not hold"),  # faster, but not by what is asked
        ([100, 110, None, None, None, None, None, None], "too few runs"),
        ([None] * 8, "does not hold"),
    ],
)
def test_a_speed_up_is_claimed_only_when_its_interval_says_so_and_misses_count(mine, verdict):
    times = [1000, 1100, 1200, 900, 1000, 1000, 1050, 950]
    claims = findings(
        synthetic("mixture", mine) + synthetic("uniform", times) + synthetic("uniform again", times)
    ).claims
    assert claims[1].verdict == verdict
    assert read_shares(claims[1].note) == ([(mine.count(None), 8)] if None in mine else [])
    assert read_shares(claims[1].details.rows[0][2]) == [(mine.count(None), 8)]


def test_uniform_against_itself_is_measured_and_not_claimed():
    times = list(range(900, 1000, 10))
    claims = findings(synthetic("uniform", times) + synthetic("uniform again", times)).claims
    (claim,) = claims
    assert claim.verdict == "measured"
    assert read_intervals(claim.number) == [(1, 1, 1)]


@pytest.mark.parametrize(
    ("share", "verdict"), [([0.9] * 4, "holds"), ([0.8] * 4, "does not hold"), ([1, 1, 1, 0.7], "does not hold")]
)
def test_the_middle_blobs_need_the_weight_on_average_and_in_every_run(share, verdict):
    made = synthetic("mixture", [100] * 4)
    for record, weight in zip(made, share, strict=True):
        record.result["mixture"] = [0, 0, weight / 2, weight / 2, 0, 0, 1 - weight]
    (claim,) = findings(made).claims
    assert claim.verdict == verdict
    assert read_intervals(claim.number)[0].value == pytest.approx(np.mean(share), rel=1e-2)
    assert min(share) in read_numbers(claim.note)


def test_the_authors_learner_only_has_to_be_ahead():
    times = list(range(900, 1000, 10))
    ahead = synthetic("authors' ONS", [time // 2 for time in times])
    (claim, _) = findings(ahead + synthetic("uniform", times) + synthetic("uniform again", times)).claims
    assert claim.verdict == "holds"
    assert read_intervals(claim.number)[0].value == pytest.approx(2, rel=1e-2)


def test_quick_mode_has_what_its_verdicts_need():
    """The median of what quick mode runs has an interval, and no arm is judged that quick mode leaves out."""
    seeds = {arm: [c["seed"] for c in plan("quick") if c["arm"] == arm] for arm in ARMS}
    quick = [r for arm, found in seeds.items() for r in synthetic(arm, [100 if arm == "mixture" else 500] * len(found))]
    claims = findings(quick).claims
    assert [claim.verdict for claim in claims] == ["holds", "holds"]
    assert {config["place"] for config in plan("quick")} == {"row"}


def test_other_places_are_measured_beside():
    config = small("mixture", 0) | {"place": "closer"}
    rows = [
        Record("blobs", config | {"arm": arm, "seed": s}, run(config | {"arm": arm}), {}, 1.0, 1.0)
        for arm in OTHER_PLACE_ARMS
        for s in range(2)
    ]
    (claim,) = findings(rows).claims
    assert claim.verdict == "measured"
    (row,) = claim.details.rows
    assert [float(cell) for cell in row[:3]] == [60, 12, PLACES["closer"].deviation]  # height, width, deviation
    assert read_intervals(row[3]) == read_intervals(claim.number)
