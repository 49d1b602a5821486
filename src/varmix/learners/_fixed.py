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
    """Keep the given mixture: static importance sampling, a fixed 1/k mixture, plain uniform sampling.

    Without a mixture, every component gets 1/k.  A mixture with one entry more than there are components has the share
    of the uniform component last.

    Examples
    --------
    >>> Fixed().init(k=4).mixture
    array([0.25, 0.25, 0.25, 0.25])
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
        """Number of components that the mixture is for; None without a mixture, which fits any number."""
        return None if self.mixture is None else len(np.asarray(self.mixture))

    def init(self, k: int) -> MixtureState:
        """Start, and stay, at the given mixture."""
        if self.mixture is None:
            return MixtureState(np.full(as_count(k, "k"), 1.0 / k))
        return MixtureState(as_mixture(self.mixture, "mixture", k))

    def check_state(self, state: MixtureState) -> None:
        """Raise `CheckpointError` if the saved mixture is not the one that this learner keeps."""
        if not np.array_equal(state.mixture, self.init(len(state.mixture)).mixture):
            raise CheckpointError("The saved mixture is not the fixed one: build the learner as it was when saved.")

    def step(self, state: MixtureState, evidence: Evidence) -> MixtureState:
        """Learn nothing."""
        return state
