from typing import Any, NamedTuple

import numpy as np
import pytest

import varmix
from support.families import LEARNERS
from varmix.learners import BarrierNewton, Fixed
from varmix.learners._base import MixtureState
from varmix.testing import LEARNER_CHECKS, check_rows_are_declared


@pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_keeps_the_contract(name, check):
    check(LEARNERS[name])


class _Escapes(Fixed):
    def step(self, state, evidence):
        return MixtureState(state.mixture * 1.1)


class _WritesInPlace(Fixed):
    def step(self, state, evidence):
        state.mixture[:] = np.roll(state.mixture, 1)
        state.mixture[0] += 1e-3
        return state


class _Forgets(Fixed):
    rounds = 0

    def step(self, state, evidence):
        type(self).rounds += 1
        return MixtureState(np.roll(np.array([0.5, 0.3, 0.2]), type(self).rounds))

    def check_state(self, state):
        """Any mixture may have been played."""


class _LooksAtRows(Fixed):
    def step(self, state, evidence):
        mixture = np.array([1.0 / len(evidence.ratios), 0.0, 0.0])
        mixture[-1] = 1.0 - mixture[0]
        return MixtureState(mixture)


@pytest.mark.parametrize(
    ("check", "broken"),
    list(zip(LEARNER_CHECKS, [_Escapes, _WritesInPlace, _Forgets, _LooksAtRows], strict=True)),
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_check_can_fail(check, broken):
    with pytest.raises(AssertionError):
        check(broken)


class _PlaysHalf(BarrierNewton):
    """Plays half of what it learns, and does not declare what it learns."""

    class State(NamedTuple):
        mixture: Any
        inner: Any

    def _mix(self, inner):
        return self.State(0.5 * inner.mixture + 0.5 * np.eye(len(inner.mixture))[-1], inner)

    def init(self, k):
        return self._mix(super().init(k))

    def step(self, state, evidence):
        return self._mix(super().step(state.inner, evidence))


class _Declares(_PlaysHalf):
    def learned(self, state):
        return state.inner.mixture


def test_a_learner_that_plays_another_mixture_must_declare_what_it_learned():
    check_rows_are_declared(_Declares)
    with pytest.raises(AssertionError, match="rows merged into one"):
        check_rows_are_declared(_PlaysHalf)


class _PlaysUniform(_Declares):
    """Declares that it plays the uniform component, whatever it has learned."""

    def played(self, state):
        return np.eye(len(state.mixture))[-1]

    def gain(self, state):
        return 7.0

    def check_state(self, state):
        """Accept any state: this one has no curvature to check."""


def test_what_a_learner_declares_is_what_the_sampler_plays_and_shows():
    family = lambda: varmix.Dense([[0.9, 0.1], [0.1, 0.9]])  # noqa: E731
    sampler, resumed = (varmix.Sampler(family(), learner=_PlaysUniform(), rng=seed) for seed in (0, 1))
    for _ in range(10):
        draw = sampler.draw(8)
        assert draw.weights.tolist() == [1.0] * 8
        sampler.update(draw, 3.0 * draw.indices)
    assert sampler.mixture.tolist() == [0.0, 0.0, 1.0]
    assert sampler.learned_mixture[1] > 0.26
    assert (sampler.learned_gain, BarrierNewton().gain(BarrierNewton().init(3))) == (7.0, None)
    resumed.load_state_dict(sampler.state_dict())
    assert resumed.mixture.tolist() == [0.0, 0.0, 1.0]
    assert resumed.learned_mixture.tolist() == sampler.learned_mixture.tolist()


@pytest.mark.parametrize("name", LEARNERS)
def test_all_zero_batches_are_legal_and_leave_a_mixture(name):
    from varmix.learners import Evidence

    learner = LEARNERS[name]()
    state = learner.init(4)
    for _ in range(3):
        state = learner.step(state, Evidence(np.ones((5, 4)), np.zeros(5)))
    assert state.mixture == pytest.approx(learner.init(4).mixture)
