from dataclasses import replace

import numpy as np
import pytest

from lab.comparison import find_lasting
from lab.experiments.kdpp import protocol
from lab.experiments.kdpp.fair import Fair, fair_verdict, judge_moments
from lab.experiments.kdpp.findings import findings
from lab.experiments.kdpp.printed import describe_effect, find_arrival, judge_speedup, until_final
from lab.experiments.kdpp.protocol import (
    AGAIN,
    BEST_ARM,
    FAIR_ARMS,
    ITERATIONS,
    PACES,
    PRINTED_ARMS,
    best_paces,
    plan,
    run,
    then,
)
from lab.experiments.kdpp.regression import (
    ARMS,
    ERROR_LEVELS,
    MEANS,
    batch_gradients,
    make_regression,
    run_descent,
)
from lab.reproduce.records import Record
from support.readings import read_intervals, read_shares
from varmix.meter import Interval

LOOKS = np.array([1, 5, 20])


@pytest.mark.parametrize("means", MEANS)
def test_the_problem_is_that_of_the_paper(means):
    data = make_regression(means, seed=3)
    assert data.X.shape == (1000, 10)
    lengths = np.linalg.norm(data.X, axis=1)
    assert (lengths > 3 * np.median(lengths)).sum() == pytest.approx(10, abs=1)
    assert data.excess(data.best) == pytest.approx(0)
    residual = data.X @ data.best - data.y
    assert residual.std() == pytest.approx(1, abs=0.1)  # the noise
    theta = np.ones(10)
    errors = [np.mean((data.X @ t - data.y) ** 2) for t in (theta, data.best)]
    assert data.excess(theta) == pytest.approx(errors[0] - errors[1])
    assert data.gradient(theta) == pytest.approx(2 * data.X.T @ (data.X @ theta - data.y) / 1000)


def test_problems_differ_by_seed_and_kind():
    assert not np.array_equal(make_regression("small means", 1).X, make_regression("small means", 2).X)
    assert not np.array_equal(make_regression("small means", 1).X, make_regression("normal means", 1).X)


@pytest.mark.parametrize("weights", [[0.5], [0.1, 2.0, 0.3, 0.4, 5.0]])
def test_batch_gradients_are_the_mean_and_the_weighted_mean(weights):
    data, points, theta = make_regression("small means", 0), np.array([3, 1, 4, 15, 9]), np.linspace(-1, 1, 10)
    out = np.empty((2, 10))
    batch_gradients(data.X, data.y, points, np.array(weights), theta, out)
    each = 2 * (data.X[points] @ theta - data.y[points])[:, None] * data.X[points]
    assert out[0] == pytest.approx(each.mean(axis=0))
    assert out[1] == pytest.approx((np.resize(weights, 5)[:, None] * each).mean(axis=0))


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm != "VRM, soft truncation"])
def test_every_fair_arm_estimates_the_gradient_without_bias(arm):
    """Twenty thousand first steps: their mean is the gradient, to within what chance allows."""
    data, theta = make_regression("small means", 5), np.zeros(10)
    sampler, both = ARMS[arm](data, 0), np.empty((2, 10))
    sets = sampler.draw(1).indices.ndim == 2
    estimates = []
    for _ in range(20_000):
        draw = sampler.draw(1 if sets else 5)
        batch_gradients(data.X, data.y, draw.indices.ravel(), draw.weights.ravel(), theta, both)
        estimates.append(both[1].copy())
    error = np.std(estimates, axis=0) / np.sqrt(len(estimates))
    assert (np.abs(np.mean(estimates, axis=0) - data.gradient(theta)) < 4.5 * error).all()


def test_soft_truncation_is_biased_and_the_same_test_sees_it():
    data, theta = make_regression("small means", 5), np.zeros(10)
    sampler, both = ARMS["VRM, soft truncation"](data, 0), np.empty((2, 10))
    estimates = []
    for _ in range(20_000):
        draw = sampler.draw(1)
        batch_gradients(data.X, data.y, draw.indices.ravel(), draw.weights.ravel(), theta, both)
        estimates.append(both[1].copy())
    error = np.std(estimates, axis=0) / np.sqrt(len(estimates))
    assert (np.abs(np.mean(estimates, axis=0) - data.gradient(theta)) > 4.5 * error).any()


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_descends_and_repeats_itself(arm):
    data = make_regression("small means", 1)
    runs = [run_descent(data, ARMS[arm](data, 7), 1e-2, 40, LOOKS) for _ in range(2)]
    assert runs[0].excess[0] == 1
    assert runs[0].excess[-1] < 1
    assert np.array_equal(runs[0].excess, runs[1].excess)
    assert np.array_equal(runs[0].mixtures, runs[1].mixtures)


def test_moments_compare_estimates_of_the_same_draws():
    data = make_regression("small means", 2)
    by_point = run_descent(data, ARMS["VRM, point weights"](data, 0), 1e-3, 2000, LOOKS).moments
    by_set = run_descent(data, ARMS["VRM, set weights"](data, 0), 1e-3, 2000, LOOKS).moments
    plain = run_descent(data, ARMS["uniform"](data, 0), 1e-3, 500, LOOKS).moments
    assert by_set.by_set == pytest.approx(by_set.used)
    assert by_set.set_error == pytest.approx(by_set.used_error)
    assert plain.uniform == pytest.approx(plain.used)
    assert by_point.used < by_point.by_set < by_point.uniform
    assert by_point.used_error < by_point.set_error


def test_a_run_that_diverges_ends_in_infinity():
    data = make_regression("uniform means", 0)
    done = run_descent(data, ARMS["uniform"](data, 0), 1e3, 100, LOOKS)
    assert np.isinf(done.excess[-1])
    assert find_lasting(done.excess, 0.5) is None


@pytest.mark.parametrize(
    ("excess", "expected"), [([1, 0.5, 0.09, 0.2, 0.1], 4), ([1, 0.1], 1), ([1, 0.05, 0.2], None), ([0.05], 0)]
)
def test_sustained_looks_for_the_last_time_above(excess, expected):
    assert find_lasting(np.array(excess), 0.1) == expected


def tuning(means, arm, seed, reached):
    config = {"part": "tune", "means": means, "arm": arm, "paces": list(PACES), "seed": seed, "iterations": ITERATIONS}
    return Record("kdpp", config, {"reached": reached}, {}, 1.0, 1.0)


def test_the_best_pace_misses_least_and_is_then_the_fastest_level_by_level():
    never = [None] * 3
    one = [never] * 2 + [[5, 400, None]] + [[50, 100, 300]] + [never] * 4
    two = [never] * 2 + [[5, 400, None]] + [[50, 120, 900]] + [[1, 1, None]] + [never] * 3
    paces = best_paces([tuning("small means", "uniform", 900, one), tuning("small means", "uniform", 901, two)])
    assert paces["small means", "uniform"] == (PACES[2], PACES[3], PACES[3])
    assert paces["small means", "uniform again"] == paces["small means", "uniform"]


def test_quick_mode_has_a_pace_for_every_arm():
    assert set(protocol.CHOSEN_PACES) == {(means, arm) for means in MEANS for arm in FAIR_ARMS}
    assert all(pace in PACES for paces in protocol.CHOSEN_PACES.values() for pace in paces)


def test_steps_are_chosen_on_other_seeds_than_those_reported():
    assert not set(protocol.TUNING_SEEDS) & (set(protocol.SEEDS) | set(range(10)) | set(protocol.TIMED_SEEDS))
    used = {config["seed"] for config in plan("full") if config["part"] == "tune"}
    assert used == set(protocol.TUNING_SEEDS)
    assert {config["seed"] for config in then("full", []) if config["part"] == "fair"} == set(range(200, 248))


def test_the_plan_follows_the_paper():
    printed = [config for config in plan("full") if config["part"] == "printed"]
    assert sorted({config["step"] for config in printed}) == pytest.approx([1e-4, 3e-4])
    assert {config["iterations"] for config in printed} == {20_000}
    assert {config["seed"] for config in printed} == set(range(10))


def test_quick_mode_has_what_its_verdicts_need():
    """With the seeds of quick mode a clear speed-up is found, as printed and in the fair comparison."""
    records = fair_records(2.0, seeds=len(protocol.QUICK_SEEDS))
    for config in plan("quick"):
        arm = config["arm"], round(config["step"] / protocol.PRINTED_STEP)
        faster = 1 + PRINTED_ARMS.index(arm)
        t = [1, 100, 10_000, 20_000]
        result = {"reached": [None] * 3, "iterations": t, "excess": [1 / (1 + faster * s) for s in t]}
        records.append(Record("kdpp", config, result | {"moments": None, "mixtures": None}, {}, 1.0, 1.0))
    verdicts = [claim.verdict for claim in findings(records).claims]
    assert "too few runs" not in verdicts[:2]
    assert {config["seed"] for config in then("quick", [])} == set(protocol.QUICK_SEEDS)
    assert {config["arm"] for config in then("quick", [])} >= {"uniform", BEST_ARM, AGAIN}


def test_every_part_runs():
    for part in (
        {"part": "printed", "step": 1e-4},
        {"part": "fair", "pace": 1.0},
        {"part": "tune", "paces": [1.0, 1e6]},
    ):
        config = {"means": "small means", "arm": BEST_ARM, "seed": 0, "iterations": 30, **part}
        assert run(config) == run(config)
        assert len(run(config)["reached"]) == (2 if part["part"] == "tune" else 3)


def test_the_timed_part_takes_the_same_way_as_the_untimed_one():
    pytest.importorskip("torch")
    from lab.experiments.kdpp.protocol import timed_descent

    data = make_regression("small means", 4)
    for arm in ("uniform", BEST_ARM):
        assert np.isinf(timed_descent(data, arm, 3, 1e3, 60)[1][-1])  # diverged, and told so
        seconds, excess = timed_descent(data, arm, 3, 1e-2, 60)
        other = run_descent(data, ARMS[arm](data, 3), 1e-2, 60, LOOKS)
        assert excess == pytest.approx(other.excess, rel=1e-6)
        assert (np.diff(seconds) > 0).all()
    config = {"part": "timed", "means": "small means", "arm": BEST_ARM, "pace": 1.0, "seed": 0, "iterations": 50}
    result = run(config)
    assert result["each"] > 0
    assert len(result["seconds"]) == len(ERROR_LEVELS)


def made(part, arm, seed, step, result, means="small means"):
    size = {"step" if part == "printed" else "pace": step}
    config = {"part": part, "means": means, "arm": arm, **size, "seed": seed, "iterations": ITERATIONS}
    return Record("kdpp", config, result, {}, 1.0, 1.0)


PACED = best_paces([])


def find_claim(records, word):
    (claim,) = [claim for claim in findings(records).claims if word in claim.name]
    return claim


def read_quantity(claim, quantity):
    """The cells of a row, by the heading of their columns."""
    (row,) = [row for row in claim.details.rows if row[0] == quantity]
    return dict(zip(claim.details.columns[1:], row[1:], strict=True))


def fair_records(speed_up, missed=0, seeds=10, means="small means"):
    moments = {"uniform": 1.0, "by_set": 0.2, "used": 0.1, "set_error": 0.3, "used_error": 0.1}
    records = []
    for seed in range(seeds):
        for arm in FAIR_ARMS:
            time = 1000 + 10 * seed
            mine = None if seed < missed else round(time / speed_up)
            reached = [time // 2, mine if arm == BEST_ARM else time, None]
            result = {"reached": reached, "iterations": [1, 2], "excess": [1.0, 0.5], "moments": moments}
            pace = PACED[means, arm][1]
            records.append(made("fair", arm, seed, pace, result | {"mixtures": [[0.25] * 4] * 2}, means))
    return records


@pytest.mark.parametrize(
    ("speed_up", "missed", "verdict"),
    [(2.0, 0, "holds"), (1.0, 0, "does not hold"), (0.5, 0, "does not hold"), (5.0, 1, "holds in part")],
)
def test_the_fair_verdict_follows_the_numbers_and_the_misses(speed_up, missed, verdict):
    records = fair_records(speed_up, missed)
    found = findings(records)
    iterations, moments, chance, overhead = found.claims
    assert (iterations.verdict, moments.verdict, chance.verdict) == (verdict, "holds", "measured")
    assert overhead.verdict == "too few runs"
    assert read_intervals(iterations.number)[0].value == pytest.approx(speed_up, rel=1e-2)
    ((_, _, fewer, *rest),) = [row for row in iterations.details.rows if row[:2] == ("small means", "1 %")]
    assert read_intervals(fewer) == read_intervals(iterations.number)
    assert rest == ["0 of 10", f"{missed} of 10", verdict]
    fair = Fair(records, PACED)
    assert fair.speed_up(BEST_ARM, "small means", 1).value == pytest.approx(speed_up, rel=1e-2)
    assert fair.speed_up("uniform again", "small means", 1).value == 1


def test_several_kinds_of_data_make_one_claim_whose_number_is_the_worst():
    records = fair_records(2.0) + fair_records(1.0, means="normal means")
    claim = find_claim(records, "beats uniform sets")
    assert claim.verdict == "holds in part"
    assert read_intervals(claim.number) == [(1, 1, 1)]
    assert [row[-1] for row in claim.details.rows if row[1] == "1 %"] == ["holds", "does not hold"]
    assert find_claim(fair_records(2.0) + fair_records(3.0, means="normal means"), "beats").verdict == "holds"


def test_every_sampler_is_told_beside_uniform_sets_and_chance_first():
    claim = find_claim(fair_records(2.0), "against itself")
    arms = [row[0] for row in claim.details.rows]
    assert arms[0] == AGAIN
    assert set(arms) == set(FAIR_ARMS) - {"uniform"}
    assert read_quantity(claim, AGAIN)["small means"] == claim.number
    assert read_intervals(read_quantity(claim, BEST_ARM)["small means"])[0].value == pytest.approx(2, rel=1e-2)


def test_a_level_that_is_lost_makes_a_claim_hold_in_part():
    clear, lost = Interval(2, 1.5, 3), Interval(0, 0, 0.5)
    assert fair_verdict({0: clear, 1: clear}, {0: (0, 0), 1: (0, 0)}) == "holds"
    assert fair_verdict({1: clear, 2: lost}, {1: (0, 0), 2: (3, 9)}) == "holds in part"
    assert fair_verdict({1: Interval(2, 0.9, 3)}, {1: (0, 0)}) == "too few runs"
    assert fair_verdict({1: clear}, {1: (3, 9)}) == "holds in part"


@pytest.mark.parametrize(
    ("by_point", "errors", "verdict"),
    [
        ((0.2, 0.1, 0.35), (0.5, 0.4, 0.9), "holds"),
        ((0.2, 0.1, 0.36), (0.5, 0.4, 0.9), "too few runs"),
        ((0.2, 0.1, 0.3), (0.5, 0.4, 1.1), "too few runs"),
        ((0.5, 0.4, 0.6), (0.5, 0.4, 0.9), "does not hold"),
        ((0.2, 0.1, 0.3), (1.5, 1.1, 1.9), "does not hold"),
    ],
)
def test_moments_need_both_their_limits(by_point, errors, verdict):
    assert judge_moments(Interval(*by_point), Interval(*errors)) == verdict


def test_moments_are_those_of_the_records():
    claim = find_claim(fair_records(2.0), "second moment")
    told = [read_intervals(row[1]) for row in claim.details.rows[:-1]]
    assert [value for ((value, _, _),) in told] == pytest.approx([0.1, 0.2, 0.1, 0.3, 1 / 3], rel=1e-2)
    assert read_intervals(claim.number) == told[0]


def test_few_runs_or_none_decide_nothing():
    few = findings(fair_records(3.0, seeds=3)).claims
    assert few[0].verdict == "too few runs"
    without = [replace(r, result={**r.result, "moments": None}) for r in fair_records(3.0)]
    assert findings(without).claims[1].verdict == "too few runs"


def test_a_pace_at_the_edge_of_the_grid_is_told():
    paces = dict.fromkeys(best_paces([]), (PACES[0], PACES[3], PACES[-1]))
    fair = Fair([r for r in fair_records(1.0) if r.config["arm"] == BEST_ARM], paces)
    assert fair.edges() == [f"{BEST_ARM}, small means, 10 %", f"{BEST_ARM}, small means, 0.3 %"]


def test_the_printed_speed_up_is_measured_to_the_final_error_of_uniform_sets():
    t = [1, 100, 10_000, 20_000]
    records = []
    for seed in range(6):
        for (arm, longer), faster in zip(PRINTED_ARMS, (1, 2, 1, 3), strict=True):
            excess = [1 / (1 + faster * s) for s in t]
            result = {"reached": [None] * 3, "iterations": t, "excess": excess, "moments": None, "mixtures": None}
            records.append(made("printed", arm, seed, 1e-4 * longer, result))
    claim = findings(records).claims[0]
    *effects, why, verdict = [row[1] for row in claim.details.rows]
    soft, plain, longer = (read_intervals(effect)[0] for effect in effects)
    assert (soft, plain, longer) == ((2, 2, 2), (1, 1, 1), (3, 3, 3))
    assert read_intervals(claim.number) == [soft]
    assert why == describe_effect(soft, plain, longer)
    assert (claim.verdict, verdict) == ("holds in part", "holds in part")


def test_the_printed_verdict_depends_on_what_came_out():
    clear, none, worse, small = (
        Interval(2, 1.5, 2.5),
        Interval(1, 0.9, 1.1),
        Interval(0.5, 0.4, 0.6),
        Interval(1.1, 1.05, 1.2),
    )
    assert judge_speedup(clear, none) == "holds in part"
    assert judge_speedup(clear, clear) == "holds"
    assert judge_speedup(small, small) == "holds in part"
    assert judge_speedup(none, none) == "too few runs"
    assert judge_speedup(worse, none) == "does not hold"
    no_difference, bias, longer_step = (
        describe_effect(clear, clear, clear),
        describe_effect(clear, none, none),
        describe_effect(clear, none, clear),
    )
    assert len({no_difference, bias, longer_step}) == 3
    assert no_difference == describe_effect(none, none, clear)


def looked(errors, t=(1.0, 10.0, 100.0, 500.0), seed=0):
    return made("printed", "VRM, set weights", seed, 1e-4, {"iterations": list(t), "excess": list(errors)})


@pytest.mark.parametrize(("level", "expected"), [(0.05, 20), (1 / 300, 300), (1 / 700, 700)])
def test_when_an_error_falls_to_a_level_follows_a_power_law_within_and_beyond_the_looks(level, expected):
    assert find_arrival(looked([1.0, 0.1, 0.01, 0.002]), level) == pytest.approx(expected)


def test_a_run_that_levels_off_above_or_diverges_never_gets_there():
    assert find_arrival(looked([1.0, 0.5, 0.3, 0.3]), 0.1) is None
    assert find_arrival(looked([1.0, 0.5, 2.0, None]), 0.1) is None
    base = [made("printed", "uniform", s, 1e-4, {"iterations": [1, 2], "excess": [1.0, 0.1]}) for s in range(10)]
    never = until_final(base, [looked([1.0, 0.5, 0.3, 0.3], seed=s) for s in range(10)])
    assert (never.value, never.high) == (0, 0)
    assert judge_speedup(never, never) == "does not hold"


@pytest.mark.parametrize(("factor", "verdict"), [(0.5, "does not hold"), (2.0, "holds")])
def test_the_overhead_outweighs_only_where_time_says_so(factor, verdict):
    records = timed_records(factor)
    (claim,) = findings(records).claims
    assert claim.verdict == verdict
    assert read_intervals(claim.number)[0].value == pytest.approx(1 / factor, rel=0.05)
    assert read_quantity(claim, "missed by the mixture") == {"small means": "0 of 8"}


def test_overhead_that_outweighs_for_some_data_holds_in_part():
    (claim,) = findings(timed_records(0.5) + timed_records(2.0, "normal means")).claims
    assert claim.verdict == "holds in part"
    assert list(read_quantity(claim, "verdict").values()) == ["does not hold", "holds"]
    assert read_intervals(claim.number)[0].high < 1


def test_a_run_that_never_gets_there_is_told_as_missed():
    records = timed_records(0.5)
    records[1].result["seconds"][1] = None
    (claim,) = findings(records).claims
    missed = [read_quantity(claim, f"missed by {who}")["small means"] for who in ("uniform", "the mixture")]
    assert list(map(read_shares, missed)) == [[(0, 8)], [(1, 8)]]


def timed_records(factor, means="small means"):
    records = []
    for seed in range(8):
        for arm, seconds in (("uniform", 1.0), (BEST_ARM, factor)):
            result = {"seconds": [0.1, seconds + 0.01 * seed, None], "each": 1e-4, "all": 9.0}
            records.append(made("timed", arm, seed, 1e-2, result, means))
    return records


def test_figures_can_be_drawn():
    records = fair_records(2.0)
    for seed, (arm, longer) in ((s, pair) for s in range(2) for pair in PRINTED_ARMS):
        result = {
            "reached": [None] * 3,
            "iterations": [1, 10],
            "excess": [1.0, None],
            "moments": None,
            "mixtures": None,
        }
        records.append(made("printed", arm, seed, 1e-4 * longer, result))
    found = findings(records)
    assert [picture.name for picture in found.pictures] == ["kdpp", "kdpp-fair"]
    for picture in found.pictures:
        picture.plot().canvas.draw()
    assert len(found.evolutions) == 1
