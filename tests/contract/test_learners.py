from typing import Any, NamedTuple

import numpy as np
import pytest

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
    """Plays half of what it learns, and does not say where it learns it."""

    class State(NamedTuple):
        mixture: Any
        inner: Any

    def _played(self, inner):
        return self.State(0.5 * inner.mixture + 0.5 * np.eye(len(inner.mixture))[-1], inner)

    def init(self, k):
        return self._played(super().init(k))

    def step(self, state, evidence):
        return self._played(super().step(state.inner, evidence))


class _SaysSo(_PlaysHalf):
    class State(NamedTuple):
        mixture: Any
        learned: Any

    def step(self, state, evidence):
        return self._played(BarrierNewton.step(self, state.learned, evidence))


def test_who_plays_another_mixture_must_say_which_was_learned():
    check_rows_are_declared(_SaysSo)
    with pytest.raises(AssertionError, match="rows merged into one"):
        check_rows_are_declared(_PlaysHalf)


@pytest.mark.parametrize("name", LEARNERS)
def test_all_zero_batches_are_legal_and_leave_a_mixture(name):
    from varmix.learners import Evidence

    learner = LEARNERS[name]()
    state = learner.init(4)
    for _ in range(3):
        state = learner.step(state, Evidence(np.ones((5, 4)), np.zeros(5)))
    assert state.mixture == pytest.approx(learner.init(4).mixture)
