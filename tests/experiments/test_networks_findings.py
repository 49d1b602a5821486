"""What is said of networks, from records that are made up: every verdict both ways."""

import json
import math

import numpy as np
import pytest

from lab.experiments.networks.comparison import NetworkComparison, _measure_saving
from lab.experiments.networks.findings import findings, list_facts
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
from lab.statistics import combine_ratios
from support.readings import read_intervals, read_numbers, read_shares

SGD = "MLP, imbalanced, SGD"
# Claims by what their names begin with.
NOT_WORSE, ALWAYS_ON_CLAIM, ALL_TASKS = "MNIST: not worse", "MNIST: mixtures that are always on", "Other networks"
GAIN_TELLS, NOISE_TELLS, NOISE_ALONE = "Gain predicts", "Noise tells", "MNIST: too little noise"
RARE_PAYS, HALF_IS_ENOUGH = "Rare class: beats", "Rare class: half"
TRAINING, SAVED, CHANCE = "MNIST: training loss", "MNIST: gradients saved", "Networks: reshuffling"


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


def claim(records, name):
    (found,) = [claim for claim in findings(records).claims if claim.name.startswith(name)]
    return found


def verdict(records, name):
    return claim(records, name).verdict


def rows(found):
    """The rows of a claim's details, each from its headings to its cells."""
    return [dict(zip(found.details.columns, row, strict=True)) for row in found.details.rows]


def column(found, name):
    """The values of a column of intervals in a claim's details."""
    return [interval.value for row in rows(found) for interval in read_intervals(row[name])]


def test_the_baseline_is_both_arms_of_reshuffling_and_chance_is_one_beside_the_other():
    comparison = NetworkComparison(
        ended(SGD, RESHUFFLING, [1.0, 1.0]) + ended(SGD, AGAIN, [4.0, 4.0]) + ended(SGD, CROSS, [1.0, 1.0])
    )
    assert comparison.relative(SGD, CROSS, "test").value == pytest.approx(0.5)
    assert comparison.relative(SGD, AGAIN, "test").value == pytest.approx(4)
    assert comparison.relative(SGD, LABELS, "test") is None
    assert comparison.relative("next word", CROSS, "test") is None
    assert comparison.arms_of(SGD) == [RESHUFFLING, AGAIN, CROSS]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (images(), "holds"),
        (images(1.0, other=1.2), "holds in part"),
        (images(1.0, other=1.07), "holds in part"),  # within the limit, and worse for sure
        (images(1.3), "does not hold"),
        ([r for r in images() if r.config["seed"] < 4], "too few runs"),
    ],
)
def test_no_mixture_may_be_worse_by_more_than_a_tenth(records, expected):
    assert verdict(records, NOT_WORSE) == expected


def test_what_is_worse_for_sure_is_named():
    records = images(1.0, other=1.2)
    found = claim(records, NOT_WORSE)
    assert found.note.count(f"{LABELS} ({SGD})") == 2  # looked at together with all the others, and for itself
    assert 0.4 in read_numbers(found.note)  # of those for themselves, by chance alone
    assert read_shares(found.number) == [(15, 16)]
    assert read_shares(found.note)[0] == (8, 8)  # of reshuffling beside itself
    comparison = NetworkComparison(records)
    ratios = [comparison.relative(task, LABELS, "test") for task in MNIST_TASKS]
    *each, means = rows(found)
    assert [row["network"] for row in each] == list(MNIST_TASKS)
    assert [row[LABELS] for row in each] == list(map(str, ratios))
    assert means[LABELS] == str(combine_ratios(ratios))


def test_one_of_many_that_seems_worse_by_chance_is_named_and_no_verdict():
    """A lower bound above one by a hair: of 16, one arm in three experiments with nothing in them has that."""
    records = images(1.0, other=1.042)
    said = claim(records, NOT_WORSE)
    assert NetworkComparison(records).relative(SGD, LABELS, "test").low > 1
    assert said.note.count(f"{LABELS} ({SGD})") == 1  # for itself, and not together with all the others
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
def test_gain_and_larger_batches_predict_ties_and_what_pays(larger, pays, gain, expected):
    records = images(gain=gain) + [r for r in rare() if r.config["arm"] != LARGER]
    records += [r for name in MNIST_TASKS for r in ended(name, LARGER, around(larger, seed=4))]
    records += ended(RARE, LARGER, around(pays, seed=5))
    found = claim(records, GAIN_TELLS)
    assert found.verdict == expected
    right, known = read_shares(found.number.replace("predicted", ""))[0]
    assert {"holds": right == known, "holds in part": 0 < right < known}[expected]
    comparison = NetworkComparison(records)
    assert comparison.expected(RARE, ALWAYS_CROSS) == pytest.approx(pays ** (math.log(5) / math.log(4)), rel=0.03)
    assert comparison.expected("next word", CROSS) is None


def test_what_larger_batches_do_is_not_judged_by_few_runs_or_without_a_task_that_pays():
    records = images() + rare() + [r for name in MNIST_TASKS for r in ended(name, LARGER, around(1.0, seed=4))]
    few = [r for r in records if r.config["arm"] != LARGER or r.config["seed"] < 2]
    for lacking in (few, [r for r in records if r.config["task"] != RARE]):
        assert [verdict(lacking, name) for name in (GAIN_TELLS, NOISE_TELLS)] == ["too few runs"] * 2


def test_what_mixtures_do_that_never_stand_aside_is_told_beside_them():
    cautious = [r for r in images() if r.config["arm"] not in ALWAYS_ON]
    records = cautious + [r for name in MNIST_TASKS for r in ended(name, ALWAYS, around(1.5, seed=4), train=0.5)]
    found = claim(records, ALWAYS_ON_CLAIM)
    assert read_shares(found.number) == [(0, 8)]
    assert column(found, f"{ALWAYS}: held-out") == pytest.approx([1.5] * 9, rel=0.1)  # every task, and the mean
    assert column(found, f"{ALWAYS}: training") == pytest.approx([0.5] * 9, rel=0.1)
    assert found.details.rows[-1][0] == "geometric mean"
    (told,) = [row for row in rows(found) if row["network"] == SGD]
    assert told[f"{ALWAYS}: held-out"] == str(NetworkComparison(records).relative(SGD, ALWAYS, "test"))
    assert found.verdict == "measured"
    assert verdict(records, NOT_WORSE) == "holds"  # which is of what loaders do unless told
    assert not [c for c in findings(cautious).claims if c.name.startswith(ALWAYS_ON_CLAIM)]


@pytest.mark.parametrize(("gain", "played"), [(1.0, 0), (1.2, 16)])
def test_it_is_said_where_the_mixture_was_played(gain, played):
    assert read_shares(claim(images(gain=gain), NOT_WORSE).note)[-1] == (played, played)


def test_what_diverged_is_said_and_no_number_made_up():
    records = images() + ended(SGD, LABELS, [None])
    said = claim(records, NOT_WORSE)
    assert {row["network"]: row[LABELS] for row in rows(said)}[SGD] == "diverged"
    assert said.verdict == "holds in part"
    assert claim(records, TRAINING).number.endswith("to diverged")
    cells = [cell for c in findings(records).claims for row in ((c.number, c.note), *c.details.rows) for cell in row]
    assert not any("nan" in cell for cell in cells)


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
    found = claim(records, NOISE_TELLS)
    assert found.verdict == expected
    first, *_ = rows(found)
    assert first["noise, last fifth"] == ("0.01" if quiet else "19")
    assert float(first["held-out / training loss"]) == round(1 / train)


@pytest.mark.parametrize(("signal", "expected"), [(0.99, "holds"), (0.05, "does not hold"), (0.0, "does not hold")])
def test_the_noise_check_is_read_at_the_end_of_runs(signal, expected):
    found = claim(images(signal=signal), NOISE_ALONE)
    assert found.verdict == expected
    assert read_shares(found.number) == [(8 if expected == "holds" else 0, 8)]
    assert (set(found.details.rows[0][1:]) == {"all noise"}) == (signal == 0)  # no number for what is all noise
    comparison = NetworkComparison(images(signal=0.25))
    assert comparison.noise(SGD, *BASELINES)[0] == pytest.approx(3)
    assert math.isnan(comparison.noise(SGD, *BASELINES)[3])  # no pairs in that stretch


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
    assert verdict(records, RARE_PAYS) == expected


@pytest.mark.parametrize(("half", "expected"), [(0.9, "holds"), (1.1, "does not hold"), (None, "too few runs")])
def test_half_as_many_gradients_have_to_be_enough(half, expected):
    found = claim(rare(half=half), HALF_IS_ENOUGH)
    assert found.verdict == expected
    told = dict(found.details.rows)
    assert told["gain over the last three fifths of a run"] == "5"
    assert told["of these runs below reshuffling's mean"] == {0.9: "8 of 8", 1.1: "0 of 8", None: "-"}[half]
    assert (found.number == "not run") == (half is None)


def test_of_all_tasks_tried_those_that_pay_and_those_that_lose_are_named():
    names = list(OTHER_TASKS)
    records = rare() + baselines(names[1:])
    for name in names[1:]:
        records += ended(name, CROSS, around(1.3 if name == "next word" else 1.0, seed=7))
    found = claim(records, ALL_TASKS)
    assert read_shares(found.number) == [(1, len(names))]
    pays, loses = found.note.split("Above one")
    assert RARE in pays
    assert f"{CROSS} (next word)" in loses
    assert found.verdict == "measured"
    assert [row["task"] for row in rows(found) if row["arm"] == CROSS] == names
    records = baselines(names[1:2]) + ended(names[1], CROSS, around(1.0, seed=7))
    found = claim(records, ALL_TASKS)
    assert read_shares(found.number) == [(0, 1)]
    assert names[1] not in found.note


def test_training_losses_gradients_saved_and_chance_are_told_for_every_network():
    records = images(0.8)
    comparison = NetworkComparison(records)
    for name, suffix, number in ((TRAINING, "", comparison.relative), (SAVED, ": times fewer", comparison.sooner)):
        found = claim(records, name)
        told = {row["network"]: row[f"{CROSS}{suffix}"] for row in rows(found)}
        what = ("train",) if name == TRAINING else ()
        assert told == {task: str(number(task, CROSS, *what)) for task in MNIST_TASKS}
        assert found.verdict == "measured"
    chance = claim(records, CHANCE)
    assert [row["task"] for row in rows(chance)] == list(MNIST_TASKS)
    farthest = max(column(chance, "held-out loss"), key=lambda ratio: abs(math.log(ratio)))
    assert read_intervals(chance.number)[0].value == farthest


def test_facts_are_held_out_losses_by_arm_and_task_without_those_that_diverged():
    records = images() + rare() + baselines(["next word"]) + ended("next word", CROSS, [1.0, None])
    held = json.loads(json.dumps(list_facts(records)["held_out"], allow_nan=False))
    comparison = NetworkComparison(records)
    assert list(held[CROSS]) == [*MNIST_TASKS, RARE]
    assert held[CROSS][RARE] == list(comparison.relative(RARE, CROSS, "test"))
    assert RESHUFFLING not in held
    assert list_facts([]) == {"held_out": {}}


def test_what_is_said_of_the_rare_class_has_a_row_for_every_arm():
    found = claim(rare(), RARE_PAYS)
    assert [row[0] for row in found.details.rows] == [CROSS, ALWAYS_CROSS, BALANCED, f"{CROSS}, beside {BALANCED}"]
    assert read_intervals(found.number)[0].value == column(found, "held-out loss")[0]


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
    comparison = NetworkComparison(baselines([SGD]) + ended(SGD, CROSS, [0.5] * 8) + ended(SGD, LABELS, [2.0] * 8))
    times, low, high = comparison.sooner(SGD, CROSS)
    assert times == pytest.approx(50 / 30, rel=0.05)
    assert low <= times <= high
    assert comparison.sooner(SGD, LABELS).value == 0
    assert comparison.sooner("next word", CROSS) is None
    assert comparison.gain(SGD, CROSS) == pytest.approx(2)
    assert math.isnan(comparison.gain("next word", CROSS))


def test_findings_can_be_made_while_runs_are_missing():
    everything = images() + rare() + ended(SGD, LARGER, around(1.0))
    for arm in (RESHUFFLING, CROSS, LARGER):
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


def test_settings_tell_the_seeds():
    assert read_numbers(claim(images(), NOT_WORSE).settings) == [8]


def test_searches_that_ended_at_the_far_end_are_named():
    far = {"part": "tune", "task": SGD, "arm": CROSS, "epochs": 4}
    far_notes, near_notes = (findings([record(far, {"best": e, "tried": {}})]).notes for e in (-6.0, -1.0))
    assert f"{CROSS} ({SGD})" in far_notes[-1]
    assert f"{CROSS} ({SGD})" not in " ".join(near_notes)
