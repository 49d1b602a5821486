"""Fixed: a mixture that never changes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import as_count, as_mixture
from varmix.learners._base import Learner, MixtureState


@dataclass(frozen=True, eq=False)
class Fixed(Learner[MixtureState]):
    """Keep one mixture for ever: static importance sampling, equal shares, or plain uniform sampling.

    Use it as a baseline, or if the best mixture is known.

    Parameters
    ----------
    mixture : array-like of shape (k,), optional
        Non-negative weights with sum one, one per component. A sampler adds a uniform component if there is one weight
        more than components; the last weight is then its share. Default: 1/k for every component.

    Examples
    --------
    >>> Fixed().init(k=4).mixture
    array([0.25, 0.25, 0.25, 0.25])
    >>> Fixed([0.7, 0.2, 0.1]).k
    3
    """

    mixture: ArrayLike | None = None
    needs_rows: ClassVar[bool] = False
    needs_uniform: ClassVar[bool] = False  # a fixed mixture may leave the uniform component out
    learns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.mixture is not None:
            object.__setattr__(self, "mixture", as_mixture(self.mixture, "mixture"))

    @property
    def k(self) -> int | None:
        """Number of entries of the mixture; None without a mixture, because any number of components fits."""
        return None if self.mixture is None else len(np.asarray(self.mixture))

    def init(self, k: int) -> MixtureState:
        """Return the state that holds the mixture."""
        if self.mixture is None:
            return MixtureState(np.full(as_count(k, "k"), 1.0 / k))
        return MixtureState(as_mixture(self.mixture, "mixture", k))

    def check_state(self, state: MixtureState) -> None:
        """Raise `CheckpointError` if the saved mixture is not the one of this learner."""
        if not np.array_equal(state.mixture, self.init(len(state.mixture)).mixture):
            raise CheckpointError(
                "The saved mixture differs from the fixed one: build the learner with the mixture that was saved."
            )

    def step(self, state: MixtureState, evidence: Evidence) -> MixtureState:
        """Return the state unchanged."""
        return state
