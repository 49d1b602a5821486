"""What is said of section 6.3, from records that are made up: every verdict both ways."""

import math

import numpy as np
import pytest

from lab.experiments.cartpole.comparison import MIN_SEEDS, CartPoleComparison
from lab.experiments.cartpole.findings import findings, smooth_rows
from lab.experiments.cartpole.protocol import AGAIN, ARMS, COMPONENTS, EVEN, SINGLES, UNIFORM, VRM
from lab.reproduce.records import Record
from support.readings import read_intervals, read_numbers, read_percentages
from varmix.components._replay import PAPER_SETTINGS

EPISODES, LOOKS = 200, list(range(5, 201, 5))
BEST = PAPER_SETTINGS.index((0.01, 0.9))
WEAK = PAPER_SETTINGS.index((1.0, 0.1))
SINGLE = "epsilon 0.1, alpha 0.5"


def record(arm, seed, *, reward=100.0, spread=10.0, episodes=EPISODES, **looked):
    """A run whose rewards are the same in all episodes, and differ from seed to seed by about `spread`."""
    level = reward + spread * np.random.default_rng([seed, *arm.encode()]).normal()
    result = {"rewards": [level] * episodes, "steps": 20_000, "gain": 2.0, "seconds": 20.0, "buffer_seconds": 2.0}
    config = {"arm": arm, "seed": seed, "episodes": episodes}
    return Record("cartpole", config, result | looked, {}, 21.0, 21.0)


def seen(leader=BEST, since=10, moment=0.3, best=0.29, even=False, episodes=EPISODES):
    """A mixture that one component leads from an episode on, and costs beside a uniform cost of two."""
    before, after = np.full(10, 0.05), np.full(10, 0.03)
    before[-1], after[leader] = 0.55, 0.73
    mixtures = [(after if episode >= since and not even else before).tolist() for episode in range(1, episodes + 1)]
    looks = [look for look in LOOKS if look <= episodes]
    components = np.full(10, 1.8)
    components[BEST], components[-1] = 2 * best, 2.0
    row = {"components": components.tolist(), "mixture": 2 * moment, "best": 1.9 * best, "ideal": 0.4}
    return {"mixtures": mixtures, "looks": looks} | {name: [value] * len(looks) for name, value in row.items()}


def runs(arm, seeds=MIN_SEEDS, **more):
    return [record(arm, seed, **more) for seed in range(seeds)]


def claim(made, name):
    (found,) = [c for c in findings(made).claims if c.name.startswith(name)]
    return found


def verdict(made, name):
    return claim(made, name).verdict


def told(found):
    """What the details of a claim say: what stands behind the first cell of every row."""
    return {row[0]: row[1:] for row in found.details.rows}


def intervals(found):
    """All numbers with an interval in the details of a claim, row by row."""
    return [interval for row in found.details.rows for cell in row for interval in read_intervals(cell)]


# Claims by what their names begin with.
FOUND, MOMENT, NEAR, LOSS = "Replay: best setting", "Replay: VRM cuts", "Replay: near", "Replay: no loss"
BESIDE_UNIFORM, CHANCE, ALL_ARMS = "Replay: VRM beside", "Replay: uniform beside", "Replay: all arms"
TIMES = "Replay: the longest run"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (runs(VRM, **seen(leader=PAPER_SETTINGS.index((1.0, 0.9)))), "holds"),  # any epsilon
        (runs(VRM, **seen(since=20)), "holds"),
        (runs(VRM, **seen(since=21)), "does not hold"),
        (runs(VRM, 18, **seen()) + [record(VRM, seed, **seen(leader=WEAK)) for seed in (18, 19)], "holds"),
        (runs(VRM, 17, **seen()) + [record(VRM, seed, **seen(leader=WEAK)) for seed in (17, 18, 19)], "does not hold"),
        (runs(VRM, MIN_SEEDS - 1, **seen()), "too few runs"),
    ],
)
def test_a_component_with_the_strongest_alpha_has_to_lead_early(made, expected):
    assert verdict(made, FOUND) == expected


def test_a_lead_among_the_settings_but_behind_uniform_holds_in_part():
    mixture = [0.05] * 9 + [0.5]
    mixture[BEST] = 0.1
    found = claim(runs(VRM, **seen() | {"mixtures": [mixture] * EPISODES}), FOUND)
    assert found.verdict == "holds in part"
    among, overall, last, first = intervals(found)
    assert (among, overall, last) == ((1, 0.832, 1), (0, 0, 0.168), (0, 0, 0.168))
    assert first.value == math.inf
    assert found.number == "0 of 20 runs"


def test_the_first_lead_and_the_largest_weight_are_told():
    found = claim(runs(VRM, **seen(since=12)), FOUND)
    assert intervals(found)[3] == (12, 12, 12)
    assert found.details.rows[-1][1] == "epsilon 0.01, alpha 0.9: 0.73"
    assert found.number == "20 of 20 runs"


@pytest.mark.parametrize(
    ("moment", "seeds", "expected"),
    [(0.39, MIN_SEEDS, "holds"), (0.41, MIN_SEEDS, "does not hold"), (0.39, MIN_SEEDS - 1, "too few runs")],
)
def test_the_second_moment_has_to_be_low(moment, seeds, expected):
    found = claim(runs(VRM, seeds, **seen(moment=moment)), MOMENT)
    assert found.verdict == expected
    assert read_intervals(found.number) == intervals(found) == [(moment, moment, moment)]
    assert found.beyond


def test_second_moments_are_of_the_episodes_asked_for_and_beside_uniform_look_by_look():
    looked = seen(moment=0.2)
    looked["mixture"] = [5.0 if look < 10 or look > 100 else 0.4 for look in LOOKS]
    found = claim(runs(VRM, **looked) + runs(EVEN, **seen(moment=0.6, even=True)), MOMENT)
    assert found.verdict == "holds"
    assert intervals(found) == [(0.2, 0.2, 0.2), (0.6, 0.6, 0.6)]
    assert [row[1] for row in found.details.rows[-2:]] == ["0.276", "0.2"]  # of the best mixture, and of the best law


@pytest.mark.parametrize(
    ("far", "expected"),
    [(6, "holds"), (7, "does not hold")],  # of 40 looks
)
def test_it_has_to_be_near_the_best_component_at_most_looks(far, expected):
    looked = seen(moment=0.3, best=0.29)
    looked["mixture"] = [2 * 0.29 * (1.06 if number < far else 1.04) for number in range(len(LOOKS))]
    made = runs(VRM, **looked)
    found = claim(made + runs(EVEN, **seen(moment=0.5, even=True)), NEAR)
    assert found.verdict == expected
    assert read_intervals(found.number)[0].value == intervals(found)[0].value == (40 - far) / 40
    later = round(100 * (36 - (far - 4)) / 36, 1)  # the first four looks are up to episode 20
    shares = [share for row in found.details.rows for share in read_percentages(row[1])]
    assert shares == [0.0, later, 0.0]  # early, later, and of the fixed mixture
    assert verdict(runs(VRM, 3, **looked), NEAR) == "too few runs"


def test_uniform_is_among_the_components_to_be_near_to():
    looked = seen(moment=1.0)
    looked["components"] = [[3.0] * 9 + [2.0]] * len(LOOKS)
    assert verdict(runs(VRM, **looked), NEAR) == "holds"
    looked["mixture"] = [2.2] * len(LOOKS)
    assert verdict(runs(VRM, **looked), NEAR) == "does not hold"


@pytest.mark.parametrize(
    ("reward", "spread", "seeds", "expected"),
    [
        (100.0, 10.0, 50, "holds"),
        (90.0, 5.0, 50, "holds in part"),  # surely a loss, and surely a small one
        (70.0, 5.0, 50, "does not hold"),
        (90.0, 100.0, 50, "too few runs"),
        (100.0, 10.0, MIN_SEEDS - 1, "too few runs"),
    ],
)
def test_a_loss_has_to_be_surely_small(reward, spread, seeds, expected):
    made = runs(VRM, seeds, reward=reward, spread=spread, **seen()) + runs(SINGLE, seeds, reward=100.0, spread=spread)
    assert verdict(made, LOSS) == expected


def test_the_best_setting_is_the_one_with_the_highest_mean_and_that_it_was_chosen_is_told():
    made = runs(VRM, **seen()) + [r for n, arm in enumerate(SINGLES) for r in runs(arm, reward=50.0 + 20 * n, spread=1)]
    found = claim(made, LOSS)
    comparison, best = CartPoleComparison(made), list(SINGLES)[-1]
    assert (comparison.single(), comparison.single(worst=True)) == (best, next(iter(SINGLES)))
    assert found.details.rows[0][0].startswith(best)
    beside, _, held_out = intervals(found)
    assert beside.value == pytest.approx(np.mean(comparison.scores(VRM)) - np.mean(comparison.scores(best)), abs=0.5)
    assert held_out.value == pytest.approx(beside.value, abs=1)  # chosen on other seeds it is the same one here


def test_a_setting_that_is_best_by_luck_is_compared_on_other_seeds():
    """One is best on every other seed and one on those between: neither is better than VRM where it was not chosen."""
    lucky = [runs(arm, reward=100, spread=0) for arm in (*SINGLES,)[:2]]
    for row, level in zip(lucky[0] + lucky[1], [140.0, 60.0] * 10 + [60.0, 140.0] * 10, strict=True):
        row.result["rewards"][:] = [level] * EPISODES
    found = claim(runs(VRM, spread=0, **seen()) + lucky[0] + lucky[1], LOSS)
    assert found.details.rows[0][0].startswith(next(iter(SINGLES)))
    beside, _, held_out = intervals(found)
    assert (beside.value, held_out) == (0, (40, 40, 40))
    assert len(claim(runs(VRM, 1, **seen()) + runs(SINGLE, 1), LOSS).details.rows) == 1  # no halves of one


def test_how_many_seeds_it_would_take_follows_from_how_much_rewards_differ():
    made = runs(VRM, 2, **seen()) + runs(SINGLE, 2)
    for row, level in zip(made, (0.0, 60.0, 0.0, 60.0), strict=True):
        row.result["rewards"][:] = [level] * EPISODES
    # variance 1800, 2 (1.96 + 0.84)^2 1800 / 20^2 = 70.56
    assert read_numbers(claim(made, LOSS).note)[-2:] == [20, 71]


def test_both_uniform_arms_are_the_baseline_and_chance_is_one_beside_the_other():
    made = runs(VRM, reward=150, spread=0, **seen())
    made += runs(UNIFORM, reward=100, spread=0) + runs(AGAIN, reward=120, spread=0)
    assert intervals(claim(made, BESIDE_UNIFORM))[0].value == 40
    chance = claim(made, CHANCE)
    assert read_intervals(chance.number) * 2 == intervals(chance) == [(20, 20, 20)] * 2
    assert chance.verdict == "measured"


def test_the_last_episodes_are_told_apart():
    made = runs(VRM, **seen()) + runs(UNIFORM, spread=0)
    for row in made[:MIN_SEEDS]:
        row.result["rewards"][:] = [0.0] * 150 + [300.0] * 50
    found = claim(made, BESIDE_UNIFORM)
    assert intervals(found) == [(-25, -25, -25), (200, 200, 200)]
    assert read_numbers(found.details.columns[-1]) == [50]  # episodes


def test_losses_are_told_like_wins_and_times_with_them():
    made = runs(UNIFORM, spread=0) + runs(SINGLE, reward=10, spread=0) + runs(VRM, reward=50, spread=0, **seen())
    arms = told(claim(made, ALL_ARMS))
    assert set(arms) == {UNIFORM, SINGLE, VRM}
    assert arms[UNIFORM] == ("100 [100, 100]", "100 [100, 100]", "2")  # the last is the gain
    assert read_intervals(arms[SINGLE][0]) == [(10, 10, 10)]
    assert told(claim(made, TIMES))[VRM] == ("20 [20, 20]", "0.1 [0.1, 0.1]", "100")


@pytest.mark.parametrize(("seconds", "expected"), [(60.0, "holds"), (60.1, "does not hold")])
def test_no_run_may_take_longer_than_a_minute(seconds, expected):
    made = runs(UNIFORM) + runs(SINGLE)
    made[-1].result["seconds"] = seconds
    found = claim(made, TIMES)
    assert found.verdict == expected
    assert read_numbers(found.number) == [float(f"{seconds:.3g}")]


def assert_no_gaps(found):
    """Assert that nothing is shown that is no number."""
    cells = [cell for c in found.claims for row in ((c.number,), *c.details.rows) for cell in row]
    assert not any("None" in cell or "nan" in cell for cell in cells)


def everything(seeds=MIN_SEEDS, without=(), **more):
    made = []
    for number, arm in enumerate(ARMS):
        looked = seen(even=arm == EVEN, episodes=more.get("episodes", EPISODES)) if ARMS[arm].looked else {}
        made += [] if arm in without else runs(arm, seeds, reward=100.0 + number, **looked, **more)
    return made


@pytest.mark.parametrize("without", [[UNIFORM], [VRM], [*SINGLES, EVEN, AGAIN]])
def test_findings_can_be_made_while_arms_are_missing(without):
    found = findings(everything(2, without))
    assert found.claims
    assert_no_gaps(found)
    assert {c.verdict for c in found.claims} <= {"too few runs", "measured"}
    assert len(found.pictures) == (1 if VRM in without else 2)
    for picture in found.pictures:
        assert picture.plot().axes


def test_everything_is_said_of_all_arms():
    found = findings(everything())
    assert len(found.claims) == 8
    assert [c.beyond for c in found.claims] == [False, True, True, False, True, True, True, True]
    assert list(told(claim(everything(), ALL_ARMS))) == list(ARMS)


def test_of_short_runs_only_the_early_lead_is_judged():
    looked = seen(moment=0.5, best=0.29, episodes=25)
    made = runs(UNIFORM, episodes=25) + runs(SINGLE, episodes=25) + runs(VRM, episodes=25, **looked)
    found = findings(made)
    judged = [c.name for c in found.claims if c.verdict not in ("too few runs", "measured")]
    assert judged == [claim(made, FOUND).name]
    assert verdict(made, FOUND) == "holds"
    assert [picture.name for picture in found.pictures] == ["cartpole", "cartpole-moments"]
    for picture in found.pictures:
        assert picture.plot().axes


@pytest.mark.parametrize("episodes", [1, 5])
def test_runs_of_a_few_episodes_can_be_shown_too(episodes):
    found = findings(runs(UNIFORM, 2, episodes=episodes) + runs(VRM, 2, episodes=episodes, **seen(episodes=episodes)))
    assert_no_gaps(found)
    assert (len(found.pictures) == 2) == (episodes >= 5)
    for picture in found.pictures:
        picture.plot()


def test_runs_of_other_lengths_are_left_out():
    made = runs(UNIFORM, 3) + runs(UNIFORM, 5, episodes=40)
    assert len(CartPoleComparison(made).results(UNIFORM)) == 3


def test_the_figure_has_five_arms_and_all_components():
    rewards, moments = (picture.plot() for picture in findings(everything()).pictures)
    above, below = rewards.axes
    names = [line.get_label() for line in above.get_lines()]
    singles = list(SINGLES)
    assert names == [VRM, UNIFORM, EVEN, f"{singles[-1]} (best single)", f"{singles[0]} (worst single)"]
    assert [line.get_label() for line in below.get_lines()] == list(COMPONENTS)
    assert [line.get_label() for line in moments.axes[0].get_lines()] == [*COMPONENTS, VRM, "ideal"]
    styles = {(line.get_color(), line.get_linestyle(), str(line._dash_pattern)) for line in below.get_lines()}
    assert len(styles) == len(COMPONENTS)


def test_lines_are_means_of_ten_episodes_at_the_last_of_them():
    (above, _) = findings(runs(UNIFORM, 2, spread=0)).pictures[0].plot().axes
    (line,) = above.get_lines()
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (10, EPISODES)
    assert set(line.get_ydata()) == {100.0}
    assert smooth_rows(np.arange(12.0)[None]).tolist() == [[4.5, 5.5, 6.5]]


def test_the_mixture_can_be_followed_episode_by_episode():
    (evolution,) = findings(runs(VRM, 3, **seen(since=7))).evolutions
    assert list(evolution.arms) == list(COMPONENTS)
    assert list(evolution.x) == list(range(1, EPISODES + 1))
    assert evolution.arms[COMPONENTS[BEST]][5:7] == pytest.approx([0.05, 0.73])


def test_without_runs_nothing_is_claimed():
    found = findings([])
    assert (list(found.claims), list(found.pictures), list(found.evolutions)) == ([], [], [])
