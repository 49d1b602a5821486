"""Choice: from the parameters of k-means to its sampler."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from varmix import _presets as presets
from varmix.allocate import Allocation
from varmix._core.validation import FloatArray
from varmix.components import Distances
from varmix.estimators.clustering._samplers__cells import cells
from varmix.estimators.clustering._descent import Descent
from varmix.estimators.clustering._seeding__passes import seeded
from varmix.estimators.clustering._samplers__proposals import LARGE
from varmix.estimators.clustering._samplers__proposals import by_seeding
from varmix.estimators.clustering._samplers__proposals import promised
from varmix.estimators.clustering._descent__relay import Relay
from varmix.estimators.clustering._seeding import Seeding
from varmix.learners import Learner
from varmix.literature import vrb
from lab.refusal import unknown
from varmix._sampler import Sampler
from varmix.solvers._loop import check_space

MIXTURES, OTHERS = ("seeding", "distances"), ("uniform", "shuffle", "vrb")
SOME = 1024  # points that say what there is to gain
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

    @property
    def from_seeding(self) -> bool:
        """Whether it matters what the seeding knows of every point."""
        return isinstance(self.components, str) and self.components == "seeding"

    def sampler(
        self,
        X: Any,  # noqa: ANN401
        descent: Descent,
        seeding: Seeding | None,
        costs: FloatArray | None,
        rng: np.random.Generator,
    ) -> Sampler | Relay:
        """Give the sampler over the rows of X.

        Without a seeding of all of them, some points say what there is to gain.  If it is much, a pass over all points
        is made for it; else the first pass of steps is plain reshuffling, which meets every point once, and what it
        finds stands for the seeding.
        """
        name, n = self.components, int(X.shape[0])
        if not isinstance(name, str):
            sampler = presets.vrm(deepcopy(name), rng=rng, **self._mixing())  # cursors of a parameter must not move
            check_space(sampler, n, "points")
            return sampler
        if seeding is not None and self.from_seeding:
            return by_seeding(seeding, sample_weight=costs, rng=rng, **self._mixing())
        if self.from_seeding:
            some = np.sort(rng.choice(n, min(n, SOME), replace=False))
            far = seeded(X[some], descent.centers).distances
            if self._mixing() or promised(far if costs is None else far * costs[some]) >= LARGE:
                return cells(seeded(X, descent.centers), sample_weight=costs, rng=rng, **self._mixing())

            def made() -> Sampler:
                return cells(descent.remembered(), sample_weight=costs, rng=rng)

            return Relay(presets.uniform(n, replacement=False, rng=rng), made, after=-(-n // descent.batch))
        if name == "distances":
            if hasattr(X, "toarray"):
                raise TypeError('components="distances" needs a dense X. Use components="seeding", which takes both.')
            far = X[np.sort(rng.choice(n, min(CENTERS, n), replace=False))]
            return presets.vrm(Distances(X, far), rng=rng, **self._mixing())
        if name == "vrb":
            return vrb(n, rng=rng)
        return presets.uniform(n, replacement=name == "uniform", rng=rng)
