"""Fitting: steps until it is enough, with a look for centres that have too few points now and then."""

import numpy as np

from varmix.estimators.clustering._descent import Descent
from varmix.estimators.clustering._descent__relay import Relay
from varmix.estimators._kmeans__stopping import Stopping
from varmix._sampler import Sampler

EVERY = 10  # points a cluster between two looks


class Reassigning:
    """Moves centres that have too few points, once so many points were seen, or at once where one has none at all.

    Parameters
    ----------
    ratio
        Part of the largest count below which a count is too low; 0 moves none.
    rng
        Where the points come from that centres are put on.
    since
        Points seen since the last look.
    """

    def __init__(self, ratio: float, rng: np.random.Generator, since: int = 0, verbose: int = 0) -> None:
        self.ratio, self.since, self.verbose = ratio, since, verbose
        self._rng = rng

    def look(self, descent: Descent) -> None:
        """Look at the counts after the steps of a receipt, if it is time."""
        self.since += len(descent.losses) * descent.batch
        if self.ratio == 0.0 or (self.since < EVERY * len(descent.counts) and descent.counts.min() > 0.0):
            return
        self.since = 0
        number = descent.reassign(self.ratio, self._rng)
        if self.verbose and number:
            print(f"Reassigning {number} cluster centers.")


def run_until(
    descent: Descent,
    sampler: Sampler | Relay,
    steps: int,
    stopping: Stopping,
    reassigning: Reassigning,
    verbose: int = 0,
) -> None:
    """Take so many steps, fewer where it stops before."""
    while descent.steps < steps:
        before = descent.centers if stopping.tolerance > 0.0 else None  # a tolerance is about single steps
        descent.round(sampler, steps - descent.steps if before is None else 1)
        moved = np.inf if before is None else float(((descent.centers - before) ** 2).sum())
        reassigning.look(descent)
        if verbose:
            print(f"Minibatch step {descent.steps}/{steps}: mean batch inertia: {descent.inertia:.6g}")
        if stopping.see(descent.losses, moved):
            if verbose:
                print(f"Converged at step {descent.steps}/{steps}.")
            return
