"""Choice: from the parameters of k-means to its sampler."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

import varmix.presets as presets
from varmix.allocate import Allocation
from varmix.arrays import AnyArray, FloatArray
from varmix.components import Distances
from varmix.estimators.clustering.cells import cells
from varmix.estimators.clustering.passes import seeded
from varmix.estimators.clustering.seeding import Seeding
from varmix.learners import Learner
from varmix.literature import vrb
from varmix.refusal import unknown
from varmix.sampler import Sampler

MIXTURES, OTHERS = ("seeding", "distances"), ("uniform", "shuffle", "vrb")
CENTERS = 10  # random ones, whose distances are the components of section 6.4


@dataclass(frozen=True)
class Choice:
    """What draws the batches: a name or a family, and what a mixture is made with."""

    components: Any
    gamma: float | None = None
    learner: Learner[Any] | None = None
    allocate: Allocation | None = None

    def check(self) -> None:
        """Refuse what means nothing, before any work is done."""
        name = self.components
        if isinstance(name, str):
            if name not in MIXTURES + OTHERS:
                raise ValueError(str(unknown("components", name, MIXTURES + OTHERS)))
        elif isinstance(name, type) or not (hasattr(name, "draw") and hasattr(name, "space")):
            raise TypeError(f"components must be a name or a family such as varmix.Groups(labels), got {name!r}.")
        if self.gamma is not None and self.learner is not None:
            raise TypeError("gamma belongs to the learner: give gamma or a learner, not both.")
        if isinstance(name, str) and name in OTHERS and self._mixing():
            raise ValueError(
                f"components={name!r} is no mixture: {', '.join(self._mixing())} must be None. Use "
                f'components="seeding", or leave them out.'
            )

    def _mixing(self) -> dict[str, Any]:
        given = {"gamma": self.gamma, "learner": self.learner, "allocate": self.allocate}
        return {name: value for name, value in given.items() if value is not None}

    def sampler(self, X: Any, start: AnyArray | Seeding, costs: FloatArray | None, rng: np.random.Generator) -> Sampler:  # noqa: ANN401
        """Give the sampler over the rows of X."""
        name, n = self.components, int(X.shape[0])
        if not isinstance(name, str):
            if name.space.n != n:
                raise ValueError(f"components draw from {name.space}, but X has {n} rows.")
            return presets.vrm(deepcopy(name), rng=rng, **self._mixing())  # cursors of a parameter must not move
        if name == "seeding":
            seeding = start if isinstance(start, Seeding) else seeded(X, start)
            return cells(seeding, sample_weight=costs, rng=rng, **self._mixing())
        if name == "distances":
            if hasattr(X, "toarray"):
                raise TypeError('components="distances" needs a dense X. Use components="seeding", which takes both.')
            centers = X[np.sort(rng.choice(n, min(CENTERS, n), replace=False))]
            return presets.vrm(Distances(X, centers), rng=rng, **self._mixing())
        if name == "vrb":
            return vrb(n, rng=rng)
        return presets.uniform(n, replacement=name == "uniform", rng=rng)
