"""Learners: from evidence to the next mixture."""

import math
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from varmix.arrays import FloatArray, State, as_count, require, restored
from varmix.evidence import Evidence
from varmix.kernels.simplex import project_restricted, settle


class HasMixture(Protocol):
    """The state of a learner: a named tuple of arrays, numbers and other states; one of the arrays is the mixture.

    A learner that plays another mixture than it learns about has the state of what learns under `learnt`.
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
    of the evidence at its mixture and what the anchor costs (k + 2 numbers that can be summed), True when it looks at
    single rows.
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


def checked(learner: object, **settings: float | int) -> None:
    """Store checked settings in a frozen learner: as given they may be fractions, or numbers of other libraries."""
    for name, value in settings.items():
        object.__setattr__(learner, name, value)


def even(k: int, gamma: float) -> FloatArray:
    """Give 1/k for every component, the paper's start, projected onto the restricted simplex."""
    return _start(np.full(as_count(k, "k"), 1.0 / k), gamma)


def half_uniform(k: int, gamma: float) -> FloatArray:
    """Give half of the mass to the uniform component and spread the rest evenly."""
    if as_count(k, "k") == 1:
        return np.ones(1)
    mixture = np.full(k, 0.5 / (k - 1))
    mixture[-1] = 0.5
    return _start(mixture, gamma)


def _start(mixture: FloatArray, gamma: float) -> FloatArray:
    start = np.empty(len(mixture))
    project_restricted(mixture, gamma, start)
    settle(start, gamma)
    return start


def save_state(state: HasMixture) -> State:
    """Give a learner's state as plain arrays and numbers."""
    return {name: _saved(value) for name, value in state._asdict().items()}


def _saved(value: Any) -> Any:  # noqa: ANN401
    if hasattr(value, "_asdict"):
        return save_state(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def load_state(like: S, saved: State, gamma: float = 0.0) -> S:
    """Give the saved state of the learner whose first state is `like`, after checking that it fits."""
    fields = like._asdict()
    require(saved, set(fields), type(like).__name__)
    values = {}
    for name, value in fields.items():
        if hasattr(value, "_asdict"):
            values[name] = load_state(value, saved[name])
        elif isinstance(value, np.ndarray):
            values[name] = restored(saved[name], value, name)
        elif not isinstance(saved[name], (int, float)) or not math.isfinite(saved[name]):
            raise ValueError(f"Saved {name} must be a finite number, got {saved[name]!r}: the checkpoint is damaged.")
        else:
            values[name] = type(value)(saved[name])
    loaded = type(like)(**values)
    mixture = loaded.mixture
    if mixture.min() < 0 or abs(mixture.sum() - 1) > 1e-9 or mixture[-1] < gamma:
        raise ValueError(f"The saved mixture {loaded.mixture} is not one: the checkpoint is damaged.")
    return loaded


class MixtureState(NamedTuple):
    """The state of a learner that remembers nothing but its mixture."""

    mixture: FloatArray
