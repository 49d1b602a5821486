"""What every learner must keep."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray, same
from varmix.learners._base import Learner, load_state, save_state

MakeLearner: TypeAlias = Callable[[], Learner[Any]]


def _make_evidence(k: int, rounds: int, m: int = 4, scale: float = 1.0) -> list[Evidence]:
    rng = np.random.default_rng(7)
    made = []
    for _ in range(rounds):
        groups = rng.integers(k - 1, size=m) if k > 1 else np.zeros(m, dtype=np.int64)
        ratios = np.zeros((m, k))
        ratios[np.arange(m), groups] = max(k - 1, 1)
        ratios[:, -1] = 1.0
        made.append(Evidence(ratios, scale * rng.random(m) * (1 + groups), np.full(m, 0.7)))
    return made


def _components_of(make: MakeLearner) -> tuple[Learner[Any], int]:
    """Give the learner and a number of components it accepts (some are made for one number)."""
    learner = make()
    for k in (3, 2, 4, 5, 6, 8):
        try:
            learner.init(k)
        except ValueError:
            continue
        return learner, k
    raise AssertionError("the learner accepts none of 2 to 8 components")


def check_mixtures_stay_in_the_simplex(make: MakeLearner) -> None:
    """Whatever the evidence: mixtures are non-negative, finite, sum to one, and give the last at least gamma."""
    learner, k = _components_of(make)
    gamma = learner.gamma
    for scale in (0.0, 1e-100, 1e-6, 1.0, 1e6, 1e100):
        state = learner.init(k)
        for evidence in _make_evidence(k, 30, scale=scale):
            w = state.mixture
            assert w.shape == (k,), f"mixture of shape {w.shape}"
            assert np.isfinite(w).all(), f"mixture {w} at scale {scale}"
            assert w.min() >= 0.0, f"negative entry in {w}"
            assert abs(w.sum() - 1.0) < 1e-12, f"mixture sums to {w.sum()}"
            assert w[-1] >= gamma, f"uniform component {w[-1]} below gamma = {gamma}"
            state = learner.step(state, evidence)


def check_steps_are_pure(make: MakeLearner) -> None:
    """A step changes neither the state nor the evidence it is given, and repeats exactly."""
    learner, k = _components_of(make)
    state = learner.init(k)
    for evidence in _make_evidence(k, 5):
        before = save_state(state)
        ratios, coefficients = evidence.ratios.copy(), evidence.coefficients.copy()
        after = learner.step(state, evidence)
        assert same(save_state(state), before), "the step changed its state in place"
        assert np.array_equal(evidence.ratios, ratios), "the step changed the evidence"
        assert np.array_equal(evidence.coefficients, coefficients), "the step changed the evidence"
        assert same(save_state(learner.step(state, evidence)), save_state(after)), "the same step differs"
        state = after


def check_learners_go_on_after_loading(make: MakeLearner) -> None:
    """A state that was saved and loaded goes on bit for bit."""
    learner, k = _components_of(make)
    state = learner.init(k)
    rounds = _make_evidence(k, 20)
    for evidence in rounds[:10]:
        state = learner.step(state, evidence)
    other: Any = load_state(make(), k, save_state(state))
    for evidence in rounds[10:]:
        state, other = learner.step(state, evidence), learner.step(other, evidence)
    assert same(save_state(state), save_state(other)), "the loaded learner went another way"


def check_rows_are_declared(make: MakeLearner) -> None:
    """`needs_rows` says whether a learner looks at single rows: one that does not must not notice merged rows.

    Neither rows that are there twice, nor one row with the value and the gradient of all at the mixture that was
    learned: that is all that many processes tell one another.
    """
    learner, k = _components_of(make)
    assert isinstance(learner.needs_rows, bool), "needs_rows must be a bool"
    if learner.needs_rows:
        return
    state = other = merged = learner.init(k)
    for evidence in _make_evidence(k, 10):
        twice = Evidence(
            np.repeat(evidence.ratios, 2, axis=0),
            np.repeat(evidence.coefficients, 2),
            np.repeat(evidence.density, 2),
        )
        one = _merge_rows(evidence, learner.learned(merged))
        state, other, merged = learner.step(state, evidence), learner.step(other, twice), learner.step(merged, one)
    for name, mixture in (("rows given twice", other.mixture), ("rows merged into one", merged.mixture)):
        difference = np.abs(state.mixture - mixture).max()
        assert difference < 1e-9, f"{name} moved the mixture by {difference}"


def _merge_rows(evidence: Evidence, w: FloatArray) -> Evidence:
    """Give one row with the same value and gradient; a mixture that leaves atoms out has none to give."""
    if not (evidence.ratios @ w).all():
        return evidence
    return Evidence.from_sums(evidence.value(w), evidence.gradient(w), evidence.at_uniform)


LEARNER_CHECKS: tuple[Callable[[MakeLearner], None], ...] = (
    check_mixtures_stay_in_the_simplex,
    check_steps_are_pure,
    check_learners_go_on_after_loading,
    check_rows_are_declared,
)
