"""Learner, the base class of algorithms that turn feedback into the next mixture."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeGuard, TypeVar

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError, read_count, read_number, require_entries, restore_array
from varmix._core.validation import FloatArray, State, as_count
from varmix.simplex import RestrictedSimplex


class LearnerState(Protocol):
    """The state of a learner: a named tuple of arrays, numbers and other states. One array is the mixture."""

    @property
    def mixture(self) -> FloatArray:
        """The mixture to draw with next."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


class MixtureState(NamedTuple):
    """The state of a learner that stores only its mixture."""

    mixture: FloatArray


S = TypeVar("S", bound=LearnerState)


class Learner(ABC, Generic[S]):
    """Base class of learners: frozen settings, and two pure functions that adapt a mixture.

    Subclass it as a frozen dataclass and define `init` and `step`. The state is a named tuple of arrays and numbers,
    one of them called `mixture`; saving and loading follow from that. Everything else has a default. `S` is the type of
    the state.

    Attributes
    ----------
    gamma : float
        Smallest share of the uniform component, so that no weight exceeds `1 / gamma`. Default: 0.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Halfway(Learner[MixtureState]):
    ...     gamma: float = 0.1
    ...
    ...     def init(self, k):
    ...         return MixtureState(half_uniform(k, self.gamma))
    ...
    ...     def step(self, state, evidence):
    ...         mixture = 0.5 * state.mixture
    ...         mixture[-1] += 0.5
    ...         return MixtureState(mixture)
    >>> learner = Halfway()
    >>> state = learner.step(learner.init(k=3), Evidence(ratios=[[1.0, 1.0, 1.0]], coefficients=[1.0]))
    >>> learner.played(state).tolist()
    [0.125, 0.125, 0.75]
    """

    gamma: float = 0.0

    @property
    def needs_rows(self) -> bool:
        """Whether `step` reads single rows of the evidence. Default: True.

        If False, it reads only the value and the gradient at its mixture and `evidence.at_uniform`. These are k + 2
        numbers, which several processes can add up.
        """
        return True

    @property
    def needs_uniform(self) -> bool:
        """Whether the last component must be the uniform one. A sampler adds it if it is missing. Default: True."""
        return True

    @property
    def learns(self) -> bool:
        """Whether feedback changes the mixture. Default: True."""
        return True

    @property
    def k(self) -> int | None:
        """Number of components that the learner needs; None if it works for any number. Default: None."""
        return None

    @property
    def limits(self) -> tuple[float, float] | None:
        """Two gains that decide which mixture is played, or None to play the learned one always. Default: None.

        Up to the first gain only the uniform component is played, from the second on only the learned mixture, and in
        between a combination of both. The sampler chooses its default allocation, and words for people, by it.
        """
        return None

    @abstractmethod
    def init(self, k: int) -> S:
        """Return the state before the first round.

        Parameters
        ----------
        k : int
            Number of components, the uniform one included.

        Returns
        -------
        named tuple
            The state.
        """

    @abstractmethod
    def step(self, state: S, evidence: Evidence) -> S:
        """Return the state after a round of feedback. `state` itself is not changed.

        Parameters
        ----------
        state : named tuple
            The present state.
        evidence : Evidence
            Feedback of the round: an estimate of the cost of any mixture.

        Returns
        -------
        named tuple
            The next state.
        """

    def played(self, state: S) -> FloatArray:
        """Return the mixture to draw with next. Default: `state.mixture`.

        Parameters
        ----------
        state : named tuple
            The present state.

        Returns
        -------
        array of shape (k,)
            The mixture, not a copy.
        """
        return state.mixture

    def learned(self, state: S) -> FloatArray:
        """Return the mixture that was learned, whether it is played or not. Default: `state.mixture`.

        Parameters
        ----------
        state : named tuple
            The present state.

        Returns
        -------
        array of shape (k,)
            The mixture, not a copy.
        """
        return state.mixture

    def gain(self, state: S) -> float | None:
        """Return the gain of the learned mixture over uniform draws, or None if the learner does not measure it.

        Parameters
        ----------
        state : named tuple
            The present state.

        Returns
        -------
        float or None
            The gain. Default: None; the sampler then reports the gain that its meter measured.
        """
        return None

    def check_state(self, state: S) -> None:
        """Raise `CheckpointError` if this learner cannot have saved this state. Default: accept any state.

        Entries, shapes, finite numbers and the mixture have been checked before.

        Parameters
        ----------
        state : named tuple
            The saved state.
        """


def set_frozen(learner: object, **settings: float | int) -> None:
    """Store checked settings in a frozen learner, as plain numbers: users may have passed those of NumPy."""
    for name, value in settings.items():
        object.__setattr__(learner, name, value)


def make_even_mixture(k: int, gamma: float) -> FloatArray:
    """Return 1/k for every component, the paper's start, projected onto the restricted simplex."""
    return RestrictedSimplex(gamma).project(np.full(as_count(k, "k"), 1.0 / k))


def half_uniform(k: int, gamma: float) -> FloatArray:
    """Return a mixture with half of the mass on the uniform component and the rest spread evenly."""
    if as_count(k, "k") == 1:
        return np.ones(1)
    mixture = np.full(k, 0.5 / (k - 1))
    mixture[-1] = 0.5
    return RestrictedSimplex(gamma).project(mixture)


def save_state(state: LearnerState) -> State:
    """Return the state of a learner as plain arrays and numbers.

    Parameters
    ----------
    state : named tuple
        The state of a learner.

    Returns
    -------
    dict
        Its entries by name. Arrays are copies.

    Examples
    --------
    >>> save_state(MixtureState(np.array([0.5, 0.5])))
    {'mixture': array([0.5, 0.5])}
    """
    return {name: _save_value(value) for name, value in state._asdict().items()}


def _save_value(value: Any) -> Any:  # noqa: ANN401
    if _is_state(value):
        return save_state(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _is_state(value: object) -> TypeGuard[LearnerState]:
    """Return whether an entry of a state is itself the state of another learner: a named tuple."""
    return isinstance(value, tuple)


def load_state(learner: Learner[S], k: int, saved: object) -> S:
    """Return the saved state of a learner after checking it.

    Entries, shapes, finite numbers and the mixture are checked here; `learner.check_state` checks the rest.

    Parameters
    ----------
    learner : Learner
        The learner that saved the state.
    k : int
        Number of components.
    saved : dict
        Return value of `save_state`.

    Returns
    -------
    named tuple
        The state.

    Raises
    ------
    CheckpointError
        If the state is damaged or belongs to another learner.

    Examples
    --------
    >>> from varmix.learners import Fixed
    >>> load_state(Fixed(), 2, {"mixture": np.array([0.5, 0.5])})
    MixtureState(mixture=array([0.5, 0.5]))
    """
    state = _load_like(learner.init(k), saved)
    check_mixture(state.mixture, learner.gamma)
    learner.check_state(state)
    return state


def _load_like(template: S, saved: object) -> S:
    """Return saved entries as a state of the same class as `template`, with the same shapes and types."""
    fields = template._asdict()
    require_entries(saved, set(fields), type(template).__name__)
    assert isinstance(saved, Mapping)
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if _is_state(value):
            values[name] = _load_like(value, saved[name])
        elif isinstance(value, np.ndarray):
            values[name] = restore_array(saved[name], value, name)
        elif isinstance(value, int):
            values[name] = read_count(saved, name)
        else:
            values[name] = read_number(saved, name, least=-math.inf)
    return type(template)(**values)


def check_mixture(mixture: FloatArray, gamma: float) -> None:
    """Raise `CheckpointError` if a saved mixture is not on the simplex, or has less than gamma on its last entry."""
    if not (0.0 <= mixture.min() and mixture.max() <= 1.0 + 1e-9):  # checked first, because the sum could overflow
        raise CheckpointError(
            f"The saved mixture is damaged: its entries lie between {mixture.min():.3g} and {mixture.max():.3g}, "
            f"outside [0, 1]."
        )
    if abs(mixture.sum() - 1.0) > 1e-9 or mixture[-1] < gamma - 1e-12:
        raise CheckpointError(
            f"The saved mixture is damaged: its entries sum to {mixture.sum():.6g}, and the last is {mixture[-1]:.3g}, "
            f"but must be at least {gamma:g}."
        )


def check_curvature(matrix: FloatArray, name: str, least: float = 0.0) -> None:
    """Raise `CheckpointError` if a saved matrix is not symmetric with eigenvalues of at least `least`."""
    size = float(np.abs(matrix).max(initial=0.0))
    if size > 1e300 or np.abs(matrix - matrix.T).max(initial=0.0) > 1e-9 * size:
        raise CheckpointError(f"The saved {name} is not symmetric, or too large.")
    lowest = float(np.linalg.eigvalsh(matrix)[0]) if matrix.size else least
    if lowest < least * (1.0 - 1e-9) - 1e-9 * size:
        raise CheckpointError(f"The saved {name} has an eigenvalue of {lowest:.3g}; it must be at least {least:g}.")
