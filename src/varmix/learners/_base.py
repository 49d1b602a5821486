"""Learners: from evidence to the next mixture."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError, read_count, read_number, require_entries, restore_array
from varmix._core.validation import FloatArray, State, as_count
from varmix.simplex import RestrictedSimplex


class HasMixture(Protocol):
    """The state of a learner: a named tuple of arrays, numbers and other states; one of the arrays is the mixture.

    A learner that plays another mixture than it learns about has the state of what learns under `learned`.
    """

    @property
    def mixture(self) -> FloatArray:
        """The mixture to draw with next."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=HasMixture)


class Learner(Protocol[S]):
    """An online algorithm over mixtures, as two pure functions and a few frozen settings.

    `needs_rows` says what many processes must exchange: False when a learner reads only the value and the gradient
    of the evidence at its mixture and what the uniform component costs (k + 2 numbers that can be summed), True when it
    looks at single rows.

    A learner without `needs_uniform = False` gets the uniform component as its last one.

    A learner that keeps more than a mixture may have `check_state(state)`, which raises `ValueError` if a saved state
    of the right shapes cannot be one of its own.
    """

    @property
    def needs_rows(self) -> bool:
        """Whether it looks at single rows of the evidence."""
        ...

    def init(self, k: int) -> S:
        """Give the state before the first round."""
        ...

    def step(self, state: S, evidence: Evidence) -> S:
        """Give the state after a round; `state` itself stays as it is."""
        ...


def set_frozen(learner: object, **settings: float | int) -> None:
    """Store checked settings in a frozen learner: as given they may be fractions, or numbers of other libraries."""
    for name, value in settings.items():
        object.__setattr__(learner, name, value)


def make_even_mixture(k: int, gamma: float) -> FloatArray:
    """Give 1/k for every component, the paper's start, projected onto the restricted simplex."""
    return RestrictedSimplex(gamma).project(np.full(as_count(k, "k"), 1.0 / k))


def half_uniform(k: int, gamma: float) -> FloatArray:
    """Give half of the mass to the uniform component and spread the rest evenly."""
    if as_count(k, "k") == 1:
        return np.ones(1)
    mixture = np.full(k, 0.5 / (k - 1))
    mixture[-1] = 0.5
    return RestrictedSimplex(gamma).project(mixture)


def save_state(state: HasMixture) -> State:
    """Give a learner's state as plain arrays and numbers."""
    return {name: _save_value(value) for name, value in state._asdict().items()}


def _save_value(value: Any) -> Any:  # noqa: ANN401
    if hasattr(value, "_asdict"):
        return save_state(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def load_state(learner: Learner[S], k: int, saved: object) -> S:
    """Return the saved state of a learner over k components, after checking that the learner can have left it.

    What can be seen of any learner is checked here: entries, shapes, finite numbers, the mixture.  A learner that keeps
    more than a mixture says in `check_state(state)` what else must hold, and raises `ValueError` where it does not.
    """
    state = _load_like(learner.init(k), saved)
    check_mixture(state.mixture, getattr(learner, "gamma", 0.0))
    check = getattr(learner, "check_state", None)
    if check is not None:
        check(state)
    return state


def _load_like(first: S, saved: object) -> S:
    """Return saved entries as a state of the same class as `first`, with the same shapes and types."""
    fields = first._asdict()
    require_entries(saved, set(fields), type(first).__name__)
    assert isinstance(saved, Mapping)
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if hasattr(value, "_asdict"):
            values[name] = _load_like(value, saved[name])
        elif isinstance(value, np.ndarray):
            values[name] = restore_array(saved[name], value, name)
        elif isinstance(value, int):
            values[name] = read_count(saved, name)
        else:
            values[name] = read_number(saved, name, least=-math.inf)
    return type(first)(**values)


def check_mixture(mixture: FloatArray, gamma: float) -> None:
    """Raise `CheckpointError` if a saved mixture is not on the simplex, or has less than gamma on its last entry."""
    inside = 0.0 <= mixture.min() and mixture.max() <= 1.0 + 1e-9  # first, for the sum may overflow
    if not inside or abs(mixture.sum() - 1.0) > 1e-9 or mixture[-1] < gamma - 1e-12:
        total = float(mixture.sum()) if inside else math.nan
        raise CheckpointError(
            f"The saved mixture is not one: its entries are {mixture.min():.3g} to {mixture.max():.3g} with sum "
            f"{total:.6g}, and {mixture[-1]:.3g} on the last component, which needs {gamma:g}: it is damaged."
        )


def check_curvature(matrix: FloatArray, name: str, least: float = 0.0) -> None:
    """Raise `CheckpointError` if a saved matrix is not symmetric with eigenvalues of at least `least`."""
    size = float(np.abs(matrix).max(initial=0.0))
    if size > 1e300 or np.abs(matrix - matrix.T).max(initial=0.0) > 1e-9 * size:
        raise CheckpointError(f"The saved {name} is not symmetric, or too large.")
    lowest = float(np.linalg.eigvalsh(matrix)[0]) if matrix.size else least
    if lowest < least * (1.0 - 1e-9) - 1e-9 * size:
        raise CheckpointError(f"The saved {name} has an eigenvalue of {lowest:.3g}; the least can be {least:g}.")


class MixtureState(NamedTuple):
    """The state of a learner that remembers nothing but its mixture."""

    mixture: FloatArray
