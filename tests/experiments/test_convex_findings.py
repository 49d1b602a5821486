"""What is said of the convex experiment, from records that are made up: every verdict both ways."""

import math

import numpy as np
import pytest

from lab.experiments.convex.arms import (
    AGAIN,
    ARMS,
    CROSS,
    CROSS_NEYMAN,
    DEFAULT,
    MIXTURE,
    ONCE,
    PROPORTIONAL,
    RESHUFFLING,
)
from lab.experiments.convex.comparison import ConvexComparison, _interpolate_epochs, combine_tasks
from lab.experiments.convex.findings import findings, list_facts
from lab.experiments.convex.protocol import BATCH_SIZES
from lab.experiments.convex.tasks import SIX_TASKS, TASKS
from lab.reproduce.records import Record
from support.readings import read_intervals, read_numbers
from varmix.meter import Interval

# Claims by a key word of their names.
MIXTURE_CLAIM, CROSS_CLAIM, ARRIVALS, SAVINGS = "six sets", "by norms", "Arrival", "Fewer gradients"
SIZES, METER, CONSTRUCTORS = ": static", "meter", "norms once"
REPLACEMENT, CHANCE, DIGITS = "uniform", "A/A", ": digits"
ALWAYS_WORSE, DEFAULT_WORSE = "Always on, worse", "By default, worse"


def record(config, result):
    return Record("convex", config, result, {}, 1.0, 1.0)


def ended(task, arm, ends, *, batch=32, epochs=None, gain=3.0):
    """Runs of an arm that end at these excesses, on seeds 0, 1, ..."""
    same = {"part": "test", "task": task, "batch": batch, "arm": arm, "step": 0.0}
    same["epochs"] = TASKS[task].epochs if epochs is None else epochs
    return [
        record(
            {**same, "seed": seed},
            {
                "excess": end,
                "early_gain": gain,
                "gain": gain,
                "evaluations": [0, 50, 100],
                "excesses": [9.0, None if end is None else 2 * end, end],
            },
        )
        for seed, end in enumerate(ends)
    ]


def around(middle, spread=0.2, count=8, seed=0):
    return (middle * np.exp(spread * np.random.default_rng(seed).normal(size=count))).tolist()


def baselines(names=SIX_TASKS, batch=32):
    return [
        r
        for name in names
        for arm, seed in ((RESHUFFLING, 1), (AGAIN, 2))
        for r in ended(name, arm, around(1.0, seed=seed), batch=batch)
    ]


def claims(records, part):
    return [claim for claim in findings(records).claims if part in claim.name]


def verdict(records, part):
    (claim,) = claims(records, part)
    return claim.verdict


def test_the_baseline_is_both_arms_of_reshuffling_and_chance_is_one_beside_the_other():
    records = (
        ended("w8a", RESHUFFLING, [1.0, 1.0]) + ended("w8a", AGAIN, [4.0, 4.0]) + ended("w8a", MIXTURE, [1.0, 1.0])
    )
    comparison = ConvexComparison(records)
    assert comparison.relative("w8a", 32, MIXTURE).value == pytest.approx(0.5)
    assert comparison.relative("w8a", 32, AGAIN).value == pytest.approx(4)
    assert comparison.relative("w8a", 1, MIXTURE) is None
    assert comparison.worst(["w8a"], 32, AGAIN) == pytest.approx(2)
    assert ConvexComparison([]).worst(SIX_TASKS, 32, MIXTURE) == 0


def test_within_a_run_a_level_counts_from_when_it_is_kept():
    records = ended("w8a", RESHUFFLING, [1.0] * 8)
    for arm, end, times in (
        (MIXTURE, 0.9, 1),
        ("uniform", 1.1, 0),
        ("VRB", 0.4, 2),
        (CROSS, None, 0),
    ):
        comparison = ConvexComparison(records + ended("w8a", arm, [end] * 8))
        assert comparison.within("w8a", 32, arm).value == times
        assert comparison.within("w8a", 1, arm) is None
    (claim,) = claims(records + ended("w8a", "VRB", [0.4] * 8), ARRIVALS)
    assert claim.details.columns == ("problem", RESHUFFLING, "VRB")
    assert claim.details.rows == [["w8a", "1x [1, 1]", "2x [2, 2]"]]


def mixture_at(level, others=()):
    made = baselines([*SIX_TASKS, *(name for name, _ in others)])
    for name, excess in (*((name, level) for name in SIX_TASKS), *others):
        made += ended(name, MIXTURE, around(excess) if excess else [*around(1.0, count=7), None])
    return made


def without_w8a(level):
    return [r for r in mixture_at(level) if (r.config["task"], r.config["arm"]) != ("w8a", MIXTURE)]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (mixture_at(0.2), "holds"),
        (mixture_at(0.5), "does not hold"),  # better, but not by what is asked
        (without_w8a(0.1) + ended("w8a", MIXTURE, around(1.0)), "does not hold"),  # low, and not below one on each
        (without_w8a(0.2), "too few runs"),
    ],
)
def test_the_mixture_has_to_win_on_six(records, expected):
    assert verdict(records, MIXTURE_CLAIM) == expected


@pytest.mark.parametrize(("arm", "part"), [(MIXTURE, ALWAYS_WORSE), (DEFAULT, DEFAULT_WORSE)])
@pytest.mark.parametrize(
    ("adult", "expected", "worse"),
    [
        (around(0.9), "holds", 0),
        (around(3.0), "does not hold", 1),
        ([*around(0.5, count=7), None], "does not hold", 1),  # an arm that diverges loses
        (around(1.1, 0.3, seed=1), "holds", 0),  # above one, and not for sure
    ],
)
def test_problems_on_which_an_arm_is_worse_are_counted(arm, part, adult, expected, worse):
    records = baselines(["adult", "w8a"]) + ended("w8a", arm, around(0.5)) + ended("adult", arm, adult)
    (claim,) = claims(records, part)
    assert (claim.verdict, read_numbers(claim.number)) == (expected, [worse, 2])
    assert ("adult" in claim.note) == bool(worse)


def test_the_default_is_put_beside_shuffling_once():
    records = baselines(["adult", "w8a"])
    for task, once, mine, always in (("adult", 0.4, 0.8, 0.7), ("w8a", 1.0, 0.5, 0.4)):
        records += ended(task, ONCE, around(once)) + ended(task, DEFAULT, around(mine))
        records += ended(task, MIXTURE, around(always))
    (claim,) = claims(records, "shuffling once")
    assert (claim.verdict, read_numbers(claim.number)) == ("does not hold", [1, 2])
    assert "adult" in claim.note
    ratios = {row[0]: [read_intervals(cell)[0].value for cell in row[1:]] for row in claim.details.rows}
    assert ratios == {"adult": pytest.approx([2.0, 1.75], rel=0.01), "w8a": pytest.approx([0.5, 0.4], rel=0.01)}
    assert list_facts(records)["beside once"][DEFAULT]["w8a"][0] == pytest.approx(0.5)
    assert claims(baselines(["adult"]) + ended("adult", DEFAULT, around(1.0)), "shuffling once") == []


def test_an_interval_that_is_one_of_many_has_to_be_clear_of_one_by_more():
    assert verdict(baselines(["adult"]) + ended("adult", MIXTURE, around(1.12)), ALWAYS_WORSE) == "does not hold"
    many = baselines([*SIX_TASKS, "adult"]) + ended("adult", MIXTURE, around(1.12))
    many += [r for name in SIX_TASKS for r in ended(name, MIXTURE, around(0.5))]
    assert verdict(many, ALWAYS_WORSE) == "holds"


def test_on_digits_half_is_asked_for_and_needs_no_other_data():
    for level, expected in ((0.3, "holds"), (0.48, "does not hold")):
        found = claims(baselines(["digits, 8"]) + ended("digits, 8", MIXTURE, around(level)), DIGITS)
        assert [claim.verdict for claim in found] == [expected]
    assert claims(mixture_at(0.2), DIGITS) == []


def test_what_diverged_is_said_and_no_number_made_up():
    (claim,) = claims(mixture_at(0.2, [("adult", None)]), MIXTURE_CLAIM)
    assert ["adult", "diverged"] in claim.details.rows
    (claim,) = claims(mixture_at(None), MIXTURE_CLAIM)
    assert (claim.verdict, claim.number) == ("does not hold", "diverged")
    cells = [cell for _, cell in claim.details.rows]
    assert cells == ["diverged"] * (len(SIX_TASKS) + 1)  # every task, and the mean


def tuned(arm, score, names=SIX_TASKS):
    configs = [{"part": "tune", "task": t, "batch": 32, "arm": arm, "epochs": TASKS[t].epochs} for t in names]
    return [record(c, {"best": 1.0, "tried": {"1.0": score, "0.5": None}}) for c in configs]


def cross_at(level, arm=CROSS, spread=0.2, **more):
    return [r for name in SIX_TASKS for r in ended(name, arm, around(level, spread), **more)]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (cross_at(0.2), "holds"),
        (cross_at(0.28), "does not hold"),
        (cross_at(0.2) + ended("w8a", CROSS, [None], epochs=2), "does not hold"),  # a short run that diverged
        (cross_at(0.1)[:-1] + ended("w8a", CROSS, [2.5]), "does not hold"),  # one run above two
        (cross_at(0.2)[8:], "too few runs"),
    ],
)
def test_cross_refresh_has_to_be_low_and_safe(records, expected):
    assert verdict(baselines() + records, CROSS_CLAIM) == expected


def test_the_default_learner_is_judged_and_the_other_stands_beside_it():
    both = baselines() + cross_at(0.28) + cross_at(0.1, CROSS_NEYMAN)
    (claim,) = claims(both, CROSS_CLAIM)
    assert claim.verdict == "does not hold"
    assert [row[0] for row in claim.details.rows] == [CROSS, CROSS_NEYMAN, RESHUFFLING]
    told = [read_intervals(row[1])[0].value for row in claim.details.rows]
    assert told == pytest.approx([0.28, 0.1, 1.0], rel=0.2)
    assert read_intervals(claim.number)[0].value == pytest.approx(told[0], rel=0.05)


@pytest.mark.parametrize(
    ("ends", "needed"),
    [
        ([8.0, 4.0, 2.0, 1.0, 0.5], 8),
        ([1.0, 0.5, 0.4, 0.3, 0.2], 2),  # the shortest is enough: no fewer were run
        ([8.0, 4.0, 2.0, 1.5, 1.1], math.inf),
        ([8.0, 0.5, 2.0, 1.0, 0.5], 8),  # a longer run that ends above counts
        ([math.inf, 4.0, 1.0, 0.5, 0.5], 6),
        ([math.inf, 0.5, 0.5, 0.5, 0.5], 4),
    ],
)
def test_draws_are_counted_from_where_on_runs_end_at_the_goal(ends, needed):
    assert _interpolate_epochs([2, 4, 6, 8, 10], np.log(ends), 0.0) == pytest.approx(needed)


def lengths(task, ends_by_length, arm=MIXTURE, spread=0.05):
    return [
        r
        for length, end in ends_by_length.items()
        for r in ended(task, arm, around(end, spread, seed=length), epochs=length)
    ]


HALF = {2: 8.0, 4: 2.0, 6: 0.5, 8: 0.25, 10: 0.1}
HALF_OF_FIVE = {1: 2.0, 2: 0.9, 3: 0.5, 4: 0.25, 5: 0.1}
SAVING = [
    r
    for name in ("kegg_undirected", "chest_accel", "california_housing")
    for r in lengths(name, {length: end / 2 for length, end in HALF.items()})
] + lengths("covtype_2v4", HALF_OF_FIVE)


def test_saved_draws_are_those_of_the_mean_curves_and_their_interval_knows_of_both():
    comparison = ConvexComparison(baselines() + SAVING)
    saved = comparison.saved("california_housing", MIXTURE)
    assert saved.low < saved.value < saved.high
    assert saved.value == pytest.approx(2.5, rel=0.1)
    sure = [r for r in SAVING if r.config["task"] == "california_housing"]
    one = ended("california_housing", RESHUFFLING, [1.0] * 8)
    narrow = ConvexComparison(one + sure).saved("california_housing", MIXTURE)
    assert narrow.high - narrow.low < saved.high - saved.low  # a baseline that varies makes it wider


def test_tasks_over_the_same_data_make_a_mean_no_surer():
    one, other = Interval(0.5, 0.4, 0.625), Interval(0.5, 0.4, 0.625)
    alike = combine_tasks({"adult": one, "adult, hours": other})
    assert alike == pytest.approx(one)
    apart = combine_tasks({"adult": one, "w8a": other})
    assert apart.value == pytest.approx(0.5)
    assert math.log(apart.high / apart.low) == pytest.approx(math.log(0.625 / 0.4) / math.sqrt(2))
    assert combine_tasks({"adult": one, "w8a": Interval(math.inf, 0.0, math.inf)}).value == math.inf


def test_seeds_are_matched_by_their_number_where_runs_are_missing():
    steep = {2: [1.0, 100.0], 10: [0.01, 1.0]}
    whole = [r for length, ends in steep.items() for r in ended("w8a", MIXTURE, [*ends, 1e6], epochs=length)]
    theirs = ended("w8a", RESHUFFLING, [1.0, 1.0])
    gone = [r for r in whole if r.config["seed"] != 2 or r.config["epochs"] == 2]
    kept = [r for r in whole if r.config["seed"] != 2]
    assert ConvexComparison(theirs + gone[::-1]).saved("w8a", MIXTURE) == ConvexComparison(theirs + kept).saved(
        "w8a", MIXTURE
    )


@pytest.mark.parametrize("dropped", ["full length", "all but one length", "baseline", "finite baseline"])
def test_without_enough_runs_nothing_is_said_to_be_saved(dropped):
    mine, theirs = lengths("w8a", HALF), ended("w8a", RESHUFFLING, [1.0, 1.0])
    if dropped == "full length":
        mine = [r for r in mine if r.config["epochs"] < 10]
    elif dropped == "all but one length":
        mine = [r for r in mine if r.config["epochs"] == 10]
    else:
        theirs = [] if dropped == "baseline" else ended("w8a", RESHUFFLING, [1.0, None])
    assert ConvexComparison(mine + theirs).saved("w8a", MIXTURE) is None


SLOW = lengths("kegg_undirected", {2: 8.0, 4: 4.0, 6: 3.0, 8: 2.5, 10: 2.0})


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (SAVING, "holds"),
        ([r for r in SAVING if r.config["task"] != "kegg_undirected"], "too few runs"),
        (SLOW, "does not hold"),
    ],
)
def test_saved_draws_are_claimed_of_four_tasks_only(records, expected):
    assert verdict(baselines() + records, SAVINGS) == expected


def test_an_arm_that_never_gets_there_is_below_one_and_breaks_nothing():
    (claim,) = claims(baselines() + SLOW, SAVINGS)
    assert ["kegg_undirected", "1.6", "<1x [<1, <1]"] in claim.details.rows


@pytest.mark.parametrize(("level", "expected"), [(1.0, "holds"), (0.5, "does not hold"), (1.8, "does not hold")])
def test_little_gained_means_a_mean_around_one(level, expected):
    records = baselines() + [r for n in SIX_TASKS for r in ended(n, PROPORTIONAL, around(level, 0.1, seed=len(n)))]
    assert verdict(records, SIZES) == expected
    assert verdict([r for r in records if r.config["task"] != "w8a"], SIZES) == "too few runs"


def metered(power=0.9, noise=0.05, losing=None):
    rng, made = np.random.default_rng(0), baselines()
    for index, name in enumerate(SIX_TASKS):
        for arm, shift in ((MIXTURE, 1.2), (CROSS, 2.0)):
            gain = shift + index
            excess = gain**-power * math.exp(noise * rng.normal())
            ends = losing if losing and (name, arm) == ("w8a", CROSS) else around(excess, 0.05)
            made += ended(name, arm, ends, gain=gain)
    return made


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (metered(), "holds"),
        (metered(power=0.2), "does not hold"),
        (metered(noise=3.0), "does not hold"),
        (metered(losing=[2.0, 2.1, 2.0, 2.1]), "does not hold"),
        (metered(losing=[0.1, 0.1, None]), "does not hold"),  # what diverged has no place on a line, and is a loss
        ([r for r in metered() if r.config["task"] != "w8a"], "too few runs"),
    ],
)
def test_the_meter_has_to_be_right_about_how_much_and_never_to_praise_a_loss(records, expected):
    assert verdict(records, METER) == expected


def test_every_pair_has_its_early_gain_beside_its_outcome():
    (claim,) = claims(metered(losing=[0.1, None]), METER)
    rows = claim.details.rows
    assert len(rows) == 2 * len(SIX_TASKS)
    assert [row[3] for row in rows if row[:2] == ["california_housing", MIXTURE]] == ["1.2"]
    assert [row[3:] for row in rows if row[:2] == ["w8a", CROSS]] == [["7", "diverged"]]


def test_a_mean_over_fewer_tasks_than_others_is_left_out():
    records = mixture_at(0.2) + ended("w8a", "mixture of labels", around(0.5))
    records += [r for name in SIX_TASKS for r in ended(name, "mixture of norms", around(0.6))]
    (claim,) = claims(records, CONSTRUCTORS)
    name, labels, norms = claim.details.rows[-1]
    assert (read_numbers(name), labels) == ([6], "-")
    assert read_intervals(norms)[0].value == pytest.approx(0.6, rel=0.2)


def test_searches_that_ended_far_away_are_named():
    far = {"part": "tune", "task": "w8a", "batch": 1, "arm": "VRB", "epochs": 10}
    notes = findings([record(far, {"best": -9.5, "tried": {"-9.5": 1.0}})]).notes
    (note,) = [note for note in notes if "VRB" in note and "w8a" in note]
    assert read_numbers(note) == [1, 10]  # the batch, and the epochs
    near = findings([record(far, {"best": 0.5, "tried": {"0.5": 1.0}})]).notes
    assert not [note for note in near if "VRB" in note]


@pytest.mark.parametrize("names", [["adult"], ["california_housing"]])
def test_findings_can_be_made_from_any_task_alone(names):
    records = baselines(names) + baselines(names, batch=1)
    for gain, arm in enumerate(ARMS, 1):
        if arm not in (RESHUFFLING, AGAIN):
            ends = around(1 / gain, seed=gain)
            records += [r for name in names for b in BATCH_SIZES for r in ended(name, arm, ends, batch=b, gain=gain)]
    found = findings(records)
    alone = [claim for claim in found.claims if "worse" not in claim.name]  # which is about whatever was run
    assert {claim.verdict for claim in alone} <= {"too few runs", "measured"}
    texts = [cell for c in found.claims for row in (c.details.rows if c.details else []) for cell in (c.number, *row)]
    assert not any("None" in text or "nan" in text for text in texts)
    for picture in found.pictures:
        drawn = picture.plot()
    assert read_numbers(drawn.axes[0].get_title()) == [1]


def test_findings_can_be_made_while_runs_are_missing():
    everything = metered(losing=[0.1, None]) + SAVING + tuned(CROSS, 1.0)
    for arm in (RESHUFFLING, AGAIN, MIXTURE, CROSS):
        found = findings([r for r in everything if r.config["arm"] != arm])
        assert all(picture.plot() is not None for picture in found.pictures)
    assert findings(tuned(MIXTURE, 1.0)).claims == []


def test_the_figures_show_losses_problems_arms_and_the_meter():
    records = metered() + ended("w8a", "mixture of labels", around(0.5))
    records += [r for name in SIX_TASKS for r in ended(name, DEFAULT, around(0.5))]
    losses, ratios, arms = (picture.plot() for picture in findings(records).pictures)
    assert [panel.get_title().split("(")[-1] for panel in losses.axes] == ["california_housing)", "kdd_bio)"]
    shuffled, mixed = losses.axes[0].lines  # nothing was shuffled once
    assert shuffled.get_ydata()[-1] == pytest.approx(1.0, rel=0.3)
    assert mixed.get_ydata()[-1] == pytest.approx(0.5, rel=0.2)
    assert len(losses.axes[0].collections) == 2  # the bands
    assert [label.get_text() for label in ratios.axes[0].get_yticklabels()] == SIX_TASKS
    left, right = arms.axes
    assert [label.get_text() for label in left.get_yticklabels()][:3] == [MIXTURE, DEFAULT, CROSS]
    assert left.get_yticklabels()[-1].get_text().startswith("mixture of labels (of 1")
    assert read_numbers(left.get_title()) == [6]
    ratios.canvas.draw()
    assert "0.2" in [label.get_text() for label in ratios.axes[0].get_xticklabels()]
    assert "gain" in right.get_xlabel()
    assert len(right.lines) == 4  # three arms, and the line of improvement = gain


def test_curves_leave_out_runs_that_diverged():
    records = ended("w8a", RESHUFFLING, [1.0, None]) + ended("w8a", AGAIN, [2.0])
    x, rows = ConvexComparison(records).curve("w8a", (RESHUFFLING, AGAIN))
    assert (x, rows) == ([0, 50, 100], [[9.0, 2.0, 1.0], [9.0, 4.0, 2.0]])
    assert ConvexComparison(records).curve("w8a", (MIXTURE,)) == ([], [])


def test_reshuffling_again_and_the_others_are_measured_and_not_claimed():
    records = baselines() + [r for n in SIX_TASKS for r in ended(n, "uniform", around(3.0))]
    assert verdict(records, REPLACEMENT) == "measured"
    assert verdict(records, CHANCE) == "measured"
