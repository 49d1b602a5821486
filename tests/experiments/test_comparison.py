"""Comparing arms: grouping runs, pooling the baseline, and arrivals on curves."""

import math

import numpy as np
import pytest

from lab.comparison import Comparison, Run, find_arrival, find_lasting
from lab.step_search import search_step

ARMS = ("plain", "plain again", "mixture", "other")


def runs(arm, losses, case="adult", length=1):
    return [Run(case, arm, seed, {"loss": loss}, length) for seed, loss in enumerate(losses)]


def compare(*groups, **more):
    return Comparison([run for group in groups for run in group], ARMS, ("plain", "plain again"), **more)


def read_loss(run):
    return run.result["loss"]


def test_the_baseline_is_pooled_and_its_second_arm_is_compared_with_the_first():
    comparison = compare(runs("plain", [1.0, 1.0]), runs("plain again", [4.0, 4.0]), runs("mixture", [1.0, 1.0]))
    assert comparison.ratio("adult", "mixture", read_loss).value == pytest.approx(0.5)
    assert comparison.ratio("adult", "plain again", read_loss).value == pytest.approx(4)
    assert comparison.ratio("adult", "plain again", read_loss, than=("mixture",)).value == pytest.approx(4)
    assert comparison.pool("plain") == ("plain", "plain again")
    assert comparison.pool("plain again") == ("plain again",)


def test_without_runs_on_either_side_nothing_is_compared():
    comparison = compare(runs("plain", [1.0]), runs("mixture", [2.0, None], case="w8a"))
    assert comparison.ratio("adult", "mixture", read_loss) is None
    assert comparison.ratio("w8a", "mixture", read_loss) is None
    assert comparison.ratio("diabetes", "mixture", read_loss) is None
    assert (
        comparison.ratio("w8a", "mixture", read_loss, than=("mixture",)).value == 1
    )  # the run without a loss is left out


def test_runs_have_full_length_unless_a_length_is_chosen():
    comparison = compare(runs("plain", [1.0], length=10), runs("mixture", [2.0], length=5), runs("other", [3.0], "w8a"))
    assert comparison.cases == ["adult", "w8a"]
    assert comparison.arms == ["plain", "mixture", "other"]
    assert (comparison.arms_of("adult"), comparison.arms_of("w8a")) == (["plain"], ["other"])
    assert comparison.count("adult", "plain", "mixture") == 1
    assert comparison.ratio("adult", "mixture", read_loss, length=5).value == pytest.approx(2)
    assert [run.length for run in comparison.select_all("mixture")] == [5]
    assert comparison.lengths("adult", "mixture") == [5]
    assert compare(runs("plain", [1.0], length=10), lengths={"adult": 20}).arms_of("adult") == []


def test_seeds_without_runs_of_an_arm_are_empty():
    comparison = compare(runs("plain", [1.0, 2.0]), runs("mixture", [3.0]))
    found = comparison.by_seed("adult", "mixture", "plain")
    assert {seed: [run.arm for run in group] for seed, group in found.items()} == {
        0: ["mixture", "plain"],
        1: ["plain"],
    }
    assert comparison.by_seed("adult", "mixture")[1] == []


@pytest.mark.parametrize(
    ("values", "first", "arrival"),
    [
        ([9.0, 5.0, 1.0], 2, 2.5),
        ([9.0, 2.0, 4.0, 1.0], 3, 3 + 1 / 3),
        ([9.0, 5.0, 4.0], None, None),
        ([2.0, 1.0, 1.0], 0, 1.0),
        ([math.nan, math.inf, 3.0], 2, None),  # from infinity there is no line
    ],
)
def test_a_level_is_reached_when_it_is_kept(values, first, arrival):
    assert find_lasting(np.array(values), 3.0) == first
    if arrival is not None or first is None:
        times = np.arange(1.0, len(values) + 1)
        assert find_arrival(times, np.array(values), 3.0) == (None if arrival is None else pytest.approx(arrival))


@pytest.mark.parametrize(("distances", "within"), [((1.0,), 0.5), ((1.0, 0.5), 0.25)])
def test_a_search_is_as_fine_as_its_last_distance_and_keeps_to_its_limit(distances, within):
    for best in (-5.2, 0.3, 5.7):
        found, tried = search_step(lambda e: (e - best) ** 2, (-1.0, 0.0, 1.0), distances, 6.0)  # noqa: B023
        assert abs(found - best) <= within
        assert tried[found] == min(tried.values())
    found, tried = search_step(lambda e: -e, (0.0,), distances, 6.0)
    assert (found, max(tried)) == (6.0, 6.0)
