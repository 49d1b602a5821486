"""Damaged states of everything that loads one are refused without a trace, or work; planted defects are found."""

import sys
from functools import cache

import numpy as np
import pytest

from fuzz.cases import frozen
from fuzz.catalogue import KINDS, NEEDS, targets
from fuzz.mutations import Mutations, places, singles
from fuzz.runner import plan, run
from fuzz.worker import Job

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")

# Some thousand in all; `make fuzz` runs as many as asked for.
COUNTS = {
    "families": 1800,
    "learners": 600,
    "allocations": 300,
    "presets": 150,
    "meters": 200,
    "buffers": 500,
    "slots": 150,
    "files": 500,
    "loaders": 700,
    "streams": 400,
    "torchrl": 150,
}


def _failures(jobs, seed=0):
    results = dict(run(jobs, seed))
    assert len(results) >= sum(job.last - job.first for job in jobs)
    assert any(verdict.outcome == "accepted" for verdict in results.values())
    assert any(verdict.outcome == "refused" for verdict in results.values())
    return "\n".join(f"{case}: {verdict}" for case, verdict in results.items() if verdict.failed)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_states_are_refused_without_a_trace_or_draw_valid_batches(kind):
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])
    assert not _failures(plan(kind, COUNTS[kind]))


@cache
def _planted():
    """Return the verdicts of all plants but those that take long or kill the process, which share one."""
    names = ["Sound", "Trusting", "Hasty", "Rude", "Sharing", "Chatty", "Greedy", "Foreigner"]
    return dict(run([Job("plants", name, 0, 250) for name in names], seed=0))


def _verdicts(plant):
    return [verdict for case, verdict in _planted().items() if case.split("/")[1] == plant]


@pytest.mark.parametrize(
    ("plant", "outcome"),
    [
        ("Trusting", "accepted, and broken afterwards"),
        ("Hasty", "refused, and changed"),
        ("Rude", "KeyError while loading"),
        ("Sharing", "accepted, and shares memory with the state"),
        ("Chatty", "refused with a message that cannot be printed in a line"),
        ("Greedy", "refused when memory ran out"),
        ("Foreigner", "the state of another object is accepted"),
    ],
)
def test_a_planted_defect_is_found(plant, outcome):
    assert outcome in {verdict.outcome for verdict in _verdicts(plant)}


def test_what_is_sound_passes():
    assert {verdict.outcome for verdict in _verdicts("Sound")} == {"accepted", "refused"}


def test_kernels_check_bounds():
    assert any("index is out of bounds" in verdict.detail for verdict in _verdicts("Trusting"))


@pytest.mark.parametrize(
    ("plant", "outcome", "patience"),
    [("Slow", "hang", 30.0), ("Waiting", "stuck", 3.0), ("Deadly", "killed by signal 11", 30.0)],
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
