from dataclasses import asdict, replace

import numpy as np
import pytest

from lab.experiments import regret
from lab.experiments.regret import (
    Problem,
    list_problems,
    make_bounds,
    make_losses,
    make_ratios,
    play_problem,
    summarise_costs,
)
from lab.reproduce.records import Record
from support.readings import read_numbers, read_percentages

BASE = Problem(k=5, c=10.0, mixtures="hot", losses="stationary", rounds=3000, seed=900)


@pytest.mark.parametrize("mixtures", ["blob", "hot", "rand"])
@pytest.mark.parametrize("c", [1.5, 10.0, 50.0])
def test_ratios_are_laws_and_keep_to_c(mixtures, c):
    ratios = make_ratios(replace(BASE, mixtures=mixtures, c=c), np.random.default_rng(0))
    assert ratios.shape == (500, 4)
    assert ratios.mean(axis=0) == pytest.approx(1)
    if mixtures != "blob":
        assert ratios.max() <= c * 1.05


@pytest.mark.parametrize("losses", ["stationary", "switching", "adaptive", "rare", "shrinking"])
def test_squared_losses_are_bounded_by_one(losses):
    rng = np.random.default_rng(0)
    ratios = make_ratios(BASE, rng)
    squares = make_losses(replace(BASE, losses=losses), ratios, rng)
    density = np.linspace(0.1, 2, 500)
    for t in (0, 700, 2999):
        assert squares(t, density).min() >= 0
        assert squares(t, density).max() <= 1
    if losses == "adaptive":
        assert (squares(0, density)[:25] == 1).all()
        assert squares(0, density)[25:].max() <= 0.05


def test_bounds_lie_in_the_unit_interval():
    bounds = make_bounds(make_ratios(BASE, np.random.default_rng(0)), np.random.default_rng(1))
    assert bounds.min() > 0
    assert bounds.max() == 1


def test_the_defaults_need_no_tuning():
    """The limits of `regret.LIMITS` for 3,000 rounds, on problems that are not in its grid."""
    problems = [
        replace(BASE, k=k, mixtures=mixtures, losses=losses)
        for k in (3, 9)
        for mixtures in ("blob", "hot", "rand")
        for losses in ("stationary", "switching", "adaptive", "rare", "shrinking")
    ]
    assert regret.within_limits(3000, summarise_costs(map(play_problem, problems)))


def test_the_restriction_bounds_every_run_by_uniform_over_gamma():
    costs = play_problem(replace(BASE, losses="adaptive", rounds=300))
    assert costs.best <= costs.uniform * (1 + 1e-9)
    assert costs.paid <= costs.uniform / 0.1


@pytest.mark.parametrize("losses", ["stationary", "adaptive"])
@pytest.mark.parametrize("k", [2, 7])
def test_full_information_stays_below_a_twentieth_of_theorem_1(k, losses):
    share = regret.theorem_1_share(replace(BASE, k=k, rounds=500, losses=losses))
    assert 0 <= share <= 0.05


def test_the_grid_has_every_problem_once():
    problems = list(list_problems(100))
    assert len(set(problems)) == len(problems) == 4 * 5 * (1 + 3 + 3)


def record(config):
    return Record("regret", config, regret.run(config), {}, 1.0, 1.0)


def test_findings_compare_with_both_theorems_and_the_limits():
    configs = [
        {"part": "growth", "arm": arm, **asdict(Problem(7, 10.0, "hot", losses, rounds, 5))}
        for arm in regret.ARMS
        for losses in regret.GROWTH_LOSSES
        for rounds in (20, 60)
    ]
    configs += [
        {"part": "grid", "arm": regret.DEFAULT, **asdict(problem)} for problem in list_problems(30, ks=(2,), cs=(10.0,))
    ]
    found = regret.findings([record(config) for config in configs])
    first, long, grid, second = found.claims
    assert ("Theorem 1" in first.name, first.verdict) == (True, "holds")
    assert read_percentages(first.number) == [max(read_percentages(row[2])[0] for row in first.details.rows)]
    assert ("Theorem 2" in second.name, second.verdict) == (True, "measured")
    assert [row[0] for row in second.details.rows] == [regret.PARTIAL, regret.DEFAULT]
    assert (long.verdict, grid.verdict) == ("measured", "measured")  # too short for their limits
    assert read_numbers(grid.settings)[0] == 15  # problems
    figure = found.pictures[0].plot()
    assert [axes.get_title() for axes in figure.axes] == list(regret.GROWTH_LOSSES)


def played(rounds, paid, uniform=1.0, **others):
    config = {"part": "grid", "arm": regret.DEFAULT, **asdict(replace(BASE, rounds=rounds)), **others}
    return Record("regret", config, {"paid": paid, "uniform": uniform, "best": 1.0}, {}, 1, 1)


@pytest.mark.parametrize(
    ("short", "long", "verdict"),
    [(1.05, 1.01, "holds"), (2.0, 1.01, "holds in part"), (1.05, 1.04, "holds in part"), (2.0, 2.0, "does not hold")],
)
def test_the_defaults_have_to_keep_to_their_limits_after_short_and_after_long_runs(short, long, verdict):
    (claim,) = regret.findings([played(3000, short), played(30_000, long)]).claims
    assert claim.verdict == verdict
    assert read_percentages(claim.number) == [pytest.approx(100 * (long - 1))]
    assert [read_numbers(row[2])[0] for row in claim.details.rows] == [short, long]


def test_a_problem_much_worse_than_uniform_breaks_a_limit():
    (claim,) = regret.findings([played(3000, 1.0, uniform=2.0), played(3000, 1.0, uniform=0.5, k=6)]).claims
    assert claim.verdict == "does not hold"


@pytest.mark.parametrize(
    ("rounds", "paid", "verdict"),
    [(100_000, 1.009, "holds"), (100_000, 1.02, "does not hold"), (10_000, 1.0, "measured")],
)
def test_the_regret_of_long_runs_is_judged_by_the_worst_of_them(rounds, paid, verdict):
    both = {
        loss: played(rounds, cost, part="growth", losses=loss) for loss, cost in (("adaptive", paid), ("rare", 9.0))
    }
    steady = played(rounds, 1.0, part="growth", losses="stationary")
    (claim,) = regret.findings([*both.values(), steady]).claims
    assert claim.verdict == verdict
    assert read_percentages(claim.number) == [pytest.approx(100 * (paid - 1))]


def test_a_regret_above_its_bound_breaks_theorem_1():
    (claim,) = regret.findings([played(100, 1e6, part="growth", arm=regret.THEORY)]).claims
    assert claim.verdict == "does not hold"


def test_quick_mode_plays_what_its_verdicts_need():
    configs = [c for c in regret.plan("quick") if c["part"] == "growth"]
    made = [Record("regret", c, {"paid": 1.0, "uniform": 1.0, "best": 1.0}, {}, 1, 1) for c in configs]
    verdicts = {claim.name: claim.verdict for claim in regret.findings(made).claims}
    assert sorted(verdicts.values()) == ["holds", "holds", "measured"]


def test_every_learner_plays_the_same_problem():
    config = {"part": "growth", **asdict(replace(BASE, rounds=20))}
    costs = [regret.run({**config, "arm": arm}) for arm in regret.ARMS]
    assert len({round(cost["uniform"], 12) for cost in costs}) == 1
    assert len({round(cost["paid"], 12) for cost in costs}) == len(costs)
