"""Damaged states of everything that loads one are refused without a trace, or work; planted defects are found."""

import sys
from collections import Counter

import numpy as np
import pytest

from fuzz.cases import frozen
from fuzz.catalogue import KINDS, Job, available, targets
from fuzz.mutations import Mutations, places, singles
from fuzz.runner import run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")

# Some thousand in all, those of a line in one process; `make fuzz` runs as many as asked for.
CASES = [
    {"families": 1500},
    {"learners": 450, "allocations": 200, "presets": 100, "meters": 150},
    {"buffers": 400, "slots": 120, "files": 300},
    {"loaders": 600, "streams": 300, "torchrl": 100},
]


@pytest.mark.parametrize("counts", CASES, ids=", ".join)
def test_damaged_states_are_refused_without_a_trace_or_draw_valid_batches(counts):
    jobs = [Job(kind, "*", 0, count) for kind, count in counts.items() if kind in available()]
    if not jobs:
        pytest.skip("PyTorch is missing")
    results = dict(run(jobs, seed=0))
    assert not [f"{case}: {verdict}" for case, verdict in results.items() if verdict.failed]
    found = Counter((case.split("/")[0], verdict.outcome) for case, verdict in results.items())
    for job in jobs:
        assert found[job.kind, "accepted"] + found[job.kind, "refused"] > 0.9 * job.last
        assert found[job.kind, "accepted"] > 0.01 * job.last
        assert found[job.kind, "refused"] > 0.1 * job.last


def test_every_kind_is_tested():
    assert {kind for counts in CASES for kind in counts} == set(KINDS)


def test_planted_defects_are_found_by_kernels_that_check_bounds():
    expected = {
        "Trusting": "accepted, and broken afterwards",
        "Hasty": "refused, and changed",
        "Rude": "KeyError while loading",
        "Sharing": "accepted, and shares memory with the state",
        "Chatty": "refused with a message that cannot be printed in a line",
        "Greedy": "refused when memory ran out",
        "Foreigner": "the state of another object is accepted",
    }
    verdicts = {plant: [] for plant in ("Sound", *expected)}
    for case, verdict in run([Job("plants", plant, 0, 250) for plant in verdicts], seed=0):
        verdicts[case.split("/")[1]].append(verdict)
    outcomes = {plant: {verdict.outcome for verdict in found} for plant, found in verdicts.items()}
    assert outcomes["Sound"] == {"accepted", "refused"}
    assert all(outcome in outcomes[plant] for plant, outcome in expected.items()), outcomes
    assert any("index is out of bounds" in verdict.detail for verdict in verdicts["Trusting"])


@pytest.mark.parametrize(
    ("plant", "outcome", "patience"),
    [("Slow", "hang", 30.0), ("Waiting", "stuck", 2.0), ("Deadly", "killed by signal 11", 30.0)],
)
def test_a_case_that_never_ends_or_kills_the_process_is_named_and_the_others_run(plant, outcome, patience):
    cases = targets("plants")[plant].cases(0)
    guilty = next(number for number in range(1000) if cases.case(number)[1] == "rounds: is 2^31")
    results = dict(run([Job("plants", plant, guilty - 1, guilty + 3)], 0, patience))
    found = {case: verdict.outcome for case, verdict in results.items()}
    assert list(found) == [f"plants/{plant}/{number}" for number in range(guilty - 1, guilty + 3)]
    assert found.pop(f"plants/{plant}/{guilty}") == outcome
    assert set(found.values()) <= {"accepted", "refused"}
    assert results[f"plants/{plant}/{guilty}"].mutation == "rounds: is 2^31"


def test_a_case_is_the_same_in_every_process_and_another_for_another_seed():
    name, state = "a target", {"numbers": np.arange(20.0), "count": 3, "parts": [{"text": "a"}, None]}
    words = [[Mutations(name, state, [], seed).case(number)[1] for number in range(100)] for seed in (0, 0, 1)]
    assert words[0] == words[1] != words[2]
    assert len(set(words[0])) > 90


def test_every_place_of_a_state_is_damaged_in_every_way():
    state = {"numbers": np.arange(20.0), "count": 3, "parts": [{"text": "a"}, None]}
    ways = singles(state)
    seen = {Mutations("a target", state, [], 0).case(number)[1] for number in range(2 * len(ways)) if number % 4 != 3}
    assert seen == set(map(str, ways))
    assert {way.path for way in ways} == {path for path, _ in places(state)}


def test_damaging_a_state_leaves_it_as_it_was():
    state = {"numbers": np.arange(20.0), "flags": np.ones(3, bool), "parts": [{"text": "a"}, (1, 2.0)]}
    before, cases = frozen(state), Mutations("a target", state, [], 0)
    for number in range(2000):
        cases.case(number)
    assert frozen(state) == before
