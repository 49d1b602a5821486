"""What holds for every sampler of the literature."""

import numpy as np
import pytest

import varmix
from support.oracles import nameless, norms_at
from varmix import literature
from varmix.components import Cumulative, Exponential, MirrorDescent, Points, Ranks
from varmix.literature import vrb
from varmix.testing import chi_square_z, same

N = 30
LABELS = np.arange(N) % 3
SAMPLERS = {
    "vrb": lambda: vrb(N, rng=0),
    "vrb, gamma": lambda: vrb(N, gamma=0.2, theta=0.3, rng=0),
    "vrb, target": lambda: vrb(Points(N, 1 + np.arange(N) % 4), rng=0),
    "bandit": lambda: literature.bandit(N, rng=0),
    "bandit, step": lambda: literature.bandit(N, step=0.3, rng=0),
    "mirror descent": lambda: literature.mirror_descent(N, rounds=100, rng=0),
    "importance": lambda: varmix.importance(1 + np.arange(N), smoothing=0, rng=0),
    "stratified": lambda: literature.stratified_sampling(LABELS, [1, 2, 3], rng=0),
}
BIASED = {"batch selection": lambda: literature.batch_selection(N, period=20, rng=0)}
LEARNING = [name for name in (SAMPLERS | BIASED) if name not in ("importance", "stratified")]


def taught(name, rounds=60):
    sampler = (SAMPLERS | BIASED)[name]()
    for t in range(rounds):
        draw = sampler.draw(5)
        sampler.update(draw, norms_at(t, draw.indices))
    return sampler


def expectation(sampler, values):
    """Return the sum over all atoms of probability times weight times value."""
    target = sampler.components.space.target
    target = np.full(N, 1 / N) if target is None else target
    density = sampler.components.ratios(np.arange(N)) @ sampler.mixture
    return float((target * density * sampler.reweight(density)) @ values), float(target @ values)


@pytest.mark.parametrize("name", SAMPLERS)
def test_weighted_means_are_unbiased_at_any_time(name):
    found, expected = expectation(taught(name), np.random.default_rng(0).normal(size=N))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_batch_selection_is_biased():
    found, expected = expectation(taught("batch selection"), norms_at(0, np.arange(N)))
    assert found > 1.2 * expected


@pytest.mark.parametrize("name", SAMPLERS | BIASED)
def test_draws_follow_the_density_that_the_receipt_tells(name):
    sampler = taught(name)
    target = sampler.components.space.target
    density = sampler.components.ratios(np.arange(N)) @ sampler.mixture
    draw = sampler.draw(50_000)
    np.testing.assert_allclose(draw.density, density[draw.indices], rtol=1e-14)
    law = density / N if target is None else density * target
    counts = np.bincount(draw.indices, minlength=N)
    assert chi_square_z(counts, law) < 3.9
    assert chi_square_z(counts, np.roll(law, 1)) > 10  # negative control


@pytest.mark.parametrize("name", SAMPLERS | BIASED)
def test_saved_samplers_go_on_bit_for_bit(name, tmp_path):
    sampler = taught(name)
    late = sampler.draw(3)
    varmix.save(tmp_path / "sampler", sampler)
    other = varmix.load(tmp_path / "sampler", (SAMPLERS | BIASED)[name]())
    for made in (sampler, other):
        made.update(late, [1.0, 2.0, 3.0])
    for t in range(40):
        draw, again = sampler.draw(4), other.draw(4)
        assert draw.indices.tolist() == again.indices.tolist()
        assert draw.density.tolist() == again.density.tolist()
        sampler.update(draw, norms_at(t, draw.indices))
        other.update(again, norms_at(t, again.indices))
    assert same(nameless(sampler.state_dict()), nameless(other.state_dict()))


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_laws_stay_sane_at_any_scale(name, scale):
    sampler = (SAMPLERS | BIASED)[name]()
    target = sampler.components.space.target
    for t in range(100):
        draw = sampler.draw(5)
        sampler.update(draw, scale * norms_at(t, draw.indices))
        ratios = sampler.components.ratios(np.arange(N))[:, 0]
        assert np.isfinite(ratios).all()
        assert np.average(ratios, weights=target) == pytest.approx(1, abs=1e-9)
        assert sampler.components.c >= ratios.max() * (1 - 1e-12)


@pytest.mark.parametrize("name", LEARNING)
def test_refused_feedback_changes_nothing(name):
    sampler = taught(name)
    draw = sampler.draw(3)
    before = sampler.state_dict()
    for norms in ([1.0, np.nan, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0], [1e200, 1.0, 1.0]):
        with pytest.raises(ValueError, match="norms"):
            sampler.update(draw, norms)
        assert same(sampler.state_dict(), before)
    sampler.update(draw, [1.0, 1.0, 1.0])
    assert not same(sampler.state_dict()["components"], before["components"])


FAMILIES = {
    "cumulative": lambda: Cumulative(4),
    "cumulative, gamma": lambda: Cumulative(4, gamma=2.0),
    "exponential": lambda: Exponential(4),
    "mirror": lambda: MirrorDescent(4),
    "ranks": lambda: Ranks(4),
}
DAMAGED = {
    "other points": ("cumulative", lambda: Cumulative(5).state_dict(), "n was 5 and is 4"),
    "negative sums": ("cumulative", lambda: {"squares": np.array([0.0, -1.0, 0.0, 0.0])}, "entry 1 is -1.0"),
    "an infinite sum": ("cumulative", lambda: {"squares": np.array([0.0, np.inf, 0.0, 0.0])}, "not finite"),
    "an endless total": ("cumulative", lambda: {"total": float("inf")}, "total must be finite"),
    "no level": ("cumulative", lambda: {"level": 0.0}, "level must be finite"),
    "half a row": ("cumulative", lambda: {"count": -1}, "count must be a whole number in 0"),
    "another gamma": ("cumulative, gamma", lambda: Cumulative(4, gamma=3.0).state_dict(), "another gamma"),
    "gamma by point": ("cumulative, gamma", lambda: Cumulative(4, gamma=[1, 2, 3, 4]).state_dict(), "another gamma"),
    "no gamma": ("cumulative, gamma", lambda: Cumulative(4).state_dict(), "another gamma"),
    "another step": ("exponential", lambda: Exponential(4, step=2.0).state_dict(), "another step"),
    "far weights": ("exponential", lambda: {"logs": np.array([0.0, 1e4, 0.0, 0.0])}, "far from their offset"),
    "a negative scale": ("exponential", lambda: {"largest": -1.0}, "largest must be finite"),
    "another floor": (
        "mirror",
        lambda: MirrorDescent(4, floor=0.5).state_dict(),
        "has floor = 0.5, but this one has 0.2",
    ),
    "below the floor": ("mirror", lambda: {"weights": np.array([1.0, 1.0, 1.0, 1e-9])}, "below the floor"),
    "nothing above the floor": ("mirror", lambda: {"weights": np.zeros(4)}, "below the floor"),
    "negative weights": ("mirror", lambda: {"weights": np.array([1.0, 1.0, 1.0, -1.0])}, "entry 3 is -1.0"),
    "another period": ("ranks", lambda: Ranks(4, period=2).state_dict(), "every 2 rows, these every 4"),
    "no order": ("ranks", lambda: {"order": np.zeros(4, dtype=np.int64)}, "list every point once"),
    "no pressure": ("ranks", lambda: {"pressure": 0.5}, r"pressure must be finite and in \[1"),
    "sums that overflow": ("cumulative", lambda: {"squares": np.full(4, 1e308), "total": 1e308, "count": 9}, "damaged"),
    "sums of nothing": ("cumulative", lambda: {"squares": np.array([0.0, 4.0, 0.0, 0.0])}, "add up to 4"),
    "another level": ("cumulative", lambda: {"squares": np.ones(4), "total": 4.0, "count": 4, "level": 99.0}, "level"),
    "weights that overflow": ("mirror", lambda: {"weights": np.full(4, 1e308)}, "damaged"),
    "losses that are negative": ("ranks", lambda: {"losses": np.array([-0.5, 1.0, 1.0, 1.0])}, "a loss is negative"),
    "an order from nowhere": (
        "ranks",
        lambda: {"order": np.array([1, 0, 2, 3])},
        "differs from the initial one before any sort",
    ),
    "feedback long due": ("ranks", lambda: {"since": 4}, "since must be"),
    "sorted or not": ("ranks", lambda: {"sorted": 1}, "damaged"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_states_that_do_not_fit_are_refused_and_change_nothing(name):
    kind, damage, says = DAMAGED[name]
    family = FAMILIES[kind]()
    before = family.state_dict()
    with pytest.raises(ValueError, match=says):
        family.load_state_dict(before | damage())
    assert same(family.state_dict(), before)
    assert np.array_equal(family.ratios(np.arange(4)), np.ones((4, 1)))
