"""What is said of networks, from records that are made up: every verdict both ways."""

import math
import re

import numpy as np
import pytest

from lab.experiments.networks.findings import findings
from lab.experiments.networks.table import Table, _measure_saving
from lab.experiments.networks.tasks import (
    AGAIN,
    ALWAYS,
    ALWAYS_CROSS,
    ALWAYS_ON,
    BALANCED,
    BASELINES,
    CROSS,
    LABELS,
    LARGER,
    MIXTURES,
    MNIST_TASKS,
    OTHER_TASKS,
    RARE,
    RESHUFFLING,
    TASKS,
)
from lab.reproduce.records import Record

SGD = "MLP, imbalanced, SGD"


def record(config, result):
    return Record("mnist", config, result, {}, 1.0, 1.0)


def ended(task, arm, tests, *, train=None, half=False, gain=2.0, signal=0.05):
    """Runs of an arm that end at these held-out losses, on seeds 0, 1, ..."""
    epochs = TASKS[task].epochs / (2 if half else 1)
    same = {"part": "test", "task": task, "arm": arm, "epochs": epochs, "step": 0.0}
    made = []
    for seed, test in enumerate(tests):
        last = test if train is None or test is None else train
        course = [8.0, 4.0, 2.0, 1.5, 1.0] if last is None else [last * factor for factor in (8.0, 4.0, 2.0, 1.5, 1.0)]
        result = {
            "train": last,
            "test": test,
            "accuracy": 0.9,
            "precision": None if test is None or TASKS[task].data not in ("covtype", "kdd_bio") else 1 - test / 10,
            "evaluations": [10, 20, 30, 40, 50],
            "losses": course,
            "held": course,
            "gains": [1.0, 1.0, gain, gain, gain],
            "signals": [signal, signal, signal, None, signal],
        }
        made.append(record({**same, "seed": seed}, result))
    return made


def around(middle, spread=0.02, count=8, seed=0):
    return (middle * np.exp(spread * np.random.default_rng(seed).normal(size=count))).tolist()


def baselines(names, **more):
    return [
        r
        for name in names
        for arm, seed in ((RESHUFFLING, 1), (AGAIN, 2))
        for r in ended(name, arm, around(1.0, seed=seed), **more)
    ]


def images(level=1.0, other=None, **more):
    """All of MNIST, all mixtures at one level; `other` is the level of one of them on one task."""
    made = baselines(MNIST_TASKS, **more)
    for name in MNIST_TASKS:
        for arm in (*MIXTURES, *ALWAYS_ON):
            at = other if other and (name, arm) == (SGD, LABELS) else level
            made += ended(name, arm, around(at, seed=3), **more)
    return made


def claim(records, part):
    (found,) = [claim for claim in findings(records).claims if part in claim.paper]
    return found


def verdict(records, part):
    return claim(records, part).verdict


def test_the_baseline_is_both_arms_of_reshuffling_and_chance_is_one_beside_the_other():
    table = Table(ended(SGD, RESHUFFLING, [1.0, 1.0]) + ended(SGD, AGAIN, [4.0, 4.0]) + ended(SGD, CROSS, [1.0, 1.0]))
    assert table.relative(SGD, CROSS, "test").value == pytest.approx(0.5)
    assert table.relative(SGD, AGAIN, "test").value == pytest.approx(4)
    assert table.relative(SGD, LABELS, "test") is None
    assert table.relative("next word", CROSS, "test") is None
    assert table.arms(SGD) == [RESHUFFLING, AGAIN, CROSS]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (images(), "holds"),
        (images(0.5), "holds"),
        (images(1.0, other=1.2), "holds in part"),
        (images(1.0, other=1.07), "holds in part"),  # within the limit, and worse for sure
        (images(1.3), "does not hold"),
        ([r for r in images() if r.config["seed"] < 4], "too few runs"),
        ([r for r in images() if r.config["task"] != SGD], "too few runs"),
    ],
)
def test_no_mixture_may_be_worse_by_more_than_a_tenth(records, expected):
    assert verdict(records, "not worse than reshuffling") == expected


def test_what_is_worse_for_sure_is_named():
    said = claim(images(1.0, other=1.2), "not worse than reshuffling").measured
    assert f"worse for sure, all of them looked at together: {LABELS} ({SGD}); lower bounds above one" in said
    assert f"chance alone makes 0.4: {LABELS} ({SGD})." in said
    assert said.startswith("15 of 16 upper bounds are (of reshuffling beside itself,")
    assert "8 of 8)" in said
    assert f"Geometric mean over tasks: {LABELS} 1.0" in said


def test_one_of_many_that_seems_worse_by_chance_is_named_and_no_verdict():
    """A lower bound above one by a hair: of 16, one arm in three experiments with nothing in them has that."""
    records = images(1.0, other=1.042)
    said = claim(records, "not worse than reshuffling")
    assert Table(records).relative(SGD, LABELS, "test").low > 1
    assert f"together: none; lower bounds above one, each for itself, of which chance alone makes 0.4: {LABELS}" in (
        said.measured
    )
    assert said.verdict == "holds"


@pytest.mark.parametrize(
    ("larger", "pays", "gain", "expected"),
    [
        (1.0, 0.7, 2.0, "holds"),
        (0.6, 0.7, 2.0, "holds in part"),
        (0.6, 0.7, 1.1, "holds"),
        (1.0, 1.0, 2.0, "holds in part"),
    ],
)
def test_gain_and_larger_batches_foretell_ties_and_what_pays(larger, pays, gain, expected):
    records = images(gain=gain) + [r for r in rare() if r.config["arm"] != LARGER]
    records += [r for name in MNIST_TASKS for r in ended(name, LARGER, around(larger, seed=4))]
    records += ended(RARE, LARGER, around(pays, seed=5))
    found = claim(records, "Gain and larger batches")
    assert found.verdict == expected
    table = Table(records)
    assert table.expected(RARE, ALWAYS_CROSS) == pytest.approx(pays ** (math.log(5) / math.log(4)), rel=0.03)
    assert table.expected("next word", CROSS) is None
    assert verdict([r for r in records if r.config["task"] != RARE], "Gain and larger batches") == "too few runs"


def test_what_mixtures_do_that_never_stand_aside_is_told_beside_them():
    cautious = [r for r in images() if r.config["arm"] not in ALWAYS_ON]
    records = cautious + [r for name in MNIST_TASKS for r in ended(name, ALWAYS, around(1.5, seed=4), train=0.5)]
    found = claim(records, "always on, from the first batch")
    assert found.measured.startswith("Held-out: 0 of 8 upper bounds are at most 1.1; worse for sure, all")
    assert re.search(
        rf"over tasks: {ALWAYS} 1\.[45].* Training: Geometric mean over tasks: {ALWAYS} 0\.[45]", found.measured
    )
    assert re.search(rf"{SGD}: {ALWAYS} 1\.[45]", found.measured)
    assert found.verdict == "measured"
    assert verdict(records, "not worse than reshuffling") == "holds"  # which is of what loaders do unless told
    assert not [c for c in findings(cautious).claims if "from the first batch" in c.paper]


@pytest.mark.parametrize(("gain", "played"), [(1.0, 0), (1.2, 16)])
def test_it_is_said_where_the_mixture_was_played(gain, played):
    said = claim(images(gain=gain), "not worse than reshuffling").measured
    assert f"from beginning to end, and has a gain above 1.01: {played} of {played}." in said


def test_what_diverged_is_said_and_no_number_made_up():
    records = images() + ended(SGD, LABELS, [None])
    said = claim(records, "not worse than reshuffling")
    assert f"{LABELS} diverged" in said.measured
    assert said.verdict == "holds in part"
    assert "nan" not in " ".join(c.measured for c in findings(records).claims)


@pytest.mark.parametrize(
    ("train", "larger", "quiet", "expected"),
    [
        (1 / 3, {"held": 1.0, "train": 0.2}, False, "holds"),  # less noise, and nothing for points that are held out
        (1 / 3, {"held": 0.8, "train": 0.2}, False, "holds in part"),
        (1 / 3, {"held": 1.0, "train": 1 / 3}, False, "holds in part"),
        (1.0, {"held": 0.8, "train": 0.8}, False, "holds"),  # near enough to follow
        (1.0, {"held": 1.0, "train": 0.8}, False, "holds in part"),
        (1.0, {"held": 1.0, "train": 1.0}, True, "holds"),  # no noise to take away
        (1.0, {"held": 1.0, "train": 0.8}, True, "holds in part"),
    ],
)
def test_noise_and_the_way_to_the_held_out_loss_tell_what_larger_batches_do(train, larger, quiet, expected):
    records = images(train=train, signal=0.99 if quiet else 0.05) + rare()
    for name in MNIST_TASKS:
        records += ended(name, LARGER, around(larger["held"], seed=4), train=larger["train"])
    found = claim(records, "The noise check tells why where")
    assert found.verdict == expected
    assert f"held-out loss {1 / train:.2g} times the training loss" in found.measured
    assert verdict([r for r in records if r.config["task"] != RARE], "The noise check tells why") == "too few runs"
    few = [r for r in records if r.config["arm"] != LARGER or r.config["seed"] < 2]
    assert verdict(few, "The noise check tells why") == "too few runs"


@pytest.mark.parametrize(("signal", "expected"), [(0.99, "holds"), (0.05, "does not hold"), (0.0, "does not hold")])
def test_the_noise_check_is_read_at_the_end_of_runs(signal, expected):
    found = claim(images(signal=signal), "noise check alone")
    assert found.verdict == expected
    assert ("all noise" in found.measured) == (signal == 0)
    table = Table(images(signal=0.25))
    assert table.noise(SGD, *BASELINES)[0] == pytest.approx(3)
    assert math.isnan(table.noise(SGD, *BASELINES)[3])  # no pairs in that stretch


def rare(cross=0.6, balanced=0.9, half=0.9, count=8):
    made = baselines([RARE])
    made += ended(RARE, CROSS, around(cross, seed=3, count=count), gain=5.0)
    made += ended(RARE, ALWAYS_CROSS, around(cross, seed=3, count=count), gain=5.0)
    made += ended(RARE, BALANCED, around(balanced, seed=4))
    made += ended(RARE, LARGER, around(0.7, seed=5))
    return made + (ended(RARE, CROSS, around(half, seed=6), half=True) if half else [])


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (rare(), "holds"),
        (rare(cross=0.9, balanced=1.2), "holds in part"),  # ahead of both, but not by what is asked
        (rare(balanced=0.5), "holds in part"),
        (rare(cross=1.0), "does not hold"),
        (rare(count=5), "too few runs"),
        ([r for r in rare() if r.config["arm"] != BALANCED], "holds in part"),
    ],
)
def test_the_rare_class_has_to_pay_beside_both(records, expected):
    assert verdict(records, "A rare class") == expected


@pytest.mark.parametrize(("half", "expected"), [(0.9, "holds"), (1.1, "does not hold"), (None, "too few runs")])
def test_half_as_many_gradients_have_to_be_enough(half, expected):
    found = claim(rare(half=half), "half as many gradients")
    assert found.verdict == expected
    assert "Gain 5" in found.measured
    assert ("in 8 of 8 runs" in found.measured) == (half == 0.9)


def test_of_all_tasks_tried_those_that_pay_and_those_that_lose_are_named():
    names = list(OTHER_TASKS)
    records = rare() + baselines(names[1:])
    for name in names[1:]:
        records += ended(name, CROSS, around(1.3 if name == "next word" else 1.0, seed=7))
    found = claim(records, "All tasks that were tried")
    assert f"interval below one: {RARE} (of {len(names)})" in found.measured
    assert f"above one for sure: {CROSS} (next word)" in found.measured
    assert found.verdict == "measured"
    records = baselines(names[1:2]) + ended(names[1], CROSS, around(1.0, seed=7))
    assert "below one: none (of 1); above one for sure: none" in claim(records, "All tasks that were tried").measured


@pytest.mark.parametrize(
    ("goal", "losses", "times"),
    [
        (1.0, [4.0, 2.0, 1.0], 1.0),
        (3.0, [4.0, 2.0, 1.0], 2.0),
        (9.0, [4.0, 2.0, 1.0], 3.0),
        (0.5, [4.0, 2.0, 1.0], 0.0),
        (3.0, [2.0, 4.0, 1.0], 30 / (20 + 10 / 3)),  # kept only from then on
    ],
)
def test_a_loss_counts_from_when_it_is_kept(goal, losses, times):
    assert _measure_saving([10, 20, 30], np.array(losses), goal) == pytest.approx(times)


def test_gradients_saved_are_those_of_the_mean_curve():
    table = Table(baselines([SGD]) + ended(SGD, CROSS, [0.5] * 8) + ended(SGD, LABELS, [2.0] * 8))
    times, low, high = table.sooner(SGD, CROSS)
    assert times == pytest.approx(50 / 30, rel=0.05)
    assert low <= times <= high
    assert table.sooner(SGD, LABELS).value == 0
    assert table.sooner("next word", CROSS) is None
    assert table.gain(SGD, CROSS) == pytest.approx(2)
    assert math.isnan(table.gain("next word", CROSS))


def test_findings_can_be_made_while_runs_are_missing():
    everything = images() + rare() + ended(SGD, LARGER, around(1.0))
    for arm in (RESHUFFLING, AGAIN, LABELS, CROSS, LARGER):
        found = findings([r for r in everything if r.config["arm"] != arm])
        for picture in found.pictures:
            assert picture.plot() is not None
    assert findings([]).claims == []
    assert findings([]).pictures == []


def test_the_figures_show_tasks_losses_gain_and_noise():
    found = findings(images() + rare() + ended("next word", CROSS, [1.0, None]) + baselines(["next word"]))
    curves, held, unequal, beside = (picture.plot() for picture in found.pictures)
    assert (
        [panel.get_title() for panel in curves.axes] == [panel.get_title() for panel in held.axes] == list(MNIST_TASKS)
    )
    assert (curves.axes[0].get_ylabel(), held.axes[0].get_ylabel()) == ("training loss", "held-out loss")
    assert len(unequal.axes[0].lines) == 5  # reshuffling, cross, always on, class-balanced, and the dot of half a run
    left, middle, right = beside.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [*MNIST_TASKS, RARE, "next word"]
    assert middle.get_xlabel() == "gain"
    assert len(right.lines) == len(MNIST_TASKS) + 2 + 1
    beside.canvas.draw()


def test_settings_tell_whether_steps_were_searched():
    assert "one step for all" in claim(images(), "not worse").settings
    tuned = record({"part": "tune", "task": SGD, "arm": CROSS, "epochs": 4}, {"best": 0.0, "tried": {}})
    assert "own best step on other seeds" in claim([*images(), tuned], "not worse").settings


def test_searches_that_ended_at_the_far_end_are_named():
    far = {"part": "tune", "task": SGD, "arm": CROSS, "epochs": 4}
    notes = findings([record(far, {"best": -6.0, "tried": {}})]).notes
    assert f"Best at the far end of the steps tried: {CROSS} ({SGD})." in notes
