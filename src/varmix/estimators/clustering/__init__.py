"""What minibatch k-means is made of: seeding, cells to sample from, steps, and passes over all points.

seeding = plus_plus(X, 100, rng=0)
descent = Descent(X, seeding.centers, batch=100)
descent.run(by_seeding(seeding, rng=0), steps=500)
inertia(X, descent.centers)
"""

from varmix.estimators.clustering._samplers__cells import cells
from varmix.estimators.clustering._descent import Descent
from varmix.estimators.clustering._seeding__passes import inertia
from varmix.estimators.clustering._seeding__passes import labels
from varmix.estimators.clustering._seeding__passes import seeded
from varmix.estimators.clustering._samplers__proposals import by_seeding
from varmix.estimators.clustering._descent__relay import Relay
from varmix.estimators.clustering._seeding import Seeding
from varmix.estimators.clustering._seeding import plus_plus

__all__ = ["Descent", "Relay", "Seeding", "by_seeding", "cells", "inertia", "labels", "plus_plus", "seeded"]
