"""Samplers that need constants and no feedback: by Lipschitz constants, and by strata."""

import numpy as np
import pytest

import varmix
from varmix import literature


@pytest.fixture
def constants():
    return np.random.default_rng(0).lognormal(size=50)


def law(sampler):
    draw_all = sampler.draw_all()
    return (draw_all.ratios @ sampler.mixture) / len(draw_all)


def test_half_smoothing_is_partially_biased_sampling(constants):
    """Needell, Srebro and Ward (2014): p = 1/2 uniform + 1/2 L / sum L, weights at most 2."""
    sampler = varmix.importance(constants, smoothing=0.5, rng=0)
    np.testing.assert_allclose(law(sampler), 0.5 / 50 + 0.5 * constants / constants.sum(), rtol=1e-6)
    assert sampler.draw(2000).weights.max() <= 2


def test_no_smoothing_is_in_proportion_to_the_constants(constants):
    """Zhao and Zhang (2015): p = L / sum L."""
    sampler = varmix.importance(constants, smoothing=0, rng=0)
    np.testing.assert_allclose(law(sampler), constants / constants.sum(), rtol=1e-6)
    draw = sampler.draw(2000)
    np.testing.assert_allclose(draw.weights, constants.mean() / constants[draw.indices], rtol=1e-6)


def test_no_smoothing_needs_positive_scores():
    for scores in ([0.0, 1.0], [1e-40, 1.0]):
        with pytest.raises(ValueError, match=r"Point 0 has .* Give it a score, or use smoothing"):
            varmix.importance(scores, smoothing=0)
    assert varmix.importance([0.0, 1.0], smoothing=0.1).draw(3).weights.max() <= 10


LABELS = np.repeat([2, 5, 7], [40, 12, 8])


def test_strata_get_slots_in_proportion_to_size_times_deviation():
    """Zhao and Zhang (2014): b_j = b |C_j| v_j / sum |C| v."""
    deviations = np.array([0.5, 1.0, 6.0])
    sampler = literature.stratified_sampling(LABELS, deviations, rng=0)
    sizes = np.array([40, 12, 8])
    np.testing.assert_allclose(sampler.mixture, sizes * deviations / (sizes @ deviations), rtol=1e-12)
    for _ in range(20):  # 20 : 12 : 48 of 80 slots are whole numbers
        draw = sampler.draw(80)
        assert [int((LABELS[draw.indices] == label).sum()) for label in (2, 5, 7)] == [20, 12, 48]
        expected = {2: 40 / 60 * 80 / 20, 5: 12 / 60 * 80 / 12, 7: 8 / 60 * 80 / 48}  # |C_j| / n over b_j / b
        np.testing.assert_allclose(draw.weights, [expected[label] for label in LABELS[draw.indices]], rtol=1e-12)


def test_without_deviations_slots_are_in_proportion_to_size():
    sampler = literature.stratified_sampling(LABELS, rng=0)
    np.testing.assert_allclose(sampler.mixture, np.array([40, 12, 8]) / 60)
    assert sampler.draw(45).weights == pytest.approx(1)


def test_the_variance_is_the_papers():
    """Sum over strata of (|C_j| / n)^2 v_j^2 / b_j, with the deviations inside the strata."""
    values = np.random.default_rng(1).normal(size=60) * np.array([0.5, 1.0, 6.0])[np.searchsorted([2, 5, 7], LABELS)]
    values += 10 * LABELS
    sampler = literature.stratified_sampling(LABELS, [0.5, 1.0, 6.0], rng=0)
    means = [float((draw.weights * values[draw.indices]).mean()) for draw in (sampler.draw(20) for _ in range(8000))]
    parts = [((LABELS == label).mean(), values[LABELS == label].var()) for label in (2, 5, 7)]
    expected = sum(w**2 * v / b for (w, v), b in zip(parts, [5, 3, 12], strict=True))
    assert np.var(means) == pytest.approx(expected, rel=0.08)
    assert np.mean(means) == pytest.approx(values.mean(), abs=5 * np.sqrt(expected / 8000))


@pytest.mark.parametrize(
    ("deviations", "says"),
    [([1.0, 0.0, 1.0], "stratum 5 has 0"), ([1.0, 1.0], r"shape \(3,\)"), ([1.0, np.nan, 1.0], "finite")],
)
def test_wrong_deviations_are_refused(deviations, says):
    with pytest.raises(ValueError, match=says):
        literature.stratified_sampling(LABELS, deviations)
