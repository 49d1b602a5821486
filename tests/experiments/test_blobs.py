import numpy as np
import pytest

from varmix import Groups, uniform, vrm
from varmix.experiments import blobs
from varmix.experiments.blobs import accuracy, findings, hinge, lasting, make_blobs, plan, run, sustained, train
from varmix.experiments.records import Record


def test_blobs_are_balanced_separated_and_labelled_by_side():
    data = make_blobs(600)
    assert np.bincount(data.blob).tolist() == [100] * 6
    assert (np.sign(data.X[:, 0]) == data.y).all()
    middle = np.isin(data.blob, blobs.MIDDLE)
    assert np.abs(data.X[middle, 0]).max() < np.abs(data.X[~middle, 0]).min()


def test_the_mixture_finds_the_middle_blobs():
    data = make_blobs(6000)
    mixed = train(data, vrm(Groups(data.blob), rng=0))
    plain = train(data, uniform(6000, rng=0))
    assert mixed.mixtures[-1, list(blobs.MIDDLE)].sum() > 0.8
    assert mixed.meter.gain.low > 1.5
    assert plain.meter.gain.value == 1
    assert accuracy(data, mixed.theta) == 1
    assert hinge(data, mixed.theta) < 0.5


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [([1.0, 1.0], 25), ([0.5, 0.99], 50), ([0.995, 0.5, 0.99, 0.99], 75), ([0.99, 0.989], None)],
)
def test_accuracy_is_sustained_from_when_it_is_never_lost_again(accuracies, expected):
    assert sustained(np.array(accuracies)) == expected
    kept = lasting(np.array(accuracies))
    assert (np.diff(kept) >= 0).all()
    first = np.flatnonzero(kept >= blobs.LEVEL)
    assert (len(first) == 0) == (expected is None)


def small(arm, seed):
    return {"arm": arm, "seed": seed, "n": 600, "epochs": 1}


def records(seeds=2):
    configs = [small(arm, seed) for seed in range(seeds) for arm in blobs.ARMS]
    return [Record("blobs", config, run(config), {}, 1.0, 1.0) for config in configs]


def test_every_arm_runs_and_repeats_itself():
    for arm in blobs.ARMS:
        assert run(small(arm, 0)) == run(small(arm, 0))
    assert {config["arm"] for config in plan("quick")} == set(blobs.ARMS)


def test_uniform_again_is_the_same_problem_with_other_draws():
    once, again = run(small("uniform", 0)), run(small("uniform again", 0))
    assert once["kept"] != again["kept"]


def test_findings_have_a_claim_per_comparison_a_figure_and_the_mixture():
    found = findings(records())
    assert "two middle blobs" in found.claims[0].paper
    assert len(found.pictures) == 1
    assert found.pictures[0].plot().axes[2].get_xlabel() == "iterations"
    (evolution,) = found.evolutions
    assert set(evolution.arms) == set(blobs.NAMES)
    assert all(len(line) == len(evolution.x) for line in evolution.arms.values())
    assert sum(line[0] for line in evolution.arms.values()) == pytest.approx(1, abs=1e-3)


def synthetic(arm, times):
    mixture = {"mixture": [0, 0, 0.45, 0.45, 0, 0, 0.1], "mixture_in_figure": [0] * 7, "mixtures": [[0.1] * 7]}
    results = ({"sustained": time, "iterations": [5000], **mixture} for time in times)
    return [Record("blobs", small(arm, seed), result, {}, 1.0, 1.0) for seed, result in enumerate(results)]


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [
        ([100, 110, 120, 90, 100, 100, 105, 95], "holds"),
        ([1000, 100, 3000, 500, 2000, 1000, 4000, 300], "too few runs"),
        ([4000, 4100, 4200, 4000, 3900, 4000, 3950, 4100], "does not hold"),
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
    assert ("never did" in claims[1].measured) == (None in mine)


def test_uniform_against_itself_is_measured_and_not_claimed():
    times = list(range(900, 1000, 10))
    claims = findings(synthetic("uniform", times) + synthetic("uniform again", times)).claims
    assert claims[-1].verdict == "measured"
    assert "1 [1, 1] times sooner" in claims[-1].measured
