"""What minibatch k-means is made of: seeding, cells to sample from, steps, and passes over all points.

seeding = plus_plus(X, 100, rng=0)
descent = Descent(X, seeding.centers, batch=100)
descent.run(by_seeding(seeding, rng=0), steps=500)
inertia(X, descent.centers)
"""

from varmix.estimators.clustering.cells import cells
from varmix.estimators.clustering.descent import Descent
from varmix.estimators.clustering.passes import inertia, labels, seeded
from varmix.estimators.clustering.proposals import by_seeding
from varmix.estimators.clustering.relay import Relay
from varmix.estimators.clustering.seeding import Seeding, plus_plus

__all__ = ["Descent", "Relay", "Seeding", "by_seeding", "cells", "inertia", "labels", "plus_plus", "seeded"]
