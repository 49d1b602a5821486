import numpy as np
import pytest

import varmix
from varmix import Groups
from varmix.reweight import Clip, Power, SoftTruncation, exact, unweighted

DENSITY = np.array([0.1, 0.5, 1.0, 4.0])


@pytest.mark.parametrize(
    ("reweight", "weights", "unbiased"),
    [
        (exact, [10.0, 2.0, 1.0, 0.25], True),
        (SoftTruncation(0.2), [8.2, 1.8, 1.0, 0.4], False),
        (Power(0.5), [10**0.5, 2**0.5, 1.0, 0.5], False),
        (unweighted, [1.0, 1.0, 1.0, 1.0], False),
        (Power(1.0), [10.0, 2.0, 1.0, 0.25], False),
        (Clip(3.0), [3.0, 2.0, 1.0, 0.25], False),
    ],
)
def test_weights_are_the_formulas(reweight, weights, unbiased):
    assert reweight(DENSITY) == pytest.approx(weights)
    assert reweight.unbiased == unbiased


@pytest.mark.parametrize("reweight", [SoftTruncation(0.5), Power(0.3), Clip(0.7)])
def test_reweighting_changes_the_weights_and_nothing_that_is_learned(reweight):
    plain, changed = (varmix.vrm(Groups([0, 0, 0, 1]), rng=0, reweight=r) for r in (exact, reweight))
    for _ in range(20):
        one, other = plain.draw(5), changed.draw(5)
        assert np.array_equal(one.density, other.density)
        assert other.weights == pytest.approx(reweight(one.density))
        for sampler, draw in ((plain, one), (changed, other)):
            sampler.update(draw, 1.0 + draw.indices)
    assert np.array_equal(plain.mixture, changed.mixture)


@pytest.mark.parametrize("reweight", [Clip(np.float64(3)), Power(np.float32(0.5)), SoftTruncation(np.float64(0.2))])
def test_settings_of_any_float_type_come_back_from_a_checkpoint(reweight, tmp_path):
    make = lambda: varmix.vrm(Groups([0, 0, 0, 1]), rng=0, reweight=reweight)  # noqa: E731
    varmix.save(tmp_path / "sampler", make())
    varmix.load(tmp_path / "sampler", make())


def test_reweighting_may_be_changed_between_draws_and_other_parts_may_not():
    sampler = varmix.vrm(Groups([0, 0, 0, 1]), rng=0)
    sampler.reweight = Clip(0.5)
    assert sampler.draw(20).weights.max() <= 0.5
    with pytest.raises(TypeError, match="reweight must be"):
        sampler.reweight = None
    for name in ("components", "learner", "allocate", "mixture"):
        with pytest.raises(AttributeError):
            setattr(sampler, name, None)
