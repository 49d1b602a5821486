import numpy as np
import pytest

from families import LEARNERS
from varmix import Fixed
from varmix.learners.base import MixtureState
from varmix.testing import LEARNER_CHECKS


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


@pytest.mark.parametrize("name", LEARNERS)
def test_all_zero_batches_are_legal_and_leave_a_mixture(name):
    from varmix import Evidence

    learner = LEARNERS[name]()
    state = learner.init(4)
    for _ in range(3):
        state = learner.step(state, Evidence(np.ones((5, 4)), np.zeros(5)))
    assert state.mixture == pytest.approx(learner.init(4).mixture)
