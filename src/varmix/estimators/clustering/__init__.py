"""What minibatch k-means is made of: seeding, cells to sample from, steps, and passes over all points.

seeding = plus_plus(X, 100, rng=0)
descent = Descent(X, seeding.centers, batch=100)
descent.run(by_seeding(seeding, rng=0), steps=500)
inertia(X, descent.centers)
"""

from varmix.estimators.clustering._descent import Descent, SwitchAfter
from varmix.estimators.clustering._samplers import by_seeding, cells
from varmix.estimators.clustering._seeding import Seeding, inertia, labels, plus_plus, seeded

__all__ = ["Descent", "Seeding", "SwitchAfter", "by_seeding", "cells", "inertia", "labels", "plus_plus", "seeded"]
