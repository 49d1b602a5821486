"""A step of a learner ends in the simplex or is refused, however extreme its settings and losses are."""

import numpy as np
import pytest

import varmix
from varmix._core.validation import same
from varmix.learners import OGD, ONS, BarrierNewton, Cautious, Evidence, Leader, Neyman, save_state

SETTINGS = (1e-320, 1e-299, 1e-100, 1e-10, 1.0, 1e10, 1e100, 1e299, 1.7e308)
MASSES = [0.7, 0.2, 0.1, 0.0]
K = len(MASSES) + 1


def of_groups(rng, norm, density):
    """Give a round of draws from four groups, the last component being uniform."""
    groups = rng.integers(K - 1, size=3)
    ratios = np.zeros((3, K))
    ratios[np.arange(3), groups] = 1.0 / np.maximum(MASSES, 0.05)[groups]
    ratios[:, -1] = 1.0
    return Evidence(ratios, np.full(3, norm**2 / density), np.full(3, density))


def learners(gamma):
    yield from (OGD(gamma=gamma), Leader(gamma=gamma), Leader(gamma=gamma, window=2, steps=5))
    yield from (Neyman(MASSES, gamma=gamma), Neyman(MASSES, gamma=gamma, window=2, parents=[0, 0, 1, 1]))
    yield from (Neyman(MASSES, gamma=gamma, prior=[size, 0.0, size, 1.0]) for size in (5e-324, 1e250))
    yield from (OGD(gamma=gamma, step_size=size) for size in SETTINGS)
    for beta in SETTINGS:
        for eps in SETTINGS:
            yield BarrierNewton(gamma=gamma, beta=beta, eps=eps)
            if 1e-300 <= eps <= 1e300:
                yield from (ONS(gamma=gamma, beta=beta, eps=eps, projection=kind) for kind in ("exact", "pgd"))
    yield from (Cautious(OGD(gamma=gamma, step_size=1e300)), Cautious(BarrierNewton(gamma=gamma)))


@pytest.mark.parametrize("gamma", [1e-300, 1e-9, 0.1, 1.0])
@pytest.mark.parametrize("norms", [[1e120], [1e-120, 1e120, 1.0], [1e110, 0.0, 1e-110, 1.0]], ids=str)
def test_a_step_returns_a_mixture_or_raises(gamma, norms):
    rng, steps = np.random.default_rng(0), 0
    for learner in learners(gamma):
        state = learner.init(K)
        for norm in norms:
            before = save_state(state)
            try:
                after = learner.step(state, of_groups(rng, norm, 1e-6 if norm < 1e100 else 1e3))
            except ValueError:
                assert same(save_state(state), before), learner
                break
            w, state, steps = after.mixture, after, steps + 1
            assert np.isfinite(w).all(), learner
            assert w.min() >= 0.0, learner
            assert w.sum() == pytest.approx(1.0, abs=1e-12), learner
            assert w[-1] >= gamma, learner
    assert steps > 80


@pytest.mark.parametrize("size", [1e3, 1e100, 1e308])
@pytest.mark.parametrize("loss", [1.0, 1e100])
def test_a_huge_fixed_step_ends_on_the_steepest_component(size, loss):
    learner = OGD(step_size=size)
    evidence = Evidence([[4.0, 0.0, 1.0], [0.0, 2.0, 1.0]], [loss, loss / 1000])
    assert learner.step(learner.init(3), evidence).mixture == pytest.approx([0.9, 0.0, 0.1], abs=1e-12)


def test_a_huge_fixed_step_leaves_shares_alone_where_nothing_is_steeper():
    learner = OGD(step_size=1e308)
    state = learner.init(3)._replace(mixture=np.array([0.2, 0.3, 0.5]))
    moved = learner.step(state, Evidence([[1.0, 1.0, 1.0]], [1e100]))
    assert moved.mixture == pytest.approx([0.2, 0.3, 0.5], abs=1e-15)


@pytest.mark.parametrize("learner", [OGD(), OGD(step_size=0.1), BarrierNewton(), Cautious()], ids=repr)
def test_an_atom_without_density_is_refused_and_nothing_changes(learner):
    """One infinite cost would stay in the sums for ever, and the mixture where it is."""
    state = learner.init(3)
    border = np.array([0.0, 0.9, 0.1])
    if isinstance(learner, Cautious):
        state = state._replace(learned=state.learned._replace(mixture=border))
    else:
        state = state._replace(mixture=border)
    before = save_state(state)
    with pytest.raises(ValueError, match=r"not finite at the mixture \[0.  0.9 0.1\].*with_uniform"):
        learner.step(state, Evidence([[3.0, 0.0, 0.0]], [1.0]))
    assert same(save_state(state), before)
    learner.step(state, Evidence([[3.0, 0.0, 1.0]], [1.0]))


def test_settings_that_no_step_can_use_are_refused():
    for eps in (1e-305, 1e305):
        with pytest.raises(ValueError, match=r"eps must lie in \[1e-300, 1e\+300\]"):
            ONS(eps=eps)
    with pytest.raises(ValueError, match=r"prior must be squared norms, from 0 to 1e\+250, got 0 to 1e\+307"):
        Neyman([0.5, 0.5], prior=[0.0, 1e307])
    for projection in ("exact", "pgd"):
        learner = ONS(beta=1e-320, projection=projection)
        with pytest.raises(ValueError, match=r"beta = 9.99989e-321 is too small for these losses"):
            learner.step(learner.init(3), Evidence([[4.0, 0.0, 1.0]], [1.0]))


def test_feedback_that_a_learner_refuses_leaves_the_sampler_as_it_was():
    sampler = varmix.vrm(varmix.Groups([0, 1, 1, 1]), learner=ONS(), rng=0)
    draw = sampler.draw(4)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match="too large for ONS"):
        sampler.update(draw, np.full(4, 1e100))
    assert same(sampler.state_dict(), before)
    sampler.update(draw, np.ones(4))
