import math

import numpy as np
import pytest

import varmix
from varmix import Groups, Sampler
from varmix._core.validation import same
from varmix.components import with_uniform
from varmix.learners import Evidence, Fixed
from varmix.meter import GainMeter, Moments
from varmix.reweight import Clip

LABELS = np.repeat([0, 1], [80, 20])
NORMS = np.where(LABELS == 0, 0.2, 2.0)


def _sampler(mixture, rng=0, **options):
    return Sampler(with_uniform(Groups(LABELS)), learner=Fixed(mixture), rng=rng, **options)


def _exact_gain(sampler):
    density = sampler.draw_all().ratios @ sampler.mixture
    return (NORMS**2).mean() / (NORMS**2 / density).mean()


def _measure(sampler, meter, rounds, m=8, **options):
    for _ in range(rounds):
        draw = sampler.draw(m)
        meter.update(draw, NORMS[draw.indices], **options)
    return meter


MIXTURES = [[0.3, 0.6, 0.1], [0.8, 0.1, 0.1], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("mixture", MIXTURES)
def test_the_gain_is_the_ratio_of_second_moments(mixture):
    sampler = _sampler(mixture)
    gain = _measure(sampler, GainMeter(), 3000).gain
    assert gain.low <= _exact_gain(sampler) * 1.002
    assert gain.high >= _exact_gain(sampler) * 0.998
    assert gain.value == pytest.approx(_exact_gain(sampler), rel=0.03)


@pytest.mark.parametrize("m", [1, 8])
def test_intervals_cover_the_truth_as_often_as_they_say(m):
    allocate = varmix.allocate.independent
    samplers = [_sampler(MIXTURES[0], rng=seed, allocate=allocate) for seed in range(300)]
    truth = _exact_gain(samplers[0])
    gains = [_measure(sampler, GainMeter(), 100, m).gain for sampler in samplers]
    covered = np.mean([gain.low <= truth <= gain.high for gain in gains])
    assert 0.91 <= covered <= 0.985


def test_reweighting_does_not_change_what_is_measured():
    exact, clipped = (
        _measure(_sampler(MIXTURES[0], reweight=r), GainMeter(), 50) for r in (varmix.reweight.exact, Clip(0.5))
    )
    assert exact.summary() == clipped.summary()
    assert clipped.largest_weight > 0.5


@pytest.mark.parametrize("scale", [1e-110, 1e-30, 1e100])
def test_scale_does_not_matter(scale):
    meters = [GainMeter(), GainMeter()]
    sampler = _sampler(MIXTURES[0])
    for _ in range(50):
        draw = sampler.draw(8)
        for meter, factor in zip(meters, (1.0, scale), strict=True):
            meter.update(draw, factor * NORMS[draw.indices], gradient=factor * (1 + draw.weights[:2]))
    assert meters[0].gain == pytest.approx(meters[1].gain)
    assert meters[0].noise == pytest.approx(meters[1].noise)


ALLOCATIONS = {"independent": varmix.allocate.independent, "stratified": varmix.allocate.stratified}


@pytest.mark.parametrize("name", ALLOCATIONS)
@pytest.mark.parametrize("m", [1, 8])
def test_the_noise_is_that_of_the_mean_gradient_under_any_allocation(name, m):
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(100, 3)) + 3 * np.eye(3)[LABELS] * (1 + 2 * LABELS[:, None])
    norms = np.linalg.norm(gradients, axis=1)
    sampler, meter, means = _sampler(MIXTURES[0], allocate=ALLOCATIONS[name]), GainMeter(), []
    for _ in range(5000):
        draw = sampler.draw(m)
        means.append((draw.weights[:, None] * gradients[draw.indices]).mean(axis=0))
        meter.update(draw, norms[draw.indices], gradient=means[-1])
    squared = (gradients.mean(axis=0) ** 2).sum()
    variance = np.var(means, axis=0).sum()
    assert meter.noise == pytest.approx(variance / squared, rel=0.1)
    assert meter.variance_gain == pytest.approx(((norms**2).mean() - squared) / m / variance, rel=0.1)


def test_the_effective_sample_size_is_one_for_uniform_draws_and_less_otherwise():
    assert _measure(_sampler([0.0, 0.0, 1.0]), GainMeter(), 20).effective_sample_size == pytest.approx(1)
    meter = _measure(_sampler(MIXTURES[0]), GainMeter(), 2000)
    density = _sampler(MIXTURES[0]).draw_all().ratios @ MIXTURES[0]
    assert meter.effective_sample_size == pytest.approx(1 / (1 / density).mean(), rel=0.03)


def test_a_window_forgets():
    meter = GainMeter(window=50)
    _measure(_sampler([0.9, 0.0, 0.1]), meter, 500)
    assert meter.gain.value < 1
    _measure(_sampler(MIXTURES[0]), meter, 500)
    assert meter.gain.value == pytest.approx(_exact_gain(_sampler(MIXTURES[0])), rel=0.15)


@pytest.mark.parametrize(
    ("mixture", "says"),
    [
        ([0.3, 0.6, 0.1], "may or may not beat plain shuffling"),
        ([0.0, 0.0, 1.0], "not distinguishable from no gain"),
        ([0.7, 0.0, 0.3], "switch it off"),
        ([0.0, 0.03, 0.97], "too little to beat plain shuffling"),
        ([0.0, 0.1, 0.9], "may or may not beat plain shuffling"),
    ],
)
def test_the_verdict_says_what_was_measured_and_what_to_do(mixture, says):
    meter = _measure(_sampler(mixture), GainMeter(), 3000)
    verdict = meter.verdict()
    measured, advice = verdict.split(". ", 1)
    assert f"{meter.draws:,} draws" in measured
    assert f"the second moment per draw was {1 / meter.gain.value:.3g}" in measured
    assert says in advice
    assert verdict.endswith(".")


def test_less_is_asked_of_reshuffled_groups():
    assert "keep it on" in _measure(_sampler([0.3, 0.6, 0.1]), GainMeter(reshuffled=True), 3000).verdict()


def test_the_verdict_promises_no_speed():
    """A ratio of second moments bounds nothing: it says where it shows, and that a longer step may be needed."""
    for reshuffled, mixture in ((True, [0.3, 0.6, 0.1]), (False, [0.3, 0.6, 0.1])):
        verdict = _measure(_sampler(mixture), GainMeter(reshuffled=reshuffled), 3000).verdict()
        assert "only if noise limits progress and the step is as long as the noise allows" in verdict
        assert "you may need a longer step" in verdict
        assert "nothing about held-out loss" in verdict
        assert "speed" not in verdict
        assert "upper" not in verdict
    assert "longer step" not in _measure(_sampler([0.7, 0.0, 0.3]), GainMeter(), 3000).verdict()


def test_a_meter_with_a_window_says_how_much_of_the_run_it_is_about():
    """Both once said "Over 51,200 draws", with other numbers."""
    whole, windowed = GainMeter(), GainMeter(window=50)
    for mixture in ([0.9, 0.0, 0.1], MIXTURES[0]):
        sampler = _sampler(mixture)
        for _ in range(400):
            draw = sampler.draw(64)
            for meter in (whole, windowed):
                meter.update(draw, NORMS[draw.indices])
    assert "Over 51,200 draws (800 receipts)" in whole.verdict()
    assert "Over about the last 50 receipts (some 3,200 of 51,200 draws)" in windowed.verdict()
    assert whole.covered == whole.summary()["covered"] == 800
    assert windowed.covered == windowed.summary()["covered"] == pytest.approx(50, rel=1e-6)
    assert "window=50" in repr(windowed)
    assert "window" not in repr(whole)


@pytest.mark.parametrize("window", [None, 2, 50, 2**60])
def test_receipts_that_count_are_added_up_one_by_one(window):
    meter, expected = GainMeter(window), 0.0
    for _ in range(30):
        meter.update(_sampler(MIXTURES[0]).draw(1), np.ones(1))
        expected = expected * (1.0 if window is None else 1.0 - 1.0 / window) + 1.0
        assert meter.covered == pytest.approx(expected, rel=1e-12)
        assert meter.covered == pytest.approx(meter._sums[0], rel=1e-12)


def test_a_window_without_any_loss_knows_nothing_in_the_end():
    meter = _measure(_sampler(MIXTURES[0]), GainMeter(window=2), 20)
    for _ in range(1200):
        meter.update(_sampler(MIXTURES[0]).draw(2), np.zeros(2))
        if meter.gain.low == 0.0:
            break
    assert meter.gain == (1.0, 0.0, math.inf)
    assert "No verdict yet" in meter.verdict()


def test_the_verdict_doubts_gains_where_noise_does_not_matter():
    meter = _measure(_sampler([0.3, 0.6, 0.1]), GainMeter(), 500, m=8, gradient=[0.6, 0.1])
    assert meter.noise < 0.1
    assert "hardly changes the loss" in meter.verdict()


def test_nothing_measured_is_said_to_be_nothing():
    meter = GainMeter()
    assert meter.gain == (1.0, 0.0, math.inf)
    assert "at least two batches" in meter.verdict()
    for _ in range(3):
        meter.update(_sampler([0.0, 0.0, 1.0]).draw(4), np.zeros(4))
    assert "at least two batches" in meter.verdict()
    assert meter.gain.value == 1.0
    assert meter.noise is None
    assert meter.summary()["gain"] == 1.0


def test_bad_gradients_are_refused_and_count_nothing():
    meter = GainMeter()
    bad = [([float("nan")], ValueError), ([1e200], ValueError), (["long"], TypeError), ([[1.0], [1.0, 2.0]], TypeError)]
    for gradient, kind in bad:
        with pytest.raises(kind, match="gradient"):
            meter.update(_sampler([0.0, 0.0, 1.0]).draw(4), np.ones(4), gradient=gradient)
    assert meter.batches == 0
    meter.update(_sampler([0.0, 0.0, 1.0]).draw(4), np.ones(4), gradient=[1.0, 2.0])
    with pytest.raises(ValueError, match="2 entries in the last batch and has 1 now"):
        meter.update(_sampler([0.0, 0.0, 1.0]).draw(4), np.ones(4), gradient=[1.0])
    assert meter.batches == 1


def test_wrong_intervals_would_not_cover():
    """The control of the coverage above: half as wide, they miss far more often."""
    samplers = [_sampler(MIXTURES[0], rng=seed, allocate=varmix.allocate.independent) for seed in range(300)]
    truth = _exact_gain(samplers[0])
    gains = [_measure(sampler, GainMeter(), 100, 1).gain for sampler in samplers]
    inside = [abs(np.log(gain.value / truth)) <= 0.5 * np.log(gain.high / gain.value) for gain in gains]
    assert np.mean(inside) < 0.85


def _of_many_sizes(rng):
    """Give the receipts of a loop that runs further ahead as it goes on, with a sampler that is better then."""
    bad, good = (_sampler(mixture, rng=rng, allocate=varmix.allocate.independent) for mixture in MIXTURES[1::-1])
    return [bad.draw(1) for _ in range(100)] + [
        good.draw(1, batches) for batches in (10, 20, 40, 80) for _ in range(20)
    ]


def test_receipts_count_by_their_draws():
    """Half of the receipts are of single draws, and hold a thirtieth of all draws."""
    receipts, meter = _of_many_sizes(0), GainMeter()
    for draw in receipts:
        meter.update(draw, NORMS[draw.indices])
    density = np.concatenate([draw.density for draw in receipts])
    squares = np.concatenate([NORMS[draw.indices] for draw in receipts]) ** 2
    assert meter.gain.value == pytest.approx((squares / density).sum() / (squares / density**2).sum(), rel=1e-12)
    assert meter.effective_sample_size == pytest.approx(
        (1 / density).sum() ** 2 / (1 / density**2).sum() / len(density), rel=1e-12
    )
    assert f"Over {len(density):,} draws (180 receipts)" in meter.verdict()


def test_intervals_of_receipts_of_many_sizes_cover_the_truth_too():
    covered, inside = [], []
    sizes = [len(draw) for draw in _of_many_sizes(0)]
    moments = [(NORMS**2).mean(), *((NORMS**2 / (_sampler(w).draw_all().ratios @ w)).mean() for w in MIXTURES[1::-1])]
    shares = sum(sizes[:100]) / sum(sizes), sum(sizes[100:]) / sum(sizes)
    truth = moments[0] / (shares[0] * moments[1] + shares[1] * moments[2])
    for rng in range(300):
        meter = GainMeter()
        for draw in _of_many_sizes(rng):
            meter.update(draw, NORMS[draw.indices])
        gain = meter.gain
        covered.append(gain.low <= truth <= gain.high)
        inside.append(abs(np.log(gain.value / truth)) <= 0.5 * np.log(gain.high / gain.value))
    assert 0.91 <= np.mean(covered) <= 0.985
    assert np.mean(inside) < 0.85  # the control: half as wide, they miss


def test_the_gain_that_a_solver_tells_is_that_of_all_its_draws():
    from varmix.solvers import Linear, sgd

    class Noting(Sampler):
        def update(self, draw, norms, **gradient):
            sums.append([len(draw), (norms**2 / draw.density).sum(), (norms**2 / draw.density**2).sum()])
            super().update(draw, norms)

    sums = []
    rng = np.random.default_rng(0)
    problem = Linear(rng.normal(size=(100, 3)) * NORMS[:, None], np.where(rng.random(100) < 0.5, 1.0, -1.0))
    sampler = Noting(Groups(LABELS), rng=0)
    result = sgd(problem, sampler, step=0.1, batch=1, epochs=60)
    sizes, uniform, mixture = np.array(sums).T
    assert sizes.max() > 5 * sizes.min()
    assert result.meter.gain.value == pytest.approx(uniform.sum() / mixture.sum(), rel=1e-12)
    assert result.meter.draws == 6000


def test_a_lap_is_the_gain_of_the_receipts_since_the_last():
    sampler = varmix.vrm(varmix.Groups([0] * 90 + [1] * 10), rng=0)
    meter, alone = GainMeter(), GainMeter()
    assert meter.gain_since_last_call() == 1.0
    for scale in (1e30, 1.0):  # what came before may be far larger
        for _ in range(50):
            draw = sampler.draw(16)
            norms = scale * np.where(draw.indices < 90, 0.1, 3.0)
            meter.update(draw, norms)
            if scale == 1.0:
                alone.update(draw, norms)
            sampler.update(draw, norms)
        lap = meter.gain_since_last_call()
    assert lap == pytest.approx(alone.gain.value)
    assert lap > 2
    assert meter.gain_since_last_call() == 1.0


def test_a_saved_meter_goes_on_bit_for_bit():
    sampler = _sampler(MIXTURES[0])
    for window in (None, 20):
        whole, first, second = (GainMeter(window) for _ in range(3))
        for number in range(40):
            draw = sampler.draw(8)
            for meter in (whole, first if number < 15 else second):
                meter.update(draw, NORMS[draw.indices])
            if number == 14:
                second.load_state_dict(first.state_dict())
        assert second.summary() == whole.summary()
        assert second.gain_since_last_call() == whole.gain_since_last_call()


def test_the_pair_across_a_checkpoint_is_missing_from_the_noise():
    sampler, meter, other = _sampler(MIXTURES[0]), GainMeter(), GainMeter()
    _measure(sampler, meter, 5, gradient=[1.0, 2.0])
    other.load_state_dict(meter.state_dict())
    assert other.noise == meter.noise
    _measure(sampler, other, 1, gradient=[1.0, 2.0, 3.0])  # of another model, even
    assert other.noise == meter.noise


BROKEN = [
    ({"decay": 0.9}, "another window"),
    ({"decay": math.nan}, "decay"),
    ({"decay": "1"}, "decay"),
    ({"unit": -1.0}, "unit"),
    ({"unit": 0.0}, "without a unit"),
    ({"unit": None}, "unit"),
    ({"largest_weight": math.inf}, "largest_weight"),
    ({"largest_weight": 1e200}, "largest_weight"),
    ({"largest_weight": 0.0}, "without draws"),
    ({"largest_weight": 0.01}, "weights that are too small or too large"),
    ({"batches": -1}, "batches"),
    ({"batches": 2.0}, "batches"),
    ({"batches": True}, "batches"),
    ({"batches": 10**40}, "batches"),
    ({"batches": 0}, "without receipts"),
    ({"batches": 1}, "too small|do not hold|mean gradients"),
    ({"draws": 4}, "without draws"),
    ({"draws": 2**64}, "draws"),
    ({"pairs": np.zeros(3)}, "pairs"),
    ({"pairs": [0.0] * 5}, "pairs"),
    ({"pairs": np.array([4.0, 9.0, 1.0, 0.1, 0.1])}, "mean gradients"),
    ({"pairs": np.array([4.0, 1.0, 2.0, 0.1, -0.1])}, "mean gradients"),
    ({"pairs": np.array([40.0, 1.0, 2.0, 0.1, 0.1])}, "mean gradients"),
    ({"sums": np.zeros(5)}, "do not hold"),
    ({"sums": np.full(5, np.nan)}, "sums"),
    ({"sums": np.ones(5, dtype=np.float32)}, "sums"),
    ({"squares": np.zeros(4)}, "too small"),
    ({"squares": np.full(4, 1e300)}, "too large"),
    (
        {"sums": np.array([40.0, 40.0, 60.0, 1.0, 1e-200]), "squares": np.array([320.0, 1.0, 1e-200, 1e-295])},
        "second moments that contradict|do not hold",
    ),
    ({"lap": np.array([1.0, -1.0])}, "lap"),
    ({"lap": np.array([0.0, 1.0])}, "lap"),
    ({"lap": np.array([1e9, 1.0])}, "lap"),
]


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize(("change", "words"), BROKEN)
def test_a_saved_meter_that_does_not_fit_is_refused(change, words, window):
    meter = _measure(_sampler(MIXTURES[0]), GainMeter(window), 5, gradient=[1.0, 2.0])
    state = meter.state_dict()
    with pytest.raises(varmix.CheckpointError, match=words):
        meter.load_state_dict({**state, **change})
    assert same(meter.state_dict(), state)


def test_a_whole_run_holds_the_draws_that_it_says():
    meter = _measure(_sampler(MIXTURES[0]), GainMeter(), 5)
    for draws in (39, 41, 2**60):
        with pytest.raises(varmix.CheckpointError, match="do not hold"):
            GainMeter().load_state_dict({**meter.state_dict(), "draws": draws})


@pytest.mark.parametrize("name", ["sums", "squares"])
@pytest.mark.parametrize("factor", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("window", [None, 3])
def test_a_saved_sum_that_no_run_can_have_left_is_refused_or_harmless(name, factor, window):
    meter = _measure(_sampler(MIXTURES[0]), GainMeter(window), 12, gradient=[1.0, 2.0])
    state, refused = meter.state_dict(), 0
    for i in range(len(state[name])):
        broken = {**state, name: state[name].copy()}
        broken[name][i] *= factor
        other = GainMeter(window)
        try:
            other.load_state_dict(broken)
        except varmix.CheckpointError:
            refused += 1
            assert same(other.state_dict(), GainMeter(window).state_dict())
            continue
        gain = other.gain
        assert 0.0 <= gain.low <= gain.value <= gain.high
        assert 0.0 < other.effective_sample_size <= 1.0 + 1e-6
    assert refused >= 1


@pytest.mark.parametrize("scale", [1e-110, 1.0, 1e100])
@pytest.mark.parametrize("window", [None, 2, 20, 1000])
def test_whatever_a_meter_has_seen_can_be_loaded(window, scale):
    rng, meter = np.random.default_rng(0), GainMeter(window)
    assert same(_loaded(meter).state_dict(), meter.state_dict())
    for number in range(300):
        draw = _sampler(rng.dirichlet(np.ones(3)) * 0.99 + [0, 0, 0.01], rng=rng.integers(99)).draw(rng.integers(1, 9))
        norms = scale * rng.gamma(0.1, size=len(draw)) ** rng.choice([0.0, 1.0, 20.0]) * (number % 7 != 3)
        meter.update(draw, np.minimum(norms, 1e115), gradient=rng.normal(size=2) if number % 3 else None)
        if number % 50 == 10:
            meter.gain_since_last_call()
        assert same(_loaded(meter).state_dict(), meter.state_dict())


def _loaded(meter):
    other = GainMeter(meter._window)
    other.load_state_dict(meter.state_dict())
    return other


def test_moments_may_come_from_several_processes():
    sampler, whole, parts = _sampler(MIXTURES[0]), GainMeter(), GainMeter()
    for _ in range(10):
        draw = sampler.draw(8)
        whole.update(draw, NORMS[draw.indices])
        both = [draw.select(slice(rank, None, 2)) for rank in range(2)]
        seen = [Moments.of(varmix.learners.Evidence.from_draw(part, NORMS[part.indices])) for part in both]
        means = np.mean([one[1:5] for one in seen], axis=0).tolist()
        parts.add_moments(Moments(8, *means, max(one.largest for one in seen)))
    for name, value in whole.summary().items():
        assert parts.summary()[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-12))


@pytest.mark.parametrize(
    ("density", "words"),
    [
        ([1.0, 1.0], "not distinguishable from no gain, and the learner plays the mixture"),
        ([1.1, 1.0], "a small gain, and the learner plays the mixture"),
    ],
)
def test_a_cautious_learner_is_not_told_to_switch_off(density, words):
    meter = GainMeter(reshuffled=True, switches=True)
    for _ in range(20):
        meter.add_moments(Moments.of(Evidence([[1.0], [1.0]], [1.0, 1.0], density)))
    assert words in meter.verdict()
    assert "nothing has to be switched off" in meter.verdict()


def test_a_meter_of_shards_of_different_sizes_can_be_loaded():
    """Their weights are scaled by the sizes, so the largest one says nothing of the ratio of the second moments."""
    meter = GainMeter()
    for _ in range(3):
        meter.add_moments(Moments(24, 12.8, 128.0, 1.0, 1.5, 2.0))
    assert _loaded(meter).gain == meter.gain


def test_a_stretch_cannot_have_lasted_longer_than_the_run():
    meter = GainMeter()
    for _ in range(3):
        meter.add_moments(Moments(24, 2.0, 1.0, 1.0, 1.5, 2.0))
    state = meter.state_dict()
    state["recent"] = 1.01 * state["sums"][3:]
    with pytest.raises(varmix.CheckpointError, match="longer than the run"):
        GainMeter().load_state_dict(state)
    state["recent"] = np.array([state["sums"][3], 0.0])
    with pytest.raises(varmix.CheckpointError, match="recent sums that contradict"):
        GainMeter().load_state_dict(state)
