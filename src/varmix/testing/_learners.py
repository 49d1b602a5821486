"""Contract checks for learners."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray, same
from varmix.learners._base import Learner, load_state, save_state

MakeLearner: TypeAlias = Callable[[], Learner[Any]]


def _make_evidence(k: int, rounds: int, m: int = 4, scale: float = 1.0) -> list[Evidence]:
    """Return random evidence of some rounds, over disjoint groups and a last, uniform component."""
    rng = np.random.default_rng(7)
    made = []
    for _ in range(rounds):
        groups = rng.integers(k - 1, size=m) if k > 1 else np.zeros(m, dtype=np.int64)
        ratios = np.zeros((m, k))
        ratios[np.arange(m), groups] = max(k - 1, 1)
        ratios[:, -1] = 1.0
        made.append(Evidence(ratios, scale * rng.random(m) * (1 + groups), np.full(m, 0.7)))
    return made


def _find_size(make: MakeLearner) -> tuple[Learner[Any], int]:
    """Return the learner and a number of components that it accepts: some learners accept only one number."""
    learner = make()
    for k in (3, 2, 4, 5, 6, 8):
        try:
            learner.init(k)
        except ValueError:
            continue
        return learner, k
    raise AssertionError("the learner accepts none of 2 to 8 components")


def check_mixtures_stay_in_the_simplex(make: MakeLearner) -> None:
    """Check that mixtures stay valid for evidence of any scale.

    They must be finite and non-negative, sum to one, and have a share of at least `gamma` for the last component.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new learner. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a mixture breaks one of these rules.

    Examples
    --------
    >>> from varmix.learners import BarrierNewton
    >>> check_mixtures_stay_in_the_simplex(BarrierNewton)
    """
    learner, k = _find_size(make)
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
    """Check that a step changes neither its state nor its evidence, and repeats exactly.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new learner. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a step changed its arguments, or returned another result when repeated.

    Examples
    --------
    >>> from varmix.learners import BarrierNewton
    >>> check_steps_are_pure(BarrierNewton)
    """
    learner, k = _find_size(make)
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
    """Check that a learner resumes from a saved state exactly, bit for bit.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new learner. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If the loaded learner differs from the original one.

    Examples
    --------
    >>> from varmix.learners import BarrierNewton
    >>> check_learners_go_on_after_loading(BarrierNewton)
    """
    learner, k = _find_size(make)
    state = learner.init(k)
    rounds = _make_evidence(k, 20)
    for evidence in rounds[:10]:
        state = learner.step(state, evidence)
    other: Any = load_state(make(), k, save_state(state))
    for evidence in rounds[10:]:
        state, other = learner.step(state, evidence), learner.step(other, evidence)
    assert same(save_state(state), save_state(other)), "the loaded learner differs from the original one"


def check_rows_are_declared(make: MakeLearner) -> None:
    """Check that a learner with `needs_rows = False` does not look at single rows of the evidence.

    Its mixture must not change if every row occurs twice, or if a single row with the same value and gradient at the
    learned mixture replaces all rows. Processes that share a sampler exchange only such rows.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new learner. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If merged rows move the mixture.

    Examples
    --------
    >>> from varmix.learners import BarrierNewton
    >>> check_rows_are_declared(BarrierNewton)
    """
    learner, k = _find_size(make)
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
    for name, mixture in (("duplicated rows", other.mixture), ("rows merged into one", merged.mixture)):
        difference = np.abs(state.mixture - mixture).max()
        assert difference < 1e-9, f"{name} moved the mixture by {difference}"


def _merge_rows(evidence: Evidence, w: FloatArray) -> Evidence:
    """Return one row with the same value and gradient at `w`, or the evidence itself if these are infinite."""
    if not (evidence.ratios @ w).all():
        return evidence
    return Evidence.from_sums(evidence.value(w), evidence.gradient(w), evidence.at_uniform)


LEARNER_CHECKS: tuple[Callable[[MakeLearner], None], ...] = (
    check_mixtures_stay_in_the_simplex,
    check_steps_are_pure,
    check_learners_go_on_after_loading,
    check_rows_are_declared,
)
