import subprocess
import sys

import pytest

import varmix
from varmix.theory import full_information, gradient_descent, partial_information


def test_public_names_are_sorted_and_exist():
    assert varmix.__all__ == sorted(varmix.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(hasattr(varmix, name) for name in varmix.__all__)


def test_the_core_never_imports_what_is_optional():
    code = (
        "import sys, varmix, varmix.rl, numpy as np;"
        "s = varmix.vrm(varmix.Groups([0, 1])); s.update(s.draw(2), np.ones(2));"
        "optional = {'torch', 'gymnasium', 'sklearn', 'matplotlib', 'rich', 'pytest', 'pyarrow', 'platformdirs'};"
        "print(sorted(optional & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_the_theorys_settings_are_clipped_and_follow_the_formulas():
    assert full_information(100, 7).gamma == 0.5
    settings = partial_information(10**6, 4, c=2.0, L=3.0)
    gamma = 4 ** (3 / 8) * (2.0 / 10**6) ** 0.2
    assert settings.gamma == gamma
    assert settings.alpha == 2 * gamma**2 / 3
    assert settings.gradient_bound == 3 * 2 * 2 / gamma**3
    assert settings.beta == 0.5 * min(1 / (4 * settings.gradient_bound * 2**0.5), settings.alpha)
    assert settings.ons().eps == settings.eps
    descent = gradient_descent(10**6, 4, L=3.0)
    assert descent.gamma == pytest.approx(2**0.5 * (4 / 10**6) ** (1 / 6))
    assert descent.step_size == pytest.approx(2**0.5 / (3 * 2 / descent.gamma**2 * 10**3))


def test_presets_draw_what_they_say():
    assert (varmix.uniform(7, rng=0).draw(100).weights == 1).all()
    sampler = varmix.importance([1.0, 3.0], smoothing=0.2, rng=0)
    assert (sampler.draw_all().ratios @ sampler.mixture).tolist() == [0.8 * 0.5 + 0.2, 0.8 * 1.5 + 0.2]
    before = sampler.mixture
    sampler.update(sampler.draw(4), [9.0, 0.0, 1.0, 3.0])
    assert sampler.mixture.tolist() == before.tolist()


def test_objects_say_what_they_are():
    assert repr(varmix.vrm(varmix.Groups([0, 1]))) == (
        "Sampler(Groups(n=2, k=3), learner=BarrierNewton(gamma=0.1, beta=0.25, eps=None, window=None), "
        "allocate=stratified)"
    )
    assert repr(varmix.components.Subsets(5, 2)) == "Subsets(5, 2)"
    assert repr(varmix.simplex.RestrictedSimplex(0.5)) == "RestrictedSimplex(gamma=0.5)"
    assert "gain=" in repr(varmix.meter.GainMeter())
